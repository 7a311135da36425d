"""Regions of tensors, and the tiles that operators compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from typing import TypeAlias

from onchip.errors import GraphError
from onchip.ir.tensor import Tensor

Range: TypeAlias = tuple[int, int]
Region: TypeAlias = tuple[Range, ...]


def whole_region(shape: Sequence[int]) -> Region:
    """Return the region that covers a whole tensor of that shape."""
    return tuple((0, size) for size in shape)


def size_of(region: Region) -> int:
    """Return the number of elements in a region."""
    return prod(stop - start for start, stop in region)


class SumPart(StrEnum):
    """The values that a tile writes: final values, or the first, a middle or the last partial sum."""

    WHOLE = "whole"
    START = "start"
    MIDDLE = "middle"
    END = "end"

    @property
    def adds_to_a_sum(self) -> bool:
        """Return True if the tile reads the partial sum of the preceding tile, as its last input."""
        return self in (SumPart.MIDDLE, SumPart.END)

    @property
    def is_complete(self) -> bool:
        """Return True if the tile writes the operator's final values."""
        return self in (SumPart.WHOLE, SumPart.END)


@dataclass(frozen=True, slots=True)
class JoinedPart:
    """An input map of a concatenation along the channels: `part` is `whole` from its channel `first_channel` on."""

    whole: str
    part: str
    first_channel: int


@dataclass(frozen=True, slots=True)
class Tile:
    """The operands of `operator` in its own order, their whole shapes, and the computed region of each output.

    If an input is a concatenation that is not materialised, the operator reads its parts, which are `joined`.
    `reduction` is the range of input channels or features that is summed; None for all. Raises GraphError if the
    numbers of shapes and operands, or of regions and outputs, differ, and for an empty or out-of-range region.
    """

    operator: str
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    regions: tuple[Region, ...]
    reduction: Range | None = None
    part: SumPart = SumPart.WHOLE
    joined: tuple[JoinedPart, ...] = ()

    def __post_init__(self) -> None:
        operands = len(self.inputs) + len(self.parameters) + len(self.outputs)
        if len(self.shapes) != operands:
            raise self._error(f"it has {len(self.shapes)} shapes", f"one for each of {operands} operands")
        if len(self.regions) != len(self.outputs):
            raise self._error(f"it has {len(self.regions)} regions", f"one for each of {len(self.outputs)} outputs")
        written = self.shapes[operands - len(self.outputs) :]
        for name, shape, region in zip(self.outputs, written, self.regions, strict=True):
            if len(region) != len(shape):
                raise self._error(f"{name!r} has {len(region)} ranges", f"one for each of {len(shape)} dimensions")
            for (start, stop), size in zip(region, shape, strict=True):
                if not 0 <= start < stop <= size:
                    raise self._error(f"{name!r} has the range [{start}, {stop}]", f"a part of [0, {size}]")
        if self.reduction is not None and not 0 <= self.reduction[0] < self.reduction[1]:
            raise self._error(f"it sums up the range {list(self.reduction)}", "0 <= start < stop")

    @property
    def shape(self) -> Mapping[str, tuple[int, ...]]:
        """Return a map from operand name to its whole shape."""
        return dict(zip((*self.inputs, *self.parameters, *self.outputs), self.shapes, strict=True))

    def seen(self, tensor: Tensor) -> Tensor:
        """Return a tensor that the operator reads, as a region of the operator's original operand."""
        base = tensor.part_of or tensor.name
        one = next((one for one in self.joined if one.part == base), None)
        if one is None:
            return tensor
        batch, (start, stop), *pixels = tensor.region or whole_region(tensor.shape or ())
        region = (batch, (start + one.first_channel, stop + one.first_channel), *pixels)
        return replace(tensor, part_of=one.whole, region=region)

    def _error(self, what: str, expected: str) -> GraphError:
        return GraphError(what, place=f"tile of {self.operator!r}", expected=expected)
