"""Which axis of a tensor are its channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onchip.ir.tensor import Tensor

_RANK_WITH_BATCH: Final = 4


def channels_of(tensor: Tensor) -> int | None:
    """How many channels a tensor has: the second of four dimensions or more, else the first; None without a shape."""
    return tensor.shape[channel_axis(tensor.shape)] if tensor.shape else None


def channel_axis(shape: Sequence[int]) -> int:
    """Return which dimension of a shape the channels are."""
    return 1 if len(shape) >= _RANK_WITH_BATCH else 0
