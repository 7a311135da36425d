"""The chosen tiles of an operator, and the boundaries at which they cut its operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from onchip.ir.tile import Range
from onchip.ops.slicing import Geometry, cut_lines, tiles_in_order

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


def cut(cuts: Cuts, split: TileChoice) -> None:
    """Add the boundaries of the tiles of `split` to `cuts`."""
    for access in (*split.geometry.reads, *split.geometry.writes):
        for span, made in zip(access.spans, cuts[access.tensor], strict=True):
            if span.axis is not None:
                made |= cut_lines(span, split.geometry.axes[span.axis].size, split.sizes[span.axis])
