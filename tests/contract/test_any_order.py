"""Large graphs in any order: bounds hold for every plan of every order, and replanned windows leave plans legal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from onchip.answer.problem import Order, Problem
from onchip.answer.result import Status
from onchip.bounds.retention.sure_gaps import groups_of_uses, sure_gaps
from onchip.ir.graph import Graph
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions import PlanIncumbent, non_compulsory_cost, schedule_of_moves
from onchip.memory.effort import StepParams
from onchip.memory.retention.sure_gaps import SureGapsBound
from onchip.memory.spill import any_order, parts_bound, windows
from onchip.memory.spill.any_order import AnyOrderPlanner, OrderParams
from onchip.memory.spill.exact import METHOD, TrafficParams, TrafficPlanner
from onchip.memory.spill.parts_bound import WHOLE, PartProblem, PartsBound, PartsParams, UseGroup
from onchip.memory.spill.search import BestFirstSearch, LeastBytesParams
from onchip.memory.spill.windows import MovablePlan, WindowMoves, WindowParams
from onchip.model.lifetimes.indexed import IndexedProblem, Precedence, bits, mask_of, uses_of
from onchip.search.budget.limits import Limits, Progress, Run
from oracles.one_scratchpad import least_traffic, long_lived_graph, random_graph
from support.one_order import assert_true, tight, windowed
from support.series import in_one_test, series, with_slow


def free(graph: Graph, seed: int = 0) -> Problem:
    return replace(tight(graph, 1 + seed % 3, seed % 5), order=Order.FREE)


def some_problem(seed: int, operators: int) -> Problem:
    return free(long_lived_graph(seed, operators) if seed % 2 else random_graph(seed, operators), seed)


def least_in_bytes(indexed: IndexedProblem) -> int:
    cost = BestFirstSearch(indexed, Run()).solve().cost
    assert cost is not None
    return cost


def belady_plan(indexed: IndexedProblem) -> MovablePlan:
    return MovablePlan(indexed, schedule_of_moves(indexed, belady_moves(indexed, range(indexed.operator_count))))


@pytest.mark.parametrize("sizes", [(1, 2), (2, 4), (3, 5)])
@pytest.mark.parametrize("seeds", [range(at, at + 20) for at in range(0, 60, 20)])
def test_no_plan_costs_less_than_its_parts_and_what_waits_between_them(seeds: range, sizes: tuple[int, int]) -> None:
    """The bound holds in every round, as shares move and parts merge."""
    bounds = []
    for seed in seeds:
        indexed = IndexedProblem.of(some_problem(seed, 14))
        precedence, least = Precedence(indexed), least_in_bytes(indexed)
        parts = PartsBound(indexed, precedence, range(indexed.operator_count), sizes)
        gaps = filter(parts.is_between_groups, sure_gaps(indexed, precedence))
        between = SureGapsBound(indexed, precedence, gaps).solve(Run())
        for bound in parts.solve(Run()):
            assert between + bound <= least, seed
        bounds.append(between + bound)
    assert any(bounds)


@in_one_test("seed", range(12))
def test_shares_of_a_group_never_exceed_the_whole(seed: int) -> None:
    indexed = IndexedProblem.of(some_problem(seed, 14))
    parts = PartsBound(indexed, Precedence(indexed), range(indexed.operator_count), (2, 4))
    for _ in parts.solve(Run()):
        for group in parts.groups:
            assert sum(part.shares.get(group, 0) for part in parts.parts) <= WHOLE


@in_one_test("seed", range(12))
def test_halves_are_known_to_cost_no_more_than_the_part_made_of_them(seed: int) -> None:
    indexed = IndexedProblem.of(some_problem(seed, 14))
    parts = PartsBound(indexed, Precedence(indexed), range(indexed.operator_count), (2, 4))
    for _ in parts.solve(Run()):
        for part in parts.parts:
            if part.halves is not None:
                assert sum(half.lower_bound for half in part.halves) <= part.lower_bound
                alone = BestFirstSearch(
                    PartProblem.of(indexed, Precedence(indexed), part.operators, part.shares).problem, Run()
                ).solve()
                assert alone.cost is not None
                assert part.lower_bound <= alone.cost


@in_one_test("seed", range(12))
def test_the_part_of_all_operators_is_the_whole(seed: int) -> None:
    indexed = IndexedProblem.of(some_problem(seed, 12))
    shares = {
        UseGroup(tensor, mask_of(uses_of(indexed, tensor)), stores=True): WHOLE
        for tensor in range(len(indexed.tensors))
        if uses_of(indexed, tensor)
    }
    part = PartProblem.of(indexed, Precedence(indexed), range(indexed.operator_count), shares)
    found = BestFirstSearch(part.problem, Run()).solve()
    assert found.cost == least_in_bytes(indexed)
    assert found.moves is not None
    assert sum(part.paid(indexed, found.moves).values()) == found.cost


@in_one_test("seed", range(30))
def test_each_group_of_uses_surely_runs_after_the_one_before(seed: int) -> None:
    indexed = IndexedProblem.of(some_problem(seed, 12))
    precedence = Precedence(indexed)
    for tensor in range(len(indexed.tensors)):
        uses = uses_of(indexed, tensor)
        groups = groups_of_uses(uses, range(indexed.operator_count), precedence, 1)
        assert sorted(use for group in groups for use in bits(group)) == sorted(uses)
        for earlier, later in pairwise(groups):
            assert all(precedence.before[use] & earlier == earlier for use in bits(later))


def assert_legal_in_bytes(plan: MovablePlan) -> None:
    """Assert that every operator runs after its predecessors, and that no step exceeds the capacity."""
    indexed, there = plan.indexed, [set[int]() for _ in plan.order]
    for operator, befores in enumerate(indexed.predecessor_lists):
        assert all(plan.step_of[before] < plan.step_of[operator] for before in befores)
    for residency in plan.schedule.residencies:
        for step in range(residency.start, residency.stop):
            there[step].add(residency.tensor)
    for operator, tensors in zip(plan.order, there, strict=True):
        assert tensors.issuperset(indexed.operand_lists[operator])
        assert indexed.room.holds_all(tensors, indexed.room.units_of_all(tensors))


def windows_of(plan: MovablePlan, width: int) -> Iterator[tuple[int, int]]:
    return ((begin, begin + width) for begin in range(0, len(plan.order), max(1, width // 2)))


@pytest.mark.parametrize("width", [2, 5, 9])
@pytest.mark.parametrize("seed", range(12))
def test_a_window_planned_anew_saves_what_it_says_and_leaves_a_legal_plan(seed: int, width: int) -> None:
    graph = windowed(40, seed) if seed % 3 else long_lived_graph(seed, 30)
    indexed = IndexedProblem.of(free(graph, seed))
    plan = belady_plan(indexed)
    assert plan.schedule == schedule_of_moves(indexed, belady_moves(indexed, range(indexed.operator_count)))
    for begin, stop in windows_of(plan, width):
        window, before = plan.window(begin, stop), plan.cost
        found = BestFirstSearch(window.problem, Run(), seed=seed).solve()
        assert found.moves is not None
        assert found.cost is not None
        assert found.cost <= window.cost
        plan.put(window, found.moves)
        assert before - plan.cost == window.cost - found.cost
        assert plan.cost == non_compulsory_cost(indexed, plan.schedule)
    assert_legal_in_bytes(plan)


@in_one_test("seed", range(12))
def test_a_window_of_all_steps_ends_at_the_optimum(seed: int) -> None:
    indexed = IndexedProblem.of(some_problem(seed, 12))
    plan = belady_plan(indexed)
    list(WindowMoves().improve(plan, Run()))
    assert plan.cost == least_in_bytes(indexed)
    assert_legal_in_bytes(plan)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_windows_are_moved_by_several_workers_and_searched_until_they_are_at_their_best(
    monkeypatch: pytest.MonkeyPatch, workers: int, seed: int
) -> None:
    """Concurrent moves have no step in common, but may share tensors."""
    searched: list[int] = []

    def search(problem: IndexedProblem, run: Run, states: int, *, upper_bound: int) -> BestFirstSearch:
        searched.append(upper_bound)
        return BestFirstSearch(problem, run, states, upper_bound=upper_bound)

    monkeypatch.setattr(windows, "BestFirstSearch", search)
    monkeypatch.setattr(windows, "PARAMS", WindowParams(widths=(4, 6, 10)))
    indexed = IndexedProblem.of(free(windowed(60, seed)))
    plan, moves = belady_plan(indexed), WindowMoves()
    costs = [plan.cost]
    while len(costs) < 2 or costs[-1] < costs[-2]:
        searched.clear()
        moves.begin_again()
        list(moves.improve(plan, Run(Limits(workers=workers))))
        costs.append(plan.cost)

    assert costs[1] < costs[0]
    assert costs[-1] == non_compulsory_cost(indexed, plan.schedule)
    assert_legal_in_bytes(plan)
    searched.clear()
    moves.begin_again()
    list(moves.improve(plan, Run(Limits(workers=workers))))
    assert not searched


@pytest.mark.parametrize("seed", with_slow(range(24), {4}.__contains__))
def test_what_is_grouped_of_any_order_is_what_all_orders_cost_at_least(seed: int) -> None:
    """Limits of one state keep the searches from proving anything before bounds and moves do."""
    problem = some_problem(seed, 7)
    incumbent = PlanIncumbent(IndexedProblem.of(problem), Run(Limits(workers=1 + seed % 3)))
    few = LeastBytesParams(first_states=1, greedy_states=1, far_states=1)
    TrafficPlanner(incumbent, TrafficParams(large_operators=3, least_bytes=few)).solve()
    assert_true(problem, incumbent.result(METHOD), least_traffic(problem))


def test_the_search_goes_on_if_the_plan_of_a_large_graph_lacks_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_memory(planner: AnyOrderPlanner) -> Iterator[float | None]:
        yield 1.0
        raise MemoryError

    monkeypatch.setattr(AnyOrderPlanner, "turns", without_memory)
    problem = some_problem(5, 9)
    incumbent = PlanIncumbent(IndexedProblem.of(problem), Run())
    few = LeastBytesParams(first_states=1, greedy_states=1, far_states=1)
    TrafficPlanner(incumbent, TrafficParams(large_operators=3, least_bytes=few)).solve()
    result = incumbent.result(METHOD)
    assert (result.status, result.objective_value) == (Status.OPTIMAL, least_traffic(problem))


@pytest.mark.parametrize("seed", series((1, 0), 1))
def test_bounds_rise_and_values_fall_until_it_ends(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(any_order, "PARAMS", OrderParams(layouts=6_000))
    monkeypatch.setattr(any_order, "STEP", StepParams(long_work=0.1))
    monkeypatch.setattr(parts_bound, "PARAMS", PartsParams(states=3_000))
    heard: list[Progress] = []
    indexed = IndexedProblem.of(free(windowed(60, seed)))
    incumbent = PlanIncumbent(indexed, Run(listener=heard.append))
    planner = AnyOrderPlanner(incumbent, incumbent.run)
    assert all(nodes is None or nodes > 0 for nodes in planner.turns())
    assert planner.least_cost_in_bytes is not None
    assert 0.4 * planner.least_cost_in_bytes <= incumbent.lower_bound <= planner.least_cost_in_bytes
    values = [one.best for one in heard if one.best is not None]
    assert values == sorted(values, reverse=True)
    bounds = [one.lower_bound for one in heard if one.lower_bound]
    assert bounds == sorted(bounds)
