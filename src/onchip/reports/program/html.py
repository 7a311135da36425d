"""The report: one HTML file that opens offline."""

from __future__ import annotations

import json
from importlib.resources import files

from onchip.errors import UsageError
from onchip.explanations.reload_causes import ReloadPurpose
from onchip.reports.program.figures import Json, footprint, memory_map, step_cycles, timeline, traffic
from onchip.reports.program.findings import Findings
from onchip.reports.program.memories import memory_title
from onchip.reports.program.summary import (
    cards,
    costs_of_residencies,
    most_expensive,
    shape_of,
    summary_rows,
    timeline_rows,
)
from onchip.reports.shared.words import exact_bytes, short_bytes

BUTTONS = {
    "in": ("+", "Zoom in"),
    "out": ("\u2212", "Zoom out"),
    "left": ("\u2190", "Move left"),
    "right": ("\u2192", "Move right"),
    "reset": ("Reset", "Show everything"),
}


def ensure_report_can_be_made() -> None:
    """Raise UsageError unless the packages that make reports are installed."""
    try:
        import jinja2
        import plotly.offline
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed",
            place="report",
            expected="the extra `report`: pip install 'onchip[report]'",
        ) from None
    del jinja2, plotly


def report_html(findings: Findings) -> str:
    """The page's text."""
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
    environment.filters |= {"bytes": short_bytes, "exact": exact_bytes, "shape": shape_of, "memory": memory_title}
    return environment.get_template("template.html.j2").render(
        findings=findings,
        problem=findings.problem,
        cards=cards(findings),
        summary_rows=summary_rows(findings),
        expensive=most_expensive(findings),
        timeline_rows=timeline_rows(findings),
        forced_steps=len({one.tightest_step for one in findings.absences if one.is_forced}),
        only_detours=all(one.way is not ReloadPurpose.BACK for one in findings.absences),
        buttons=BUTTONS,
        style=_text("report.css"),
        script=_text("words.js") + _text("report.js"),
        plotly=get_plotlyjs(),
        facts=_embedded(page_facts(findings)),
    )


def page_facts(findings: Findings) -> Json:
    """What the page's script draws and looks up; tensors and operators by their index."""
    history = findings.history
    return {
        "figures": _figures(findings),
        "cycles": step_cycles(findings, findings.timeline) if findings.timeline else [],
        "operators": [[operator.name, operator.kind] for operator in history.operators],
        "unit": findings.problem.objective.unit,
        "memories": [memory.name for memory in findings.problem.memories],
        "tensors": _tensors(findings),
        "residencies": _residencies(findings),
    }


def _figures(findings: Findings) -> dict[str, Json]:
    figures: dict[str, Json] = {}
    for index, memory in enumerate(findings.problem.memories):
        figures[f"map-{index}"] = memory_map(findings, memory)
        figures[f"footprint-{index}"] = footprint(findings, memory)
    figures["traffic-plot"] = traffic(findings)
    if findings.timeline is not None:
        figures["timeline-plot"] = timeline(findings, findings.timeline)
    return figures


def _tensors(findings: Findings) -> list[Json]:
    graph = findings.problem.graph
    step = {operator.name: index for index, operator in enumerate(findings.history.operators)}
    return [
        {
            "name": tensor.name,
            "role": tensor.role,
            "shape": shape_of(tensor),
            "bytes": tensor.size_bytes,
            "made": step[graph.producer[tensor.name].name] if tensor.name in graph.producer else None,
            "read": sorted(step[reader.name] for reader in graph.readers[tensor.name]),
        }
        for tensor in graph.tensors
    ]


def _residencies(findings: Findings) -> list[list[object]]:
    """Tensor, memory, offset, start and stop step, how it began; what its spill, its reload and its move cost."""
    tensors = {tensor.name: index for index, tensor in enumerate(findings.problem.graph.tensors)}
    costs = costs_of_residencies(findings)
    return [
        [
            tensors[one.tensor],
            one.memory,
            one.offset_bytes,
            one.start_step,
            one.stop_step,
            one.began,
            *costs.get(index, (0, 0, 0)),
        ]
        for index, one in enumerate(findings.history.residencies)
    ]


def _text(name: str) -> str:
    return files("onchip.reports.assets").joinpath(name).read_text(encoding="utf-8")


def _embedded(value: Json) -> str:
    """JSON that no HTML parser mistakes for the end of its script."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
