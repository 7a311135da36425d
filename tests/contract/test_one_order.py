"""Claims for one order, conflicts of packings, and learning from them."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from onchip.answer.document import Reading
from onchip.answer.packing import Buffer, PackingProblem, StaticMemory, StaticPackingProblem
from onchip.answer.problem import Order, Problem
from onchip.answer.result import Status
from onchip.api.networks import network_to_plan
from onchip.arch.memory import Memory
from onchip.memory.allocate.exact import Attempt, Knowledge
from onchip.memory.allocate.pools import MemoryModel, conflict_in
from onchip.memory.allocate.residencies import LayoutPlacer, has_countable_layouts
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions import PlanIncumbent, compose, non_compulsory_cost, schedule_of_moves
from onchip.memory.retention.kept_gaps import ConflictLearning, GapWindows, KeptGaps
from onchip.memory.spill.any_order import OneOrderPlanner
from onchip.memory.spill.exact import solve_exactly
from onchip.memory.spill.min_peak import min_peak_bytes
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Limits, Run
from onchip.verify.verifier import verify
from oracles.one_scratchpad import least_traffic, long_lived_graph, random_graph
from oracles.packing import fits
from support.one_order import assert_true, tight, windowed
from support.series import in_one_test, series

# Claims for one order, at any size, agree with brute force over the tensors that stay


@pytest.mark.parametrize("seed", series(range(60), 30))
def test_what_one_order_is_proven_to_cost_is_what_all_choices_cost_at_least(seed: int) -> None:
    graph = long_lived_graph(seed, operators=8) if seed % 2 else random_graph(seed, 8)
    problem = tight(graph, 1 + seed % 3, seed % 5)
    incumbent = PlanIncumbent(IndexedProblem.of(problem), Run())
    order = range(incumbent.indexed.operator_count)
    first = schedule_of_moves(incumbent.indexed, belady_moves(incumbent.indexed, order))
    OneOrderPlanner(incumbent, order, incumbent.run, is_the_only_order=True).solve(first)
    result, least = incumbent.result("one order"), least_traffic(problem)
    assert_true(problem, result, least)


@in_one_test("seed", range(60))
def test_what_stays_at_least_cost_in_bytes_is_what_all_choices_find_without_addresses(seed: int) -> None:
    problem = tight(random_graph(seed, 8), beyond=seed % 7)
    indexed = IndexedProblem.of(problem)
    chosen = KeptGaps(indexed, range(indexed.operator_count)).solve(Run())
    assert chosen.objective_value == chosen.lower_bound == least_traffic(problem, with_addresses=False)


@pytest.mark.parametrize("width", [1, 2, 40])
@pytest.mark.parametrize("seed", range(20))
def test_any_beam_gives_a_legal_plan_that_costs_what_it_says(seed: int, width: int) -> None:
    problem = tight(windowed(60, seed), (1, 4, 64)[seed % 3], seed % 50)
    indexed = IndexedProblem.of(problem)
    schedule = schedule_of_moves(indexed, belady_moves(indexed, range(60)))
    placer = LayoutPlacer(indexed, schedule)
    placed = placer.place(width, Run())
    assert placed is not None
    verdict = verify(problem, compose(indexed, *placed))
    assert verdict.violations == ()
    assert verdict.figures.non_compulsory_cost == non_compulsory_cost(indexed, placed[0]) == placer.cost


@pytest.mark.parametrize("seed", range(8))
def test_wider_beams_cost_less_on_the_whole(seed: int) -> None:
    indexed = IndexedProblem.of(tight(windowed(120, seed)))
    chosen = KeptGaps(indexed, range(120)).solve(Run()).answer
    assert chosen is not None
    placer, costs = LayoutPlacer(indexed, chosen), []
    for width in (1, 200):
        assert placer.place(width, Run()) is not None
        costs.append(placer.cost)
    assert costs[1] < costs[0]


def test_a_schedule_that_packs_as_it_is_costs_no_more() -> None:
    indexed = IndexedProblem.of(tight(random_graph(3, 8), beyond=10**6))
    schedule = schedule_of_moves(indexed, belady_moves(indexed, range(indexed.operator_count)))
    placer = LayoutPlacer(indexed, schedule)
    assert placer.place(1, Run()) is not None
    assert placer.cost == non_compulsory_cost(indexed, schedule) == 0


def test_what_overwrites_inputs_or_has_several_scratchpads_has_no_layouts() -> None:
    graph = random_graph(1, 6)
    assert has_countable_layouts(IndexedProblem.of(tight(graph)))
    two = Problem(graph, (Memory("one", 100), Memory("two", 100)), order=Order.GIVEN)
    assert not has_countable_layouts(IndexedProblem.of(two))


@pytest.mark.parametrize("seed", range(2))
def test_random_operators_end_near_what_is_least_in_bytes(seed: int) -> None:
    result = solve_exactly(tight(windowed(80, seed)), Run())
    assert result.gap is not None
    assert result.gap < 0.1


@pytest.mark.slow
def test_the_same_question_has_the_same_plan_byte_for_byte() -> None:
    problem = tight(windowed(80, 5))
    first, second = (solve_exactly(problem, Run()) for _ in range(2))
    assert first.answer == second.answer


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_free_order_costs_no_more_than_the_given_one_is_proven_to(seed: int) -> None:
    given = tight(windowed(60, seed))
    least = solve_exactly(given, Run())
    free = solve_exactly(replace(given, order=Order.FREE), Run(Limits(time_limit_seconds=5.0)))
    assert least.objective_value is not None
    assert free.objective_value is not None
    assert free.objective_value <= 1.02 * least.objective_value


@pytest.mark.slow
def test_a_network_whose_addresses_cost_more_than_bytes_is_proven_by_conflicts() -> None:
    result = solve_exactly(
        tight(network_to_plan("nasnetalarge", Reading(bits=8))), Run(Limits(time_limit_seconds=60.0))
    )
    assert result.status is Status.OPTIMAL
    assert result.lower_bound > 12_725_640


# Least costs in windows bound the least cost of an order, and equal it if one window covers the order


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


# Cuts from failed packings are valid: brute force shows that they forbid no choice that packs


def crowded(seed: int) -> PackingProblem:
    """Return seven buffers and a capacity near the peak of live bytes."""
    chance = random.Random(seed)
    starts = [chance.randint(0, 5) for _ in range(7)]
    buffers = tuple(Buffer(start, start + chance.randint(1, 4), chance.randint(1, 5)) for start in starts)
    live = max(sum(b.size_bytes for b in buffers if b.start <= step < b.stop) for step in range(10))
    return PackingProblem(buffers, max(1, live + chance.randint(-2, 1)), chance.choice((1, 1, 2)))


@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(0, 300, 50)], ids=str)
def test_a_conflict_forbids_no_choice_that_packs(seeds: range) -> None:
    learnt = 0
    for seed in seeds:
        problem = crowded(seed)
        attempt, indices = Attempt(problem, Run()), range(len(problem.buffers))
        if attempt.go_on(2_000) is not Knowledge.UNPACKABLE:
            continue
        memories = (StaticMemory(problem.capacity_bytes, problem.alignment_bytes), StaticMemory())
        model = MemoryModel(StaticPackingProblem(problem.buffers, memories, ({0: 0, 1: 1},) * len(indices)), Run())
        for stretch in {attempt.hard_stretch, problem.steps}:
            shapes = list(model.shapes(conflict_in(problem, stretch, Run())))
            learnt += 1
            for kept in (set(some) for count in range(len(indices) + 1) for some in combinations(indices, count)):
                if all(count <= len(kept.intersection(alike)) for count, alike in shapes):
                    lives = [(b.start, b.stop, b.size_bytes) for b in (problem.buffers[index] for index in kept)]
                    assert not fits(lives, problem.capacity_bytes, problem.alignment_bytes), f"seed {seed}"
    assert learnt


# For one order, cuts learnt from failed packings prove the optimum with addresses


LONG = (17, 22, 38, 46, 49, 58)
"""Seeds that take a second or more."""


@pytest.mark.parametrize("seed", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in range(60)])
def test_learning_from_conflicts_proves_the_optimum_of_the_given_order(seed: int) -> None:
    graph = long_lived_graph(seed, operators=9)
    alignment = 1 + seed % 3
    roomy = Problem(graph, (Memory("sram", 10**6, alignment),), order=Order.GIVEN)
    least, most = greatest_need(roomy).need_bytes, min_peak_bytes(roomy, Run()).objective_value
    assert most is not None
    problem = Problem(graph, (Memory("sram", least + (most - least) * (seed % 4) // 3, alignment),), order=Order.GIVEN)
    incumbent = PlanIncumbent(IndexedProblem.of(problem), Run())
    ConflictLearning(incumbent, range(9), is_the_only_order=True).solve(incumbent.run)
    result = incumbent.result("learning")
    assert result.status is Status.OPTIMAL
    assert result.objective_value == least_traffic(problem)
    assert result.answer is not None
    assert verify(problem, result.answer).violations == ()
