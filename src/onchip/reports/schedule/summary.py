"""The words of a schedule's page: cards, figures digit by digit, the parts of the bound, tables of stacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from platform import python_version

from onchip.answer.result import Status
from onchip.model.program.figures import ScheduleFigures
from onchip.reports.schedule.network_figure import tiling_words
from onchip.reports.schedule.outcome import ScheduleOutcome
from onchip.reports.schedule.stack_figures import StackFigures
from onchip.reports.shared.latency import latency_words
from onchip.reports.shared.page import Card, Json
from onchip.reports.shared.words import (
    amount,
    counted,
    energy_per_mac,
    exact_bytes,
    percent,
    short_amount,
    short_bytes,
    short_energy,
)

Rows = list[tuple[str, str]]


def cards(outcome: ScheduleOutcome, figures: ScheduleFigures) -> tuple[Card, ...]:
    """What the reader wants to know first."""
    result, unit = outcome.result, outcome.unit
    tone = "good" if result.status is Status.OPTIMAL else "fair"
    gap = "" if result.gap is None else f"gap {percent(result.gap)}"
    stacks = () if outcome.document is None else outcome.document.answer.stacks
    cycles, operators = figures.latency_cycles, len(outcome.network.operators)
    tiled = sum(stack.tiling is not None for stack in stacks)
    capacities = {level.memory.name: level.memory.capacity_bytes for level in outcome.accelerator.levels}
    return (
        Card("Status", str(result.status), f"least {outcome.objective}, {result.method}", tone),
        Card("Lower bound", short_amount(result.lower_bound, unit), gap),
        Card("Energy", short_energy(figures.energy_pj), _femtojoules(figures)),
        Card("Latency", short_amount(cycles, "cycles").removesuffix(" cycles"), f"{cycles:,} cycles"),
        Card("DRAM traffic", short_bytes(figures.traffic_bytes), exact_bytes(figures.traffic_bytes)),
        Card("Stacks", f"{len(stacks):,}", f"{tiled:,} in tiles, of {counted(operators, 'operator')}"),
        Card("MACs", f"{outcome.macs:,}", energy_per_mac(figures.energy_pj, outcome.macs)),
        *(
            Card(f"Peak of {name}", short_bytes(one.peak_bytes), f"{one.peak_bytes / capacities[name]:.1%} of it")
            for name, one in figures.memories.items()
        ),
    )


def summary_rows(outcome: ScheduleOutcome, figures: ScheduleFigures, typed: str) -> Rows:
    """Every figure, digit by digit, and how the page came about."""
    result, seconds = outcome.result, outcome.seconds
    return [
        ("network", f"{outcome.network.name}, {counted(len(outcome.network.operators), 'operator')}"),
        ("accelerator", outcome.accelerator.name),
        ("status", _status(outcome)),
        ("objective", f"least {outcome.objective}: {amount(result.objective_value or 0, outcome.unit)}"),
        ("lower bound", amount(result.lower_bound, outcome.unit)),
        *_figure_rows(figures),
        *_size_rows(outcome),
        *_memory_rows(outcome, figures),
        *((("remark", outcome.remark),) if outcome.remark is not None else ()),
        ("among", "; ".join(f"{what}: {how}" for what, how in outcome.proven_space.items())),
        ("verified", "every rule of a legal schedule, and every figure, recomputed by the verifier"),
        *(("accelerator", note) for note in outcome.accelerator.notes),
        *(("not checked", what) for what in outcome.not_checked),
        ("seconds", f"read {seconds.read:.3f}, solve {seconds.solve:.3f}, verify {seconds.verify:.3f}"),
        ("versions", f"onchip {version('onchip')}, plotly {version('plotly')}, Python {python_version()}"),
        ("command line", typed),
    ]


def bound_rows(outcome: ScheduleOutcome) -> list[tuple[str, str, str]]:
    """The bounds on all figures with their parts: what, how much, of what that is a part."""
    parts = outcome.relaxation
    return [
        ("multiply-accumulates", short_energy(parts.mac_pj), "energy"),
        *((f"feeding of {operand}", short_energy(part), "energy") for operand, part in parts.feeding_pj.items()),
        ("feeding of all operands under one unrolling, beyond that", short_energy(parts.unrolling_pj), "energy"),
        ("operators without a loop nest", short_energy(parts.without_nest_pj), "energy"),
        ("first reads of DRAM", short_energy(parts.dram_read_pj), "energy"),
        ("for want of room", short_energy(float(parts.crowding.energy_pj)), "energy"),
        ("all of these", amount(parts.energy_fj, "fJ"), "least energy"),
        ("the array", f"{parts.computing_cycles:,} cycles", "latency"),
        ("DRAM", f"{parts.dram_cycles:,} cycles", "latency"),
        ("DRAM for want of room, beside that", f"{int(parts.crowding.dram_cycles):,} cycles", "latency"),
        ("the array, or DRAM", f"{parts.latency_cycles:,} cycles", "least latency"),
        (
            "inputs, parameters and outputs, as needed, and what has no room",
            exact_bytes(parts.traffic_bytes),
            "least traffic",
        ),
    ]


def stack_rows(found: Sequence[StackFigures]) -> list[Json]:
    """A row for each stack."""
    return [
        {
            "label": one.label,
            "operators": len(one.stack.operators),
            "tiling": tiling_words(one.stack),
            "tile_operators": f"{one.tile_operators:,}",
            "macs": f"{one.macs:,}",
            "energy": short_energy(one.stated_energy_pj),
            "cycles": f"{one.latency_cycles:,}",
            "traffic": short_bytes(one.traffic_bytes),
        }
        for one in found
    ]


def _status(outcome: ScheduleOutcome) -> str:
    result = outcome.result
    if not outcome.is_from_file:
        return f"{result.status}, by method {result.method}, stopped: {result.stopped_by}"
    is_claimed = outcome.document is not None and outcome.document.claim is not None
    return (
        f"{result.status}, by method {result.method}, as its file claims" if is_claimed else "its file claims nothing"
    )


def _femtojoules(figures: ScheduleFigures) -> str:
    return "-" if figures.stated_energy_fj is None else amount(figures.stated_energy_fj, "fJ")


def _figure_rows(figures: ScheduleFigures) -> Rows:
    traffic, latency, energy = figures.traffic, figures.latency, figures.energy
    accesses = sum(energy.compute_access_pj.values())
    return [
        ("energy", _femtojoules(figures)),
        (
            "energy for",
            f"MACs {short_energy(energy.mac_pj)}, accesses of Computes {short_energy(accesses)}, "
            f"Copies {short_energy(sum(energy.copy_access_pj.values()))}",
        ),
        ("latency", f"{figures.latency_cycles:,} cycles"),
        ("cycles of", latency_words(latency)),
        ("energy x latency", "-" if figures.stated_energy_fj is None else f"{figures.edp:,} fJ x cycles"),
        ("traffic", exact_bytes(traffic.total)),
        (
            "traffic by",
            f"loads {traffic.loads:,}, write-backs {traffic.write_backs:,}, streamed in {traffic.streamed_reads:,}, "
            f"streamed out {traffic.streamed_writes:,}",
        ),
    ]


def _size_rows(outcome: ScheduleOutcome) -> Rows:
    tiles, document = outcome.tiles, outcome.document
    if tiles is None or document is None:
        return []
    schedule = document.answer
    rows = [
        ("tile operators", f"{len(tiles.operators):,}, {outcome.operators_without_nest:,} of them without a loop nest"),
        ("MACs", f"{outcome.macs:,}"),
        (
            "schedule",
            f"{counted(len(schedule.stacks), 'stack')}, {counted(len(schedule.mappings), 'mapping')}, "
            f"{counted(len(schedule.program.instructions), 'instruction')}",
        ),
    ]
    return [*rows, *([("not counted", counted(len(tiles.not_counted), "parameter"))] if tiles.not_counted else [])]


def _memory_rows(outcome: ScheduleOutcome, figures: ScheduleFigures) -> Iterator[tuple[str, str]]:
    capacities = {level.memory.name: level.memory.capacity_bytes for level in outcome.accelerator.levels}
    for name, one in figures.memories.items():
        sizes = f"peak {exact_bytes(one.peak_bytes)}, arena {exact_bytes(one.arena_bytes)}"
        yield name, f"{sizes}, of {exact_bytes(capacities[name])}"
