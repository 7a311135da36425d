"""Plans and schedules that ran on real bytes: tensor values, bytes moved and outputs, as tables and JSON objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from onchip.model.program.figures import TrafficParts
from onchip.reports.program.outcome import Check, Json, check_object
from onchip.reports.schedule.outcome import ScheduleCheck, schedule_check_object, schedule_check_tables, traffic_object
from onchip.reports.shared.words import picked
from onchip.verify.figures import Figures

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.simulate.machine_run import MachineRun

GREATEST_RELATIVE_DIFFERENCE: Final = 1e-5
"""Limit on max |a - b| / max |b| between outputs a of the run and b of the whole model."""


def _has_right_values(run: MachineRun, relative_difference: float | None) -> bool:
    """Return True if no tensor differs and the outputs are close to the model's, if there is a model."""
    if run.difference is not None:
        return False
    return relative_difference is None or relative_difference <= GREATEST_RELATIVE_DIFFERENCE


@dataclass(frozen=True, slots=True)
class Execution:
    """A verified plan and, if it is legal, one run for each inference.

    `relative_difference` is the greatest of all runs, None without a model to compare with.
    """

    check: Check
    kernels: str | None = None
    runs: tuple[MachineRun, ...] = ()
    relative_difference: float | None = None
    seconds: float = 0.0

    @property
    def run(self) -> MachineRun | None:
        """Return the last inference; the runs end with the first that differs."""
        return self.runs[-1] if self.runs else None

    @property
    def bytes_agree(self) -> bool:
        """Return True if every inference moved the bytes that the verifier counts."""
        figures = self.check.verdict.figures
        planned = (figures.loads, figures.write_backs, figures.moved)
        return all((run.loads, run.write_backs, run.moved) == planned for run in self.runs)

    @property
    def is_right(self) -> bool:
        """Return True if the plan is legal, its tensors have the right values, and its bytes agree."""
        return self.run is not None and self.bytes_agree and _has_right_values(self.run, self.relative_difference)


@dataclass(frozen=True, slots=True)
class ScheduleExecution:
    """A verified schedule and, if it is legal, its run; `planned` is the traffic by the cost model.

    `relative_difference` is None without an untiled network or a model to compare outputs with.
    """

    check: ScheduleCheck
    kernels: str | None = None
    run: MachineRun | None = None
    planned: TrafficParts | None = None
    relative_difference: float | None = None
    seconds: float = 0.0

    @property
    def bytes_agree(self) -> bool:
        """Return True if Copies moved the planned bytes, and the planned total equals the verifier's."""
        run, planned, figures = self.run, self.planned, self.check.verdict.figures
        if run is None or planned is None or figures is None:
            return False
        copied = (run.loads, run.write_backs) == (planned.loads, planned.write_backs)
        return copied and planned.total == figures.traffic_bytes

    @property
    def is_right(self) -> bool:
        """Return True if the schedule is legal, its tensors have the right values, and its bytes agree."""
        return self.run is not None and self.bytes_agree and _has_right_values(self.run, self.relative_difference)


def execution_object(execution: Execution) -> Json:
    """Return the result of `run` for `--json`, with the object of `onchip check`."""
    run, check = execution.run, check_object(execution.check)
    if run is None:
        return _not_run(execution, check)
    moved, planned = (_bytes_object(execution, one) for one in (run, execution.check.verdict.figures))
    return {
        "right": execution.is_right,
        "kernels": execution.kernels,
        "inferences": len(execution.runs),
        "run": _run_object(execution, run, moved, planned),
        "check": check,
    }


def schedule_execution_object(execution: ScheduleExecution) -> dict[str, object]:
    """Return the result of `run` for `--json`, with the object of `onchip check`."""
    run, check = execution.run, schedule_check_object(execution.check)
    if run is None:
        return _not_run(execution, check)
    moved = {"loads": run.loads, "write_backs": run.write_backs, "between_memories": run.moved}
    planned = None if execution.planned is None else traffic_object(execution.planned)
    return {
        "right": execution.is_right,
        "kernels": execution.kernels,
        "run": _run_object(execution, run, moved, planned),
        "check": check,
    }


