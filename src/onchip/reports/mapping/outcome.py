"""Results of `map` as tables, JSON objects, loop nests and pages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, TypeAlias

from rich.console import RenderableType
from rich.text import Text

from onchip.answer.document import Claim, MappingDocument
from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.answer.words import counted, objective_amount, percent, picked, printable, short_bytes, short_energy
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import summed, unknown_energy
from onchip.arch.memory import DRAM, Operand
from onchip.formats.own.fields import mapping_fields
from onchip.ir.layer import INPUT, RELEVANT, WEIGHT, Layer
from onchip.mapping.methods.registry import MapSpace
from onchip.model.layer.cost import LayerCost
from onchip.model.layer.limits import needed_bits
from onchip.model.layer.ragged import boundaries
from onchip.model.timeline.mac_count import UncostedOperator
from onchip.ops.layers_of import NetworkLayers
from onchip.reports.shared.facts import (
    CoveredShare,
    DataTable,
    Proof,
    Rows,
    breakdown,
    element_words,
    facts,
    figures_by_size,
    shares,
    warning_of_macs,
)
from onchip.reports.shared.figures import (
    MAC_PAINT,
    MACS,
    OPERAND_PAINTS,
    Json,
    energy_bars,
    memory_names,
    memory_paints,
    stacked_bars,
    trace,
)
from onchip.reports.shared.page import AnswerPage, Part, Section, code, details, heading, section, still, table

Number: TypeAlias = "int | float"


@dataclass(frozen=True, slots=True)
class MappedLayer:
    """A layer, and the names of all equal layers.

    `mapping` and `cost` are None without a legal mapping; `why_not` says why the mapping of a method with its own
    capacities is illegal, and `claim` is then still the method's. `lower_bound_of_any` holds for every legal mapping,
    with bypass too.
    """

    names: tuple[str, ...]
    layer: Layer
    result: SearchResult[LayerMapping]
    claim: Claim | None
    mapping: LayerMapping | None
    cost: LayerCost | None
    why_not: str | None = None
    lower_bound_of_any: int | None = None

    @property
    def lower_bound(self) -> Number:
        """Return the lower bound as claimed, in the unit of the objective."""
        return self.claim.lower_bound if self.claim else self.result.lower_bound


@dataclass(frozen=True, slots=True)
class MappingOutcome:
    """A mapped layer, or the layers of a network; `unit` is that of the objective.

    Status and bounds hold for the mappings of `mapspace`. `moved` are the network's operators without a loop nest.
    """

    source: str
    layers: NetworkLayers
    accelerator: Accelerator
    method: str
    objective: str
    unit: str
    mapped: tuple[MappedLayer, ...]
    document: MappingDocument
    is_one_layer: bool
    mapspace: MapSpace | None = None
    accounting: str = "interpreter"
    moved: tuple[MovedOperator, ...] = ()

    def of_each(self) -> Iterator[tuple[str, MappedLayer, bool]]:
        """Yield every layer's name in the network's order, its result, and True for the first of equal layers."""
        found = {name: one for one in self.mapped for name in one.names}
        for name in self.layers.layers:
            yield name, found[name], name == found[name].names[0]

    def times(self, name: str) -> int:
        """Return how often a layer runs."""
        return self.layers.times.get(name, 1)

    @property
    def coverage(self) -> tuple[CoveredShare, CoveredShare]:
        """Return how many operators, and which share of the operations, each way covers."""
        return coverage(self.layers, self.moved)

    @property
    def totals(self) -> Totals | None:
        """Totals of all layers, each as often as it runs; None without layers or if some layer has no cost."""
        rows = [(one, one.cost, self.times(name)) for name, one, _ in self.of_each()]
        costs = [(cost, times) for _, cost, times in rows if cost is not None]
        if len(costs) < len(rows) or not rows:
            return None
        energy_pj = summed(
            [None if cost.stated_energy_pj is None else cost.stated_energy_pj * times for cost, times in costs]
        )
        cycles = sum(cost.cycles * times for cost, times in costs)
        is_additive = self.objective in ("energy", "latency")
        return Totals(
            energy_pj,
            round(cycles),
            sum(cost.macs * times for cost, times in costs),
            costs[0][0].units,
            sum(one.claim.objective_value * times for one, _, times in rows if one.claim) if is_additive else None,
            sum(one.lower_bound * times for one, _, times in rows) if is_additive else None,
        )

    @property
    def seconds(self) -> float:
        """Seconds of all searches together."""
        return sum(one.result.seconds for one in self.mapped)


@dataclass(frozen=True, slots=True)
class Totals:
    """Layers run one after the other. A product of sums has no bound that is the sum of the layers' bounds."""

    energy_pj: float | None
    latency_cycles: int
    macs: int
    units: int
    objective_value: Number | None
    lower_bound: Number | None

    @property
    def energy_delay_pj_cycles(self) -> float | None:
        """Return the energy-delay product, or None if the energy is unknown."""
        return None if self.energy_pj is None else self.energy_pj * self.latency_cycles

    @property
    def utilisation(self) -> float:
        """Utilisation of the array over all layers."""
        return self.macs / (self.units * self.latency_cycles)


