"""Which bytes of its storage a torch tensor has."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import torch

Extent: TypeAlias = tuple[tuple[int, int], ...]
"""(size, stride) pairs in elements, the smallest stride first."""
Layout: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]
"""Shape, strides and offset, in elements."""


def storage_of(value: torch.Tensor) -> int:
    """Names the storage, as long as it is kept; views of one tensor have one storage."""
    return int(value.untyped_storage()._cdata)


def bits_of(value: torch.Tensor) -> int:
    """Return the bits of one element of a tensor."""
    return 8 * int(value.element_size())


def bytes_of(value: torch.Tensor) -> int:
    """Bytes of all elements as if each had its own, which those of an expanded tensor have not."""
    return int(value.numel() * value.element_size())


def covers_its_storage(value: torch.Tensor) -> bool:
    """Whether every byte of the storage is one of the tensor's, in any order."""
    return bool(_elements(_extent(value)) * value.element_size() == value.untyped_storage().nbytes())


def slice_label(value: torch.Tensor) -> str:
    """`[start:stop]` in elements of the storage; `[start:sizexstride,...]` where the slice has holes.

    The same for every view of the same elements, whatever their order.
    """
    start, extent = int(value.storage_offset()), _extent(value)
    if all(stride == 1 for _, stride in extent):
        return f"[{start}:{start + _elements(extent)}]"
    return f"[{start}:{','.join(f'{size}x{stride}' for size, stride in extent)}]"


def layout_of(value: torch.Tensor) -> Layout:
    """What tells views of one storage apart."""
    return tuple(value.shape), tuple(value.stride()), int(value.storage_offset())


def is_in_order(value: torch.Tensor) -> bool:
    """Whether its elements stand one after the other as in memory; of a part of a storage, none of them twice."""
    strides = [stride for stride, size in zip(value.stride(), value.shape, strict=True) if size > 1]
    moving = [stride for stride in strides if stride > 0]
    is_descending = all(before > after for before, after in pairwise(moving))
    return is_descending and (len(moving) == len(strides) or covers_its_storage(value))


def permutation_of(value: torch.Tensor) -> tuple[int, ...]:
    """By axis of the value its place among the axes in memory: the permutation with which a Transpose makes it."""
    in_memory = sorted(range(value.dim()), key=lambda axis: -value.stride(axis))
    return tuple(in_memory.index(axis) for axis in range(value.dim()))


def _extent(value: torch.Tensor) -> Extent:
    """Which elements of its storage a tensor has: neighbouring dimensions that leave no hole are one."""
    pairs = [pair for pair in zip(value.stride(), value.shape, strict=True) if pair[0] > 0 and pair[1] > 1]
    merged: list[tuple[int, int]] = []
    for stride, size in sorted(pairs):
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (merged[-1][0] * size, merged[-1][1])
        else:
            merged.append((size, stride))
    return tuple(merged)


def _elements(extent: Extent) -> int:
    return prod(size for size, _ in extent)
