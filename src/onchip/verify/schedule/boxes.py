"""Boxes of elements: whether one lies in several others together, and whether several make up one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

from onchip.ir.region import Region, common, size_of, whole_region


def cover(wanted: Region, boxes: Sequence[Region]) -> bool:
    """Whether every element of a box is in one of the others."""
    near = [box for box in boxes if common(wanted, box)]
    if any(common(wanted, box) == size_of(wanted) for box in near):
        return True
    return all(any(common(cell, box) for box in near) for cell in _cells(wanted, near))


def partition(whole: Region, boxes: Sequence[Region]) -> bool:
    """Whether every element of a box is in exactly one of the others, which reach nowhere else."""
    if sum(map(size_of, boxes)) != size_of(whole):
        return False
    lines = [_lines(whole, boxes, at) for at in range(len(whole))]
    places = [{line: number for number, line in enumerate(along)} for along in lines]
    taken: set[tuple[int, ...]] = set()
    for box in boxes:
        if any(start not in known or stop not in known for (start, stop), known in zip(box, places, strict=True)):
            return False
        spans = (range(known[start], known[stop]) for (start, stop), known in zip(box, places, strict=True))
        for cell in product(*spans):
            if cell in taken:
                return False
            taken.add(cell)
    return True


def partition_of(shape: Sequence[int], boxes: Sequence[Region]) -> bool:
    """Whether boxes make up a whole tensor."""
    return partition(whole_region(shape), boxes)


def _cells(wanted: Region, boxes: Sequence[Region]) -> product[tuple[tuple[int, int], ...]]:
    """The parts of a box between all lines at which others begin or end: each is inside or outside of each of them."""
    along = [_lines(wanted, boxes, at) for at in range(len(wanted))]
    return product(*(list(pairwise(lines)) for lines in along))


def _lines(wanted: Region, boxes: Sequence[Region], at: int) -> list[int]:
    start, stop = wanted[at]
    inner = {line for box in boxes for line in box[at] if start < line < stop}
    return [start, *sorted(inner), stop]