@dataclass(frozen=True, slots=True)
class MovedOperator(UncostedOperator):
    """An operator that reads and writes each operand once, in DRAM; its operations cost nothing."""

    energy_pj: float | None
    latency_cycles: int
    read_bits: int
    written_bits: int


def coverage(layers: NetworkLayers, moved: Sequence[MovedOperator]) -> tuple[CoveredShare, CoveredShare]:
    """Return the shares of both ways, which are 1 together; layers that are of no network are an operator each."""
    nests = len(layers.layers) if layers.graph is None else len(layers.graph.operators) - len(moved)
    return shares((nests, layers.macs), [one.operations for one in moved])


INDENT = "  "


def loop_nest(problem: LayerProblem, mapping: LayerMapping) -> str:
    """Return a line for each loop and memory; the loops of a dimension are numbered from the innermost, from 0.

    A memory's line stands above the loops within its tile, one line for each cut. The first lines name the operands'
    homes.
    """
    layer = problem.layer
    bits = needed_bits(problem, boundaries(mapping.layer(layer), problem, mapping))
    heads = {cut: list(_heads(problem.accelerator, mapping, cut, bits)) for cut in range(len(mapping.nest) + 1)}
    lines, depth = [f"// {head}" for head in (*_homes(problem), *_short(layer, mapping))], 0
    for cut in range(len(mapping.nest), -1, -1):
        lines += [f"{INDENT * depth}// {head}" for head in heads[cut]]
        if cut:
            lines.append(f"{INDENT * depth}{_loop(mapping.nest, cut - 1)}")
            depth += 1
    return "\n".join([*lines, f"{INDENT * depth}{_body(layer)}"])


def _short(layer: Layer, mapping: LayerMapping) -> Iterator[str]:
    for name in mapping.ragged:
        if mapping.bounds[name] > layer.bounds[name]:
            yield f"{name.lower()} ends short, after {layer.bounds[name]} of {mapping.bounds[name]} iterations"


def _homes(problem: LayerProblem) -> Iterator[str]:
    """Yield the homes of operands: DRAM first, then memories from the farthest from the MACs."""
    operands = problem.layer.operands
    for memory in (DRAM, *(level.memory.name for level in reversed(problem.accelerator.levels))):
        if here := [operand for operand in operands if problem.home(operand) == memory]:
            yield f"{memory}: {', '.join(here)}"


