"""A request to compute one region of an operator's output, with its operands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onchip.ir.operator import VIEWS, Operator
from onchip.ir.region import Region
from onchip.ir.tile import Tile
from onchip.ops.derive.geometry import Geometry
from onchip.simulate.parts import Integers, RegionValues


@dataclass(frozen=True)
class Call:
    """A region of an operator's output: the operator, the tile, and the available part of each operand.

    `parts` has an entry for each operand in the operator's order, None for an operand that is not read.
    """

    operator: Operator
    tile: Tile
    parts: tuple[RegionValues | None, ...]
    bits: int
    geometry: Geometry | None = None

    @property
    def region(self) -> Region:
        """Return the region of the first output that the call computes."""
        return self.tile.regions[0]

    @cached_property
    def written(self) -> tuple[int, ...]:
        """Return the whole shape of the first output."""
        return self.tile.shape[self.tile.outputs[0]]

    @property
    def has_views(self) -> bool:
        """Return True if an operand is read in another shape than its stored shape."""
        return not VIEWS.isdisjoint(self.operator.attributes)

    @property
    def is_broadcast(self) -> bool:
        """Return True if every operand broadcasts to the output by ONNX's rule."""
        shapes = self.tile.shapes[: len(self.parts)]
        aligned = (zip(shape[::-1], self.written[::-1], strict=False) for shape in shapes)
        is_short = all(len(shape) <= len(self.written) for shape in shapes)
        return not self.has_views and is_short and all(size in (1, of) for one in aligned for size, of in one)

    def part(self, index: int) -> RegionValues:
        """Return the values of an operand; an empty region, zero everywhere, if it is not read."""
        found = self.parts[index]
        if found is None:
            shape = self.tile.shapes[index]
            return RegionValues(
                "", shape, self.bits, tuple((0, 0) for _ in shape), np.zeros([0] * len(shape), np.uint64)
            )
        return found

    def along_output(self, index: int, *, channels: bool = False) -> Integers:
        """Return an operand's values for the region, broadcast by ONNX's rule, or one element per channel."""
        part = self.part(index)
        if channels and len(self.written) > 1 and part.shape == (self.written[1],):
            values = part.window(self.region[1:2])
            return values.reshape(-1, *(1,) * (len(self.written) - 2))
        missing = len(self.written) - len(part.shape)
        ranges = [
            self.region[at] if size == self.written[at] else (0, 1) for at, size in enumerate(part.shape, start=missing)
        ]
        return part.window(ranges)

    def with_further_operands(self, values: Integers, first: int) -> Integers:
        """Add a bias, or the operand of a fused activation; only to the first part of a sum."""
        if self.tile.part.adds_to_a_sum:
            return values
        for index in range(first, len(self.parts)):
            values = values + self.along_output(index, channels=True)
        return values
