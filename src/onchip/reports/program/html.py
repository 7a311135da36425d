"""The page of a plan: one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from platform import python_version
from typing import TypeVar

from onchip.answer.problem import Objective, Placement
from onchip.answer.program import Began, Residency, TransferKind
from onchip.answer.words import amount, counted, exact_bytes, percent, short_amount, short_bytes
from onchip.arch.memory import Memory, Operand
from onchip.ir.tensor import Role, Tensor
from onchip.model.timeline.plan_timeline import Timeline
from onchip.reports.explain.history import ReloadPurpose
from onchip.reports.program.outcome import (
    Findings,
    arenas_words,
    beyond_traffic,
    least_need_words,
    links_words,
    memory_title,
    operand_words,
)
from onchip.reports.shared.page import (
    Card,
    Json,
    Page,
    TimelineFigure,
    addressed,
    capacity_line,
    level_line,
    residency_bars,
    residency_place,
    shape_words,
    tensor_row,
    trace,
)
from onchip.reports.shared.words import latency_rows
from onchip.verify.figures import Figures

T = TypeVar("T")

MOST_NAMED_RESIDENCIES = 300
"""Beyond these the names are in the hover only: writing them takes a browser longer than drawing all else."""
MOVED = "role-moved"
PAINTS = (*(f"{came}-{role}" for came in ("role", "back") for role in Role), MOVED)


def memory_map(findings: Findings, memory: Memory) -> Json:
    """Return steps against addresses: a bar for each residency, with its index among the history's residencies."""
    history = findings.history
    groups: dict[str, list[int]] = {}
    for index, one in enumerate(history.residencies):
        if one.memory == memory.name:
            groups.setdefault(_paint(findings, one), []).append(index)
    named = len(history.residencies) <= MOST_NAMED_RESIDENCIES
    traces = [
        residency_bars(history.residencies, groups[paint], groups[paint], _paint_name(paint), paint, named=named)
        for paint in PAINTS
        if paint in groups
    ]
    return addressed("map", [*traces, capacity_line(history.step_count, memory)], history.step_count, memory)


