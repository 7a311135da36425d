"""Results of `fuse` as tables and JSON objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from rich.console import RenderableType
from rich.text import Text

from onchip.answer.document import StrategyDocument
from onchip.answer.result import SearchResult, Stop
from onchip.answer.stacks import StackStrategy, Tiling
from onchip.answer.strategy import EnergyCause, FusionStrategy, StrategyFigures
from onchip.answer.words import counted, percent, picked, printable, short_amount, short_bytes, short_energy
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import unknown_energy
from onchip.arch.memory import DRAM
from onchip.model.group.cost import StackCost, TileTypeCost
from onchip.model.group.sums import FusedSums, total
from onchip.model.layer.tiles import MACS
from onchip.ops.fusable import FusableNetwork, Stack
from onchip.ops.layers_of import LeftOut
from onchip.reports.mapping.outcome import element_bits, objective_words
from onchip.reports.shared.facts import (
    CoveredShare,
    DataTable,
    MethodOutcome,
    Proof,
    Rows,
    breakdown,
    element_words,
    facts,
    figures_by_size,
    kinds_counted,
)


@dataclass(frozen=True, slots=True)
class TilingValue:
    """Cost of a stack in these tiles, in the unit of the objective."""

    tiling: Tiling
    value: int


@dataclass(frozen=True, slots=True)
class CostedStack:
    """A stack of the strategy with its cost, and the values of all tilings that were examined."""

    strategy: StackStrategy
    stack: Stack
    cost: StackCost
    tilings: tuple[TilingValue, ...] = ()

    @property
    def named(self) -> str:
        """The layer, or the first and the last one."""
        layers = self.strategy.layers
        return layers[0] if len(layers) == 1 else f"{layers[0]} \u2013 {layers[-1]}"


@dataclass(frozen=True, slots=True)
class OutsideOperator:
    """An operator outside the stacks, on tensors in DRAM: the reason, and the cost of its transfers.

    The multiply-accumulates of a contraction are `macs_not_costed`.
    """

    left_out: LeftOut
    sums: FusedSums
    written_elements: int
    macs_not_costed: int = 0


@dataclass(frozen=True, slots=True)
class FusionOutcome(MethodOutcome[FusionStrategy]):
    """The result of `fuse`; without a strategy `figures` and `document` are None, and `why_not` says why.

    `mapper` has mapped the layers of the strategy. There are no stacks if all operators are `outside`. Some of the
    network's `operators` are neither layers nor outside: views.
    """

    source: str
    network: FusableNetwork
    accelerator: Accelerator
    mapper: str
    objective: str
    unit: str
    result: SearchResult[FusionStrategy]
    space: str
    costed: int
    stacks: tuple[CostedStack, ...] = ()
    figures: StrategyFigures | None = None
    document: StrategyDocument | None = None
    why_not: str | None = None
    accounting: str = "interpreter"
    outside: tuple[OutsideOperator, ...] = ()
    operators: int = 0

    @property
    def sums(self) -> FusedSums:
        """Sums over the stacks and the operators outside: energies, cycles, accesses."""
        return total((*(one.cost.sums for one in self.stacks), *(one.sums for one in self.outside)))

    @property
    def bars(self) -> tuple[tuple[str, FusedSums], ...]:
        """Labels and sums of the stacks, and of the operators outside together."""
        found = [(f"{at}: {one.named}", one.cost.sums) for at, one in enumerate(self.stacks)]
        outside = [("outside", total(one.sums for one in self.outside))] if self.outside else []
        return (*found, *outside)

    @property
    def tile_types(self) -> int:
        """Number of kinds of tiles of all stacks."""
        return sum(one.cost.tile_types for one in self.stacks)

    @property
    def tiles(self) -> int:
        """Number of tiles of all stacks."""
        return sum(one.cost.tiles for one in self.stacks)

    def layer_of_each(self) -> Iterator[tuple[int, str]]:
        """Yield the number of its stack, and the name, for every layer."""
        for at, one in enumerate(self.stacks):
            for layer in one.stack.layers:
                yield at, layer.name


LATENCY_PARTS = ("ideal", "unused", "stall", "drain", "preload_and_offload", "copies")


def fusion_tables(outcome: FusionOutcome) -> Iterator[RenderableType]:
    """Yield the facts and the proof, and a row for each fused group, or the reason for a missing strategy."""
    yield facts([*fusion_rows(outcome), fusion_proof(outcome).time])
    if outcome.answer is not None:
        yield groups_grid(outcome)
    else:
        reason = f": {outcome.why_not}" if outcome.why_not else ""
        ended = "search completed" if outcome.result.stopped_by is Stop.COMPLETED else "time ended"
        yield Text(f"{ended} without a strategy{reason}")
    yield from map(Text, remarks(outcome))


def fusion_rows(outcome: FusionOutcome) -> Rows:
    """Return the facts of a strategy, and of the proof."""
    rows = [
        ("network", f"{outcome.network.name}, {counted(outcome.operators, 'operator')}"),
        ("accelerator", outcome.accelerator.name),
    ]
    if outcome.document is not None and outcome.document.reading.bits is None:
        rows += element_words(bits for layer in outcome.network.layers for bits in element_bits(layer.layer))
    rows += fusion_proof(outcome).rows
    if among := proof_words(outcome, "searched"):
        rows.append(("searched", among))
    if (figures := outcome.figures) is not None:
        energies = figures_by_size(_energies_by_memory(outcome.sums))
        parts = breakdown((name, pj, short_energy(pj)) for name, pj in energies)
        rows += [
            ("energy", f"{short_energy(outcome.sums.stated_energy_pj)}: {parts}"),
            ("latency", f"{round(outcome.sums.cycles):,} cycles"),
            ("traffic", short_bytes(figures.dram_bits // 8)),
            ("coverage", coverage_words(outcome)),
        ]
    return rows


def remarks(outcome: FusionOutcome) -> Iterator[str]:
    """Yield the limits of the model, and the operators outside of all groups with a warning of uncounted MACs."""
    if outcome.answer is not None and outcome.sums.stated_energy_pj is None:
        yield unknown_energy(outcome.accelerator)
    yield from map(printable, outcome.accelerator.notes)
    if outcome.outside:
        kinds = kinds_counted(one.left_out.kind for one in outcome.outside)
        moved = short_amount(sum(one.sums.moved_bits[DRAM] for one in outcome.outside) // 8, "bytes")
        yield f"unfused data-movement operators, {moved} from and to DRAM: {kinds}"
    if several := [one.left_out.kind for one in outcome.outside if one.macs_not_costed]:
        macs = sum(one.macs_not_costed for one in outcome.outside)
        yield f"warning: {macs:,} multiply-accumulates outside of all groups have no cost: {kinds_counted(several)}"


def _energies_by_memory(sums: FusedSums) -> dict[str, float]:
    """Return the energy of the MACs and of each memory, in pJ."""
    energies: dict[str, float] = defaultdict(float)
    for (memory, _cause), energy_pj in sums.energies_pj.items():
        energies["MACs" if memory == MACS else memory] += energy_pj
    return energies


def fusion_proof(outcome: FusionOutcome) -> Proof:
    """Return the claim of a strategy: the bound covers all strategies and schedules."""
    restriction = outcome.accelerator.restriction
    covers = "any fused groups, tiles and placements, mappings without memory bypass"
    covers += f"; accelerator: {restriction}" if restriction else ""
    searched = f"{counted(outcome.costed, 'fused group')} costed, among {outcome.space}"
    details = searched, "`schedule` searches more placements and mappings, and finds addresses"
    return Proof.of(outcome.result, outcome.objective, outcome.unit, covers, details)


def fusion_object(outcome: FusionOutcome) -> dict[str, object]:
    """Return the result of `fuse` for `--json`; fields of a missing strategy are null."""
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
        **picked(result, "status", "stopped_by", "objective_value", "lower_bound", "gap"),
        "space": outcome.space,
        **picked(result, "optimal_among", "bound_among", "gap_among"),
        "energy_pj": figures and figures.energy_pj,
        "latency_cycles": figures and round(figures.latency_cycles),
        "latency_parts": sums and picked(sums.latency, *LATENCY_PARTS),
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
    """Return the proof over the searched groups and tiles, or None."""
    result, these = outcome.result, f"for the groups and tiles {where}"
    return None if result.optimal_among is None else f"optimal {these}"


def value_words(value: int, unit: str) -> str:
    """Format a value of an objective in few digits, but DRAM bits in all."""
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
        "latency_parts": picked(cost.sums.latency, *LATENCY_PARTS),
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
        {"layer": layer.name, **picked(layer, "columns", "rows"), **picked(layer.levels, "input", "weight", "output")}
        for layer in one.layers
    ]
    size = picked(one, "columns", "rows", "times", "is_first_tile")
    return size | {"energy_pj": one.sums.stated_energy_pj, "latency_cycles": one.sums.cycles, "layers": layers}


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


def groups_grid(outcome: FusionOutcome) -> DataTable:
    """Return a row for each fused group, one for the operators outside of all, and the total of several rows."""
    rows: list[tuple[object, ...]] = [
        (
            _name_of(one),
            f"{one.strategy.tiling.columns}x{one.strategy.tiling.rows}",
            str(one.strategy.tiling.mode) if one.cost.tiles > 1 else "",
            one.cost.tiles,
            one.cost.tile_types,
            one.cost.sums.macs,
            *_costs(one.cost.sums),
            one.strategy.output_home,
        )
        for one in outcome.stacks
    ]
    if outcome.outside:
        costs = _costs(total(one.sums for one in outcome.outside))
        rows.append((f"unfused: {counted(len(outcome.outside), 'operator')}", "", "", "", "", 0, *costs, DRAM))
    summary: tuple[object, ...] = ()
    if len(outcome.bars) > 1:
        layers = counted(sum(len(one.strategy.layers) for one in outcome.stacks), "layer")
        dram = short_amount(outcome.figures.dram_bits // 8, "bytes") if outcome.figures else ""
        tiles, sums = (outcome.tiles, outcome.tile_types, outcome.sums.macs), _costs(outcome.sums)
        summary = (f"{layers} in all", "", "", *tiles, *sums, f"DRAM {dram}")
    columns = ("group", "tile", "mode", "tiles", "tile shapes", "MACs", "energy", "cycles", "copy energy", "output")
    return DataTable(columns, rows, summary)


def _name_of(one: CostedStack) -> str:
    layers = one.strategy.layers
    return layers[0] if len(layers) == 1 else f"{layers[0]} to {layers[-1]} ({len(layers)})"


def _costs(sums: FusedSums) -> tuple[object, object, object]:
    """Return the energy, the cycles and the energy of copies."""
    return short_energy(sums.stated_energy_pj), round(sums.cycles), short_energy(sums.energy_of(EnergyCause.COPY))


def coverage(outcome: FusionOutcome) -> tuple[CoveredShare, ...]:
    """Return the coverage by fused stacks, single layers, data movement and views."""
    stacks = [[layer.layer.macs for layer in one.stack.layers] for one in outcome.stacks]
    several = [macs for own in stacks for macs in own if len(own) > 1]
    single = [macs for own in stacks for macs in own if len(own) == 1]
    moved = [one.macs_not_costed or one.written_elements for one in outcome.outside]
    views = outcome.operators - len(several) - len(single) - len(moved)
    ways = {"fused": several, "layer by layer": single, "data movement": moved, "views": [0] * views}
    total = sum(map(sum, ways.values()))
    return tuple(
        CoveredShare(way, len(own), sum(own), sum(own) / total if total else None) for way, own in ways.items()
    )


def coverage_words(outcome: FusionOutcome) -> str:
    """Return one line about the ways that cover any operator."""
    parts = ", ".join(_words(one) for one in coverage(outcome) if one.operators)
    return f"{counted(outcome.operators, 'operator')}: {parts}"


def _words(one: CoveredShare) -> str:
    share = "" if one.share is None or one.way == "views" else f" ({percent(one.share)} of the operations)"
    return f"{one.operators} {one.way}{share}"
