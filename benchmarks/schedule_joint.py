"""Schedules in which mappings are weighed against each other, beside those in which each is the best of its nest alone.

    python benchmarks/schedule_joint.py [--objective latency] [--networks NAME ...] [--accelerators NAME ...]
                                        [--seconds 20] [--processor] [--json FILE]

Networks and accelerators as in `schedule.py`, each schedule in so many seconds, nothing known of earlier runs, each row
a process of its own. The bound is that of all schedules. With `--processor` limits count seconds of the processor, and
not those of a wall clock, so that what else the machine does changes less.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from schedule import ACCELERATORS, GRACE, NetworkToSchedule, networks, of_another_process

from onchip.answer.bindings import Bindings
from onchip.app.schedule import ScheduleRequest, schedule_network
from onchip.errors import OnchipError
from onchip.solve.run.limits import Limits
from onchip.solve.schedule.objective import ScheduleObjective
from onchip.solve.schedule.options import ScheduleOptions

BUSY: Final = 20
"""So many times longer than its seconds of the processor a row may take on a busy machine."""


@dataclass(frozen=True, slots=True)
class JointRow:
    """A network on an accelerator: what weighed mappings take, and mappings that are best alone, by the objective."""

    network: str
    accelerator: str
    objective: str
    joint: int | None = None
    alone: int | None = None
    lower_bound: int = 0
    cpu_seconds: float = 0.0
    error: str | None = None

    @property
    def improvement(self) -> float | None:
        """Return how much less the weighed one takes, of the other."""
        return None if not self.joint or not self.alone else 1 - self.joint / self.alone

    @property
    def gap(self) -> float | None:
        """Return how far the weighed one is at most from the least."""
        return None if not self.joint else 1 - self.lower_bound / self.joint


def joint_row(
    network: NetworkToSchedule, accelerator: str, seconds: float, objective: ScheduleObjective, *, of_processor: bool
) -> JointRow:
    """Both schedules, each in so many seconds; whatever fails is in the row. It runs in a process of its own."""
    if of_processor:
        vars(time)["perf_counter"] = time.process_time
    row = JointRow(network.name, accelerator, objective)
    begun = time.process_time()
    request = ScheduleRequest(
        network.source,
        accelerator,
        objective,
        bindings=Bindings(network.dims),
        limits=Limits(seconds),
        uses_cache=False,
    )
    try:
        alone = schedule_network(replace(request, options=ScheduleOptions(weighs_mappings=False))).result
        joint = schedule_network(request).result
    except OnchipError as error:
        return replace(row, error=f"{type(error).__name__}: {error}")
    return replace(
        row,
        joint=joint.objective_value,
        alone=alone.objective_value,
        lower_bound=joint.lower_bound,
        cpu_seconds=time.process_time() - begun,
    )


TITLES: Final = ("network, accelerator", "joint", "each nest alone", "less by", "bound", "gap", "processor s")


def table_line(row: JointRow) -> str:
    """A row as a line of a table."""
    cells = (
        f"{row.network}, {row.accelerator}",
        row.error or _number(row.joint, ",d"),
        _number(row.alone, ",d"),
        _number(row.improvement, ".1%"),
        f"{row.lower_bound:,}",
        _number(row.gap, ".1%"),
        f"{row.cpu_seconds:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def main() -> int:
    """Print the table; return 1 if a schedule is missing, or worse for mappings that are weighed."""
    asked = _arguments()
    print(f"| {' | '.join(TITLES)} |\n{'|---' * len(TITLES)}|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = list(_rows(asked, {one.name: one for one in networks(None, Path(folder))}))
    return int(any(row.improvement is None or row.improvement < 0 for row in rows))


def _rows(asked: argparse.Namespace, found: dict[str, NetworkToSchedule]) -> Iterator[JointRow]:
    """Each is shown as soon as it is there."""
    for name in asked.networks or found:
        for accelerator in asked.accelerators:
            asked_of = found[name], accelerator, asked.seconds, ScheduleObjective(asked.objective)
            work = partial(joint_row, *asked_of, of_processor=asked.processor)
            patience = BUSY if asked.processor else 1
            row = of_another_process(work, patience * 2 * GRACE * asked.seconds)
            if isinstance(row, str):
                row = JointRow(name, accelerator, asked.objective, error=row)
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
    parser.add_argument("--processor", action="store_true", help="seconds are those of the processor")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append each row as a line")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
