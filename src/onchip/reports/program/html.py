"""The page of a plan: one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onchip.answer.problem import Objective
from onchip.answer.program import TransferKind
from onchip.answer.words import exact_bytes, picked, short_amount, short_bytes
from onchip.arch.memory import Memory
from onchip.ir.tensor import Role, Tensor
from onchip.model.timeline.plan_timeline import Timeline
from onchip.reports.explain.history import History, ReloadPurpose
from onchip.reports.program.outcome import Findings, findings_rows, recomputation_object, states_object, traffic_object
from onchip.reports.shared.facts import DataTable, Rows
from onchip.reports.shared.figures import DrawnResidencies, Json, level_line, shape_words, stacked_bars, ticks, trace
from onchip.reports.shared.page import AnswerPage, Section, heading, lead, memory_parts, moving, section, still, table
from onchip.reports.shared.timeline import TIMELINE_WORDS, TimelineFigure
from onchip.reports.shared.words import latency_rows
from onchip.verify.figures import Figures

FOOTPRINT_PAINTS = {"operands of the running operator": "operand", "kept for later": "kept"}
TRAFFIC_PAINTS = {part: f"traffic-{part}" for part in ("compulsory", "spilled", "reloaded", "moved")}


def drawn_residencies(history: History) -> DrawnResidencies:
    """Return the residencies of a plan, to be drawn."""
    graph = history.problem.graph
    names = [operator.name for operator in history.operators]
    return DrawnResidencies(history.residencies, graph, names, lambda name: str(graph.tensor[name].role))


def footprint(findings: Findings, memory: Memory) -> Json:
    """Return the bytes resident in each step, operands apart, with capacity, M_R, peak and forced spills."""
    history, steps = findings.history, findings.history.step_count
    operands, total = history.footprint_of_operands(memory.name), history.footprint(memory.name)
    kept = [all_bytes - needed for all_bytes, needed in zip(total, operands, strict=True)]
    parts: dict[str, Sequence[int]] = dict(zip(FOOTPRINT_PAINTS, (operands, kept), strict=True))
    levels = [level_line(steps, max(total, default=0), "peak", "peak", dash="solid")]
    if len(findings.problem.memories) == 1:
        levels.append(level_line(steps, findings.required.need_bytes, "largest working set M_R", "bound", dash="dot"))
        if findings.claim is not None and findings.claim.objective is Objective.PEAK:
            arena = int(findings.claim.lower_bound)
            levels.append(level_line(steps, arena, "lower bound on the arena", "bound", dash="dashdot"))
    drawn = drawn_residencies(findings.history).map(memory)
    return drawn.footprint(parts, FOOTPRINT_PAINTS, *levels, *_forced(findings, memory, total))


def traffic(findings: Findings) -> Json:
    """Return a bar for the plan and each baseline: compulsory, spilled, reloaded and moved bytes."""
    rows: list[tuple[str, Figures]] = [("this plan", findings.figures)]
    rows += [(baseline.name, baseline.figures) for baseline in findings.baselines if baseline.figures is not None]
    spilled = [_spilled(figures, findings) for _, figures in rows]
    parts = {
        "compulsory": [figures.compulsory for _, figures in rows],
        "spilled": spilled,
        "reloaded": [figures.non_compulsory - out for (_, figures), out in zip(rows, spilled, strict=True)],
        "moved": [figures.moved for _, figures in rows],
    }
    names, claim = [name for name, _ in rows], findings.claim
    figure = stacked_bars(names, parts, TRAFFIC_PAINTS, "bytes", "bytes moved")
    if claim is not None and claim.objective is Objective.TRAFFIC and findings.problem.recomputation is None:
        bound = findings.figures.compulsory_cost + int(claim.lower_bound)
        name, hover = f"lower bound ({short_bytes(bound)})", f"lower bound: {exact_bytes(bound)}"
        marker = {"symbol": "line-ew", "size": 40, "line": {"width": 3}}
        marks = trace("markers", name, names, [bound] * len(names), "glow", hover, {"marks": True}, marker=marker)
        figure["traces"] = [*figure["traces"], marks]  # type: ignore[misc]  # a list
        most = max(bound, *(sum(column) for column in zip(*parts.values(), strict=True)))
        figure["y"] = {"title": "bytes moved", **ticks(0, most, "bytes")}
    return figure


def timeline(findings: Findings, timed: Timeline) -> Json:
    """Return the timeline of the array, each DMA queue, DRAM and the scratchpads."""
    kinds = {transfer.instruction: str(transfer.kind) for transfer in findings.history.transfers}
    problem = findings.problem
    return TimelineFigure(
        timed.activities,
        timed.places,
        problem.memories,
        timed.dma.queues,
        lambda tensor: str(problem.graph.tensor[tensor].role),
        lambda one: kinds[one.instruction],
        timed.dma.setup_cycles,
    ).figure()


def step_cycles(findings: Findings, timed: Timeline) -> list[int]:
    """Return the cycle in which each step's operator starts, and the last cycle."""
    starts = [one.start for one in timed.activities if one.queue is None]
    return [*starts, timed.total_cycles] if len(starts) == findings.history.step_count else []


