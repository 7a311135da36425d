"""Options of a search for packings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PackOptions:
    """Options of the verb `pack`.

    Attributes
    ----------
    alignment_bytes
        Every offset is a multiple of it; by default as the file of the buffers says, else 1.
    overflow
        Whether buffers may lie outside the capacity; their bytes are minimised.

    """

    alignment_bytes: int | None = None
    overflow: bool = False
