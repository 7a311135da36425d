"""The bytes of bands, extracted from a whole tensor's bytes and assembled to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.ir.region import Region, whole_region
from onchip.ir.tensor import Tensor

Bytes: TypeAlias = npt.NDArray[np.uint8]


def place_of(tensor: Tensor) -> tuple[str, Region]:
    """Return the tensor and the region that a band is; a tensor that is not a band is all of itself."""
    if tensor.part_of is None or tensor.region is None:
        return tensor.name, whole_region(tensor.shape or ())
    return tensor.part_of, tensor.region


def slices(region: Region, within: Region) -> tuple[slice, ...]:
    """Return the slices of a region in an array that begins at the start of `within`."""
    return tuple(slice(start - first, stop - first) for (start, stop), (first, _) in zip(region, within, strict=True))


def bytes_of_region(content: Bytes, shape: tuple[int, ...], region: Region) -> Bytes:
    """Return the bytes of a region of a whole tensor, whose elements have one or several bytes."""
    if region == whole_region(shape):
        return content
    elements = content.reshape(*shape, -1)
    return np.ascontiguousarray(elements[slices(region, whole_region(shape))]).reshape(-1)


def bytes_put_together(base: Tensor, bands: Iterable[tuple[Tensor, Bytes]]) -> Bytes:
    """Return a whole tensor's bytes assembled from its bands; zero in gaps between bands."""
    shape, element_bytes = base.shape or (), (base.bits or 0) // 8
    content = np.zeros((*shape, element_bytes), np.uint8)
    for tensor, part in bands:
        content[slices(place_of(tensor)[1], whole_region(shape))] = part.reshape(*(tensor.shape or ()), element_bytes)
    return content.reshape(-1)