def _forced(findings: Findings, memory: Memory, total: Sequence[int]) -> list[Json]:
    """Return marks on the steps that force a spill, if any do."""
    away: dict[int, list[str]] = {}
    for cause in findings.reload_causes:
        if cause.memory == memory and cause.is_forced and cause.tightest_step is not None:
            name = f"{cause.tensor.name} ({short_bytes(cause.tensor.size_bytes)})"
            away.setdefault(cause.tightest_step, []).append(name)
    steps = sorted(away)
    marks = trace(
        "markers",
        "forces a spill",
        [step + 0.5 for step in steps],
        [total[step] for step in steps],
        "forced",
        "step %{customdata[0]:,} evicts<br>%{customdata[1]}",
        {"marks": True},
        customdata=[[step, "<br>".join(away[step])] for step in steps],
        marker={"symbol": "triangle-down", "size": 11, "line": {"width": 1}},
    )
    return [marks] if away else []


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


def most_expensive(findings: Findings) -> tuple[TensorCost, ...]:
    """Return the tensors with the most traffic beyond the compulsory, then the most in total."""
    graph = findings.problem.graph
    names = {TransferKind.SPILL: "spilled", TransferKind.RELOAD: "reloaded", TransferKind.MOVE: "moved"}
    costs: dict[str, TensorCost] = {}
    for transfer in findings.history.transfers:
        cost = costs.setdefault(transfer.tensor, TensorCost(graph.tensor[transfer.tensor]))
        name = names.get(transfer.kind, "compulsory")
        setattr(cost, name, getattr(cost, name) + transfer.size_bytes)
    by_cost = sorted(costs.values(), key=lambda cost: (-cost.beyond_compulsory, -cost.total, cost.tensor.name))
    return tuple(by_cost[:MOST_EXPENSIVE])


def timeline_rows(timed: Timeline) -> Rows:
    """Return the cycles and utilisations of a timeline."""
    energy = timed.energy.total_pj
    return [
        ("latency", short_amount(timed.total_cycles, "cycles")),
        *latency_rows(timed.parts),
        *([("MAC utilisation", f"{timed.mac_utilisation:.1%}")] if timed.macs else []),
        ("DMA utilisation", f"{timed.dma_utilisation:.1%}"),
        ("energy", "not known" if energy is None else short_amount(energy, "pJ")),
    ]


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
    figures, document = findings.figures, findings.document
    exact = {
        "claimed": findings.claim and picked(findings.claim, "method", "objective_value", "lower_bound"),
        "traffic_bytes": traffic_object(figures),
        "recomputation": recomputation_object(figures) if findings.problem.recomputation else {},
        "states": states_object(figures),
        **picked(figures, "peak_bytes", "arena_bytes"),
        "arena_bytes of": dict(figures.arenas) if len(figures.arenas) > 1 else {},
        **picked(document.reading, "bits", "granularity", "count"),
        "graph_sha256": document.graph.sha256,
    }
    return AnswerPage(
        findings.problem.graph.name,
        list(findings.rows or findings_rows(findings)),
        exact,
        findings.command_line,
        (*_sections(findings),),
        page_figures(findings),
        more=page_facts(findings),
    ).html()