def footprint(findings: Findings, memory: Memory) -> Json:
    """Return the bytes resident in each step, operands apart, with capacity, M_R, peak and forced spills."""
    history = findings.history
    operands = history.footprint_of_operands(memory.name)
    total = history.footprint(memory.name)
    names = [f"{operator.name} ({operator.kind})" for operator in history.operators]
    kept = [all_bytes - needed for all_bytes, needed in zip(total, operands, strict=True)]
    peak = max(total, default=0)
    traces = [
        _area(operands, "operands of the running operator", "operand", names),
        _area(kept, "kept for later", "kept", [f"{exact_bytes(size)} in all" for size in total]),
        capacity_line(history.step_count, memory),
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
    return addressed("footprint", traces, history.step_count, memory, height=300)


def traffic(findings: Findings) -> Json:
    """Return a bar for the plan and each baseline's plan: compulsory, spilled, reloaded, and moved bytes."""
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
    traces = []
    for name, values in parts.items():
        words, hover = [exact_bytes(value) for value in values], f"%{{y}}<br>{name}: %{{customdata}}"
        traces.append(trace("bar", name, values, names, f"traffic-{name}", hover, orientation="h", customdata=words))
    claim = findings.claim
    if claim is not None and claim.objective is Objective.TRAFFIC and findings.problem.recomputation is None:
        bound = findings.figures.compulsory_cost + int(claim.lower_bound)
        traces.append(_bound_marks(names, bound))
    return {"kind": "traffic", "traces": traces, "height": 130 + 34 * len(rows)}


def timeline(findings: Findings, timed: Timeline) -> Json:
    """Return the timeline of the array, each DMA queue, DRAM and the scratchpads."""
    kinds = {transfer.instruction: str(transfer.kind) for transfer in findings.history.transfers}
    problem = findings.problem
    drawn = (
        timed.activities,
        timed.places,
        problem.memories,
        timed.dma.queues,
        lambda tensor: str(problem.graph.tensor[tensor].role),
    )
    return TimelineFigure(*drawn, lambda one: kinds[one.instruction], timed.dma.setup_cycles).figure()


def step_cycles(findings: Findings, timed: Timeline) -> list[int]:
    """Return the cycle in which each step's operator starts, and the last cycle."""
    starts = [one.start for one in timed.activities if one.queue is None]
    return [*starts, timed.total_cycles] if len(starts) == findings.history.step_count else []


def _paint(findings: Findings, one: Residency) -> str:
    if one.began is Began.MOVED:
        return MOVED
    role = findings.problem.graph.tensor[one.tensor].role
    return f"back-{role}" if one.began in (Began.RELOADED, Began.RECOMPUTED) else f"role-{role}"


def _paint_name(paint: str) -> str:
    came, _, role = paint.partition("-")
    if came == "back":
        return f"{role}, reloaded"
    return "moved from another scratchpad" if paint == MOVED else role


def _area(values: Sequence[int], name: str, paint: str, notes: Sequence[str]) -> Json:
    words = [[step, note, exact_bytes(value)] for step, (value, note) in enumerate(zip(values, notes, strict=True))]
    return trace(
        "lines",
        name,
        [0, *(step + 0.5 for step in range(len(values))), len(values)],
        _to_the_edges(values),
        paint,
        "step %{customdata[0]:,}: %{customdata[1]}<br>" + name + ": %{customdata[2]}",
        {"steps": True},
        customdata=_to_the_edges(words),
        stackgroup="resident",
        line={"shape": "hvh", "width": 0.8},
    )


def _to_the_edges(values: Sequence[T]) -> list[T]:
    """Extend points in the middle of steps to the edges of the first and the last step."""
    return [values[0], *values, values[-1]]


def _forced(findings: Findings, memory: Memory, total: Sequence[int]) -> Iterator[Json]:
    away: dict[int, list[str]] = {}
    for cause in findings.reload_causes:
        if cause.memory == memory and cause.is_forced and cause.tightest_step is not None:
            name = f"{cause.tensor.name} ({short_bytes(cause.tensor.size_bytes)})"
            away.setdefault(cause.tightest_step, []).append(name)
    if away:
        steps = sorted(away)
        yield trace(
            "markers",
            "forces a spill",
            [step + 0.5 for step in steps],
            [total[step] for step in steps],
            "forced",
            "step %{customdata[0]:,} pushes out<br>%{customdata[1]}",
            {"marks": True},
            customdata=[[step, "<br>".join(away[step])] for step in steps],
            marker={"symbol": "triangle-down", "size": 11, "line": {"width": 1}},
        )


def _bound_marks(names: list[str], bound: int) -> Json:
    name, hover = f"lower bound ({short_bytes(bound)})", f"no plan moves less than {exact_bytes(bound)}"
    marker = {"symbol": "line-ns", "size": 32, "line": {"width": 3}}
    return trace("markers", name, [bound] * len(names), names, "glow", hover, {"marks": True}, marker=marker)


def _spilled(figures: Figures, findings: Findings) -> int:
    outputs = findings.problem.graph.with_role(Role.OUTPUT)
    return figures.write_backs - sum(tensor.size_bytes for tensor in outputs)


MOST_EXPENSIVE = 10
NOT_COMPULSORY = (TransferKind.SPILL, TransferKind.RELOAD, TransferKind.MOVE)


@dataclass(slots=True)
class TensorCost:
    """Sums of one tensor's transfers, in bytes."""

    tensor: Tensor
    compulsory: int = 0
    spilled: int = 0
    reloaded: int = 0
    moved: int = 0

    @property
    def total(self) -> int:
        """Number of bytes that it moves."""
        return self.compulsory + self.beyond_compulsory

    @property
    def beyond_compulsory(self) -> int:
        """Number of bytes beyond the compulsory ones."""
        return self.spilled + self.reloaded + self.moved


def cards(findings: Findings) -> tuple[Card, ...]:
    """Return the headline figures of the page."""
    figures, problem = findings.figures, findings.problem
    capacity = sum(memory.capacity_bytes for memory in problem.memories)
    return (
        *_claims(findings),
        *_costs(findings),
        Card("Spilled and reloaded", short_bytes(figures.non_compulsory), exact_bytes(figures.non_compulsory)),
        Card("Compulsory traffic", short_bytes(figures.compulsory), exact_bytes(figures.compulsory)),
        Card(
            "Peak", short_bytes(figures.peak_bytes), f"{figures.peak_bytes / capacity:.1%} of {short_bytes(capacity)}"
        ),
        Card("Operators", f"{len(problem.graph.operators):,}", counted(len(problem.counted_tensors), "tensor")),
    )


def _costs(findings: Findings) -> tuple[Card, ...]:
    """Return the costs apart from the traffic: transfers, repeated runs, and moves on the chip."""
    figures, objective = findings.figures, findings.problem.objective
    shown = []
    if objective in (Objective.DMA_CYCLES, Objective.DMA_ENERGY):
        cost = figures.non_compulsory_cost
        exact = amount(cost, objective.unit)
        shown.append(Card("Non-compulsory cost", short_amount(cost, objective.unit), exact))
    if findings.problem.recomputation is not None:
        again = short_amount(figures.recomputation_cost, objective.unit)
        shown.append(Card("Computed again", again, counted(figures.runs_again, "time")))
    if figures.moved:
        shown.append(Card("Between scratchpads", short_bytes(figures.moved), exact_bytes(figures.moved)))
    return tuple(shown)


def _claims(findings: Findings) -> tuple[Card, ...]:
    claim = findings.claim
    if claim is None:
        return (Card("Status", "not claimed", "the plan file makes no claim", "quiet"),)
    gap = (claim.objective_value - claim.lower_bound) / claim.objective_value if claim.objective_value else 0.0
    tone = "good" if claim.status == "OPTIMAL" else "fair"
    bound = short_amount(int(claim.lower_bound), Objective(claim.objective).unit)
    return (
        Card("Status", str(claim.status), f"claimed by {claim.method}", tone),
        *_value_beyond_traffic(findings),
        Card("Lower bound", bound, f"gap {percent(gap)}"),
    )


def _value_beyond_traffic(findings: Findings) -> tuple[Card, ...]:
    objective = findings.problem.objective
    if not beyond_traffic(findings.figures) or not objective.counts_transfers:
        return ()
    value = short_amount(findings.figures.objective_value(objective), objective.unit)
    return (Card("Objective value", value, f"with {beyond_traffic(findings.figures)}"),)


def summary_rows(findings: Findings) -> tuple[tuple[str, str], ...]:
    """Return each figure of the plan with its name, in every digit."""
    problem, figures, claim, required = findings.problem, findings.figures, findings.claim, findings.required
    reading, source = findings.document.reading, findings.document.graph
    element = "the model's own element sizes" if reading.bits is None else f"{reading.bits} bits per element"
    rows = [
        ("network", f"{problem.graph.name}, {counted(len(problem.graph.operators), 'operator')}"),
        ("read as", f"{element}, {reading.granularity} operators, {reading.count} counted"),
    ]
    rows += [("scratchpad", _scratchpad(memory)) for memory in problem.memories]
    if problem.transfers.links:
        rows.append(("links", links_words(problem)))
    rows += _placement(findings)
    if claim is not None:
        unit = Objective(claim.objective).unit
        rows += [
            ("status", f"{claim.status}, as claimed by method {claim.method}"),
            ("objective", f"least {_what_is_least(findings)}: {amount(int(claim.objective_value), unit)}"),
            ("lower bound", amount(int(claim.lower_bound), unit)),
            ("gap", next(card.note for card in _claims(findings) if card.label == "Lower bound").removeprefix("gap ")),
        ]
    rows += [
        ("verified", "every rule of a legal plan, recomputed by the verifier"),
        ("traffic", f"{exact_bytes(figures.total)}: loads {figures.loads:,}, write-backs {figures.write_backs:,}"),
        *([("moved on chip", exact_bytes(figures.moved))] if problem.transfers.links else []),
        (
            "peak, arena",
            f"{exact_bytes(figures.peak_bytes)}, {exact_bytes(figures.arena_bytes)}{arenas_words(figures)}",
        ),
        ("M_R", least_need_words(required, required.operator.name)),
        *findings.facts,
        ("versions", f"onchip {version('onchip')}, plotly {version('plotly')}, Python {python_version()}"),
        ("command line", findings.command_line),
    ]
    if source.sha256 is not None:
        rows.append(("graph, sha256", source.sha256))
    return tuple(rows)


def _scratchpad(memory: Memory) -> str:
    holds = "" if set(memory.holds) == set(Operand) else f", holds {operand_words(memory)}"
    return f"{memory.name}: {exact_bytes(memory.capacity_bytes)}, aligned to {memory.alignment_bytes}{holds}"


def _placement(findings: Findings) -> list[tuple[str, str]]:
    if findings.problem.placement is Placement.DYNAMIC:
        return []
    kept, outside = findings.history.with_place_for_life, findings.history.without_place_for_life
    sizes = [sum(tensor.size_bytes for tensor in tensors) for tensors in (kept, outside)]
    words = f"{counted(len(kept), 'tensor')} ({exact_bytes(sizes[0])}) have a place for life"
    return [("placement", f"static: {words}, {len(outside):,} ({exact_bytes(sizes[1])}) have none")]


def _what_is_least(findings: Findings) -> str:
    beyond = "non-compulsory traffic and moves" if findings.problem.transfers.links else "non-compulsory traffic"
    counted_too = beyond_traffic(findings.figures)
    beyond += f", with {counted_too}" if counted_too else ""
    return {
        Objective.TRAFFIC: beyond,
        Objective.PEAK: "arena, without spills",
        Objective.DMA_CYCLES: f"cycles of {beyond}",
        Objective.DMA_ENERGY: f"energy of {beyond}",
        Objective.LATENCY: "latency",
        Objective.RECOMPUTATION: "cycles of what runs again",
    }[findings.problem.objective]


def most_expensive(findings: Findings) -> tuple[TensorCost, ...]:
    """Return the tensors with the most traffic beyond the compulsory, then the most in total."""
    graph = findings.problem.graph
    costs: dict[str, TensorCost] = {}
    for transfer in findings.history.transfers:
        cost = costs.setdefault(transfer.tensor, TensorCost(graph.tensor[transfer.tensor]))
        if transfer.kind is TransferKind.SPILL:
            cost.spilled += transfer.size_bytes
        elif transfer.kind is TransferKind.RELOAD:
            cost.reloaded += transfer.size_bytes
        elif transfer.kind is TransferKind.MOVE:
            cost.moved += transfer.size_bytes
        else:
            cost.compulsory += transfer.size_bytes
    by_cost = sorted(costs.values(), key=lambda cost: (-cost.beyond_compulsory, -cost.total, cost.tensor.name))
    return tuple(by_cost[:MOST_EXPENSIVE])


def timeline_rows(findings: Findings) -> tuple[tuple[str, str], ...]:
    """Return the cycles and shares of use of the timeline; nothing without one."""
    timed = findings.timeline
    if timed is None:
        return ()
    rows = [
        ("time", f"{timed.total_cycles:,} cycles"),
        *latency_rows(timed.parts),
        *([("MACs in use", f"{timed.mac_utilisation:.1%}")] if timed.macs else []),
        ("DMA in use", f"{timed.dma_utilisation:.1%}"),
    ]
    energy = timed.energy.total_pj
    return (*rows, ("energy", "not known" if energy is None else f"{energy / 1e6:,.1f} uJ"))


def costs_of_residencies(findings: Findings) -> dict[int, tuple[int, int, int]]:
    """Map the index of a residency to the costs of its spill, its reload and the move to it."""
    history = findings.history
    by_place: dict[tuple[str, str], list[int]] = {}
    for index, one in enumerate(history.residencies):
        by_place.setdefault((one.tensor, one.memory), []).append(index)
    costs: dict[int, tuple[int, int, int]] = {}
    for transfer in history.transfers:
        if transfer.kind in NOT_COMPULSORY:
            memory = transfer.source if transfer.kind is TransferKind.SPILL else transfer.target
            index = next(
                index
                for index in by_place[transfer.tensor, memory]
                if history.residencies[index].start_instruction
                < transfer.instruction
                < history.residencies[index].stop_instruction
            )
            before, cost = costs.get(index, (0, 0, 0)), history.cost(transfer)
            spilled, reloaded, moved = (cost if transfer.kind is kind else 0 for kind in NOT_COMPULSORY)
            costs[index] = (before[0] + spilled, before[1] + reloaded, before[2] + moved)
    return costs


def report_html(findings: Findings) -> str:
    """Return the page's text; raises UsageError if a package for pages is missing."""
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
        "shape": shape_words,
        "memory": memory_title,
    }
    return Page("program.html.j2", ("words.js", "time.js"), page_facts(findings), values, filters).html()


def page_facts(findings: Findings) -> Json:
    """Return the facts for the page's script; tensors and operators are indices."""
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
    return [tensor_row(graph, tensor, step) for tensor in graph.tensors]


def _residencies(findings: Findings) -> list[list[object]]:
    """Return tensor, memory, offset, start and stop step, beginning, and costs of spill, reload and move."""
    tensors = {tensor.name: index for index, tensor in enumerate(findings.problem.graph.tensors)}
    costs = costs_of_residencies(findings)
    return [
        [*residency_place(tensors, one), *costs.get(index, (0, 0, 0))]
        for index, one in enumerate(findings.history.residencies)
    ]