def _heads(
    accelerator: Accelerator, mapping: LayerMapping, cut: int, bits: Mapping[tuple[str, str], int]
) -> Iterator[str]:
    """Yield each memory with the tiles that begin at this cut, the memory farthest from the MACs first."""
    for level in reversed(accelerator.levels):
        memory = level.memory.name
        tiles = [
            f"{operand} {short_bytes(-(-bits[memory, operand] // 8))}"
            for operand in Operand
            for kept in mapping.kept(operand)
            if (kept.memory, kept.loops) == (memory, cut)
        ]
        if tiles:
            yield f"{memory}: {', '.join(tiles)}"


def _loop(nest: tuple[Loop, ...], index: int) -> str:
    loop = nest[index]
    number = Counter(inner.dimension for inner in nest[:index])[loop.dimension]
    head = f"{loop.dimension.lower()}{number} = [0 : {loop.size}) :"
    return f"for {head}" if loop.along is None else f"spatial_for {head}  // along {loop.along}"


def _body(layer: Layer) -> str:
    places = {"P": "height", "Q": "width", "R": "", "S": ""}
    names = []
    for operand in layer.operands:
        relevant = [loop for loop in RELEVANT[operand] if loop != "G" or layer.g > 1]
        loops = [(places.get(loop, loop.lower()) if operand == INPUT else loop.lower()) for loop in relevant]
        names.append(f"{operand}[{', '.join(loop for loop in loops if loop)}]")
    source, *weight, output = names
    return f"{output} += {source} * {weight[0]}" if WEIGHT in layer.operands else f"{output} += {source}"


def mapping_table(outcome: MappingOutcome) -> Iterator[RenderableType]:
    """Yield the facts and the proof, a row for each distinct layer of a network, and remarks."""
    yield facts([*mapping_rows(outcome), mapping_proof(outcome).time])
    if not outcome.is_one_layer:
        yield _layers_grid(outcome)
    yield from map(Text, _remarks(outcome))
    if outcome.moved:
        yield _moved_grid(outcome.moved)
    if not outcome.is_one_layer:
        yield from map(Text, warning_of_macs(outcome.moved))


def mapping_rows(outcome: MappingOutcome) -> Rows:
    """Return the facts of a mapped layer or network, and of the proof."""
    totals = outcome.totals
    source = outcome.source if outcome.is_one_layer else outcome.layers.name or outcome.source
    rows = [("layer" if outcome.is_one_layer else "network", source)]
    rows += [("accelerator", outcome.accelerator.name), ("method", outcome.method)]
    rows += element_words(bits for layer in outcome.layers.layers.values() for bits in element_bits(layer))
    rows += mapping_proof(outcome).rows
    if totals is not None:
        parts = breakdown((name, pj, short_energy(pj)) for name, pj in figures_by_size(_energies_by_name(outcome)))
        rows += [
            ("energy", f"{short_energy(totals.energy_pj)}: {parts}"),
            ("latency", f"{totals.latency_cycles:,} cycles"),
            ("MAC utilisation", f"{totals.utilisation:.1%} of {counted(totals.units, 'unit')}"),
        ]
    if not outcome.is_one_layer:
        shares = [
            f"{one.way}: {counted(one.operators, 'operator')}, {percent(one.share or 0.0)} of the operations"
            for one in outcome.coverage
        ]
        rows.append(("coverage", "; ".join(shares)))
    return rows


def _remarks(outcome: MappingOutcome) -> Iterator[str]:
    """Yield the unknown energies, the reasons for missing mappings, and the limits of the machine's model."""
    if any(one.cost is not None and one.cost.stated_energy_pj is None for one in outcome.mapped):
        yield unknown_energy(outcome.accelerator)
    for one in outcome.mapped:
        if one.why_not is not None or one.mapping is None:
            yield f"{printable(one.names[0])}: {one.why_not or _why_not(one)}"
    yield from map(printable, outcome.accelerator.notes)


