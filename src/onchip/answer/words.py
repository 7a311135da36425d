"""Numbers as people read them."""

from __future__ import annotations

UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
ENERGIES = ((1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ"), (1.0, "pJ"))


def short_bytes(size_bytes: int) -> str:
    """Say a size in three digits and a unit: 3.75 MiB."""
    for unit, name in UNITS:
        if size_bytes >= unit:
            value = size_bytes / unit
            return f"{value:,.0f} {name}" if value >= 100 else f"{value:.3g} {name}"
    return counted(size_bytes, "byte")


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
    return "below 0.1 %" if 0 < gap < 0.001 else f"{gap:.1%}"


def amount(value: int, unit: str) -> str:
    """Say an objective's value in every digit: 1,500 bytes, 1,500 cycles, 1,500 fJ (1.5 pJ)."""
    if unit != "fJ":
        return counted(value, unit.removesuffix("s"))
    whole, thousandths = divmod(value, 1000)
    picojoules = f"{whole:,}.{thousandths:03}".rstrip("0").rstrip(".")
    return f"{value:,} fJ ({picojoules} pJ)"


def short_amount(value: int, unit: str) -> str:
    """Say a value in three digits and a unit: 3.75 MiB, 1.2M cycles, 3.4 nJ."""
    if unit == "bytes":
        return short_bytes(value)
    if unit == "fJ":
        sizes: tuple[tuple[int, str], ...] = ((10**12, " mJ"), (10**9, " uJ"), (10**6, " nJ"), (10**3, " pJ"))
    else:
        sizes = ((10**9, f"G {unit}"), (10**6, f"M {unit}"))
    for size, name in sizes:
        if value >= size:
            scaled = value / size
            return f"{scaled:,.0f}{name}" if scaled >= 100 else f"{scaled:.3g}{name}"
    return f"{value:,} {unit}" if unit == "fJ" else counted(value, unit.removesuffix("s"))


def energy_per_mac(energy_pj: float | None, macs: int) -> str:
    """Return the energy for each multiply-accumulate, or why it is unknown."""
    if energy_pj is None:
        return "unknown: not all energies are stated"
    return f"{energy_pj / macs:.3g} pJ for a MAC" if macs else ""


def short_energy(energy_pj: float | None) -> str:
    """Return an energy in four digits and a unit, 12.34 nJ, or "-" if it is unknown."""
    if energy_pj is None:
        return "-"
    for size, unit in ENERGIES:
        if energy_pj >= size:
            return f"{energy_pj / size:.4g} {unit}"
    return f"{energy_pj:.4g} pJ"


def picked(value: object, *names: str) -> dict[str, object]:
    """Return the attributes of these names, for a JSON object."""
    return {name: getattr(value, name) for name in names}
