"""What the page draws, as plotly figures in plain dicts; colours are names that the page's theme resolves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from onchip.answer.problem import Objective, Problem
from onchip.answer.residencies import Began, Residency
from onchip.arch.memory import Memory
from onchip.ir.tensor import Role
from onchip.model.timeline.plan_timeline import Timeline
from onchip.reports.program.findings import Findings
from onchip.reports.shared.level_line import level_line
from onchip.reports.shared.page import Json
from onchip.reports.shared.timeline_figure import TimelineFigure
from onchip.reports.shared.words import exact_bytes, short_bytes
from onchip.verify.figures import Figures

T = TypeVar("T")

MOST_NAMED_RESIDENCIES = 300
"""Beyond these the names are in the hover only: writing them takes a browser longer than drawing all else."""
SHADES = (1.0, 0.8, 0.9)
MOVED = "role-moved"
PAINTS = (*(f"{came}-{role}" for came in ("role", "back") for role in Role), MOVED)


def memory_map(findings: Findings, memory: Memory) -> Json:
    """Step against address: one bar for each residency, `customdata` its index among the history's residencies."""
    history = findings.history
    groups: dict[str, list[int]] = {}
    for index, one in enumerate(history.residencies):
        if one.memory == memory.name:
            groups.setdefault(_paint(findings, one), []).append(index)
    named = len(history.residencies) <= MOST_NAMED_RESIDENCIES
    traces = [_bars(history.residencies, groups[paint], paint, named=named) for paint in PAINTS if paint in groups]
    traces.append(level_line(history.step_count, memory.capacity_bytes, "capacity", "capacity", dash="dash"))
    return {"kind": "map", "traces": traces, "height": 460, "x": [0, history.step_count], "y": [0, _top(memory)]}


def footprint(findings: Findings, memory: Memory) -> Json:
    """Bytes resident in each step, those of the running operator apart; capacity, M_R, peak and forced spills."""
    history = findings.history
    operands = history.footprint_of_operands(memory.name)
    total = history.footprint(memory.name)
    names = [f"{operator.name} ({operator.kind})" for operator in history.operators]
    kept = [all_bytes - needed for all_bytes, needed in zip(total, operands, strict=True)]
    peak = max(total, default=0)
    traces = [
        _area(operands, "operands of the running operator", "operand", names),
        _area(kept, "kept for later", "kept", [f"{exact_bytes(size)} in all" for size in total]),
        level_line(history.step_count, memory.capacity_bytes, "capacity", "capacity", dash="dash"),
        level_line(history.step_count, peak, "peak", "peak", dash="solid"),
    ]
    if len(findings.problem.memories) == 1:
        name = "lower bound M_R: below it no plan"
        traces.append(level_line(history.step_count, findings.required.need_bytes, name, "bound", dash="dot"))
        if findings.claim is not None and findings.claim.objective is Objective.PEAK:
            name = "lower bound on the arena"
            traces.append(
                level_line(history.step_count, int(findings.claim.lower_bound), name, "bound", dash="dashdot")
            )
    traces += _forced(findings, memory, total)
    return {"kind": "footprint", "traces": traces, "height": 300, "x": [0, history.step_count], "y": [0, _top(memory)]}


def traffic(findings: Findings) -> Json:
    """A bar for the plan and one for each baseline that found a plan: compulsory, spilled, reloaded, moved on chip."""
    rows: list[tuple[str, Figures]] = [("this plan", findings.figures)]
    rows += [(baseline.name, baseline.figures) for baseline in findings.baselines if baseline.figures is not None]
    names = [name for name, _ in rows]
    parts = {
        "compulsory": [figures.compulsory for _, figures in rows],
        "spilled": [_spilled(figures, findings) for _, figures in rows],
        "reloaded": [figures.non_compulsory - _spilled(figures, findings) for _, figures in rows],
    }
    if any(figures.moved for _, figures in rows):
        parts["moved"] = [figures.moved for _, figures in rows]
    traces: list[Json] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": names,
            "x": values,
            "meta": {"paint": f"traffic-{name}"},
            "customdata": [exact_bytes(value) for value in values],
            "hovertemplate": f"%{{y}}<br>{name}: %{{customdata}}<extra></extra>",
        }
        for name, values in parts.items()
    ]
    claim = findings.claim
    if claim is not None and claim.objective is Objective.TRAFFIC and findings.problem.recomputation is None:
        bound = findings.figures.compulsory_cost + int(claim.lower_bound)
        traces.append(_bound_marks(names, bound))
    return {"kind": "traffic", "traces": traces, "height": 130 + 34 * len(rows)}


