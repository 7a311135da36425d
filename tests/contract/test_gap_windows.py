"""Least costs in windows bound the least cost of an order, and equal it if one window covers the order."""

from __future__ import annotations

from itertools import pairwise

from onchip.memory.decisions import non_compulsory_cost
from onchip.memory.retention.kept_gaps import GapWindows, KeptGaps
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Limits, Run
from oracles.one_scratchpad import least_traffic, long_lived_graph, random_graph
from support.one_order import tight, windowed
from support.series import in_one_test


@in_one_test("seed", range(60))
def test_no_plan_of_the_order_costs_less_than_its_windows_do(seed: int) -> None:
    graph = long_lived_graph(seed, operators=8) if seed % 2 else random_graph(seed, 8)
    problem = tight(graph, 1 + seed % 3, seed % 5)
    indexed = IndexedProblem.of(problem)
    least = least_traffic(problem)
    assert least is not None
    for window_steps in (1, 2, 3, 5):
        windows = GapWindows(indexed, range(indexed.operator_count), window_steps)
        windows.solve(Run())
        assert windows.lower_bound <= least


@in_one_test("seed", range(20))
def test_one_window_of_the_whole_order_is_the_exact_model(seed: int) -> None:
    indexed = IndexedProblem.of(tight(windowed(40, seed)))
    windows = GapWindows(indexed, range(40), 40)
    windows.solve(Run())
    assert windows.lower_bound == KeptGaps(indexed, range(40)).solve(Run()).lower_bound


@in_one_test("seed", range(40))
def test_all_choices_of_the_whole_order_cost_what_the_exact_model_says(seed: int) -> None:
    graph = windowed(40, seed) if seed % 2 else long_lived_graph(seed, operators=12)
    indexed = IndexedProblem.of(tight(graph, (1, 64, 7)[seed % 3], seed % 5 * 64))
    order = range(indexed.operator_count)
    windows = GapWindows(indexed, order, len(order))
    schedule, exact = windows.solve_by_states(Run()), KeptGaps(indexed, order).solve(Run()).lower_bound
    assert schedule is not None
    assert windows.lower_bound <= exact
    if windows.is_exact:
        assert windows.lower_bound == exact == non_compulsory_cost(indexed, schedule)


def test_short_windows_lose_little_where_nothing_stays_long() -> None:
    indexed = IndexedProblem.of(tight(windowed(400, 1)))
    windows = GapWindows(indexed, range(400), 100)
    windows.solve(Run())
    exact = KeptGaps(indexed, range(400)).solve(Run()).lower_bound
    assert 0.97 * exact <= windows.lower_bound <= exact


def test_out_of_time_no_window_is_solved_and_nothing_is_said_to_stay() -> None:
    indexed = IndexedProblem.of(tight(windowed(60, 2)))
    windows = GapWindows(indexed, range(60), 20)
    schedule = windows.solve(Run(Limits(time_limit_seconds=0.0)))
    assert windows.lower_bound == 0
    uses = indexed.uses(range(60))
    for residency in schedule.residencies:
        within = [step for step in uses[residency.tensor] if residency.start <= step < residency.stop]
        assert all(following == last + 1 for last, following in pairwise(within))
