"""What the page of a schedule draws of its costs: energy, cycles and traffic, as plotly figures in plain dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.reports.schedule.stack_figures import (
    COPIES,
    MACS,
    TRAFFIC,
    StackFigures,
    causes,
    memory_names,
    total_energy,
)
from onchip.reports.shared.bars import MAC_PAINT, PartedBars, energy_bars, memory_paints
from onchip.reports.shared.latency import PART_PAINTS, PART_WORDS
from onchip.reports.shared.page import Json
from onchip.reports.shared.words import exact_bytes

CAUSE_PAINTS: Final = {
    MACS: MAC_PAINT,
    "input": "role-input",
    "weight": "back-activation",
    "output": "role-output",
    COPIES: "role-moved",
}
CYCLE_PAINTS: Final = {PART_WORDS[name]: paint for name, paint in PART_PAINTS.items()}
TRAFFIC_PAINTS: Final = dict(zip(TRAFFIC, ("slice-load", "slice-spill", "role-input", "role-output"), strict=True))


def energy_by_memory_and_cause(found: Sequence[StackFigures], accelerator: Accelerator) -> Json:
    """A bar for the MACs and for each memory; its parts are what the energy is for."""
    names = [MACS, *memory_names(accelerator)]
    total = total_energy(found)
    parts = {cause: [total.get((name, cause), 0.0) for name in names] for cause in causes(found)}
    return energy_bars(names, parts, CAUSE_PAINTS)


def energy_of_stacks_by_memory(found: Sequence[StackFigures], accelerator: Accelerator) -> Json:
    """A bar for each stack; its parts are the MACs and the memories."""
    names = memory_names(accelerator)
    parts = {name: [one.energy_at(name) for one in found] for name in (MACS, *names)}
    return energy_bars(_labels(found), parts, {MACS: MAC_PAINT, **memory_paints(names)})


def energy_of_stacks_by_cause(found: Sequence[StackFigures]) -> Json:
    """A bar for each stack; its parts are what the energy is for."""
    parts = {cause: [one.energy_for(cause) for one in found] for cause in causes(found)}
    return energy_bars(_labels(found), parts, CAUSE_PAINTS)


def cycles_of_stacks(found: Sequence[StackFigures]) -> Json:
    """A bar for each stack; its parts are computing, and what the array waits for."""
    parts = {words: [one.cycles.get(name, 0) for one in found] for name, words in PART_WORDS.items()}
    return PartedBars(_labels(found), parts, CYCLE_PAINTS, "{:,.0f} cycles".format, "cycles").figure()


def traffic_of_stacks(found: Sequence[StackFigures]) -> Json:
    """A bar for each stack; its parts are the bytes that Copies and Computes move from and to DRAM."""
    parts = {part: [one.traffic.get(part, 0) for one in found] for part in TRAFFIC}
    return PartedBars(_labels(found), parts, TRAFFIC_PAINTS, _bytes, "bytes").figure()


def _bytes(size: float) -> str:
    return exact_bytes(int(size))


def _labels(found: Sequence[StackFigures]) -> list[str]:
    return [one.label for one in found]
