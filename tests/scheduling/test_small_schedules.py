"""Small networks of which a legal schedule is known: what is found takes no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.search.budget.limits import Limits

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


def least(name: str, objective: ScheduleObjective) -> int:
    """Return the value of the schedule that is found; the verifier has passed it."""
    files = str(FOLDER / f"{name}.onnx"), str(FOLDER / f"{name}.yaml")
    found = schedule_network(ScheduleRequest(*files, objective, limits=Limits(SECONDS), uses_cache=False))
    assert found.result.objective_value is not None
    assert found.result.objective_value >= found.result.lower_bound
    return found.result.objective_value


@pytest.mark.parametrize("name", KNOWN)
def test_traffic_is_at_most_that_of_a_known_schedule(name: str) -> None:
    assert least(name, ScheduleObjective.TRAFFIC) <= KNOWN[name][0]


@pytest.mark.parametrize("name", KNOWN)
def test_energy_is_at_most_that_of_a_known_schedule(name: str) -> None:
    assert least(name, ScheduleObjective.ENERGY) <= 1000 * KNOWN[name][1]


def test_by_traffic_loop_nests_move_each_byte_once() -> None:
    assert least("traffic-mapping", ScheduleObjective.TRAFFIC) == 8
