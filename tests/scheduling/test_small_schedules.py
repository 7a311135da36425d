"""Small networks with a known legal schedule: the search finds one that costs at most as much."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Progress, Run
from support.series import with_slow

FOLDER = Path(__file__).parent.parent / "data" / "schedules"
SECONDS = 100.0
"""Many times as long as any of these takes on an idle core."""
KNOWN = {
    "fragments": (84, 6829),
    "smallest": (82, 16518),
    "order": (1440, 298095),
    "order-and-fragments": (922, 57590),
    "eviction": (1264, 254340),
    "objectives": (754, 68265),
}
"""Traffic in bytes and energy in picojoules of schedules that were found by hand, or by other searches."""


def found(name: str, objective: ScheduleObjective, enough: int) -> int:
    """Return the value of the schedule that is found, and that the verifier has passed; the search ends at `enough`."""

    @contextmanager
    def until_enough(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        interrupt = Event()

        def hear(progress: Progress) -> None:
            if progress.best is not None and progress.best <= enough:
                interrupt.set()

        yield Run(limits, hear, interrupt, deadline)

    files = str(FOLDER / f"{name}.onnx"), str(FOLDER / f"{name}.yaml")
    request = ScheduleRequest(*files, objective, limits=Limits(SECONDS), uses_cache=False, bits=8)
    result = schedule_network(request, until_enough).result
    assert result.objective_value is not None
    assert result.objective_value >= result.lower_bound
    return result.objective_value


@pytest.mark.parametrize("name", KNOWN)
def test_traffic_is_at_most_that_of_a_known_schedule(name: str) -> None:
    traffic = KNOWN[name][0]
    assert found(name, ScheduleObjective.TRAFFIC, traffic) <= traffic


@pytest.mark.parametrize("name", with_slow(KNOWN, lambda name: name == "objectives"))
def test_energy_is_at_most_that_of_a_known_schedule(name: str) -> None:
    energy_fj = 1000 * KNOWN[name][1]
    assert found(name, ScheduleObjective.ENERGY, energy_fj) <= energy_fj


def test_by_traffic_loop_nests_move_each_byte_once() -> None:
    assert found("traffic-mapping", ScheduleObjective.TRAFFIC, 8) == 8