def _energies_by_name(outcome: MappingOutcome) -> dict[str, float]:
    """Return the energy of the MACs and of each memory over all layers, in pJ."""
    energies: dict[str, float] = defaultdict(float)
    for name, one, _ in outcome.of_each():
        if one.cost is not None:
            energies["MACs"] += (one.cost.mac_energy_pj or 0.0) * outcome.times(name)
            for (memory, _operand), energy_pj in one.cost.memory_energy_pj.items():
                energies[memory] += (energy_pj or 0.0) * outcome.times(name)
    return energies


def mapping_proof(outcome: MappingOutcome) -> Proof:
    """Return the claim of the mappings: of a network, that of the sums over its layers."""
    totals, space = outcome.totals, outcome.mapspace
    statuses = {one.result.status for one in outcome.mapped}
    value = None if totals is None else totals.objective_value
    bound = None if totals is None else totals.lower_bound
    among = {one.result.optimal_among for one in outcome.mapped} - {None}
    if outcome.is_one_layer:
        (one,) = outcome.mapped
        value, bound = one.claim.objective_value if one.claim else None, one.lower_bound
    elif totals is not None and value is None and totals.energy_delay_pj_cycles is not None:
        value = totals.energy_delay_pj_cycles * 1000
    gap = None if value is None or bound is None else (value - bound) / value if value else 0.0
    covers = "no mapping: the method proves nothing" if space is None else space.name
    status = next((one for one in _WORST_FIRST if one in statuses), Status.OPTIMAL)
    return Proof(
        status,
        outcome.objective,
        outcome.unit,
        value,
        None if space is None else bound,
        gap,
        covers + (f"; optimal among {' or '.join(sorted(map(str, among)))}" if among else ""),
        () if space is None else (space.definition,),
        next(
            (one.result.stopped_by for one in outcome.mapped if one.result.stopped_by is not Stop.COMPLETED),
            Stop.COMPLETED,
        ),
        {"solve": outcome.seconds},
    )


_WORST_FIRST: Final = (Status.INFEASIBLE, Status.UNKNOWN, Status.FEASIBLE)


def element_bits(layer: Layer) -> Iterator[int]:
    """Yield the width of an element of each operand of a layer."""
    return (layer.bits(operand) for operand in RELEVANT if operand in layer.operands)


def _moved_grid(moved: Sequence[MovedOperator]) -> DataTable:
    kinds: dict[tuple[str, str], list[MovedOperator]] = {}
    for one in moved:
        kinds.setdefault((one.kind, one.why), []).append(one)

    def figures(alike: Sequence[MovedOperator]) -> tuple[object, ...]:
        energy = short_energy(summed(one.energy_pj for one in alike))
        return sum(one.operations for one in alike), energy, sum(one.latency_cycles for one in alike)

    return DataTable(
        ("without a loop nest", "operations", "energy", "cycles", "why"),
        [(f"{kind} ({len(alike)})", *figures(alike), why) for (kind, why), alike in kinds.items()],
        (f"{counted(len(moved), 'operator')}: data movement", *figures(moved), ""),
    )


def loop_nests(outcome: MappingOutcome) -> str:
    """Return the loop nests of each distinct layer that is mapped, as text."""
    parts = []
    for one in outcome.mapped:
        if one.mapping is not None:
            head = f"{printable(one.names[0])}{_times(one, outcome)}"
            parts.append(f"{head}\n{loop_nest(LayerProblem(one.layer, outcome.accelerator), one.mapping)}")
    return "\n\n".join(parts)


def mapping_object(outcome: MappingOutcome) -> dict[str, object]:
    """Return the result of `map` for `--json`: one layer, or a network's `layers` in order and their `totals`."""
    head: dict[str, object] = {
        "accelerator": outcome.accelerator.name,
        "method": outcome.method,
        "objective": outcome.objective,
        "objective_unit": outcome.unit,
        "mapspace": outcome.mapspace and outcome.mapspace.definition,
        "accounting": outcome.accounting,
        "not_modelled": list(outcome.accelerator.notes),
    }
    rows = [_layer_object(name, one, outcome, is_first=is_first) for name, one, is_first in outcome.of_each()]
    if outcome.is_one_layer:
        return rows[0] | head
    return {
        "network": outcome.layers.name,
        **head,
        "layers": rows,
        "totals": _totals_object(outcome),
        "left_out": [asdict(one) for one in outcome.moved],
        "coverage": [asdict(one) for one in outcome.coverage],
    }


