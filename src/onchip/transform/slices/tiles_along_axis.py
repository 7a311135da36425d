"""The tiles of an operator along one axis, and the boundaries at which they cut its operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

from onchip.ir.tile import Range
from onchip.ops.slicing import Geometry, Span

Cuts = Mapping[str, Sequence[set[int]]]
"""Map from a tensor to the inner boundaries at which tiles cut each of its dimensions."""


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

    def lines(self, span: Span) -> AbstractSet[int]:
        """Return the boundaries at which the tiles cut a dimension of an operand.

        Dimensions that follow another axis are cut where the operator reads only a part of them, such as a crop.
        """
        if span.axis is None:
            return frozenset()
        size = self.geometry.axes[span.axis].size
        ends = self.ends if span.axis == self.axis else (size,)
        return {end for part in pairwise((0, *ends)) for end in span.range(*part, size)} - {0, span.size}


def cut(cuts: Cuts, tiles: TilesAlongAxis) -> None:
    """Add the boundaries of an operator's tiles to `cuts`."""
    for access in (*tiles.geometry.reads, *tiles.geometry.writes):
        for span, made in zip(access.spans, cuts[access.tensor], strict=True):
            made |= tiles.lines(span)
