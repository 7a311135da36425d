"""Tables of the plan verbs for terminals."""

from __future__ import annotations

from collections.abc import Iterable

from rich.box import SIMPLE
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from onchip.answer.problem import Count, Objective, Placement
from onchip.answer.result import Status, Stop
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory, Operand
from onchip.arch.sharing import Share
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.model.capacity.infeasible_operator import infeasible_operator
from onchip.reports.program.outcome import (
    SPLIT,
    Check,
    Description,
    Outcome,
    SharedNeed,
    arenas_words,
    beyond_traffic,
    expected_instead,
    infeasible_words,
    largest_tensors,
    least_need_words,
    links_words,
    memory_words,
)
from onchip.reports.shared.latency import latency_words
from onchip.reports.shared.words import amount, counted, printable
from onchip.verify.figures import Figures

WIDTH_OF_A_FILE = 120


def show(*renderables: RenderableType) -> str:
    """Return the text, in colour only for a terminal; sentences are not wrapped, tables are."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH_OF_A_FILE)
    with console.capture() as capture:
        for renderable in renderables:
            console.print(renderable, soft_wrap=isinstance(renderable, Text))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n")


def outcome_table(outcome: Outcome) -> RenderableType:
    """Return the table of what `plan` found."""
    problem, result, figures = outcome.problem, outcome.result, outcome.figures
    rows = [("network", f"{printable(problem.graph.name)}, {counted(len(problem.graph.operators), 'operator')}")]
    rows += [("scratchpad", _memory(memory)) for memory in problem.memories]
    if problem.transfers.links:
        rows.append(("links", links_words(problem)))
    if problem.objective is Objective.LATENCY and problem.count is Count.ACTIVATIONS:
        is_streamed = not any(Operand.WEIGHT in memory.holds for memory in problem.memories)
        streamed = ": no scratchpad holds weights, so operators stream them" if is_streamed else ""
        rows.append(("not planned", f"parameters{streamed}"))
    rows.append(("status", _status(outcome)))
    rows += _objective(problem.objective)
    rows += _transfers(outcome)
    rows += _value_beyond_traffic(outcome)
    if result.bound is not None:
        rows.append(("lower bound", f"{amount(result.bound, problem.objective.unit)}{_gap(result.gap)}"))
    if result.space is not None:
        rows.append(("proven of", result.space))
    if result.optimal_among is not None:
        rows.append(("optimal among", result.optimal_among))
    if result.why_not is not None:
        rows.append(("no plan because", result.why_not))
    if figures is not None:
        arena = f"{_bytes(figures.arena_bytes)}{arenas_words(figures)}"
        rows += [("peak", _bytes(figures.peak_bytes)), ("arena", arena)]
    rows += _places_for_life(outcome)
    rows.append(("M_R", least_need_words(outcome.required, printable(outcome.required.operator.name))))
    if outcome.min_peak_bytes is not None:
        rows.append(("M_P", _bytes(outcome.min_peak_bytes)))
    seconds = outcome.seconds
    budget = f", M_P {seconds.budget:.3f}" if outcome.min_peak_bytes is not None else ""
    spent = f"read {seconds.read:.3f}{budget}, solve {seconds.solve:.3f}, verify {seconds.verify:.3f}"
    return facts([*rows, ("seconds", spent)])


def _objective(objective: Objective) -> list[tuple[str, str]]:
    least = {
        Objective.PEAK: "least peak, no spills",
        Objective.DMA_CYCLES: "least cycles of DMA",
        Objective.DMA_ENERGY: "least energy of DMA",
        Objective.LATENCY: "least latency",
        Objective.RECOMPUTATION: "least cycles of what runs again, no spills",
    }
    return [("objective", least[objective])] if objective in least else []


def _transfers(outcome: Outcome) -> list[tuple[str, str]]:
    figures, objective = outcome.figures, outcome.problem.objective
    if figures is None:
        return []
    rows = []
    if figures.latency_cycles is not None:
        rows.append(("latency", amount(figures.latency_cycles, objective.unit)))
        if outcome.latency_parts is not None:
            rows.append(("cycles of", latency_words(outcome.latency_parts)))
    elif not objective.forbids_spills and (objective is not Objective.TRAFFIC or figures.moved):
        rows.append(("non-compulsory cost", amount(figures.non_compulsory_cost, objective.unit)))
    if outcome.problem.recomputation is not None:
        rows.append(("run again", _runs_again(figures, objective)))
    rows.append(("non-compulsory traffic", _bytes(figures.non_compulsory)))
    rows.append(("compulsory traffic", _bytes(figures.compulsory)))
    if figures.moved:
        rows.append(("between scratchpads", _bytes(figures.moved)))
    return [*rows, *_states(outcome.problem.graph, figures)]


def _value_beyond_traffic(outcome: Outcome) -> list[tuple[str, str]]:
    figures, objective = outcome.figures, outcome.problem.objective
    if figures is None or not beyond_traffic(figures) or not objective.counts_transfers:
        return []
    value = amount(figures.objective_value(objective), objective.unit)
    return [("objective value", f"{value}, with {beyond_traffic(figures)}")]


def _runs_again(figures: Figures, objective: Objective) -> str:
    return f"{counted(figures.runs_again, 'time')}, {amount(figures.recomputation_cost, objective.unit)}"


def _states(graph: Graph, figures: Figures) -> list[tuple[str, str]]:
    rows = []
    for what, names in (("on chip for life", figures.states_on_chip), ("loaded and written", figures.states_loaded)):
        if names:
            size = _bytes(sum(graph.tensor[name].size_bytes for name in names))
            rows.append((f"state {what}", f"{counted(len(names), 'tensor')}, {size}"))
    return rows


def _places_for_life(outcome: Outcome) -> list[tuple[str, str]]:
    history = outcome.history
    if history is None or outcome.problem.placement is Placement.DYNAMIC:
        return []
    tensors = history.with_place_for_life
    size = _bytes(sum(tensor.size_bytes for tensor in tensors))
    return [("static placement", f"{counted(len(tensors), 'tensor')} ({size}) have a place for life")]


def _status(outcome: Outcome) -> str:
    result = outcome.result
    why = "" if result.stopped_by is Stop.COMPLETED else f" ({result.stopped_by})"
    if result.status is not Status.INFEASIBLE:
        return f"{result.status}{why}"
    infeasible = infeasible_operator(outcome.problem)
    if infeasible is None:
        return f"INFEASIBLE {infeasible_words(outcome, infeasible)}"
    expected = expected_instead(infeasible)
    advice = f"{SPLIT} cuts operators into tiles" if expected == SPLIT else f"expected {expected}"
    return f"INFEASIBLE: {infeasible_words(outcome, infeasible)}; {advice}"


def check_report(check: Check) -> tuple[RenderableType, ...]:
    """Return the violations of a plan, and its figures with the claims."""
    count = len(check.verdict.violations) + check.graph_differs
    lines: list[RenderableType] = [Text(str(violation)) for violation in check.verdict.violations]
    if check.graph_differs:
        planned = check.document.graph
        lines.append(Text(f"graph differs: the plan is for {planned.name!r} {planned.sha256}, this is {check.sha256}"))
    verdict = "the plan is legal" if check.is_legal else f"{count} violation{'s' if count > 1 else ''}"
    return (*lines, _figures_table(check), Text(verdict))


def _figures_table(check: Check) -> Table:
    claim, figures = check.document.claim, check.verdict.figures
    table = Table("", box=SIMPLE)
    table.add_column("recomputed", justify="right")
    table.add_column("claimed", justify="right")
    objective = f"objective ({check.problem.objective})"
    unit = check.problem.objective.unit
    recomputed = amount(figures.objective_value(check.problem.objective), unit)
    table.add_row(objective, recomputed, amount(int(claim.objective_value), unit) if claim else "-")
    for name, value in (
        ("traffic", figures.total),
        ("compulsory traffic", figures.compulsory),
        ("non-compulsory traffic", figures.non_compulsory),
        ("loads", figures.loads),
        ("write-backs", figures.write_backs),
        *([("between scratchpads", figures.moved)] if check.problem.transfers.links else []),
        ("peak", figures.peak_bytes),
        ("arena", figures.arena_bytes),
        *([(f"arena of {name}", size) for name, size in figures.arenas] if len(figures.arenas) > 1 else []),
    ):
        table.add_row(name, _bytes(value), "-")
    if check.problem.recomputation is not None:
        table.add_row("run again", _runs_again(figures, check.problem.objective), "-")
    for name, words in _states(check.problem.graph, figures):
        table.add_row(name, words, "-")
    table.add_row("lower bound", "not checked", amount(int(claim.lower_bound), unit) if claim else "-")
    table.add_row("status", "not checked", f"{claim.status}, as claimed" if claim else "-")
    return table


def description_report(description: Description) -> tuple[RenderableType, ...]:
    """Return the tables of a network's contents."""
    graph, required = description.problem.graph, description.required
    rows = [("network", printable(graph.name)), ("operators", f"{len(graph.operators):,}")]
    for role in Role:
        tensors = graph.with_role(role)
        size_bytes = sum(tensor.size_bytes for tensor in tensors)
        rows.append((f"{role} tensors", f"{len(tensors):,}, {_bytes(size_bytes)}"))
    rows += [
        ("M_R", least_need_words(required, printable(required.operator.name))),
        ("M_P", _min_peak(description)),
        ("compulsory traffic", _bytes(description.compulsory_bytes)),
    ]
    if graph.states:
        size_bytes = sum(graph.tensor[state.old].size_bytes for state in graph.states)
        rows.append(("state", f"{counted(len(graph.states), 'tensor')}, {_bytes(size_bytes)}"))
    rows += [(f"--share {one.share}", _shared(one)) for one in description.needs if one.share is not Share.NONE]
    table = Table("largest tensors", "role", "shape", box=SIMPLE)
    table.add_column("bytes", justify="right")
    for tensor in largest_tensors(description):
        shape = "x".join(map(str, tensor.shape)) if tensor.shape is not None else "-"
        table.add_row(Text(printable(tensor.name), overflow="fold"), tensor.role, shape, f"{tensor.size_bytes:,}")
    return facts(rows), table


