"""What running a plan showed, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.reports.program.json_view import Json, check_object
from onchip.reports.program.outcome import Check
from onchip.verify.figures import Figures

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.simulate.machine import MachineRun

GREATEST_RELATIVE_DIFFERENCE = 1e-5
"""Allowed between outputs a of the planned run and b of the whole model: the greatest |a - b| over the greatest |b|."""


@dataclass(frozen=True, slots=True)
class Execution:
    """A plan that was verified and, if legal, run. `relative_difference` is None where there is no model to compare."""

    check: Check
    kernels: str | None = None
    run: MachineRun | None = None
    relative_difference: float | None = None
    seconds: float = 0.0

    @property
    def bytes_agree(self) -> bool:
        """Whether what moved is what the verifier says moves."""
        figures, run = self.check.verdict.figures, self.run
        planned = (figures.loads, figures.write_backs, figures.moved)
        return run is not None and (run.loads, run.write_backs, run.moved) == planned

    @property
    def is_right(self) -> bool:
        """Whether the plan is legal, every tensor is what it should be, and the bytes are those of the plan."""
        if self.run is None or self.run.difference is not None or not self.bytes_agree:
            return False
        return self.relative_difference is None or self.relative_difference <= GREATEST_RELATIVE_DIFFERENCE


def execution_object(execution: Execution) -> Json:
    """Say what `run` found; `check` is as `onchip check` says it."""
    run, figures = execution.run, execution.check.verdict.figures
    if run is None:
        return {"right": False, "kernels": execution.kernels, "run": None, "check": check_object(execution.check)}
    difference = run.difference
    relative = execution.relative_difference
    return {
        "right": execution.is_right,
        "kernels": execution.kernels,
        "run": {
            "compared": run.compared,
            "difference": difference
            and {
                "tensor": difference.tensor,
                "found": difference.found,
                "operator": difference.operator,
                "step": difference.step,
                "instruction": difference.instruction,
            },
            "relative_difference": relative if relative != float("inf") else "inf",
            "moved": _bytes_object(execution, run),
            "planned": _bytes_object(execution, figures),
            "seconds": execution.seconds,
        },
        "check": check_object(execution.check),
    }


def _bytes_object(execution: Execution, counted: MachineRun | Figures) -> Json:
    """`total` is the traffic; what moves from scratchpad to scratchpad, where links do, stands apart."""
    total = counted.loads + counted.write_backs
    traffic = {"total": total, "loads": counted.loads, "write_backs": counted.write_backs}
    return {**traffic, "moved": counted.moved} if execution.check.problem.transfers.links else traffic


def execution_report(execution: Execution) -> tuple[RenderableType, ...]:
    """Return the tables of what `run` found: values, bytes that moved, seconds."""
    from rich.text import Text

    from onchip.reports.program.terminal import check_report, facts

    run, figures = execution.run, execution.check.verdict.figures
    if run is None:
        return (*check_report(execution.check), Text("the plan is not legal: it was not run"))
    values = f"{run.compared:,} tensors equal bit for bit" if run.difference is None else str(run.difference)
    rows = [
        ("network", repr(execution.check.problem.graph.name)),
        ("kernels", execution.kernels or "none"),
        ("values", values),
        ("loads", _moved(run.loads, figures.loads)),
        ("write-backs", _moved(run.write_backs, figures.write_backs)),
        ("traffic", _moved(run.loads + run.write_backs, figures.total)),
    ]
    if execution.check.problem.transfers.links:
        rows.append(("between scratchpads", _moved(run.moved, figures.moved)))
    if execution.relative_difference is not None:
        allowed = f"(allowed {GREATEST_RELATIVE_DIFFERENCE:g})"
        rows.append(("whole model", f"greatest relative difference {execution.relative_difference:.3g} {allowed}"))
    rows.append(("seconds", f"{execution.seconds:.3f}"))
    verdict = "the plan runs, and gives the right values" if execution.is_right else "values or bytes differ"
    return facts(rows), Text(verdict)


def _moved(moved_bytes: int, planned_bytes: int) -> str:
    if moved_bytes == planned_bytes:
        return f"{moved_bytes:,} bytes, as planned"
    return f"{moved_bytes:,} bytes, the plan says {planned_bytes:,}"
