"""A cache of a network's stacks and of the totals of their tiles along an axis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from onchip.answer.stacks import Tiling
from onchip.bounds.group.tile_ranges import SizeRange, range_totals
from onchip.bounds.group.tile_totals import AxisTotals, axis_totals
from onchip.ops.fusable import AxisName, FusableNetwork, Stack
from onchip.transform.groups.stacks import LayerSpan, TileBox, stack_of

Tiles: TypeAlias = Tiling | TileBox
"""Tiles of one size, or of every size of a box."""
Sizes: TypeAlias = int | tuple[int, ...]


@dataclass(slots=True)
class SpanTotals:
    """A cache of the stacks of one network and their tile totals, by the span of their layers."""

    network: FusableNetwork
    _stacks: dict[LayerSpan, Stack] = field(default_factory=dict)
    _axes: dict[tuple[LayerSpan, AxisName, Sizes, bool], AxisTotals] = field(default_factory=dict)

    def stack(self, span: LayerSpan) -> Stack:
        """Return the stack of these layers."""
        if span not in self._stacks:
            self._stacks[span] = stack_of(self.network, span)
        return self._stacks[span]

    def of(self, span: LayerSpan, tiles: Tiles) -> tuple[AxisTotals, AxisTotals]:
        """Return the totals along rows and columns.

        Raises InputError if a tile sees only padding.
        """
        mode = tiles.mode
        rows = self._along(span, AxisName.ROWS, tiles.rows, cached=mode.caches_rows)
        return rows, self._along(span, AxisName.COLUMNS, tiles.columns, cached=mode.caches_columns)

    def _along(self, span: LayerSpan, axis: AxisName, sizes: Sizes, *, cached: bool) -> AxisTotals:
        key = span, axis, sizes, cached
        if key not in self._axes:
            stack = self.stack(span)
            if axis is AxisName.COLUMNS and stack.is_square:
                self._axes[key] = self._along(span, AxisName.ROWS, sizes, cached=cached)
            elif isinstance(sizes, int):
                self._axes[key] = axis_totals(stack, axis, sizes, cached=cached)
            else:
                whole = self._along(span, axis, axis.pixels(stack.output), cached=False)
                self._axes[key] = range_totals(
                    stack, axis, SizeRange(sizes[0], sizes[-1], axis.pixels(stack.output)), whole, cached=cached
                )
        return self._axes[key]
