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
    together, apart
        Groups of buffer names: those of a group must lie in one memory, or no two of them in the same.
    splits
        Whether the buffers may be split over several allocations, none larger than the capacity; their number is
        minimised.

    """

    alignment_bytes: int | None = None
    overflow: bool = False
    together: tuple[tuple[str, ...], ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    splits: bool = False
