"""Regions of tensors as arrays of unsigned integers: assembled from tiles, split into tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError
from onchip.ir.region import Range, Region
from onchip.ir.tensor import Tensor
from onchip.simulate.kernel_protocol import Bytes
from onchip.transform.slices.tile_bytes import place_of, slices

Integers: TypeAlias = npt.NDArray[np.uint64]

ELEMENTS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
"""The type of an element by its bits; other widths have no arithmetic."""


@dataclass(frozen=True, slots=True)
class RegionValues:
    """The values of a region of the tensor `name` of whole shape `shape`, with `bits` per element."""

    name: str
    shape: tuple[int, ...]
    bits: int
    region: Region
    values: Integers

    @classmethod
    def of_bands(cls, name: str, shape: tuple[int, ...], bands: Sequence[tuple[Tensor, Bytes]]) -> RegionValues:
        """Return the smallest region around all tiles, zero between them."""
        regions = [place_of(tensor)[1] for tensor, _ in bands]
        region = tuple((min(r[0] for r in ranges), max(r[1] for r in ranges)) for ranges in zip(*regions, strict=True))
        values = np.zeros([stop - start for start, stop in region], np.uint64)
        for (tensor, content), each in zip(bands, regions, strict=True):
            values[slices(each, region)] = elements(tensor, content)
        return cls(name, shape, bands[0][0].bits or 0, region, values)

    def window(self, wanted: Sequence[Range]) -> Integers:
        """Return the values of a region, which are zero outside the tensor.

        Raises GraphError if the region includes an unavailable part of the tensor.
        """
        inside = tuple(
            (min(max(start, 0), size), max(0, min(stop, size)))
            for (start, stop), size in zip(wanted, self.shape, strict=True)
        )
        found = np.zeros([stop - start for start, stop in wanted], np.uint64)
        if any(start >= stop for start, stop in inside):
            return found
        if any(start < first or stop > last for (start, stop), (first, last) in zip(inside, self.region, strict=True)):
            raise GraphError(
                f"{list(inside)} is read, and only {list(self.region)} is there",
                place=f"tensor {self.name!r}",
                expected="bands of all that is read",
            )
        found[slices(inside, tuple(wanted))] = self.values[slices(inside, self.region)]
        return found


def elements(tensor: Tensor, content: Bytes) -> npt.NDArray[np.unsignedinteger]:
    """Return a tensor's bytes as elements, in its shape."""
    return content.view(ELEMENTS[tensor.bits or 0]).reshape(tensor.shape or ())


def band_of(tensor: Tensor, region: Region, values: Integers) -> Bytes:
    """Return the bytes of a tile, extracted from the values of a region."""
    cut = values[slices(place_of(tensor)[1], region)]
    return np.ascontiguousarray(cut.astype(ELEMENTS[tensor.bits or 0])).reshape(-1).view(np.uint8)
