"""Keeping memory that was freed: tables that are made and thrown away a thousand times a second need no new pages."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

BLOCK_BYTES: Final = 32 * 1000 * 1000


@cache
def keep_freed_memory() -> None:
    """Let the C library keep what is freed, up to about twice a block's size, instead of giving it back each time.

    GNU's learns that from the largest block that was given back: this one, of which no page is touched. Elsewhere it
    does nothing.
    """
    np.empty(BLOCK_BYTES, np.uint8)