def _shared(need: SharedNeed) -> str:
    peak = "not proven" if need.min_peak_bytes is None else _bytes(need.min_peak_bytes)
    return f"M_R {_bytes(need.required_bytes)}, M_P {peak}"


def _min_peak(description: Description) -> str:
    peak = description.least_peak
    if description.min_peak_bytes is not None:
        return _bytes(description.min_peak_bytes)
    most = "" if peak.objective_value is None else f" and at most {_bytes(peak.objective_value)}"
    return f"at least {_bytes(peak.lower_bound)}{most} ({peak.stopped_by})"


def accelerators_table(accelerators: Iterable[Accelerator]) -> Table:
    """List accelerators and their scratchpads."""
    table = Table("accelerator", "scratchpads", box=SIMPLE)
    for accelerator in accelerators:
        table.add_row(Text(accelerator.name), Text(", ".join(map(_memory, accelerator.scratchpads))))
    return table


def columns_table(columns: Iterable[tuple[str, str, bool]], *, show_footer: bool = False) -> Table:
    """Return an empty table; a column is its name, its footer, and True for numbers."""
    table = Table(box=SIMPLE, show_footer=show_footer, collapse_padding=True, pad_edge=False)
    for name, footer, is_number in columns:
        table.add_column(name, footer, justify="right" if is_number else "left", no_wrap=is_number)
    return table


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and values."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


def _memory(memory: Memory) -> str:
    return memory_words(memory, _bytes(memory.capacity_bytes))


def _bytes(size_bytes: int) -> str:
    return f"{size_bytes:,} bytes"


def _gap(gap: float | None) -> str:
    if gap is None:
        return ""
    return " (gap below 0.1 %)" if 0 < gap < 0.001 else f" (gap {gap:.1%})"
