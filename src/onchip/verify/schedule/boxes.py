"""Boxes of elements: whether one lies in several others together, and whether several make up one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

from onchip.ir.region import Region, size_of


def cover(wanted: Region, boxes: Sequence[Region]) -> bool:
    """Whether every element of a box is in one of the others."""
    if any(_is_inside(wanted, box) for box in boxes):
        return True
    near = [box for box in boxes if _meet(wanted, box)]
    return all(any(_is_inside(cell, box) for box in near) for cell in _cells(wanted, near))


def partition(whole: Region, boxes: Sequence[Region]) -> bool:
    """Whether every element of a box is in exactly one of the others, which reach nowhere else."""
    if len(boxes) == 1:
        return boxes[0] == whole
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


def _is_inside(inner: Region, outer: Region) -> bool:
    return all(span[0] >= other[0] and span[1] <= other[1] for span, other in zip(inner, outer, strict=True))


def _meet(one: Region, other: Region) -> bool:
    return all(span[0] < across[1] and across[0] < span[1] for span, across in zip(one, other, strict=True))


def _cells(wanted: Region, boxes: Sequence[Region]) -> product[tuple[tuple[int, int], ...]]:
    """The parts of a box between all lines at which others begin or end: each is inside or outside of each of them."""
    along = [_lines(wanted, boxes, at) for at in range(len(wanted))]
    return product(*(list(pairwise(lines)) for lines in along))


def _lines(wanted: Region, boxes: Sequence[Region], at: int) -> list[int]:
    start, stop = wanted[at]
    inner = {line for box in boxes for line in box[at] if start < line < stop}
    return [start, *sorted(inner), stop]
