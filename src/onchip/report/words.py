"""Numbers as people read them."""

from __future__ import annotations

UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def short_bytes(size_bytes: int) -> str:
    """Three digits and a unit: 3.75 MiB."""
    for unit, name in UNITS:
        if size_bytes >= unit:
            value = size_bytes / unit
            return f"{value:,.0f} {name}" if value >= 100 else f"{value:.3g} {name}"
    return counted(size_bytes, "byte")


def exact_bytes(size_bytes: int) -> str:
    """Every digit: 3,932,160 bytes."""
    return counted(size_bytes, "byte")


def counted(count: int, noun: str) -> str:
    """1 step, 2 steps."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percent(gap: float) -> str:
    """A gap that is not zero never reads as zero."""
    return "below 0.1 %" if 0 < gap < 0.001 else f"{gap:.1%}"
