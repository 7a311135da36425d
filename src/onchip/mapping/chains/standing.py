"""Which places of one dimension may stand inside each other, and between which no loop of it may stand."""

from __future__ import annotations

from functools import lru_cache

from onchip.mapping.chains.dimension import Dimension
from onchip.mapping.chains.starts import Units
from onchip.mapping.prove.idle_turns import has_idle_places


def may_stand_inside(cells: Dimension) -> list[int]:
    """Return by inner and outer cell, the outer fastest, whether a place in one may stand inside one in the other."""
    return list(_divisible(tuple(cells.turns_of_parts.astype(int).tolist()), tuple(cells.turns.tolist())))


def single_cells(cells: Dimension, units: Units) -> list[int]:
    """Return by cell whether no loop may stand between two places in it: it takes twice as many turns at least.

    By a turn at least where the outermost loop ends short; a cell of one number of turns that are all executed has no
    other place.
    """
    is_one = cells.first == cells.last
    if has_idle_places(cells.bound, units):
        is_one = is_one | (cells.known_turns > 0)
    is_one = is_one | ((cells.turns < 2 * -(-cells.first // cells.units)) & (cells.last < cells.bound))
    return list(is_one.astype(int).tolist())


@lru_cache(maxsize=1 << 10)
def _divisible(fewest: tuple[int, ...], turns: tuple[int, ...]) -> bytes:
    """By inner and outer cell, whether loops in time of the one may be inside those of the other.

    The loops that lead to a cell take from `fewest` up to so many `turns`; those of an outer place are a multiple of an
    inner one's, but where a dimension ends, as the outermost loop may end short.
    """
    found = bytearray()
    for at, least_inside in enumerate(fewest):
        for outer, least in enumerate(fewest):
            inside = range(least_inside, min(turns[at], turns[outer]) + 1)
            is_last = outer == len(fewest) - 1
            found.append(outer >= at and (is_last or any(turns[outer] // own * own >= least for own in inside)))
    return bytes(found)
