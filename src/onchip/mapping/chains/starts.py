"""Where the cells of one dimension of a lattice begin, for some units beside each other."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Final

MOST_BREAKPOINTS: Final = 512
"""Of each kind: the smallest, and those of fewest parts."""


@dataclass(frozen=True)
class Units:
    """How many units of a loop stand beside each other, at least and at most; `sizes` by dimension where known.

    Of one number of units it may be known that they are `full`, all at work in every place, or that any is idle in
    some place, which takes more turns; and then how many `turns` are executed, at least and at most.
    """

    least: int
    most: int
    sizes: tuple[int, ...] | None
    are_full: bool = False
    turns: tuple[int, int] | None = None
    any_is_idle: bool = False

    def fewest_turns(self, bound: int) -> int:
        """Return how many turns are executed at least."""
        needed = -(-bound // self.most) if self.turns is None else self.turns[0]
        return max(needed, self.fewest_idle_turns(bound)) if self.any_is_idle else needed

    def known_turns(self, bound: int) -> int:
        """Return how many turns are executed, zero where that is not known."""
        if self.turns is None:
            return bound if self.most == 1 else 0
        return self.turns[0] if self.turns[0] == self.turns[1] else 0

    def may_take(self, turns: int) -> bool:
        """Return whether so many turns may be executed, as far as that is known."""
        return self.turns is None or self.turns[0] <= turns <= self.turns[1]

    def fewest_idle_turns(self, bound: int) -> int:
        """Return from how many turns on a place's coordinate may be another than units times turns inside, or all.

        If t of T turns are inside a place, its last index has UT - 1 - (T - t) at most, as the loops in time outside
        have steps of t and more. It is missing only if UT - bound, what is not executed, is more than T - t; and of T,
        t is all or no more than half.
        """
        return 2 * bound // (2 * self.most - 1) + 1


def starts_of(bound: int, units: Units) -> tuple[int, ...]:
    """Return coordinates from which on there are fewer parts, or more turns; one more past the end."""
    return _starts_of_turns(bound, units.most) if units.are_full else _breakpoints(bound, units)


@lru_cache(maxsize=1 << 12)
def _starts_of_turns(bound: int, units: int) -> tuple[int, ...]:
    """Coordinates of whole turns from which on there are fewer parts; the bound, and one more past the end."""
    found = set(range(1, min(ceil(bound / units), MOST_BREAKPOINTS) + 1))
    for inside in range(1, units + 1):
        if units % inside == 0:
            found |= {ceil(ceil(bound / parts) / inside) for parts in range(1, min(bound, MOST_BREAKPOINTS) + 1)}
    return (*sorted(units * one for one in found if units * one < bound), bound, bound + 1)


@lru_cache(maxsize=1 << 12)
def _breakpoints(bound: int, units: Units) -> tuple[int, ...]:
    """Coordinates from which on there are fewer parts, or more turns; one more past the end.

    The first is how many units are at work at once at least.
    """
    at_work = units.least // 2 + 1 if units.least > 1 else 1
    most = min(bound, MOST_BREAKPOINTS)
    found = {bound, *range(at_work, at_work + most), *range(units.most + 1, units.most * most, units.most)}
    for inside in range(1, units.most + 1):
        if units.most % inside == 0:
            found |= {-(-bound // parts) * units.most // inside for parts in range(1, most + 1)}
    return (*sorted(one for one in found if at_work <= one <= bound), bound + 1)


def thinned(starts: tuple[int, ...], own: Units, coarseness: float) -> tuple[int, ...]:
    """Some of them, each so much greater than the one before; the ends, and where more than one turn begins, stay."""
    inner, units = starts[1:-2], own.most
    second_turn = 2 * units if own.are_full else units + 1
    stays = bisect_left(inner, second_turn)
    if inner[stays : stays + 1] != (second_turn,):
        stays = len(inner)
    kept, place = [starts[0]], 0
    while True:
        farther = bisect_left(inner, max(kept[-1], units) * (1 + coarseness), place)
        place = stays if place <= stays < farther else farther
        if place >= len(inner):
            return (*kept, *(one for one in starts[-2:] if one > kept[-1]))
        kept.append(inner[place])
        place += 1
