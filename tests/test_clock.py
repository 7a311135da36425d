"""Deadlines: start, end, and never a later end than before."""

from __future__ import annotations

import time
from math import inf

import pytest

from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Limits, Run


def test_without_a_limit_it_is_never_past() -> None:
    never = Deadline.after(None)
    assert not never.is_set
    assert not never.is_past
    assert never.seconds_left == inf
    assert not never.within(inf).is_set


def test_it_counts_from_where_it_began() -> None:
    assert Deadline.after(5.0, seconds_ago=5.0).is_past
    assert 30.0 < Deadline.after(50.0, seconds_ago=10.0).seconds_left <= 40.0
    assert Stopwatch().seconds >= 0


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 1.0, 100.0, inf])
def test_a_part_of_it_ends_no_later(seconds: float) -> None:
    whole = Deadline.after(10.0)
    part = whole.within(seconds)
    assert part.seconds_left <= min(seconds, 10.0)
    assert part.is_past is (seconds <= 0)
    assert part.is_set


def test_a_run_takes_its_time_limit_for_its_deadline_unless_it_is_given_one() -> None:
    assert Run(Limits(0.0)).stop is not None
    assert Run(Limits(0.0), deadline=Deadline()).stop is None
    assert not Run(Limits(None)).deadline.is_set
    assert 10.0 < Run(Limits(50.0), deadline=Deadline.after(20.0)).seconds_left <= 20.0


def test_work_takes_longer_where_a_process_waits_for_its_processor() -> None:
    now, had = time.perf_counter(), time.process_time()
    assert Deadline(began=now - 40, processor_began=had - 10).seconds_for(3) == pytest.approx(12, rel=0.1)
    assert Deadline(began=now - 10, processor_began=had - 20).seconds_for(3) == 3
    assert Deadline(began=now - 10, processor_began=had).seconds_for(3) == 3


def test_time_is_too_short_for_work_that_ends_after_it() -> None:
    """A process with a quarter of a processor does 5 s of work in 20 s."""
    now, had = time.perf_counter(), time.process_time()
    busy = Deadline(20.0 + 1000.0, began=now - 1000, processor_began=had - 250)
    assert busy.is_too_short_for(6)
    assert not busy.is_too_short_for(4)
    assert not Deadline().is_too_short_for(1e9)
