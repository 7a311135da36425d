"""The page of a mapping: one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import summed
from onchip.arch.memory import DRAM, Operand
from onchip.model.layer.cost import LayerCost
from onchip.reports.mapping.outcome import (
    MappedLayer,
    MappingOutcome,
    claim_words,
    covered_words,
    loop_nest,
    objective_words,
)
from onchip.reports.shared.figures import MAC_PAINT, energy_bars, memory_names, memory_paints
from onchip.reports.shared.page import Card, Json, Page, trace
from onchip.reports.shared.words import counted, energy_per_mac, percent, short_energy

MACS: Final = "MACs"
OPERAND_PAINTS: Final = {Operand.INPUT: "role-input", Operand.WEIGHT: "back-activation", Operand.OUTPUT: "role-output"}
LATENCY_PAINTS: Final = {
    "ideal": "slice-compute",
    "unused": "kept",
    "stall": "slice-spill",
    "preload": "slice-load",
    "offload": "slice-write",
}

NOTHING = "\u2013"


def mapping_html(outcome: MappingOutcome, command_line: str) -> str:
    """Return the page's text; expects at least one mapping."""
    values = {
        "title": outcome.source,
        "cards": _cards(outcome),
        "command_line": command_line,
        "notes": outcome.accelerator.notes,
        "mapspace": outcome.mapspace,
        "rows": [_row(outcome, one) for one in outcome.mapped],
        "moved": [
            {
                "operator": one.operator,
                "kind": one.kind,
                "energy": short_energy(one.energy_pj),
                "cycles": f"{one.latency_cycles:,}",
                "why": one.why,
            }
            for one in outcome.moved
        ],
        "coverage": [covered_words(one) for one in outcome.coverage],
    }
    return Page("mapping.html.j2", ("plain.js",), {"figures": mapping_facts(outcome)}, values).html()


def mapping_facts(outcome: MappingOutcome) -> Json:
    """Return the figures, by their element ids on the page."""
    layers = costed_layers(outcome)
    return {
        "energy-by-memory": energy_by_memory(layers, outcome.accelerator),
        "energy-by-operand": energy_by_operand(layers),
        "roofline-plot": roofline(layers, outcome.accelerator),
        "utilisation-plot": utilisation(layers),
    }


def _cards(outcome: MappingOutcome) -> list[Card]:
    layers = costed_layers(outcome)
    energies = [one.cost.stated_energy_pj for one in layers]
    energy_pj = summed(None if pj is None else one.times * pj for one, pj in zip(layers, energies, strict=True))
    cycles = sum(one.times * one.cost.cycles for one in layers)
    macs = sum(one.times * one.cost.macs for one in layers)
    proven = sum(one.result.gap == 0 for one in outcome.mapped)
    return [
        Card("layers", f"{len(layers)}", f"of {len(outcome.layers.layers)}, {len(outcome.mapped)} distinct"),
        Card("energy", short_energy(energy_pj), energy_per_mac(energy_pj, macs)),
        Card("cycles", f"{cycles:,.0f}", counted(macs, "MAC")),
        Card(
            "utilisation", f"{macs / (layers[0].cost.units * cycles):.1%}", f"of {layers[0].cost.units:,} MACs a cycle"
        ),
        Card("proven", f"{proven} of {len(outcome.mapped)}", f"--method {outcome.method}, {outcome.objective}"),
        Card("accelerator", outcome.accelerator.name, f"{outcome.seconds:.2f} s of search"),
    ]


def _row(outcome: MappingOutcome, one: MappedLayer) -> dict[str, object]:
    cost, gap = one.cost, one.result.gap
    return {
        "names": one.names,
        "status": claim_words(one, outcome) or one.result.status,
        "energy": short_energy(cost.stated_energy_pj) if cost else NOTHING,
        "cycles": f"{cost.cycles:,.0f}" if cost else NOTHING,
        "utilisation": f"{cost.utilisation:.1%}" if cost else NOTHING,
        "bound": objective_words(one.lower_bound, outcome.unit),
        "gap": NOTHING if gap is None else percent(gap),
        "seconds": f"{one.result.seconds:.3f}",
        "why_not": one.why_not,
        "nest": one.mapping and loop_nest(LayerProblem(one.layer, outcome.accelerator), one.mapping),
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
    return _stacked_energy(layers, parts, {str(operand): paint for operand, paint in OPERAND_PAINTS.items()})


def utilisation(layers: Sequence[CostedLayer]) -> Json:
    """Return a bar for each layer: parts of its latency as shares of its cycles."""
    traces = [_share_trace(layers, part, paint) for part, paint in LATENCY_PAINTS.items()]
    return {"traces": traces, "x": {"type": "category"}, "y": {"title": "share of the cycles", "tickformat": ".0%"}}


def roofline(layers: Sequence[CostedLayer], accelerator: Accelerator) -> Json:
    """Return MACs per byte of DRAM traffic against MACs a cycle, below the roof of array and DRAM."""
    names = [one.name for one in layers]
    intensities, rates = zip(*(_intensity_and_rate(one.cost) for one in layers), strict=True)
    peak = float(layers[0].cost.units)
    ends = [min(intensities) / 4, max(intensities) * 4]
    bytes_per_cycle = _dram_bytes_per_cycle(accelerator)
    ridge = peak / bytes_per_cycle if bytes_per_cycle else ends[0]
    ends = [min(ends[0], ridge / 4), max(ends[1], ridge * 4)]
    at = sorted({ends[0], ridge, ends[1]})
    roof = [min(peak, intensity * bytes_per_cycle) if bytes_per_cycle else peak for intensity in at]
    lowest = min(*rates, *roof) / 2
    hover = "%{text}<br>%{x:.4g} MACs a byte<br>%{y:.4g} MACs a cycle"
    return {
        "traces": [
            trace("lines", "roof of array and DRAM", at, roof, "capacity"),
            trace("markers", "layers", intensities, rates, "role-activation", hover, text=names, marker={"size": 9}),
        ],
        "x": {"type": "log", "title": "MACs for each byte of DRAM traffic"},
        "y": {"type": "log", "title": "MACs a cycle", "lowest": lowest, "highest": peak * 2},
    }


def _intensity_and_rate(cost: LayerCost) -> tuple[float, float]:
    moved_bytes = sum(one.elements * one.bits for one in cost.accesses if one.memory == DRAM) / 8
    return cost.macs / max(moved_bytes, 1.0), cost.macs / cost.cycles


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
    return energy_bars([one.name for one in layers], stacked, {MACS: MAC_PAINT, **paints})


def _share_trace(layers: Sequence[CostedLayer], part: str, paint: str) -> Json:
    spent = [getattr(one.cost.latency, part) for one in layers]
    shares = [cycles / one.cost.cycles for cycles, one in zip(spent, layers, strict=True)]
    words = [f"{cycles:,.0f} of {one.cost.cycles:,.0f} cycles" for cycles, one in zip(spent, layers, strict=True)]
    hover = f"%{{x}}<br>{part}: %{{customdata}}"
    return trace("bar", part, [one.name for one in layers], shares, paint, hover, customdata=words)
