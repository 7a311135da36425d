"""Schedules in which all choices are weighed together, beside those found stage by stage, from which they begin.

    python benchmarks/schedule_joint.py [--objective latency] [--networks NAME ...] [--accelerators NAME ...]
                                        [--seconds 20] [--clock wall|processor|work] [--apart] [--json FILE]

Networks and accelerators as in `schedule.py`, each schedule in so many seconds, nothing known of earlier runs, each row
a process of its own. Stage by stage each nest has the mapping that is best for it alone; that counts work, about three
quarters of the limit, and the rest is for all choices together from there on. With `--apart` stage by stage is searched
for once more, in a run of its own with the same limit. The bound is that of all schedules. `--clock processor` counts
seconds of the processor, and not those of a wall clock, so that what else the machine does changes less; `--clock work`
counts work everywhere, so that the table is the same on every machine. `cut` are runs of a row in which the time was
over before the work of the stages was done (of those stage by stage nothing is promised).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from schedule import ACCELERATORS, GRACE, NetworkToSchedule, networks, of_another_process
from shared.processor import count_processor_seconds

from onchip.answer.bindings import Bindings
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.errors import OnchipError
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.start import silent_run

BUSY: Final = 60
"""So many times longer than its seconds a row may take on a busy machine, where these are not of a wall clock."""
WARMING_SECONDS: Final = 0.5
"""For a small network before the others, so that all code is loaded."""


class Clock(StrEnum):
    """Whose seconds limits count."""

    WALL = "wall"
    PROCESSOR = "processor"
    WORK = "work"


@dataclass(frozen=True, slots=True)
class JointRow:
    """A network on an accelerator: what a schedule takes, by the objective, and the one stage by stage before it.

    `apart` is stage by stage once more, in a run of its own; of `cut` of both runs the time was over too early.
    """

    network: str
    accelerator: str
    objective: str
    joint: int | None = None
    stages: int | None = None
    apart: int | None = None
    lower_bound: int = 0
    cut: int = 0
    cpu_seconds: float = 0.0
    error: str | None = None

    @property
    def improvement(self) -> float | None:
        """Return how much less it takes than the one stage by stage from which it began."""
        return None if not self.joint or not self.stages else 1 - self.joint / self.stages

    @property
    def improvement_apart(self) -> float | None:
        """Return how much less it takes than what is found stage by stage in a run of its own."""
        return None if not self.joint or not self.apart else 1 - self.joint / self.apart

    @property
    def is_worse(self) -> bool:
        """Return whether it is missing, or worse than one stage by stage of which nothing was cut."""
        apart = None if self.cut else self.improvement_apart
        return self.improvement is None or min(self.improvement, apart or 0.0) < 0

    @property
    def gap(self) -> float | None:
        """Return how far it is at most from the least."""
        return None if not self.joint else 1 - self.lower_bound / self.joint


@dataclass(frozen=True, slots=True)
class JointTrial:
    """For how many seconds each schedule is searched, and by what; whether stage by stage is searched for apart."""

    seconds: float
    objective: ScheduleObjective
    clock: Clock
    is_apart: bool

    def row(self, network: NetworkToSchedule, accelerator: str) -> JointRow:
        """Search each schedule in a process of its own; whatever fails is in the row."""
        row = JointRow(network.name, accelerator, self.objective)
        joint = self._found(network, accelerator, ScheduleOptions())
        if isinstance(joint, str):
            return replace(row, error=joint)
        row = replace(row, joint=joint.value, stages=joint.value_of_stages, lower_bound=joint.lower_bound)
        row = replace(row, cpu_seconds=joint.cpu_seconds, cut=int(joint.is_cut))
        if not self.is_apart:
            return row
        apart = self._found(network, accelerator, ScheduleOptions(weighs_mappings=False))
        if isinstance(apart, str):
            return replace(row, error=apart)
        row = replace(row, apart=apart.value, cut=row.cut + apart.is_cut)
        return replace(row, cpu_seconds=joint.cpu_seconds + apart.cpu_seconds)

    def _found(self, network: NetworkToSchedule, accelerator: str, options: ScheduleOptions) -> FoundJointly | str:
        patience = 1 if self.clock is Clock.WALL else BUSY
        work = partial(found_jointly, network, accelerator, self, options)
        return of_another_process(work, patience * 2 * GRACE * self.seconds)


@dataclass(frozen=True, slots=True)
class FoundJointly:
    """The value of a schedule, and of the one stage by stage from which it began; the bound, and the time it took."""

    value: int | None
    value_of_stages: int | None
    lower_bound: int
    is_cut: bool
    cpu_seconds: float


def found_jointly(
    network: NetworkToSchedule, accelerator: str, trial: JointTrial, options: ScheduleOptions
) -> FoundJointly | str:
    """What is found, or what fails, once compiled code is loaded. It runs in a process of its own."""
    warming = ScheduleRequest("lenet5", accelerator, trial.objective, limits=Limits(WARMING_SECONDS), uses_cache=False)
    schedule_network(warming)
    if trial.clock is Clock.PROCESSOR:
        count_processor_seconds()
    begun = time.process_time()
    request = replace(
        warming,
        source=network.source,
        options=options,
        bindings=Bindings(network.dims),
        limits=Limits(trial.seconds),
    )
    try:
        found = schedule_network(request, counted_run if trial.clock is Clock.WORK else silent_run)
    except OnchipError as error:
        return f"{type(error).__name__}: {error}"
    result, seconds = found.result, time.process_time() - begun
    is_cut = bool(found.are_stages_cut)
    return FoundJointly(result.objective_value, found.value_of_stages, result.lower_bound, is_cut, seconds)


@contextmanager
def counted_run(limits: Limits, _deadline: Deadline) -> Iterator[Run]:
    """A run of as many seconds of work as the limit says, whatever that takes."""
    seconds = limits.time_limit_seconds or 0.0
    yield Run(limits, deadline=Deadline.after(BUSY * seconds)).for_work(seconds)


TITLES: Final = (
    "network, accelerator",
    "joint",
    "where it began",
    "less by",
    "stage by stage",
    "less by",
    "bound",
    "gap",
    "cut",
    "processor s",
)


def table_line(row: JointRow) -> str:
    """A row as a line of a table."""
    cells = (
        f"{row.network}, {row.accelerator}",
        row.error or _number(row.joint, ",d"),
        _number(row.stages, ",d"),
        _number(row.improvement, ".2%"),
        _number(row.apart, ",d"),
        _number(row.improvement_apart, ".2%"),
        f"{row.lower_bound:,}",
        _number(row.gap, ".1%"),
        f"{row.cut}",
        f"{row.cpu_seconds:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def main() -> int:
    """Print the table; return 1 if a schedule is missing, or worse than one stage by stage that was not cut."""
    asked = _arguments()
    print(f"| {' | '.join(TITLES)} |\n{'|---' * len(TITLES)}|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = list(_rows(asked, {one.name: one for one in networks(None, Path(folder))}))
    return int(any(row.is_worse for row in rows))


def _rows(asked: argparse.Namespace, found: dict[str, NetworkToSchedule]) -> Iterator[JointRow]:
    """Each is shown as soon as it is there."""
    trial = JointTrial(asked.seconds, ScheduleObjective(asked.objective), Clock(asked.clock), asked.apart)
    for name in asked.networks or found:
        for accelerator in asked.accelerators:
            row = trial.row(found[name], accelerator)
            print(table_line(row), flush=True)
            if asked.json is not None:
                with asked.json.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
            yield row


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objective", choices=[*ScheduleObjective], default="latency")
    parser.add_argument("--networks", nargs="+", metavar="NAME", help="these alone")
    parser.add_argument("--accelerators", nargs="+", metavar="NAME", default=list(ACCELERATORS))
    parser.add_argument("--seconds", type=float, default=20.0, help="for each schedule")
    parser.add_argument("--clock", choices=[*Clock], default=Clock.WALL, help="whose seconds limits count")
    parser.add_argument("--apart", action="store_true", help="also stage by stage in a run of its own")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append each row as a line")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
