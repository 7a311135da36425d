"""`onchip fuse` as people and programs read it: tables and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from rich.box import SIMPLE
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from onchip.answer.result import Stop
from onchip.answer.strategy import EnergyCause
from onchip.arch.energies import unknown_energy
from onchip.arch.memory import DRAM
from onchip.model.group.cost import TileTypeCost
from onchip.model.group.sums import FusedLatency, FusedSums, total
from onchip.reports.mapping.text import kinds_counted, objective_words
from onchip.reports.shared.words import counted, percent, printable, short_amount, short_energy
from onchip.reports.stack.outcome import CostedStack, FusionOutcome, OutsideOperator

LATENCY_PARTS = ("ideal", "unused", "stall", "drain", "preload_and_offload", "copies")


def fusion_tables(outcome: FusionOutcome) -> Iterator[RenderableType]:
    """A row for each stack and the total; what it is proven among; why there is none."""
    result = outcome.result
    if outcome.answer is not None:
        table = Table(box=SIMPLE, show_footer=len(outcome.bars) > 1, collapse_padding=True, pad_edge=False)
        for name, footer, is_number in _columns(outcome):
            table.add_column(name, footer, justify="right" if is_number else "left", no_wrap=is_number)
        for one in outcome.stacks:
            table.add_row(*_cells(one))
        if outcome.outside:
            table.add_row(*_outside_cells(outcome))
        yield table
        if outcome.sums.stated_energy_pj is None:
            yield Text(unknown_energy(outcome.accelerator))
    else:
        reason = f": {outcome.why_not}" if outcome.why_not else ""
        what = "no strategy was found" if result.stopped_by is Stop.COMPLETED else "no strategy was found in time"
        yield Text(f"{what}{reason}")
    gap = "" if result.gap is None else f", gap {percent(result.gap)}"
    bound = value_words(result.lower_bound, outcome.unit)
    yield Text(f"{result.status}: lower bound {bound}{gap}; {counted(outcome.costed, 'stack')} costed")
    if among := proof_words(outcome):
        yield Text(among)
    yield Text(f"among {outcome.space}")
    yield from (Text(printable(note)) for note in outcome.accelerator.notes)
    yield Text("not covered: other tiles, homes and mappings, of which `schedule` may find cheaper ones")
    if outcome.answer is not None:
        yield Text(coverage_words(outcome))
    if outcome.outside:
        kinds = kinds_counted([one.left_out for one in outcome.outside])
        moved = short_amount(sum(one.sums.moved_bits[DRAM] for one in outcome.outside) // 8, "bytes")
        yield Text(f"outside of all stacks, {moved} moved from and to DRAM: {kinds}")
    if several := [one.left_out for one in outcome.outside if one.macs_not_costed]:
        macs = sum(one.macs_not_costed for one in outcome.outside)
        yield Text(
            f"in no figure, {macs:,} multiply-accumulates of operators outside of all stacks: {kinds_counted(several)}"
        )
    yield Text(f"{result.seconds:.3f} seconds")


def fusion_object(outcome: FusionOutcome) -> dict[str, object]:
    """One object; what there is none of is null."""
    result, figures = outcome.result, outcome.figures
    sums = outcome.sums if outcome.figures else None
    return {
        "network": outcome.network.name,
        "accelerator": outcome.accelerator.name,
        "method": outcome.mapper,
        "accounting": outcome.accounting,
        "not_modelled": list(outcome.accelerator.notes),
        "objective": outcome.objective,
        "objective_unit": outcome.unit,
        "status": result.status,
        "stopped_by": result.stopped_by,
        "objective_value": result.objective_value,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "space": outcome.space,
        "optimal_among": result.optimal_among,
        "bound_among": result.bound_among,
        "gap_among": result.gap_among,
        "energy_pj": figures and figures.energy_pj,
        "latency_cycles": figures and round(figures.latency_cycles),
        "latency_parts": sums and _latency_object(sums.latency),
        "macs": figures and figures.macs,
        "dram_bits": figures and figures.dram_bits,
        "peak_bytes": figures and dict(figures.peak_bytes),
        "tiles": outcome.tiles if sums else None,
        "tile_types": outcome.tile_types if sums else None,
        "energies": sums and _energies(sums),
        "accesses": sums and _accesses(sums),
        "stacks": [_stack_object(one) for one in outcome.stacks],
        "costed_stacks": outcome.costed,
        "coverage": [asdict(one) for one in coverage(outcome)] if figures else None,
        "outside": [_outside_object(one) for one in outcome.outside],
        "seconds": result.seconds,
        "error": outcome.why_not,
    }


def proof_words(outcome: FusionOutcome, where: str = "named below") -> str | None:
    """Return what is proven of the stacks and tiles that were searched, None if nothing is."""
    result, these = outcome.result, f"for the stacks and tiles {where}"
    if result.optimal_among is not None:
        return f"optimal {these}"
    if result.bound_among is None:
        return None
    gap = "" if result.gap_among is None else f", gap {percent(result.gap_among)}"
    return f"lower bound {these}: {value_words(result.bound_among, outcome.unit)}{gap}"


def value_words(value: int, unit: str) -> str:
    """A value of an objective, short, but every bit of DRAM's."""
    return f"{value:,} bits" if unit == "bits" else objective_words(value, unit)


def _outside_object(one: OutsideOperator) -> dict[str, object]:
    sums = one.sums
    costs = {"energy_pj": sums.stated_energy_pj, "latency_cycles": sums.cycles, "dram_bits": sums.moved_bits[DRAM]}
    return {**asdict(one.left_out), **costs, "macs_not_costed": one.macs_not_costed}