def _layer_object(name: str, one: MappedLayer, outcome: MappingOutcome, *, is_first: bool) -> dict[str, object]:
    """Return a layer's object; equal layers share the answer and take no time."""
    cost, claim = one.cost, one.claim
    fields: dict[str, object] = {
        "layer": name,
        "same_as": None if is_first else one.names[0],
        **picked(one.result, "status", "stopped_by"),
        "objective": outcome.objective,
        "objective_value": claim and claim.objective_value,
        "lower_bound": one.lower_bound,
        "gap": one.result.gap,
        "energy_pj": cost and cost.stated_energy_pj,
        "latency_cycles": cost and round(cost.cycles),
        "macs": one.layer.macs,
        "times": outcome.times(name),
        "utilisation": cost and cost.utilisation,
        "bounds": one.layer.bounds,
        "space": outcome.mapspace and outcome.mapspace.name,
        "optimal_among": one.result.optimal_among,
        "lower_bound_of_any": one.lower_bound_of_any,
        "mapping": one.mapping and {"nest": [], "input": [], "weight": [], "output": [], **mapping_fields(one.mapping)},
        "seconds": one.result.seconds if is_first else 0.0,
        "error": one.why_not,
    }
    if cost is not None:
        fields["mac_energy_pj"] = cost.mac_energy_pj
        fields["memory_energy_pj"] = [
            {"memory": memory, "operand": operand, "energy_pj": energy_pj}
            for (memory, operand), energy_pj in cost.memory_energy_pj.items()
        ]
        fields["latency_parts"] = picked(cost.latency, "ideal", "unused", "stall", "preload", "offload")
    return fields


def _totals_object(outcome: MappingOutcome) -> dict[str, object]:
    totals, moved = outcome.totals, outcome.moved
    names = ("objective_value", "lower_bound", "energy_pj", "latency_cycles", "energy_delay_pj_cycles")
    return {
        "layers": len(outcome.layers.layers),
        "distinct": len(outcome.mapped),
        "mapped": sum(len(one.names) for one in outcome.mapped if one.mapping is not None),
        **(dict.fromkeys(names) if totals is None else picked(totals, *names)),
        "macs": outcome.layers.macs,
        "utilisation": totals and totals.utilisation,
        "seconds": outcome.seconds,
        "data_movement": {
            "energy_pj": summed(one.energy_pj for one in moved),
            "latency_cycles": sum(one.latency_cycles for one in moved),
            "dram_bits": sum(one.read_bits + one.written_bits for one in moved),
        },
    }


def _layers_grid(outcome: MappingOutcome) -> DataTable:
    """Return a row for each distinct layer, and one for all layers if there are several."""
    totals, count = outcome.totals, len(outcome.layers.layers)
    bound = "" if totals is None or totals.lower_bound is None else objective_words(totals.lower_bound, outcome.unit)
    total: tuple[object, ...] = ()
    if totals is not None and count > 1:
        figures = short_energy(totals.energy_pj), totals.latency_cycles, f"{totals.utilisation:.1%}"
        total = (f"{counted(count, 'layer')} in all", "", *figures, bound, "", f"{outcome.seconds:.3f}")
    name_of_bound = "CoSA's objective" if outcome.unit == "bits" else "lower bound"
    columns = ("layer", "status", "energy", "cycles", "utilised", name_of_bound, "gap", "seconds")
    return DataTable(columns, [_cells(one, outcome) for one in outcome.mapped], total)


