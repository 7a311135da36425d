"""The bytes of a scratchpad that is not there: where they lie, and what is in them before anything is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from onchip.simulate.kernel_protocol import Bytes

ALIGNMENT_BYTES: Final = 64
FILL: Final = 0xFF
"""What fresh and freed memory is filled with: NaN in every floating-point format, -1 in integers."""


@dataclass(slots=True)
class BytePlace:
    """Bytes [start, stop) of a scratchpad; `is_written` once something has been put there."""

    start: int
    stop: int
    is_written: bool = False


def filled(capacity_bytes: int) -> Bytes:
    """A scratchpad's bytes, its address 0 at an aligned address, so that what is aligned in it can be used in place."""
    room = np.full(capacity_bytes + ALIGNMENT_BYTES, FILL, np.uint8)
    start = -room.ctypes.data % ALIGNMENT_BYTES
    return room[start : start + capacity_bytes]
