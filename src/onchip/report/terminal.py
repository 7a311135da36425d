"""What people read on a terminal: tables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.box import SIMPLE
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.ir.tensor import Role
from onchip.plan.problem import Objective
from onchip.plan.result import Status, Stop
from onchip.report.json_view import largest_tensors
from onchip.report.outcome import Check, Description, Outcome

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
    """Say what `plan` found."""
    problem, result, figures = outcome.problem, outcome.result, outcome.figures
    rows = [
        ("network", f"{_printable(problem.graph.name)}, {_operators(len(problem.graph.operators))}"),
        ("scratchpad", _memories(problem.memories)),
        ("status", _status(outcome)),
    ]
    if problem.objective is Objective.PEAK:
        rows.append(("objective", "least peak, no spills"))
    if figures is not None:
        rows += [
            ("non-compulsory traffic", _bytes(figures.non_compulsory)),
            ("compulsory traffic", _bytes(figures.compulsory)),
        ]
    rows.append(("lower bound", f"{_bytes(result.lower_bound)}{_gap(result.gap)}"))
    if figures is not None:
        rows += [("peak", _bytes(figures.peak_bytes)), ("arena", _bytes(figures.arena_bytes))]
    rows.append(("M_R", f"{_bytes(outcome.required.need_bytes)}, set by {_printable(outcome.required.operator.name)}"))
    if outcome.min_peak_bytes is not None:
        rows.append(("M_P", _bytes(outcome.min_peak_bytes)))
    seconds = outcome.seconds
    budget = f", M_P {seconds.budget:.3f}" if outcome.min_peak_bytes is not None else ""
    spent = f"read {seconds.read:.3f}{budget}, solve {seconds.solve:.3f}, verify {seconds.verify:.3f}"
    return facts([*rows, ("seconds", spent)])


def _status(outcome: Outcome) -> str:
    result = outcome.result
    why = "" if result.stopped_by is Stop.COMPLETED else f" ({result.stopped_by})"
    if result.status is not Status.INFEASIBLE:
        return f"{result.status}{why}"
    operator, need_bytes = _printable(outcome.required.operator.name), outcome.required.need_bytes
    excess_bytes = outcome.need_bytes - outcome.capacity_bytes
    if need_bytes > outcome.capacity_bytes:
        return f"INFEASIBLE: operator {operator} needs {_bytes(need_bytes)}, {_bytes(excess_bytes)} too many"
    return (
        f"INFEASIBLE without spills: at least {_bytes(outcome.need_bytes)} are needed, {_bytes(excess_bytes)} too many;"
        f" the operator that needs most, {operator}, needs {_bytes(need_bytes)}"
    )


def check_report(check: Check) -> tuple[RenderableType, ...]:
    """Say what is wrong with a plan, and its figures beside the claims."""
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
    recomputed = _bytes(figures.objective_value(check.problem.objective))
    table.add_row(objective, recomputed, _bytes(claim.objective_value) if claim else "-")
    for name, value in (
        ("traffic", figures.total),
        ("compulsory traffic", figures.compulsory),
        ("non-compulsory traffic", figures.non_compulsory),
        ("loads", figures.loads),
        ("write-backs", figures.write_backs),
        ("peak", figures.peak_bytes),
        ("arena", figures.arena_bytes),
    ):
        table.add_row(name, _bytes(value), "-")
    table.add_row("lower bound", "not checked", _bytes(claim.lower_bound) if claim else "-")
    table.add_row("status", "not checked", f"{claim.status}, as claimed" if claim else "-")
    return table


def description_report(description: Description) -> tuple[RenderableType, ...]:
    """Say what is in a network."""
    graph, required = description.problem.graph, description.required
    rows = [("network", _printable(graph.name)), ("operators", f"{len(graph.operators):,}")]
    for role in Role:
        tensors = graph.with_role(role)
        size_bytes = sum(tensor.size_bytes for tensor in tensors)
        rows.append((f"{role} tensors", f"{len(tensors):,}, {_bytes(size_bytes)}"))
    rows += [
        ("M_R", f"{_bytes(required.need_bytes)}, set by {_printable(required.operator.name)}"),
        ("M_P", _min_peak(description)),
        ("compulsory traffic", _bytes(description.compulsory_bytes)),
    ]
    table = Table("largest tensors", "role", "shape", box=SIMPLE)
    table.add_column("bytes", justify="right")
    for tensor in largest_tensors(description):
        shape = "x".join(map(str, tensor.shape)) if tensor.shape is not None else "-"
        table.add_row(Text(_printable(tensor.name), overflow="fold"), tensor.role, shape, f"{tensor.size_bytes:,}")
    return facts(rows), table


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
        table.add_row(Text(accelerator.name), Text(_memories(accelerator.scratchpads)))
    return table


def _printable(name: str) -> str:
    """A name on one line, without what would steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Names beside what they are, one a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


def _memories(memories: Iterable[Memory]) -> str:
    return ", ".join(
        f"{memory.name} of {_bytes(memory.capacity_bytes)}"
        + (f" (aligned to {memory.alignment_bytes})" if memory.alignment_bytes > 1 else "")
        for memory in memories
    )


def _operators(count: int) -> str:
    return f"{count:,} operator{'s' if count != 1 else ''}"


def _bytes(size_bytes: int) -> str:
    return f"{size_bytes:,} bytes"


def _gap(gap: float | None) -> str:
    if gap is None:
        return ""
    return " (gap below 0.1 %)" if 0 < gap < 0.001 else f" (gap {gap:.1%})"
