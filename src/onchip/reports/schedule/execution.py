"""What running a schedule showed, as it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.model.program.figures import TrafficParts
from onchip.reports.schedule.check import ScheduleCheck, schedule_check_object, schedule_check_tables
from onchip.reports.shared.execution import (
    difference_object,
    has_right_values,
    moved_text,
    relative_object,
    relative_text,
    values_text,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.simulate.machine_run import MachineRun


@dataclass(frozen=True, slots=True)
class ScheduleExecution:
    """A schedule that was verified and, if legal, run; `planned` is the traffic by the cost model.

    `relative_difference` is None where there is no network without tiles, or model, to compare outputs with.
    """

    check: ScheduleCheck
    kernels: str | None = None
    run: MachineRun | None = None
    planned: TrafficParts | None = None
    relative_difference: float | None = None
    seconds: float = 0.0

    @property
    def bytes_agree(self) -> bool:
        """Whether Copies moved what is planned, and with what streams that is what the verifier counts."""
        run, planned, figures = self.run, self.planned, self.check.verdict.figures
        if run is None or planned is None or figures is None:
            return False
        copied = (run.loads, run.write_backs) == (planned.loads, planned.write_backs)
        return copied and planned.total == figures.traffic_bytes

    @property
    def is_right(self) -> bool:
        """Whether the schedule is legal, every tensor is what it should be, and the bytes are those planned."""
        return self.run is not None and self.bytes_agree and has_right_values(self.run, self.relative_difference)


def schedule_execution_object(execution: ScheduleExecution) -> dict[str, object]:
    """Say what `run` found; `check` is as `onchip check` says it."""
    run, check = execution.run, schedule_check_object(execution.check)
    if run is None:
        return {"right": False, "kernels": execution.kernels, "run": None, "check": check}
    return {
        "right": execution.is_right,
        "kernels": execution.kernels,
        "run": {
            "compared": run.compared,
            "difference": difference_object(run.difference),
            "relative_difference": relative_object(execution.relative_difference),
            "moved": {"loads": run.loads, "write_backs": run.write_backs, "between_memories": run.moved},
            "planned": execution.planned and _traffic_object(execution.planned),
            "seconds": execution.seconds,
        },
        "check": check,
    }


def schedule_execution_tables(execution: ScheduleExecution) -> Iterator[RenderableType]:
    """Yield what `run` found, or what is wrong with a schedule that was not run."""
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
        ("values", values_text(run)),
        ("loads", moved_text(run.loads, planned.loads, "schedule")),
        ("write-backs", moved_text(run.write_backs, planned.write_backs, "schedule")),
        ("streamed", f"{planned.streamed_reads:,} bytes in and {planned.streamed_writes:,} out, by the cost model"),
        ("between memories", f"{run.moved:,} bytes"),
    ]
    if execution.relative_difference is not None:
        rows.append(("whole network", relative_text(execution.relative_difference)))
    rows.append(("seconds", f"{execution.seconds:.3f}"))
    yield facts(rows)
    yield Text("the schedule runs, and gives the right values" if execution.is_right else "values or bytes differ")


def _traffic_object(traffic: TrafficParts) -> Mapping[str, int]:
    return {
        "total": traffic.total,
        "loads": traffic.loads,
        "write_backs": traffic.write_backs,
        "streamed_reads": traffic.streamed_reads,
        "streamed_writes": traffic.streamed_writes,
    }
