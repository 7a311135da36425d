"""Cells of one grid dimension: ranges of coordinates, and their refinement."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import pairwise
from typing import TypeAlias

from onchip.mapping.chains.starts import Units, starts_of, thinned
from onchip.mapping.prove.idle_turns import has_idle_places, idle_places

Range: TypeAlias = tuple[int, int]  # the first coordinate of a cell and the last


def cells_of(starts: Sequence[int]) -> list[Range]:
    """Return the cells between consecutive starts; the last start is past the end."""
    return [(one, two - 1) for one, two in pairwise(starts)]


def all_cells(bound: int, units: Units, coarseness: float = 0.0) -> list[Range]:
    """Return the cells of a loop.

    Each cell begins at least `1 + coarseness` times higher than the one before. If units are idle, each number of
    iterations has one cell.
    """
    if has_idle_places(bound, units):
        return [(first, last) for _, first, last in idle_places(bound, units)]
    starts = starts_of(bound, units)
    return cells_of(thinned(starts, units, coarseness) if coarseness else starts)


def with_any_of(cells: Sequence[Range], left: Sequence[Range]) -> list[Range]:
    """Return the cells that intersect a range of `left`, and the last cell."""
    return [
        (first, last)
        for at, (first, last) in enumerate(cells)
        if at + 1 == len(cells) or any(low <= last and first <= high for low, high in left)
    ]


def parted(bound: int, units: Units, ranges: Sequence[Range], coarseness: float) -> list[Range]:
    """Split ranges into cells that each begin at least `1 + coarseness` times higher than the one before."""
    if has_idle_places(bound, units):
        return with_any_of(all_cells(bound, units), ranges)
    finest, found = starts_of(bound, units), list[Range]()
    for first, last in ranges:
        starts = [first]
        for one in finest:
            if first < one <= last and one >= max(starts[-1], units.most) * (1 + coarseness):
                starts.append(one)
        found += cells_of([*starts, last + 1])
    return found


def split_further(
    bound: int, ranges: Sequence[Range], units: Units, only: Container[Range] | None = None
) -> list[Range]:
    """Split off each range's first coordinate and halve the rest, in whole iterations if all units are at work.

    With `only`, other ranges remain unsplit.
    """
    if has_idle_places(bound, units):
        return list(ranges)
    found, step = list[Range](), units.most if units.are_full else 1
    for first, last in ranges:
        if only is not None and (first, last) not in only:
            found.append((first, last))
            continue
        middle = first + (last - first + step) // (2 * step) * step
        starts = sorted({one for one in (first, first + step, middle) if one <= last})
        found += cells_of([*starts, last + 1])
    return found
