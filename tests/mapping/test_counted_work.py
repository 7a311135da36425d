"""Limits that count work: the same on every machine, unless the time is over first."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Stop
from onchip.ir.layer import Layer
from onchip.mapping.tile_search.exact import ExactMapper, solve_exactly
from onchip.search.budget.clock import Deadline, WorkDeadline
from onchip.search.budget.limits import Limits, Run
from support.skip_network import skip_chip

PROBLEM = LayerProblem(Layer(k=24, c=24, p=24, q=24, r=3, s=3, partial_bits=16), skip_chip(400, 4000))


def test_time_passes_with_work_alone() -> None:
    run = Run(Limits(100.0)).for_work(2.0)
    own = run.within(1.5).apart(1.0)
    assert (run.seconds, run.seconds_left, own.seconds_left) == (0.0, 2.0, 1.0)
    own.spend(0.75)
    assert (run.seconds, run.seconds_left, own.seconds, own.seconds_left) == (0.75, 1.25, 0.75, 0.25)
    own.spend(0.25)
    assert own.stop is Stop.TIME_LIMIT
    assert own.deadline.has_time_beyond_work
    assert run.stop is None
    assert not run.deadline.has_time_beyond_work
    assert run.deadline.unlimited.seconds_left == inf
    assert run.apart(0.5).seconds == 0.0


def test_no_work_is_left_once_the_time_is_over() -> None:
    run = Run(deadline=Deadline.after(1.0, seconds_ago=2.0)).for_work(2.0)
    assert run.seconds == 0.0
    assert run.stop is Stop.TIME_LIMIT
    run.spend(2.0)
    assert not run.deadline.has_time_beyond_work


def test_where_a_clock_tells_the_time_nothing_is_spent() -> None:
    run = Run(Limits(100.0))
    run.spend(1000.0)
    assert not run.counts_work
    assert run.stop is None


@pytest.mark.parametrize("objective", MappingObjective)
def test_a_mapping_found_within_so_much_work_is_the_same_each_time(objective: MappingObjective) -> None:
    runs = [Run().for_work(0.01) for _ in range(2)]
    first, again = (solve_exactly(PROBLEM, objective, run) for run in runs)
    assert first.answer == again.answer
    assert first.answer is not None
    assert runs[0].seconds == runs[1].seconds > 0.0


def test_a_search_ends_when_its_work_is_done() -> None:
    mapper = ExactMapper(PROBLEM, MappingObjective.LATENCY, Run().for_work(0.001), best=1e30)
    found = mapper.solve()
    assert found.stopped_by is Stop.TIME_LIMIT
    more = ExactMapper(PROBLEM, MappingObjective.LATENCY, Run().for_work(0.02), best=1e30)
    more.solve()
    assert mapper.nodes < more.nodes


def test_work_is_halved_until_there_may_be_time_for_it() -> None:
    """At a third of a second a second there is time for a third of it, so half of what is left is to be done."""
    run = Run(deadline=Deadline.after(10.0, seconds_ago=0.0)).for_work(9.0)
    assert isinstance(run.deadline, WorkDeadline)
    slow = Run(deadline=replace(run.deadline, latest_began=-3.0))
    assert run.at_pace.seconds_left == 9.0
    slow.spend(1.0)
    assert slow.at_pace.seconds_left == 4.0
    assert slow.at_pace.deadline.is_cut
    assert not slow.deadline.is_cut


def test_for_work_that_is_not_counted_the_time_is_too_short_however_much_is_left_to_be_done() -> None:
    short = Run(deadline=Deadline.after(50.0)).for_work(1000.0).deadline
    assert short.is_too_short_for(1000.0)
    long = Run(deadline=Deadline.after(1e6)).for_work(1.0).deadline
    assert not long.is_too_short_for(2.0)


def test_what_was_left_undone_is_cut_although_all_other_work_is_done() -> None:
    run = Run(Limits(100.0)).for_work(2.0)
    own = run.within(1.0)
    assert not run.deadline.is_cut
    own.deadline.cut()
    assert run.deadline.is_cut
    assert run.at_pace.deadline.is_cut
    run.spend(2.0)
    assert run.deadline.is_cut


def test_a_clock_keeps_its_pace() -> None:
    run = Run(Limits(100.0))
    assert run.at_pace.deadline == run.deadline
    assert not run.deadline.is_cut


def test_work_is_cut_where_the_time_is_over_before_it_is_done() -> None:
    late = Run(deadline=Deadline.after(1.0, seconds_ago=2.0)).for_work(2.0)
    assert late.deadline.is_cut
    late.spend(2.0)
    assert not late.deadline.is_cut
