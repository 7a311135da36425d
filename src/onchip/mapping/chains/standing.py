"""Nesting constraints of one dimension: positions that can be inside each other, and cells without a loop between."""

from __future__ import annotations

from functools import lru_cache

from onchip.mapping.chains.dimension import Dimension
from onchip.mapping.chains.starts import Units
from onchip.mapping.prove.idle_turns import has_idle_places


def may_stand_inside(cells: Dimension) -> list[int]:
    """Return for inner and outer cell, outer fastest, whether a position of one can be inside one of the other."""
    return list(_divisible(tuple(cells.turns_of_parts.astype(int).tolist()), tuple(cells.turns.tolist())))


def single_cells(cells: Dimension, units: Units) -> list[int]:
    """Return by cell True if no loop fits between two of its positions: that needs at least twice the iterations.

    If the outermost loop ends short, it needs at least one more iteration. A cell with one fully executed number of
    iterations has only one position.
    """
    is_one = cells.first == cells.last
    if has_idle_places(cells.bound, units):
        is_one = is_one | (cells.known_turns > 0)
    is_one = is_one | ((cells.turns < 2 * -(-cells.first // cells.units)) & (cells.last < cells.bound))
    return list(is_one.astype(int).tolist())


@lru_cache(maxsize=1 << 10)
def _divisible(fewest: tuple[int, ...], turns: tuple[int, ...]) -> bytes:
    """Return by inner and outer cell True if the inner cell's temporal loops can be inside the outer's.

    The loops of a cell take between `fewest` and `turns` iterations. An outer position's iterations are a multiple of
    an inner one's, except at the end of a dimension, where the outermost loop may end short.
    """
    found = bytearray()
    for at, least_inside in enumerate(fewest):
        for outer, least in enumerate(fewest):
            inside = range(least_inside, min(turns[at], turns[outer]) + 1)
            is_last = outer == len(fewest) - 1
            found.append(outer >= at and (is_last or any(turns[outer] // own * own >= least for own in inside)))
    return bytes(found)
