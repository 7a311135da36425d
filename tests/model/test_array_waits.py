"""Stall causes of the array by cycle, in plans and schedules; no other cause is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from onchip.arch.memory import DRAM
from onchip.memory.methods import method_named
from onchip.model.timeline.activity import (
    Activity,
    ActivityKind,
    LatencyParts,
    PlaceUse,
    Wait,
    array_waits,
    latency_parts,
    most_bytes_at_once,
)
from onchip.model.timeline.plan_timeline import PlanClock, latency_of_plan
from onchip.model.timeline.schedule_timeline import ScheduleTimeline, time_schedule
from onchip.search.budget.limits import Limits, Run
from support.schedule_programs import random_program
from support.series import series
from support.timed_problems import timed_graph, timed_problem

SEEDS = pytest.mark.parametrize("seed", series(range(80), 30))


def activities_of_schedule(seed: int) -> Sequence[Activity]:
    case = random_program(seed)
    return time_schedule(case.graph, case.accelerator, case.program, case.costs).activities


def clock_of_plan(seed: int) -> PlanClock:
    random = Random(seed)
    problem = timed_problem(timed_graph(random, random.randint(2, 7)), random.randint(12, 30), random)
    plan = method_named("timed")(problem, Run(Limits())).answer
    if plan is None:
        pytest.skip("nothing fits")
    return PlanClock.stated(plan.problem or problem, plan)


class CyclesByText:
    """Texts of LatencyParts, one cycle after the other."""

    def __init__(self, activities: Sequence[Activity]) -> None:
        self.activities = activities
        self.computes = [one for one in activities if one.queue is None]
        self.counted: dict[int, int] = {}

    def parts(self) -> LatencyParts:
        found = dict.fromkeys(LatencyParts().by_name, 0)
        for cycle in range(max((one.end for one in self.activities), default=0)):
            found[self.part_of(cycle)] += 1
        return LatencyParts(**found)

    def part_of(self, cycle: int) -> str:
        if any(one.start <= cycle < one.stop for one in self.computes):
            return "computing"
        later = [one for one in self.computes if one.start > cycle]
        if later and len(later) == len(self.computes):
            self.follow(later[0], cycle)
            return "preload"
        return self.follow(later[0] if later else max(self.activities, key=lambda one: one.end), cycle)

    def follow(self, one: Activity, cycle: int) -> str:
        under_way = one
        while under_way.start > cycle:
            under_way = self.before(under_way)
        if under_way.kind is ActivityKind.STORE:
            return "waiting_for_stores"
        if under_way.kind is ActivityKind.COMPUTE:
            return "waiting_for_dram"
        late, first = under_way.place_cycles, under_way
        while first.behind is not None and first.queue is not None:
            first = self.activities[first.behind]
            late += first.place_cycles if first.queue is not None else 0
        if late > self.counted.get(first.instruction, 0):
            self.counted[first.instruction] = self.counted.get(first.instruction, 0) + 1
            return "waiting_for_room"
        return "waiting_for_loads"

    def before(self, one: Activity) -> Activity:
        assert one.waited_on is not None
        return self.activities[one.waited_on]


@SEEDS
def test_the_parts_of_a_schedule_are_those_of_its_cycles(seed: int) -> None:
    activities = activities_of_schedule(seed)
    assert latency_parts(activities) == CyclesByText(activities).parts()


@pytest.mark.parametrize("seed", series(range(60), 7))
def test_the_parts_of_a_plan_are_those_of_its_cycles_and_together_the_latency(seed: int) -> None:
    clock = clock_of_plan(seed)
    activities, _ = clock.run()
    parts = latency_parts(activities)
    assert parts == CyclesByText(activities).parts()
    assert parts.total == latency_of_plan(clock.problem, clock.plan)


def test_the_random_programs_wait_for_everything() -> None:
    """Otherwise the comparisons above prove nothing."""
    total = LatencyParts()
    for seed in range(150):
        total += latency_parts(activities_of_schedule(seed))
    assert min(total.by_name.values()) > 0


@SEEDS
def test_what_is_waited_on_ends_when_the_waiting_ends(seed: int) -> None:
    activities = activities_of_schedule(seed)
    for place, one in enumerate(activities):
        if one.waited_on is None:
            assert one.start == 0
            continue
        before = activities[one.waited_on]
        assert one.waited_on < place
        assert one.start in (before.stop, before.start + before.dram_cycles)


@SEEDS
def test_what_waits_for_an_operator_begins_later_when_that_lasts_longer(seed: int) -> None:
    case, random = random_program(seed), Random(seed)
    before = time_schedule(case.graph, case.accelerator, case.program, case.costs)
    waiting = [
        place
        for place, one in enumerate(before.activities)
        if one.idle_cycles and one.waited_on is not None and one.waited_for is not Wait.DRAM
        if before.activities[one.waited_on].queue is None
    ]
    if not waiting:
        return
    place = random.choice(waiting)
    operator = before.activities[before.activities[place].waited_on or 0].subject
    longer = replace(case.costs[operator], cycles=case.costs[operator].cycles + 1)
    after = time_schedule(case.graph, case.accelerator, case.program, {**case.costs, operator: longer})
    assert after.activities[place].start > before.activities[place].start


@SEEDS
def test_the_first_that_lacks_room_begins_so_much_earlier_with_it(seed: int) -> None:
    case = random_program(seed)
    roomy = frozenset(level.memory.name for level in case.accelerator.addressed)
    before = time_schedule(case.graph, case.accelerator, case.program, case.costs).activities
    after = time_schedule(case.graph, case.accelerator, case.program, case.costs, roomy).activities
    for one, other in zip(before, after, strict=True):
        if one.place_cycles:
            assert other.start == one.start - one.place_cycles
            return
        assert (one.start, one.stop) == (other.start, other.stop)


@SEEDS
def test_where_nobody_waits_for_places_none_is_lacking(seed: int) -> None:
    case = random_program(seed)
    before = time_schedule(case.graph, case.accelerator, case.program, case.costs)
    roomy = frozenset(level.memory.name for level in case.accelerator.addressed)
    after = time_schedule(case.graph, case.accelerator, case.program, case.costs, roomy)
    assert after.parts.waiting_for_room == 0
    assert all(one.waited_for is not Wait.PLACE or not one.idle_cycles for one in after.activities)
    pairs = zip(after.activities, before.activities, strict=True)
    assert all(one.start <= other.start for one, other in pairs)


@pytest.mark.parametrize("seed", series(range(40), 7))
def test_a_plan_without_want_of_room_ends_no_later(seed: int) -> None:
    clock = clock_of_plan(seed)
    before, _ = clock.run()
    after, _ = clock.run(frozenset(memory.name for memory in clock.problem.memories))
    assert max(one.stop for one in after) <= max(one.stop for one in before)
    assert latency_parts(after).waiting_for_room == 0


@SEEDS
def test_residencies_are_in_use_while_anything_uses_them(seed: int) -> None:
    case = random_program(seed)
    timeline = time_schedule(case.graph, case.accelerator, case.program, case.costs)
    assert [one.begun for one in timeline.places] == sorted(one.begun for one in timeline.places)
    for one in timeline.activities:
        if one.queue is not None:
            ends = {one.source, one.target} - {DRAM}
            assert ends == {used.memory for used in uses_of_copy(timeline, one, ends)}
    by_memory: dict[str, list[PlaceUse]] = {}
    for used in timeline.places:
        by_memory.setdefault(used.memory, []).append(used)
    for uses in by_memory.values():
        assert most_bytes_at_once(uses) == most_bytes_by_cycle(uses)


def uses_of_copy(timeline: ScheduleTimeline, one: Activity, ends: set[str | None]) -> list[PlaceUse]:
    """Return the residencies of the copied tensor that span the whole copy."""
    return [
        used
        for used in timeline.places
        if used.tensor == one.subject and used.memory in ends and used.begun < one.instruction
        if used.stop is not None and used.start <= one.start and one.stop <= used.stop
    ]


def most_bytes_by_cycle(uses: Sequence[PlaceUse]) -> int:
    used = [one for one in uses if one.stop is not None]
    cycles = range(max((one.stop or 0 for one in used), default=0))
    return max((sum(one.size_bytes for one in used if one.start <= c < (one.stop or 0)) for c in cycles), default=0)


def test_an_array_that_never_waits_has_no_gaps() -> None:
    activities = (Activity(0, "a", 0, 5), Activity(1, "b", 5, 7))
    assert list(array_waits(activities)) == []
    assert latency_parts(activities) == LatencyParts(7)
    assert latency_parts(()) == LatencyParts()
