"""The report: one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Callable

from onchip.reports.explain.reload_causes import ReloadPurpose
from onchip.reports.program.figures import footprint, memory_map, step_cycles, timeline, traffic
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
from onchip.reports.shared.page import Json, Page
from onchip.reports.shared.words import exact_bytes, short_bytes


def report_html(findings: Findings) -> str:
    """The page's text; raises UsageError where a package is missing that makes pages."""
    values = {
        "title": findings.problem.graph.name,
        "findings": findings,
        "problem": findings.problem,
        "cards": cards(findings),
        "summary_rows": summary_rows(findings),
        "expensive": most_expensive(findings),
        "timeline_rows": timeline_rows(findings),
        "forced_steps": len({one.tightest_step for one in findings.reload_causes if one.is_forced}),
        "only_detours": all(one.way is not ReloadPurpose.BACK for one in findings.reload_causes),
    }
    filters: dict[str, Callable[..., str]] = {
        "bytes": short_bytes,
        "exact": exact_bytes,
        "shape": shape_of,
        "memory": memory_title,
    }
    return Page("program.html.j2", ("words.js", "time.js"), page_facts(findings), values, filters).html()


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