def _not_run(execution: Execution | ScheduleExecution, check: Json) -> dict[str, object]:
    return {"right": False, "kernels": execution.kernels, "run": None, "check": check}


def _run_object(
    execution: Execution | ScheduleExecution, run: MachineRun, moved: Json, planned: Json | None
) -> dict[str, object]:
    """Return values, moved bytes and seconds; an infinite difference is the word `inf`, as JSON has no infinity."""
    relative, difference = execution.relative_difference, run.difference
    return {
        "compared": run.compared,
        "difference": difference and picked(difference, "tensor", "found", "operator", "step", "instruction"),
        "relative_difference": relative if relative != float("inf") else "inf",
        "moved": moved,
        "planned": planned,
        "seconds": execution.seconds,
    }


def _bytes_object(execution: Execution, counted: MachineRun | Figures) -> Json:
    """Return the traffic; bytes moved between scratchpads, if links exist, are not part of `total`."""
    total = counted.loads + counted.write_backs
    traffic = {"total": total, "loads": counted.loads, "write_backs": counted.write_backs}
    return {**traffic, "moved": counted.moved} if execution.check.problem.transfers.links else traffic


def execution_report(execution: Execution) -> tuple[RenderableType, ...]:
    """Return the tables of the result of `run`: values, moved bytes, seconds."""
    from rich.text import Text

    from onchip.reports.program.terminal import check_report, facts

    run, figures = execution.run, execution.check.verdict.figures
    if run is None:
        return (*check_report(execution.check), Text("the plan is not legal: it was not run"))
    rows = [
        ("network", repr(execution.check.problem.graph.name)),
        ("kernels", execution.kernels or "none"),
        ("inferences", f"{len(execution.runs):,}"),
        ("values", _values_text(run)),
        ("loads", _moved_text(run.loads, figures.loads, "plan")),
        ("write-backs", _moved_text(run.write_backs, figures.write_backs, "plan")),
        ("traffic", _moved_text(run.loads + run.write_backs, figures.total, "plan")),
    ]
    if execution.check.problem.transfers.links:
        rows.append(("between scratchpads", _moved_text(run.moved, figures.moved, "plan")))
    verdict = "the plan runs, and gives the right values" if execution.is_right else "values or bytes differ"
    return facts([*rows, *_last_rows(execution, "whole model")]), Text(verdict)


def schedule_execution_tables(execution: ScheduleExecution) -> Iterator[RenderableType]:
    """Yield the result of `run`, or the violations of a schedule that was not run."""
    from rich.text import Text

    from onchip.reports.program.terminal import facts

    run, planned = execution.run, execution.planned
    if run is None or planned is None:
        yield from schedule_check_tables(execution.check)
        yield Text("the schedule is not legal: it was not run")
        return
    rows = [
        ("network", repr(execution.check.network.name)),
        ("kernels", execution.kernels or "none"),
        ("values", _values_text(run)),
        ("loads", _moved_text(run.loads, planned.loads, "schedule")),
        ("write-backs", _moved_text(run.write_backs, planned.write_backs, "schedule")),
        ("streamed", f"{planned.streamed_reads:,} bytes in and {planned.streamed_writes:,} out, by the cost model"),
        ("between memories", f"{run.moved:,} bytes"),
    ]
    yield facts([*rows, *_last_rows(execution, "whole network")])
    yield Text("the schedule runs, and gives the right values" if execution.is_right else "values or bytes differ")


def _last_rows(execution: Execution | ScheduleExecution, whole: str) -> Iterator[tuple[str, str]]:
    relative = execution.relative_difference
    if relative is not None:
        yield whole, f"greatest relative difference {relative:.3g} (allowed {GREATEST_RELATIVE_DIFFERENCE:g})"
    yield "seconds", f"{execution.seconds:.3f}"


def _values_text(run: MachineRun) -> str:
    return f"{run.compared:,} tensors equal bit for bit" if run.difference is None else str(run.difference)


def _moved_text(moved_bytes: int, planned_bytes: int, answer: str) -> str:
    if moved_bytes == planned_bytes:
        return f"{moved_bytes:,} bytes, as planned"
    return f"{moved_bytes:,} bytes, the {answer} says {planned_bytes:,}"
