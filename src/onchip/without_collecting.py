"""Making what is kept without looking for garbage: of hundreds of thousands of objects of a network, none is."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collecting() -> Iterator[None]:
    """Python's collector of reference cycles rests meanwhile: it would go through all objects again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
