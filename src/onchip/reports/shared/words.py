"""Numbers as people read them, and the parts of a latency in words and as JSON objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from onchip.model.timeline.activity import Activity, ActivityKind, ArrayWait, LatencyParts, Wait, array_waits

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


PART_WORDS: Final[Mapping[str, str]] = {
    "computing": "computing",
    "preload": "preload",
    "waiting_for_loads": "waiting for loads",
    "waiting_for_room": "waiting for room",
    "waiting_for_stores": "waiting for stores",
    "waiting_for_dram": "waiting for DRAM",
}
PART_PAINTS: Final[Mapping[str, str]] = {
    "computing": "slice-compute",
    "preload": "kept",
    "waiting_for_loads": "slice-load",
    "waiting_for_room": "role-workspace",
    "waiting_for_stores": "slice-spill",
    "waiting_for_dram": "slice-write",
}
MOST_LINKS: Final = 6
"""Limit on the links of a chain in words; the others are counted."""


def latency_rows(parts: LatencyParts) -> Iterator[tuple[str, str]]:
    """Yield each part's name and its cycles."""
    for name, cycles in parts.by_name.items():
        yield PART_WORDS[name], f"{cycles:,} cycles"


def latency_words(parts: LatencyParts) -> str:
    """Return all parts in one line."""
    return ", ".join(f"{PART_WORDS[name]} {cycles:,}" for name, cycles in parts.by_name.items())


def activity_object(activity: Activity, *, has_dram_turns: bool = True) -> dict[str, object]:
    """Return the times of an instruction and its wait, with DRAM turns if the timeline counts them."""
    names = ("instruction", "subject", "start", "stop", "queue", "source", "target", "waited_for", "idle_cycles")
    return picked(activity, *names, *(("dram_cycles",) if has_dram_turns else ()))


def wait_objects(activities: Sequence[Activity]) -> list[dict[str, object]]:
    """Return every gap of the array, with its reason and the chain of instructions that caused it."""
    return [wait_object(one, activities) for one in array_waits(activities)]


def wait_object(wait: ArrayWait, activities: Sequence[Activity]) -> dict[str, object]:
    """Return one gap: the next operator, its cycles by part, and the chain of instructions that caused it."""
    before = None if wait.activity is None else activities[wait.activity]
    return {
        "before": None if before is None else before.subject,
        "start": wait.start,
        "stop": wait.stop,
        "parts": {name: cycles for name, cycles in wait.parts.by_name.items() if cycles},
        "chain": [activities[place].instruction for place in wait.chain],
        "lacked_room": None if wait.lacked_room is None else activities[wait.lacked_room].instruction,
    }


def wait_lines(wait: ArrayWait, activities: Sequence[Activity]) -> Iterator[str]:
    """Say what the array waits for, what that waited for in its turn, and so on."""
    counted = (f"{PART_WORDS[name]} {cycles:,}" for name, cycles in wait.parts.by_name.items() if cycles)
    yield f"cycles {wait.start:,} to {wait.stop:,}: {', '.join(counted)}"
    if wait.activity is None:
        yield "all operators have run"
        waited_for = Wait.TURN
    else:
        yield f"{activities[wait.activity].subject} is next"
        waited_for = activities[wait.activity].waited_for
    for place in wait.chain[:MOST_LINKS]:
        one = activities[place]
        yield f"{_WHY[waited_for]} {_what(one)}, cycles {one.start:,} to {one.end:,}"
        waited_for = one.waited_for
    if len(wait.chain) > MOST_LINKS:
        yield f"and {len(wait.chain) - MOST_LINKS:,} more before"
    elif wait.chain and wait.chain[-1] != wait.lacked_room:
        yield from _earlier(activities[wait.chain[-1]], activities)
    if wait.lacked_room is not None:
        late = activities[wait.lacked_room]
        yield f"late for want of room: {late.place_cycles:,} cycles passed before {_what(late)} could begin"
        yield from _earlier(late, activities)


def _earlier(one: Activity, activities: Sequence[Activity]) -> Iterator[str]:
    if one.waited_on is not None:
        yield f"which waited {_WHY[one.waited_for]} {_what(activities[one.waited_on])}, until cycle {one.start:,}"


def _what(one: Activity) -> str:
    if one.kind is ActivityKind.COMPUTE:
        return f"operator {one.subject}"
    return f"{one.kind} of {one.subject} ({one.source} to {one.target}, queue {one.queue})"


_WHY: Final = {
    Wait.TURN: "behind",
    Wait.DATA: "for what comes by",
    Wait.PLACE: "for a place that is in use by",
    Wait.DRAM: "for its turn at DRAM, behind",
}
