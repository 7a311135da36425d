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
from onchip.reports.mapping.loop_nest import loop_nest
from onchip.reports.mapping.outcome import MappedLayer, MappingOutcome
from onchip.reports.mapping.text import claim_words, covered_words, objective_words
from onchip.reports.shared.bars import MAC_PAINT, energy_bars, memory_paints
from onchip.reports.shared.page import Card, Json, Page
from onchip.reports.shared.words import counted, energy_per_mac, percent, short_energy

MACS: Final = "MACs"
OPERAND_PAINTS: Final = {
    Operand.INPUT: "role-input",
    Operand.WEIGHT: "back-activation",
    Operand.OUTPUT: "role-output",
}
LATENCY_PAINTS: Final = {
    "ideal": "slice-compute",
    "unused": "kept",
    "stall": "slice-spill",
    "preload": "slice-load",
    "offload": "slice-write",
}

NOTHING = "\u2013"


def mapping_html(outcome: MappingOutcome, command_line: str) -> str:
    """The page's text; there is at least one mapping."""
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
    """The figures, by the place on the page where each is drawn."""
    layers = costed_layers(outcome)
    return {
        "energy-by-memory": energy_by_memory(layers, outcome.accelerator),
        "energy-by-operand": energy_by_operand(layers),
        "roofline-plot": roofline(layers, outcome.accelerator),
        "utilisation-plot": utilisation(layers),
    }


def _cards(outcome: MappingOutcome) -> list[Card]:
    """What the reader wants to know first, of the mapped layers where some are not."""
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
    """In the network's order; those alike each have their own place."""
    return [
        CostedLayer(name, one.cost, outcome.times(name)) for name, one, _ in outcome.of_each() if one.cost is not None
    ]


def energy_by_memory(layers: Sequence[CostedLayer], accelerator: Accelerator) -> Json:
    """A bar for each layer: MACs, then memories from the nearest to DRAM."""
    memories = [*(level.memory.name for level in accelerator.levels), DRAM]
    parts = {name: [_energy(one, memory=name) for one in layers] for name in memories}
    return _stacked_energy(layers, parts, memory_paints(memories))


def energy_by_operand(layers: Sequence[CostedLayer]) -> Json:
    """A bar for each layer: MACs, then operands."""
    parts = {str(operand): [_energy(one, operand=operand) for one in layers] for operand in Operand}
    return _stacked_energy(layers, parts, {str(operand): paint for operand, paint in OPERAND_PAINTS.items()})


def utilisation(layers: Sequence[CostedLayer]) -> Json:
    """A bar for each layer: where its cycles go, as shares of them."""
    traces = [_share_trace(layers, part, paint) for part, paint in LATENCY_PAINTS.items()]
    return {"traces": traces, "x": {"type": "category"}, "y": {"title": "share of the cycles", "tickformat": ".0%"}}


def roofline(layers: Sequence[CostedLayer], accelerator: Accelerator) -> Json:
    """MACs for each byte of DRAM traffic against MACs a cycle; no layer is above the roof of array and DRAM."""
    points = [(one.name, *_intensity_and_rate(one.cost)) for one in layers]
    peak = float(layers[0].cost.units)
    intensities = [intensity for _, intensity, _ in points]
    ends = [min(intensities) / 4, max(intensities) * 4]
    bytes_per_cycle = _dram_bytes_per_cycle(accelerator)
    ridge = peak / bytes_per_cycle if bytes_per_cycle else ends[0]
    ends = [min(ends[0], ridge / 4), max(ends[1], ridge * 4)]
    at = sorted({ends[0], ridge, ends[1]})
    roof = [min(peak, intensity * bytes_per_cycle) if bytes_per_cycle else peak for intensity in at]
    lowest = min(min(rate for _, _, rate in points), min(roof)) / 2
    return {
        "traces": [
            {"type": "scatter", "mode": "lines", "name": "roof of array and DRAM", "x": at, "y": roof,
             "meta": {"paint": "capacity"}, "hoverinfo": "skip"},
            {"type": "scatter", "mode": "markers", "name": "layers", "x": intensities,
             "y": [rate for _, _, rate in points], "text": [name for name, _, _ in points],
             "meta": {"paint": "role-activation"}, "marker": {"size": 9},
             "hovertemplate": "%{text}<br>%{x:.4g} MACs a byte<br>%{y:.4g} MACs a cycle<extra></extra>"},
        ],
        "x": {"type": "log", "title": "MACs for each byte of DRAM traffic"},
        "y": {"type": "log", "title": "MACs a cycle", "lowest": lowest, "highest": peak * 2},
    }  # fmt: skip


def _intensity_and_rate(cost: LayerCost) -> tuple[float, float]:
    moved_bytes = sum(one.elements * one.bits for one in cost.accesses if one.memory == DRAM) / 8
    return cost.macs / max(moved_bytes, 1.0), cost.macs / cost.cycles


def _dram_bytes_per_cycle(accelerator: Accelerator) -> float:
    """Of ports in both directions together: traffic counts both."""
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
    cycles = [getattr(one.cost.latency, part) for one in layers]
    return {
        "type": "bar",
        "name": part,
        "x": [one.name for one in layers],
        "y": [spent / one.cost.cycles for spent, one in zip(cycles, layers, strict=True)],
        "customdata": [
            f"{spent:,.0f} of {one.cost.cycles:,.0f} cycles" for spent, one in zip(cycles, layers, strict=True)
        ],
        "meta": {"paint": paint},
        "hovertemplate": f"%{{x}}<br>{part}: %{{customdata}}<extra></extra>",
    }
