"""Latency bounds hold for all programs of graphs whose tensors have early and late readers."""

from __future__ import annotations

import pytest

from onchip.bounds.latency.latency_bounds import least_latency_bound
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.memory.timed.homes import HomesOfOperands
from oracles.least_latency import TooManyProgramsError
from oracles.least_latency_states import some_program_ends_before
from support.series import series
from support.skipping_graphs import skipping_problem

LATE_READER_SEEDS = (1168, 2458)
"""Here an earlier reader of the tensor that is loaded last made a bound false."""


def bound_holds(seed: int, most_states: int) -> bool:
    """Return True if the bound is proven by exhaustion; fail if some program ends before it."""
    problem = skipping_problem(seed, 2 + seed % 5)
    if HomesOfOperands(WaysToRun(problem)).unfit is not None:
        return False
    bound = least_latency_bound(problem)
    try:
        assert not some_program_ends_before(problem, bound.cycles, most_states), (seed, bound)
    except TooManyProgramsError:
        return False
    return True


@pytest.mark.parametrize("seed", LATE_READER_SEEDS)
def test_an_early_reader_does_not_wait_for_a_late_load(seed: int) -> None:
    assert bound_holds(seed, most_states=300)


@pytest.mark.slow
def test_no_program_ends_before_a_bound_of_a_skipping_graph() -> None:
    assert sum(bound_holds(seed, most_states=150) for seed in range(100)) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("part", series(range(20), 1))
def test_no_program_ends_before_a_bound_of_ten_thousand_skipping_graphs(part: int) -> None:
    assert sum(bound_holds(seed, most_states=300) for seed in range(500 * part, 500 * (part + 1))) >= 200
