"""The page of a mapping: one HTML file that opens offline."""

from __future__ import annotations

import json
from importlib.resources import files

from onchip.reports.mapping.figures import (
    Json,
    costed_layers,
    energy_by_memory,
    energy_by_operand,
    roofline,
    utilisation,
)
from onchip.reports.mapping.loop_nest import loop_nest
from onchip.reports.mapping.outcome import MappedLayer, MappingOutcome
from onchip.reports.mapping.text import amount, short_energy
from onchip.reports.program.html import ensure_report_can_be_made
from onchip.reports.shared.words import counted, percent

NOTHING = "\u2013"


def mapping_html(outcome: MappingOutcome, command_line: str) -> str:
    """The page's text; there is at least one mapping."""
    ensure_report_can_be_made()
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=PackageLoader("onchip.reports", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("mapping_template.html.j2").render(
        title=outcome.source,
        cards=_cards(outcome),
        command_line=command_line,
        mapspace=outcome.mapspace,
        rows=[_row(outcome, one) for one in outcome.mapped],
        left_out=outcome.layers.left_out,
        style=_text("report.css"),
        script=_text("mapping_report.js"),
        plotly=get_plotlyjs(),
        facts=json.dumps(mapping_facts(outcome), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
    )


def mapping_facts(outcome: MappingOutcome) -> Json:
    """The figures, by the place on the page where each is drawn."""
    layers = costed_layers(outcome)
    return {
        "energy-by-memory": energy_by_memory(layers, outcome.accelerator),
        "energy-by-operand": energy_by_operand(layers),
        "roofline-plot": roofline(layers, outcome.accelerator),
        "utilisation-plot": utilisation(layers),
    }


def _cards(outcome: MappingOutcome) -> list[tuple[str, str, str]]:
    """Label, value, note; of the mapped layers where some are not."""
    layers = costed_layers(outcome)
    energy_pj = sum(one.cost.energy_pj for one in layers)
    cycles = sum(one.cost.cycles for one in layers)
    macs = sum(one.cost.macs for one in layers)
    proven = sum(one.result.gap == 0 for one in outcome.mapped)
    return [
        ("layers", f"{len(layers)}", f"of {len(outcome.layers.layers)}, {len(outcome.mapped)} distinct"),
        ("energy", short_energy(energy_pj), f"{energy_pj / macs:.3g} pJ for a MAC"),
        ("cycles", f"{cycles:,.0f}", counted(macs, "MAC")),
        ("utilisation", f"{macs / (layers[0].cost.units * cycles):.1%}", f"of {layers[0].cost.units:,} MACs a cycle"),
        ("proven", f"{proven} of {len(outcome.mapped)}", f"--method {outcome.method}, {outcome.objective}"),
        ("accelerator", outcome.accelerator.name, f"{outcome.seconds:.2f} s of search"),
    ]


def _row(outcome: MappingOutcome, one: MappedLayer) -> dict[str, object]:
    cost, gap = one.cost, one.result.gap
    return {
        "names": one.names,
        "status": one.result.status,
        "energy": short_energy(cost.energy_pj) if cost else NOTHING,
        "cycles": f"{cost.cycles:,.0f}" if cost else NOTHING,
        "utilisation": f"{cost.utilisation:.1%}" if cost else NOTHING,
        "bound": amount(one.lower_bound, outcome.unit),
        "gap": NOTHING if gap is None else percent(gap),
        "seconds": f"{one.result.seconds:.3f}",
        "refusal": one.refusal,
        "nest": None if one.mapping is None else loop_nest(one.layer, outcome.accelerator, one.mapping),
    }


def _text(name: str) -> str:
    return files("onchip.reports.assets").joinpath(name).read_text(encoding="utf-8")