def _cells(one: MappedLayer, outcome: MappingOutcome) -> tuple[object, ...]:
    cost, gap = one.cost, one.result.gap
    is_cosa = outcome.unit == "bits" and one.claim is not None
    shown = one.claim.objective_value if is_cosa and one.claim else one.lower_bound
    return (
        f"{one.names[0]}{_times(one, outcome)}",
        f"{one.result.status}{'' if one.why_not is None else ' (refused)'}",
        cost and short_energy(cost.stated_energy_pj),
        cost and round(cost.cycles),
        cost and f"{cost.utilisation:.1%}",
        objective_words(shown, outcome.unit),
        "" if gap is None else percent(gap),
        f"{one.result.seconds:.3f}",
    )


def _times(one: MappedLayer, outcome: MappingOutcome) -> str:
    times = sum(map(outcome.times, one.names))
    return f" (x{times})" if times > 1 else ""


def _why_not(one: MappedLayer) -> str:
    if one.result.status is Status.INFEASIBLE:
        return "mappings exceed the capacity"
    stop = one.result.stopped_by
    return "search ended without a mapping" + ("" if stop is Stop.COMPLETED else f" ({stop})")


def objective_words(value: Number, unit: str) -> str:
    """Return an objective's value: three digits of energies and products, all of cycles."""
    return f"{value:,.4f}" if unit == "bits" else objective_amount(value, unit)


LATENCY_PAINTS: Final = {
    "ideal": "slice-compute",
    "unused": "kept",
    "stall": "slice-spill",
    "preload": "slice-load",
    "offload": "slice-write",
}


def mapping_html(outcome: MappingOutcome, command_line: str) -> str:
    """Return the page's text; expects at least one mapping."""
    return AnswerPage(
        outcome.source,
        [*mapping_rows(outcome), mapping_proof(outcome).time],
        {name: value for name, value in mapping_object(outcome).items() if name != "mapping"},
        command_line,
        (
            section(
                "energy",
                "Energy",
                "Energy of multiply-accumulates and of the accesses of each memory.",
                heading("By memory"),
                still("energy-by-memory", "Energy of each layer by memory"),
                heading("By operand"),
                still("energy-by-operand", "Energy of each layer by operand"),
            ),
            section(
                "roofline",
                "Roofline",
                "Layers left of the ridge are limited by DRAM bandwidth, layers right of it by the array.",
                still("roofline-plot", "Roofline of the layers"),
            ),
            section(
                "utilisation",
                "MAC utilisation",
                "Cycle breakdown: ideal cycles with all MACs busy, unused MACs, stalls at memory ports, preload before "
                "and offload after the loops.",
                still("utilisation-plot", "Cycle breakdown of each layer"),
            ),
            Section("layers", "Layers", (*_layer_parts(outcome),)),
        ),
        mapping_facts(outcome),
        (*_remarks(outcome), *warning_of_macs(outcome.moved)),
    ).html()


def _layer_parts(outcome: MappingOutcome) -> Iterator[Part]:
    yield table(_layers_grid(outcome))
    for one in outcome.mapped:
        if one.mapping is not None:
            nest = loop_nest(LayerProblem(one.layer, outcome.accelerator), one.mapping)
            yield details(f"Loop nest of {', '.join(one.names)}", code(nest))
    if outcome.moved:
        yield table(_moved_grid(outcome.moved))


def mapping_facts(outcome: MappingOutcome) -> Json:
    """Return the figures, by their element ids on the page."""
    layers = costed_layers(outcome)
    return {
        "energy-by-memory": energy_by_memory(layers, outcome.accelerator),
        "energy-by-operand": energy_by_operand(layers),
        "roofline-plot": roofline(layers, outcome.accelerator),
        "utilisation-plot": utilisation(layers),
    }


@dataclass(frozen=True, slots=True)
class CostedLayer:
    """A layer of the network that has a mapping; `cost` is that of one run of `times`."""

    name: str
    cost: LayerCost
    times: int


