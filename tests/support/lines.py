"""Random loops of one dimension, temporal and spatial, as they may be in a nest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from random import Random


@dataclass(frozen=True)
class Line:
    """The loops of one dimension, innermost first: sizes, and True for loops over units."""

    bound: int
    loops: tuple[tuple[int, bool], ...]

    def weight(self, at: int) -> int:
        return prod(size for size, _ in self.loops[:at])

    def sums(self, chosen: list[int]) -> list[int]:
        """Return the indices that these loops reach with all others at their first iteration."""
        steps = product(*(range(0, self.loops[at][0] * self.weight(at), self.weight(at)) for at in chosen))
        return [one for one in map(sum, steps) if one < self.bound]


def lines_of(seed: int) -> Iterator[Line]:
    """Yield lines in which each loop is needed to its last iteration."""
    random = Random(seed)
    for _ in range(150):
        bound = random.randint(1, 40)
        loops, left = list[tuple[int, bool]](), bound
        while left > 1:
            size = random.choice([size for size in (2, 3, 4, 5, left) if size <= left])
            loops.append((size, random.random() < 0.4))
            left = -(-left // size)
        yield Line(bound, tuple(loops))
