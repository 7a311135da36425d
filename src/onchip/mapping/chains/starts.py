"""First coordinates of the cells of one lattice dimension, for a range of spatial unrollings."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Final

MOST_BREAKPOINTS: Final = 512
"""Maximum number of breakpoints of each kind: the smallest, and those with the fewest parts."""


@dataclass(frozen=True)
class Units:
    """The minimum and maximum spatial unrolling of a loop; `sizes` are the factors by array dimension, if known.

    For a single unrolling, more may be known. `are_full`: no unit is idle at any position. `any_is_idle`: some unit is
    idle at some position, which takes more iterations. `turns` is the range of executed temporal iterations.
    """

    least: int
    most: int
    sizes: tuple[int, ...] | None
    are_full: bool = False
    turns: tuple[int, int] | None = None
    any_is_idle: bool = False

    def fewest_turns(self, bound: int) -> int:
        """Return a lower bound on the executed temporal iterations."""
        needed = -(-bound // self.most) if self.turns is None else self.turns[0]
        return max(needed, self.fewest_idle_turns(bound)) if self.any_is_idle else needed

    def known_turns(self, bound: int) -> int:
        """Return the number of executed temporal iterations, or zero if unknown."""
        if self.turns is None:
            return bound if self.most == 1 else 0
        return self.turns[0] if self.turns[0] == self.turns[1] else 0

    def may_take(self, turns: int) -> bool:
        """Return True if that number of iterations is possible."""
        return self.turns is None or self.turns[0] <= turns <= self.turns[1]

    def fewest_idle_turns(self, bound: int) -> int:
        """Return the fewest iterations with which a position can miss indices, that is, leave units idle.

        Otherwise its coordinate is units times the iterations inside, or the bound. If t of T iterations are inside a
        position, its last index is at most UT - 1 - (T - t), since outer temporal loops have steps of at least t. An
        index is missing only if UT - bound, the surplus, exceeds T - t; and t is T or at most half of T.
        """
        return 2 * bound // (2 * self.most - 1) + 1


def starts_of(bound: int, units: Units) -> tuple[int, ...]:
    """Return the coordinates at which the number of parts falls or the iterations rise, and one past the end."""
    return _starts_of_turns(bound, units.most) if units.are_full else _breakpoints(bound, units)


@lru_cache(maxsize=1 << 12)
def _starts_of_turns(bound: int, units: int) -> tuple[int, ...]:
    """Return whole-iteration coordinates at which the number of parts falls, then the bound and one past the end."""
    found = set(range(1, min(ceil(bound / units), MOST_BREAKPOINTS) + 1))
    for inside in range(1, units + 1):
        if units % inside == 0:
            found |= {ceil(ceil(bound / parts) / inside) for parts in range(1, min(bound, MOST_BREAKPOINTS) + 1)}
    return (*sorted(units * one for one in found if units * one < bound), bound, bound + 1)


@lru_cache(maxsize=1 << 12)
def _breakpoints(bound: int, units: Units) -> tuple[int, ...]:
    """Return the coordinates at which the number of parts falls or the iterations rise, and one past the end.

    The first is the minimum number of units at work at once.
    """
    at_work = units.least // 2 + 1 if units.least > 1 else 1
    most = min(bound, MOST_BREAKPOINTS)
    found = {bound, *range(at_work, at_work + most), *range(units.most + 1, units.most * most, units.most)}
    for inside in range(1, units.most + 1):
        if units.most % inside == 0:
            found |= {-(-bound // parts) * units.most // inside for parts in range(1, most + 1)}
    return (*sorted(one for one in found if at_work <= one <= bound), bound + 1)


def thinned(starts: tuple[int, ...], own: Units, coarseness: float) -> tuple[int, ...]:
    """Return starts that each rise by the coarseness; keeps both ends and the start of the second iteration."""
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
