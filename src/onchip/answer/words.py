"""Numbers as people read them: three significant digits and a unit, or all digits if these are requested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_EXACT: Final = ContextVar("exact", default=False)

SCALES: Final[Mapping[str, tuple[tuple[float, str], ...]]] = {
    "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")),
    "fJ": ((1e12, "mJ"), (1e9, "uJ"), (1e6, "nJ"), (1e3, "pJ")),
    "pJ": ((1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ")),
    "cycles": ((1e9, "Gcycles"), (1e6, "Mcycles")),
    "MACs": ((1e9, "GMACs"), (1e6, "MMACs")),
    "elements": ((1e9, "G"), (1e6, "M"), (1e3, "k")),
}
"""Larger units of each unit, the largest first, with their sizes."""


@contextmanager
def exact_figures(is_requested: bool) -> Iterator[None]:
    """Show sizes, energies and other figures with all digits within the block if this is requested."""
    token = _EXACT.set(is_requested)
    try:
        yield
    finally:
        _EXACT.reset(token)


def short_bytes(size_bytes: int) -> str:
    """Format a size in three digits and a unit: 3.75 MiB."""
    return short_amount(size_bytes, "bytes")


def exact_bytes(size_bytes: int) -> str:
    """Say a size in every digit: 3,932,160 bytes."""
    return counted(size_bytes, "byte")


def counted(count: int, noun: str) -> str:
    """Say how many of a noun: 1 step, 2 steps."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def printable(name: str) -> str:
    """Return a name on one line, without what would steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def percent(gap: float) -> str:
    """Say a gap in percent; one that is not zero never reads as zero."""
    return "below 0.1%" if 0 < gap < 0.001 else f"{gap:.1%}"


def amount(value: int, unit: str) -> str:
    """Say an objective's value in every digit: 1,500 bytes, 1,500 cycles, 1,500 fJ (1.5 pJ)."""
    if unit != "fJ":
        return counted(value, unit.removesuffix("s"))
    whole, thousandths = divmod(value, 1000)
    picojoules = f"{whole:,}.{thousandths:03}".rstrip("0").rstrip(".")
    return f"{value:,} fJ ({picojoules} pJ)"


def short_amount(value: float, unit: str, digits: int = 3) -> str:
    """Format a value in few digits and the largest suitable unit: 3.75 MiB, 1.2 Mcycles, 3.4 nJ."""
    if _EXACT.get():
        return f"{value:,} {unit}"
    if unit == "fJ x cycles":
        return f"{value / 1000:.{digits}g} pJ x cycles"
    for size, name in SCALES.get(unit, ()):
        if abs(value) >= size:
            scaled = value / size
            return f"{scaled:,.0f} {name}" if abs(scaled) >= 100 and digits < 4 else f"{scaled:.{digits}g} {name}"
    if isinstance(value, float):
        return f"{value:,.0f} {unit}" if abs(value) >= 1000 else f"{value:.{digits}g} {unit}"
    return f"{value:,} {unit}" if unit.endswith("J") else counted(value, unit.removesuffix("s"))


def short_energy(energy_pj: float | None) -> str:
    """Format an energy in three digits and a unit, 12.3 nJ, or return "-" if it is unknown."""
    return "-" if energy_pj is None else short_amount(float(energy_pj), "pJ")


def exact_amount(value: float, unit: str) -> str:
    """Format a value for a hover text: energies in four digits, all others exactly."""
    energy_pj = value / 1000 if unit == "fJ" else value
    return short_amount(float(energy_pj), "pJ", 4) if unit.endswith("J") else f"{value:,.0f} {unit}"


def objective_amount(value: float, unit: str) -> str:
    """Return an objective's value: all digits of bytes, bits and cycles, three digits of energies and products."""
    if unit == "fJ":
        return short_energy(value / 1000)
    if unit == "fJ x cycles":
        return short_amount(value, unit)
    if value != round(value):
        return f"{value:,} {unit}" if _EXACT.get() else f"{value:,.3f} {unit}"
    return counted(round(value), unit.removesuffix("s"))


def picked(value: object, *names: str) -> dict[str, object]:
    """Return the attributes of these names, for a JSON object."""
    return {name: getattr(value, name) for name in names}
