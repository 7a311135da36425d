"""`onchip schedule` as people and programs read it: a table and one JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.box import SIMPLE
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from onchip.answer.result import Status
from onchip.answer.schedule import ScheduledStack
from onchip.arch.energies import unknown_energy
from onchip.model.program.figures import ScheduleFigures
from onchip.reports.schedule.outcome import ScheduleOutcome
from onchip.reports.shared.latency import latency_words
from onchip.reports.shared.words import amount, counted, percent, printable, short_amount, short_bytes

FEMTOJOULES_PER_PICOJOULE = 1000


def schedule_tables(outcome: ScheduleOutcome) -> Iterator[RenderableType]:
    """The figures of a schedule, its memories, what it is proven among; or why there is none."""
    result, figures = outcome.result, outcome.figures
    if figures is None:
        yield Text(f"no schedule was found: {outcome.why_not or 'the time was over'}")
    else:
        yield _figures_table(outcome, figures)
        if figures.stated_energy_fj is None:
            yield Text(unknown_energy(outcome.accelerator))
        yield _memories_table(outcome, figures)
    gap = "" if result.gap is None else f", gap {percent(result.gap)}"
    restricted = {what: how for what, how in outcome.proven_space.items() if how != "any"}
    covered = " for the schedules named below" if restricted and result.status is Status.OPTIMAL else ""
    yield Text(f"{result.status}{covered}: lower bound {amount(result.lower_bound, outcome.unit)}{gap}")
    if restricted:
        yield Text("among " + "; ".join(f"{what}: {how}" for what, how in restricted.items()))
    yield from (Text(printable(note)) for note in outcome.accelerator.notes)
    if outcome.remark is not None:
        yield Text(outcome.remark)
    for what in outcome.not_checked:
        yield Text(f"not checked: {what}")
    seconds = outcome.seconds
    yield Text(f"{seconds.read:.3f} seconds reading, {seconds.solve:.3f} solving, {seconds.verify:.3f} verifying")


def schedule_object(outcome: ScheduleOutcome) -> dict[str, object]:
    """One object; what there is none of is null."""
    result, figures, document = outcome.result, outcome.figures, outcome.document
    return {
        "network": outcome.network.name,
        "accelerator": outcome.accelerator.name,
        "method": result.method,
        "objective": outcome.objective,
        "objective_unit": outcome.unit,
        "status": result.status,
        "stopped_by": None if outcome.is_from_file else result.stopped_by,
        "objective_value": result.objective_value,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "space": outcome.proven_space,
        "not_modelled": list(outcome.accelerator.notes),
        "weighed": outcome.weighed,
        "value_of_stages": outcome.value_of_stages,
        "stages_cut": outcome.are_stages_cut,
        "bound_parts": _bound_object(outcome),
        **_figures_object(figures),
        "macs": outcome.macs if figures else None,
        "operators": len(outcome.network.operators),
        "tile_operators": outcome.tiles and len(outcome.tiles.operators),
        "operators_without_nest": outcome.operators_without_nest if figures else None,
        "stacks": document and [_stack_object(stack) for stack in document.answer.stacks],
        "mappings": document and len(document.answer.mappings),
        "instructions": document and len(document.answer.program.instructions),
        "peak_bytes": figures and {name: one.peak_bytes for name, one in figures.memories.items()},
        "arena_bytes": figures and {name: one.arena_bytes for name, one in figures.memories.items()},
        "not_counted": outcome.tiles and list(outcome.tiles.not_counted),
        "not_checked": list(outcome.not_checked),
        "seconds": {
            "read": outcome.seconds.read,
            "solve": outcome.seconds.solve,
            "verify": outcome.seconds.verify,
        },
        "error": outcome.why_not,
        "remark": outcome.remark,
    }


def _figures_object(figures: ScheduleFigures | None) -> dict[str, object]:
    return {
        "energy_pj": figures and figures.energy_pj,
        "energies": figures and energies_object(figures),
        "latency_cycles": figures and figures.latency_cycles,
        "latency_parts": figures and latency_object(figures),
        "traffic": figures and traffic_object(figures),
    }


def _figures_table(outcome: ScheduleOutcome, figures: ScheduleFigures) -> RenderableType:
    table = Table(box=SIMPLE, show_header=False, collapse_padding=True, pad_edge=False)
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    energy, traffic, latency = figures.energy, figures.traffic, figures.latency
    memories = energy.by_memory_pj
    parts = [("MACs", energy.mac_pj), *sorted(memories.items(), key=lambda one: -one[1])]
    words = ", ".join(f"{printable(name)} {_short_energy(part)}" for name, part in parts)
    table.add_row("energy", _short_energy(figures.energy_pj), words)
    table.add_row(
        "latency",
        f"{figures.latency_cycles:,} cycles",
        latency_words(latency),
    )
    table.add_row(
        "traffic",
        short_bytes(figures.traffic_bytes),
        f"loads {short_bytes(traffic.loads)}, write-backs {short_bytes(traffic.write_backs)}, streamed "
        f"{short_bytes(traffic.streamed_reads)} in and {short_bytes(traffic.streamed_writes)} out",
    )
    tiles = 0 if outcome.tiles is None else len(outcome.tiles.operators)
    stacks = 0 if outcome.document is None else len(outcome.document.answer.stacks)
    without = outcome.operators_without_nest
    table.add_row(
        "runs",
        counted(tiles, "operator"),
        f"in {counted(stacks, 'stack')}, {counted(outcome.macs, 'MAC')}, {without:,} without a loop nest",
    )
    return table


def _memories_table(outcome: ScheduleOutcome, figures: ScheduleFigures) -> RenderableType:
    table = Table(box=SIMPLE, collapse_padding=True, pad_edge=False)
    for name in ("memory", "capacity", "peak"):
        table.add_column(name, justify="left" if name == "memory" else "right", no_wrap=True)
    capacities = {level.memory.name: level.memory.capacity_bytes for level in outcome.accelerator.levels}
    for name, one in figures.memories.items():
        table.add_row(printable(name), short_bytes(capacities[name]), short_bytes(one.peak_bytes))
    return table


def _bound_object(outcome: ScheduleOutcome) -> Mapping[str, object]:
    parts = outcome.relaxation
    return {
        "mac_pj": parts.mac_pj,
        "feeding_pj": dict(parts.feeding_pj),
        "unrolling_pj": parts.unrolling_pj,
        "without_nest_pj": parts.without_nest_pj,
        "dram_read_pj": parts.dram_read_pj,
        "computing_cycles": parts.computing_cycles,
        "dram_cycles": parts.dram_cycles,
        "traffic_bytes": parts.traffic_bytes,
        "for_room": {
            "energy_pj": float(parts.crowding.energy_pj),
            "dram_cycles": int(parts.crowding.dram_cycles),
            "traffic_bytes": parts.crowding.traffic_bits // 8,
        },
    }


def energies_object(figures: ScheduleFigures) -> Mapping[str, object]:
    """Picojoules of MACs, of Computes' accesses by memory and operand, and of Copies by memory."""
    energy = figures.energy
    computes: dict[str, dict[str, float]] = {}
    for (memory, operand), part in energy.compute_access_pj.items():
        computes.setdefault(memory, {})[str(operand)] = part
    return {"macs": energy.mac_pj, "computes": computes, "copies": dict(energy.copy_access_pj)}


def latency_object(figures: ScheduleFigures) -> Mapping[str, int]:
    """Cycles, by what they go by with."""
    return figures.latency.by_name


def traffic_object(figures: ScheduleFigures) -> Mapping[str, int]:
    """Bytes from and to DRAM, by what moves them."""
    traffic = figures.traffic
    return {
        "total": traffic.total,
        "loads": traffic.loads,
        "write_backs": traffic.write_backs,
        "streamed_reads": traffic.streamed_reads,
        "streamed_writes": traffic.streamed_writes,
    }


def _stack_object(stack: ScheduledStack) -> Mapping[str, object]:
    tiling = stack.tiling
    tile = None if tiling is None else {"columns": tiling.columns, "rows": tiling.rows}
    return {"operators": list(stack.operators), "tile": tile, "mode": None if tiling is None else tiling.mode}


def _short_energy(energy_pj: float | None) -> str:
    return "-" if energy_pj is None else short_amount(round(energy_pj * FEMTOJOULES_PER_PICOJOULE), "fJ")
