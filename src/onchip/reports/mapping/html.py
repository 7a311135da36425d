"""The page of a mapping: one HTML file that opens offline."""

from __future__ import annotations

from onchip.answer.layer_problem import LayerProblem
from onchip.arch.energies import summed
from onchip.reports.mapping.figures import (
    costed_layers,
    energy_by_memory,
    energy_by_operand,
    roofline,
    utilisation,
)
from onchip.reports.mapping.loop_nest import loop_nest
from onchip.reports.mapping.outcome import MappedLayer, MappingOutcome
from onchip.reports.mapping.text import claim_words, covered_words, objective_words
from onchip.reports.shared.page import Card, Json, Page
from onchip.reports.shared.words import counted, energy_per_mac, percent, short_energy

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
