"""One dimension's loops at random, in time and over units, as they may stand in a nest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from random import Random


@dataclass(frozen=True)
class Line:
    """One dimension's loops, innermost first: sizes, and whether they run over units."""

    bound: int
    loops: tuple[tuple[int, bool], ...]

    def weight(self, at: int) -> int:
        return prod(size for size, _ in self.loops[:at])

    def sums(self, chosen: list[int]) -> list[int]:
        """Indices where these loops lead, all others at their first iteration."""
        steps = product(*(range(0, self.loops[at][0] * self.weight(at), self.weight(at)) for at in chosen))
        return [one for one in map(sum, steps) if one < self.bound]


def lines_of(seed: int) -> Iterator[Line]:
    """Each loop is needed to its last iteration."""
    random = Random(seed)
    for _ in range(150):
        bound = random.randint(1, 40)
        loops, left = list[tuple[int, bool]](), bound
        while left > 1:
            size = random.choice([size for size in (2, 3, 4, 5, left) if size <= left])
            loops.append((size, random.random() < 0.4))
            left = -(-left // size)
        yield Line(bound, tuple(loops))
