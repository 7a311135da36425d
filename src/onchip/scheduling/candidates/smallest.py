"""The smallest part of an operator: where one scratchpad has no room for it, no split of the operator fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onchip.answer.problem import Problem
from onchip.ir.operator import Operator
from onchip.ir.region import Range, size_of
from onchip.model.capacity.bounds import operator_need, packed_bytes
from onchip.ops.derive.geometry import Geometry, OperandAccess


def smallest_part_bytes(problem: Problem, operator: Operator, geometry: Geometry | None) -> int:
    """Return the bytes that some tile of the operator needs in every split of it, packed in the first scratchpad.

    In one scratchpad a further cut never makes operands need more, but for a sum that is passed on: so it is some tile
    of those of one element along each axis, with the sum in parts or not. All of it where it is cut along no axis.
    """
    if geometry is None:
        return operator_need(problem, operator).need_bytes
    ways = (False, True) if geometry.reduction is not None else (False,)
    return min(max(_needs_of_some_tiles(problem, geometry, in_parts=in_parts)) for in_parts in ways)


def _needs_of_some_tiles(problem: Problem, geometry: Geometry, *, in_parts: bool) -> Iterator[int]:
    """Yield what tiles of one element need: at the beginning of each axis, in its middle, and at its end.

    With a sum in parts a tile may be the first of its sum, or a later one: whichever needs less.
    """
    axes, summed = geometry.axes, geometry.reduction
    for number in (0, 1, 2):
        places = [(axis.size - 1) * number // 2 for axis in axes]
        tile: list[Range] = [(place, place + 1) for place in places]
        if summed is not None and not in_parts:
            tile[summed] = (0, axes[summed].size)
        need = _packed(problem, geometry, (*geometry.reads, *geometry.writes), tile)
        if in_parts:
            reads = [one for one in geometry.reads if any(span.axis == summed for span in one.spans)]
            need = min(need, _packed(problem, geometry, (*reads, *geometry.writes), tile, sums=geometry.writes))
        yield need


def _packed(
    problem: Problem,
    geometry: Geometry,
    accesses: Sequence[OperandAccess],
    tile: Sequence[Range],
    sums: Sequence[OperandAccess] = (),
) -> int:
    sizes = (*_bytes_of(problem, geometry, accesses, tile), *_bytes_of(problem, geometry, sums, tile))
    return packed_bytes(sizes, problem.memories[0].alignment_bytes)


def _bytes_of(
    problem: Problem, geometry: Geometry, accesses: Sequence[OperandAccess], tile: Sequence[Range]
) -> tuple[int, ...]:
    """The bytes of the regions of counted tensors; of one that is read in several places, of the largest."""
    found: dict[str, int] = {}
    for access in accesses:
        region = access.region(tile, geometry.axes)
        if region is not None and problem.counts(problem.graph.tensor[access.tensor]):
            size_bytes = size_of(region) * access.element_bytes
            found[access.tensor] = max(found.get(access.tensor, 0), size_bytes)
    return tuple(found.values())