def timeline(findings: Findings, timed: Timeline) -> Json:
    """Cycles against lane: the array, each DMA queue and DRAM; and against address in each scratchpad."""
    kinds = {transfer.instruction: str(transfer.kind) for transfer in findings.history.transfers}
    problem = findings.problem
    drawn = timed.activities, timed.places, problem.memories, timed.dma.queues, _role_in(problem)
    return TimelineFigure(*drawn, lambda one: kinds[one.instruction], timed.dma.setup_cycles).figure()


def _role_in(problem: Problem) -> Callable[[str], str]:
    return lambda tensor: str(problem.graph.tensor[tensor].role)


def step_cycles(findings: Findings, timed: Timeline) -> list[int]:
    """The cycle in which each step's operator starts, and the last cycle."""
    starts = [one.start for one in timed.activities if one.queue is None]
    return [*starts, timed.total_cycles] if len(starts) == findings.history.step_count else []


def _paint(findings: Findings, one: Residency) -> str:
    if one.began is Began.MOVED:
        return MOVED
    role = findings.problem.graph.tensor[one.tensor].role
    return f"back-{role}" if one.began in (Began.RELOADED, Began.RECOMPUTED) else f"role-{role}"


def _bars(residencies: Sequence[Residency], chosen: list[int], paint: str, *, named: bool) -> Json:
    ones = [residencies[index] for index in chosen]
    came, _, role = paint.partition("-")
    name = "moved from another scratchpad" if paint == MOVED else role
    trace: Json = {
        "type": "bar",
        "name": f"{role}, reloaded" if came == "back" else name,
        "x": [(one.start_step + one.stop_step) / 2 for one in ones],
        "width": [max(one.stop_step - one.start_step, 0.05) for one in ones],
        "base": [one.offset_bytes for one in ones],
        "y": [one.size_bytes for one in ones],
        "customdata": chosen,
        "marker": {"opacity": [SHADES[index % len(SHADES)] for index in chosen]},
        "meta": {"paint": paint},
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    if named:
        trace |= {"text": [one.tensor for one in ones], "textposition": "inside", "insidetextanchor": "middle"}
        trace |= {"textangle": 0}
    return trace


def _area(values: Sequence[int], name: str, paint: str, notes: Sequence[str]) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [0, *(step + 0.5 for step in range(len(values))), len(values)],
        "y": _to_the_edges(values),
        "customdata": _to_the_edges(
            [[step, note, exact_bytes(value)] for step, (value, note) in enumerate(zip(values, notes, strict=True))]
        ),
        "stackgroup": "resident",
        "line": {"shape": "hvh", "width": 0.8},
        "meta": {"paint": paint, "steps": True},
        "hovertemplate": "step %{customdata[0]:,}: %{customdata[1]}<br>" + name + ": %{customdata[2]}<extra></extra>",
    }


def _to_the_edges(values: Sequence[T]) -> list[T]:
    """Points stand in the middle of their steps; the first and the last reach to the edge of theirs."""
    return [values[0], *values, values[-1]]


def _forced(findings: Findings, memory: Memory, total: Sequence[int]) -> Iterator[Json]:
    """The steps in which an absent tensor does not fit beside those there."""
    away: dict[int, list[str]] = {}
    for cause in findings.reload_causes:
        if cause.memory == memory and cause.is_forced and cause.tightest_step is not None:
            name = f"{cause.tensor.name} ({short_bytes(cause.tensor.size_bytes)})"
            away.setdefault(cause.tightest_step, []).append(name)
    if away:
        steps = sorted(away)
        yield {
            "type": "scatter",
            "mode": "markers",
            "name": "forces a spill",
            "x": [step + 0.5 for step in steps],
            "y": [total[step] for step in steps],
            "customdata": [[step, "<br>".join(away[step])] for step in steps],
            "marker": {"symbol": "triangle-down", "size": 11, "line": {"width": 1}},
            "meta": {"paint": "forced", "marks": True},
            "hovertemplate": "step %{customdata[0]:,} pushes out<br>%{customdata[1]}<extra></extra>",
        }


def _bound_marks(names: list[str], bound: int) -> Json:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"lower bound ({short_bytes(bound)})",
        "x": [bound] * len(names),
        "y": names,
        "marker": {"symbol": "line-ns", "size": 32, "line": {"width": 3}},
        "meta": {"paint": "glow", "marks": True},
        "hovertemplate": f"no plan moves less than {exact_bytes(bound)}<extra></extra>",
    }


def _spilled(figures: Figures, findings: Findings) -> int:
    """Write-backs beyond those of the network's outputs."""
    outputs = findings.problem.graph.with_role(Role.OUTPUT)
    return figures.write_backs - sum(tensor.size_bytes for tensor in outputs)


def _top(memory: Memory) -> float:
    return memory.capacity_bytes * 1.04