def _stack_object(one: CostedStack) -> dict[str, object]:
    cost = one.cost
    tiling = one.strategy.tiling
    return {
        "layers": list(one.strategy.layers),
        "tile": {"columns": tiling.columns, "rows": tiling.rows},
        "mode": tiling.mode,
        "output": one.strategy.output_home,
        "energy_pj": cost.sums.stated_energy_pj,
        "latency_cycles": cost.sums.cycles,
        "latency_parts": _latency_object(cost.sums.latency),
        "macs": cost.sums.macs,
        "tiles": cost.tiles,
        "tile_types": cost.tile_types,
        "tile_kinds": [_tile_kind_object(each) for each in cost.placed],
        "energies": _energies(cost.sums),
        "accesses": _accesses(cost.sums),
        "column_cache_bits": dict(cost.column_cache_bits),
        "row_cache_bits": dict(cost.row_cache_bits),
    }


def _tile_kind_object(one: TileTypeCost) -> dict[str, object]:
    layers = [
        {
            "layer": layer.name,
            "columns": layer.columns,
            "rows": layer.rows,
            "input": layer.levels.input,
            "weight": layer.levels.weight,
            "output": layer.levels.output,
        }
        for layer in one.layers
    ]
    size = {"columns": one.columns, "rows": one.rows, "times": one.times, "is_first_tile": one.is_first_tile}
    return size | {"energy_pj": one.sums.stated_energy_pj, "latency_cycles": one.sums.cycles, "layers": layers}


def _latency_object(latency: FusedLatency) -> dict[str, float]:
    return {part: getattr(latency, part) for part in LATENCY_PARTS}


def _energies(sums: FusedSums) -> list[dict[str, object]]:
    return [
        {"memory": memory, "cause": cause, "energy_pj": energy_pj}
        for (memory, cause), energy_pj in sums.energies_pj.items()
    ]


def _accesses(sums: FusedSums) -> list[dict[str, object]]:
    return [
        {"memory": memory, "operand": operand, "cause": cause, "elements": elements}
        for (memory, operand, cause), elements in sums.accesses.items()
    ]


def _columns(outcome: FusionOutcome) -> list[tuple[str, str, bool]]:
    """Name, total, and whether it is a number."""
    sums = outcome.sums
    figures = outcome.figures
    dram = short_amount(figures.dram_bits // 8, "bytes") if figures else ""
    layers = sum(len(one.strategy.layers) for one in outcome.stacks)
    return [
        ("stack", f"{counted(layers, 'layer')} in all", False),
        ("tile", "", True),
        ("mode", "", False),
        ("tiles", f"{outcome.tiles:,}", True),
        ("types", f"{outcome.tile_types:,}", True),
        ("MACs", f"{sums.macs:,}", True),
        ("energy", short_energy(sums.stated_energy_pj), True),
        ("cycles", f"{round(sums.cycles):,}", True),
        ("copies", short_energy(sums.energy_of(EnergyCause.COPY)), True),
        ("output", f"DRAM {dram}", False),
    ]


def _cells(one: CostedStack) -> list[str]:
    layers, tiling, cost = one.strategy.layers, one.strategy.tiling, one.cost
    name = layers[0] if len(layers) == 1 else f"{layers[0]} to {layers[-1]} ({len(layers)})"
    return [
        printable(name),
        f"{tiling.columns}x{tiling.rows}",
        str(tiling.mode) if cost.tiles > 1 else "",
        f"{cost.tiles:,}",
        f"{cost.tile_types:,}",
        f"{cost.sums.macs:,}",
        short_energy(cost.sums.stated_energy_pj),
        f"{round(cost.sums.cycles):,}",
        short_energy(cost.sums.energy_of(EnergyCause.COPY)),
        one.strategy.output_home,
    ]


def _outside_cells(outcome: FusionOutcome) -> list[str]:
    sums = total(one.sums for one in outcome.outside)
    cost = (
        short_energy(sums.stated_energy_pj),
        f"{round(sums.cycles):,}",
        short_energy(sums.energy_of(EnergyCause.COPY)),
    )
    return [f"outside: {_operators(outcome)}", "", "", "", "", "0", *cost, DRAM]


def _operators(outcome: FusionOutcome) -> str:
    return counted(len(outcome.outside), "operator")


@dataclass(frozen=True, slots=True)
class Coverage:
    """Operators that run in one way, with their operations and the `share` of all (0 to 1; None: there are none).

    Operations are the multiply-accumulates of layers, each counted once, and of an operator outside of all stacks those
    of its loop nests; of one without any one for each element that it writes.
    """

    way: str
    operators: int
    operations: int
    share: float | None


def coverage(outcome: FusionOutcome) -> tuple[Coverage, ...]:
    """Return what each way covers: stacks of several layers, of one, what only moves data, what is seen through."""
    stacks = [[layer.layer.macs for layer in one.stack.layers] for one in outcome.stacks]
    several = [macs for own in stacks for macs in own if len(own) > 1]
    single = [macs for own in stacks for macs in own if len(own) == 1]
    moved = [one.macs_not_costed or one.written_elements for one in outcome.outside]
    views = outcome.operators - len(several) - len(single) - len(moved)
    ways = {"fused": several, "layer by layer": single, "data movement": moved, "views": [0] * views}
    total = sum(map(sum, ways.values()))
    return tuple(Coverage(way, len(own), sum(own), sum(own) / total if total else None) for way, own in ways.items())


def coverage_words(outcome: FusionOutcome) -> str:
    """Return one line about the ways that cover any operator."""
    parts = ", ".join(_words(one) for one in coverage(outcome) if one.operators)
    return f"{counted(outcome.operators, 'operator')}: {parts}"


def _words(one: Coverage) -> str:
    share = "" if one.share is None or one.way == "views" else f" ({percent(one.share)} of the operations)"
    return f"{one.operators} {one.way}{share}"
