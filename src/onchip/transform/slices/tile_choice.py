"""The chosen tiles of an operator, and the boundaries at which they cut its operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from onchip.ir.tile import Range
from onchip.ops.slicing import Geometry, Span, cut_lines, tiles_in_order

Order: TypeAlias = tuple[int, ...]
"""Axes of an operator, outermost loop first."""
Cuts = Mapping[str, Sequence[set[int]]]
"""Map from a tensor to the inner boundaries at which tiles cut each of its dimensions."""


@dataclass(frozen=True, slots=True)
class TileChoice:
    """An operator in tiles: tile sizes, the order of the axes (outermost first), and the estimated traffic."""

    geometry: Geometry
    sizes: tuple[int, ...]
    order: Order
    traffic_bytes: int

    def tiles(self) -> tuple[tuple[Range, ...], ...]:
        """Return the range of each tile along each axis, in execution order."""
        return tiles_in_order(self.geometry, self.sizes, self.order)

    @property
    def reduction(self) -> int | None:
        """Index of the axis of partial sums, or None if it is not cut."""
        axis = self.geometry.reduction
        return None if axis is None or self.sizes[axis] == self.geometry.axes[axis].size else axis

    def lines(self, span: Span) -> AbstractSet[int]:
        """Return the boundaries at which the tiles cut a dimension of an operand."""
        if span.axis is None:
            return frozenset()
        return cut_lines(span, self.geometry.axes[span.axis].size, self.sizes[span.axis])


@dataclass(frozen=True, slots=True)
class TilesAlongAxis:
    """An operator in tiles along one axis, which may differ in size: the `ends` of the tiles, in ascending order."""

    geometry: Geometry
    axis: int
    ends: tuple[int, ...]

    def tiles(self) -> tuple[tuple[Range, ...], ...]:
        """Return the range of each tile along each axis, in execution order."""
        axes = self.geometry.axes
        whole = tuple((0, axis.size) for axis in axes)
        return tuple((*whole[: self.axis], part, *whole[self.axis + 1 :]) for part in pairwise((0, *self.ends)))

    @property
    def reduction(self) -> None:
        """Index of the axis of partial sums: none."""
        return None

    def lines(self, span: Span) -> AbstractSet[int]:
        """Return the boundaries at which the tiles cut a dimension of an operand."""
        if span.axis != self.axis:
            return frozenset()
        size = self.geometry.axes[self.axis].size
        return {end for part in pairwise((0, *self.ends)) for end in span.range(*part, size)} - {0, span.size}


Split: TypeAlias = TileChoice | TilesAlongAxis


def cut(cuts: Cuts, split: Split) -> None:
    """Add the boundaries of the tiles of `split` to `cuts`."""
    for access in (*split.geometry.reads, *split.geometry.writes):
        for span, made in zip(access.spans, cuts[access.tensor], strict=True):
            made |= split.lines(span)