def _sections(findings: Findings) -> Iterator[Section]:
    """Yield the sections of the page."""
    memories, moved = findings.problem.memories, findings.figures.moved
    yield section(
        "memory-map",
        "Memory map",
        "Each rectangle is a residency: its width is its steps, its height its bytes. The footprint below shows the "
        f"bytes resident in each step. {_spill_words(findings)}",
        *memory_parts(drawn_residencies(findings.history), memories, has_cycles=findings.timeline is not None),
    )
    missing = [one for one in findings.baselines if one.figures is None]
    yield section(
        "traffic",
        "Traffic",
        f"Bytes between DRAM and the {'scratchpad' if len(memories) == 1 else 'scratchpads'}. Compulsory traffic "
        f"occurs in every plan.{' Moves lead from scratchpad to scratchpad.' if moved else ''}",
        still("traffic-plot", f"Traffic of this plan{' and the baselines' if findings.baselines else ''}"),
        *(lead(f"Baseline {one.name} found no plan: {one.status}.") for one in missing),
        heading("Tensors with the most traffic"),
        table(_expensive_grid(findings)),
    )
    timed = findings.timeline
    if timed is None:
        yield section("timeline", "Timeline", f"No timeline: {findings.no_timeline}.")
        return
    rows = DataTable(("figure", "value"), timeline_rows(timed))
    label = "Timeline of the array, of DMA, of DRAM and of each scratchpad"
    yield section("timeline", "Timeline", TIMELINE_WORDS, moving("timeline-plot", label, "timeline"), table(rows))


def _spill_words(findings: Findings) -> str:
    """Say in one sentence why tensors are spilled."""
    causes = findings.reload_causes
    if forced := len({one.tightest_step for one in causes if one.is_forced}):
        steps = "step" if forced == 1 else f"{forced} steps"
        return f"Triangles mark the {steps} in which a tensor that is needed later does not fit."
    if not causes:
        return "The plan spills no tensor."
    if all(one.way is not ReloadPurpose.BACK for one in causes):
        no_link = "the scratchpads of writer and reader are not linked"
        return f"Spilled tensors go through DRAM because {no_link}; the tensors of each step would fit."
    return "Spilled tensors had no free address range, or a better plan exists; the tensors of each step would fit."


def _expensive_grid(findings: Findings) -> DataTable:
    names = ("compulsory", "spilled", "reloaded", *(("moved",) if findings.figures.moved else ()), "total")
    rows = [
        (
            one.tensor.name,
            one.tensor.role,
            shape_words(one.tensor),
            one.tensor.size_bytes,
            *(getattr(one, name) or "\u2013" for name in names),
        )
        for one in most_expensive(findings)
    ]
    return DataTable(("tensor", "role", "shape", "bytes", *names), rows, follows_tensors=True)


def page_figures(findings: Findings) -> Json:
    """Return the figures by their element ids."""
    drawn, figures = drawn_residencies(findings.history), {"traffic-plot": traffic(findings)}
    for index, memory in enumerate(findings.problem.memories):
        if drawn.counts.get(memory.name):
            figures[f"map-{index}"] = drawn.figure(memory)
            figures[f"footprint-{index}"] = footprint(findings, memory)
    if findings.timeline is not None:
        figures["timeline-plot"] = timeline(findings, findings.timeline)
    return {**figures}


def page_facts(findings: Findings) -> Json:
    """Return further facts for the page's script; tensors and operators are indices."""
    history, costs = findings.history, costs_of_residencies(findings)
    return {
        "cycles": step_cycles(findings, findings.timeline) if findings.timeline else [],
        "operators": [[operator.name, operator.kind] for operator in history.operators],
        "unit": findings.problem.objective.unit,
        "memories": [memory.name for memory in findings.problem.memories],
        **drawn_residencies(findings.history).facts(lambda index: costs.get(index, (0, 0, 0))),
    }