def costed_layers(outcome: MappingOutcome) -> list[CostedLayer]:
    """Return the layers in the network's order, equal layers separately."""
    return [
        CostedLayer(name, one.cost, outcome.times(name)) for name, one, _ in outcome.of_each() if one.cost is not None
    ]


def energy_by_memory(layers: Sequence[CostedLayer], accelerator: Accelerator) -> Json:
    """Return a bar for each layer: MACs, then memories from the nearest to DRAM."""
    memories = memory_names(accelerator)
    parts = {name: [_energy(one, memory=name) for one in layers] for name in memories}
    return _stacked_energy(layers, parts, memory_paints(memories))


def energy_by_operand(layers: Sequence[CostedLayer]) -> Json:
    """Return a bar for each layer: MACs, then operands."""
    parts = {str(operand): [_energy(one, operand=operand) for one in layers] for operand in Operand}
    return _stacked_energy(layers, parts, {MACS: MAC_PAINT, **OPERAND_PAINTS})


def utilisation(layers: Sequence[CostedLayer]) -> Json:
    """Return the cycle breakdown of each layer."""
    parts = {part: [one.times * getattr(one.cost.latency, part) for one in layers] for part in LATENCY_PAINTS}
    return stacked_bars([one.name for one in layers], parts, LATENCY_PAINTS, "cycles", "latency")


def roofline(layers: Sequence[CostedLayer], accelerator: Accelerator) -> Json:
    """Return MACs per byte of DRAM traffic against MACs a cycle, below the roof of array and DRAM."""
    names = [one.name for one in layers]
    moved_bytes = [sum(a.elements * a.bits for a in one.cost.accesses if a.memory == DRAM) / 8 for one in layers]
    intensities = [one.cost.macs / max(moved, 1.0) for one, moved in zip(layers, moved_bytes, strict=True)]
    rates = [one.cost.macs / one.cost.cycles for one in layers]
    peak = float(layers[0].cost.units)
    ends = [min(intensities) / 4, max(intensities) * 4]
    bytes_per_cycle = _dram_bytes_per_cycle(accelerator)
    ridge = peak / bytes_per_cycle if bytes_per_cycle else ends[0]
    ends = [min(ends[0], ridge / 4), max(ends[1], ridge * 4)]
    at = sorted({ends[0], ridge, ends[1]})
    roof = [min(peak, intensity * bytes_per_cycle) if bytes_per_cycle else peak for intensity in at]
    lowest = min(*rates, *roof) / 2
    hover = "%{text}<br>%{x:.4g} MACs per byte<br>%{y:.4g} MACs per cycle"
    return {
        "traces": [
            trace("lines", "roofline", at, roof, "capacity"),
            trace("markers", "layers", intensities, rates, "role-activation", hover, text=names, marker={"size": 9}),
        ],
        "x": {"type": "log", "title": "operational intensity (MACs per byte of DRAM traffic)"},
        "y": {"type": "log", "title": "MACs per cycle", "lowest": lowest, "highest": peak * 2},
    }


def _dram_bytes_per_cycle(accelerator: Accelerator) -> float:
    """Return the bandwidth of DRAM in both directions together, because traffic counts both."""
    ports = accelerator.dram.ports if accelerator.dram else ()
    return sum(port.bits_per_cycle for port in ports) / 8


def _energy(layer: CostedLayer, *, memory: str | None = None, operand: str | None = None) -> float:
    return layer.times * sum(
        energy_pj
        for (at, of), energy_pj in layer.cost.memory_energy_pj.items()
        if memory in (None, at) and operand in (None, of)
    )


def _stacked_energy(layers: Sequence[CostedLayer], parts: dict[str, list[float]], paints: dict[str, str]) -> Json:
    stacked = {MACS: [one.times * (one.cost.mac_energy_pj or 0.0) for one in layers], **parts}
    return energy_bars([one.name for one in layers], stacked, paints)
