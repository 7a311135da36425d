"""What running a plan showed, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.reports.program.json_view import Json, check_object
from onchip.reports.program.outcome import Check
from onchip.reports.shared.execution import (
    difference_object,
    has_right_values,
    moved_text,
    relative_object,
    relative_text,
    values_text,
)
from onchip.verify.figures import Figures

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.simulate.machine_run import MachineRun


@dataclass(frozen=True, slots=True)
class Execution:
    """A plan that was verified and, if legal, run once or more, each run being an inference.

    `relative_difference` is the greatest of all, None where there is no model to compare.
    """

    check: Check
    kernels: str | None = None
    runs: tuple[MachineRun, ...] = ()
    relative_difference: float | None = None
    seconds: float = 0.0

    @property
    def run(self) -> MachineRun | None:
        """The last inference: after one that differs there is none."""
        return self.runs[-1] if self.runs else None

    @property
    def bytes_agree(self) -> bool:
        """Whether what moved, in each inference, is what the verifier says moves."""
        figures = self.check.verdict.figures
        planned = (figures.loads, figures.write_backs, figures.moved)
        return all((run.loads, run.write_backs, run.moved) == planned for run in self.runs)

    @property
    def is_right(self) -> bool:
        """Whether the plan is legal, every tensor is what it should be, and the bytes are those of the plan."""
        return self.run is not None and self.bytes_agree and has_right_values(self.run, self.relative_difference)


def execution_object(execution: Execution) -> Json:
    """Say what `run` found; `check` is as `onchip check` says it."""
    run, figures = execution.run, execution.check.verdict.figures
    if run is None:
        return {"right": False, "kernels": execution.kernels, "run": None, "check": check_object(execution.check)}
    return {
        "right": execution.is_right,
        "kernels": execution.kernels,
        "inferences": len(execution.runs),
        "run": {
            "compared": run.compared,
            "difference": difference_object(run.difference),
            "relative_difference": relative_object(execution.relative_difference),
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
    rows = [
        ("network", repr(execution.check.problem.graph.name)),
        ("kernels", execution.kernels or "none"),
        ("inferences", f"{len(execution.runs):,}"),
        ("values", values_text(run)),
        ("loads", moved_text(run.loads, figures.loads, "plan")),
        ("write-backs", moved_text(run.write_backs, figures.write_backs, "plan")),
        ("traffic", moved_text(run.loads + run.write_backs, figures.total, "plan")),
    ]
    if execution.check.problem.transfers.links:
        rows.append(("between scratchpads", moved_text(run.moved, figures.moved, "plan")))
    if execution.relative_difference is not None:
        rows.append(("whole model", relative_text(execution.relative_difference)))
    rows.append(("seconds", f"{execution.seconds:.3f}"))
    verdict = "the plan runs, and gives the right values" if execution.is_right else "values or bytes differ"
    return facts(rows), Text(verdict)
