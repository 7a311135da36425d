"""Boxes of elements: whether one lies in several others together, and whether several make up one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from onchip.ir.region import Region


def cover(wanted: Region, boxes: Sequence[Region]) -> bool:
    """Return True if every element of a box is in at least one of the others."""
    parts = [part for box in boxes if (part := _common(wanted, box)) is not None]
    if wanted in parts:
        return True
    number, taken = _cells(wanted, parts)
    return len(set(taken)) == number


def partition(whole: Region, boxes: Sequence[Region]) -> bool:
    """Return True if every element of a box is in exactly one of the others, and these do not reach outside it."""
    if any(_common(whole, box) != box for box in boxes):
        return False
    number, taken = _cells(whole, boxes)
    return len(taken) == len(set(taken)) == number


def _common(one: Region, other: Region) -> Region | None:
    """Return the intersection of two boxes; None if it is empty."""
    found = []
    for (start, stop), (start_other, stop_other) in zip(one, other, strict=True):
        first = start if start > start_other else start_other
        behind = stop if stop < stop_other else stop_other
        if first >= behind:
            return None
        found.append((first, behind))
    return tuple(found)


def _cells(whole: Region, boxes: Sequence[Region]) -> tuple[int, list[tuple[int, ...]]]:
    """Return the number of grid cells of the whole, and the cells in each box.

    The grid has a line wherever a box begins or ends, so each cell is inside or outside each box. Axes that no box cuts
    are left out.
    """
    cut = [axis for axis, span in enumerate(whole) if any(box[axis] != span for box in boxes)]
    number_of_line: list[dict[int, int]] = []
    for axis in cut:
        lines = {line for box in boxes for line in box[axis]}.union(whole[axis])
        number_of_line.append({line: number for number, line in enumerate(sorted(lines))})
    taken: list[tuple[int, ...]] = []
    for box in boxes:
        sides = [box[axis] for axis in cut]
        spans = zip(sides, number_of_line, strict=True)
        taken += product(*[range(numbers[start], numbers[stop]) for (start, stop), numbers in spans])
    return prod(len(numbers) - 1 for numbers in number_of_line), taken
