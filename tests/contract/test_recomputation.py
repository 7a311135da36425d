"""Operators that run again: plans, bounds and proofs against every single instruction tried."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from onchip.answer.document import Claim
from onchip.answer.problem import Objective, Order, Problem, Recomputation
from onchip.answer.result import Status
from onchip.arch.memory import Memory
from onchip.errors import UsageError
from onchip.memory.decisions import OperatorSchedule, non_compulsory_cost, schedule_of_moves
from onchip.memory.methods import METHODS
from onchip.memory.remat.replay import FirstRuns, Guide, GuidedReplay
from onchip.memory.remat.search import RecomputationSearch, StageModel, moment_of_any_order, moments_of_order
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.verify.verifier import verify
from oracles.one_scratchpad import long_lived_graph, random_graph
from oracles.recomputation import least_cost_with_recomputation
from support.runs import run_seeded
from support.series import with_slow

OBJECTIVES = (Objective.TRAFFIC, Objective.RECOMPUTATION)


def recomputation_cost(indexed: IndexedProblem, order: Iterable[int]) -> int:
    """Return the cost of all repeated runs of operators, in the objective's unit."""
    problem, run, cost = indexed.problem, set[int](), 0
    for operator in order:
        if operator in run:
            cost += problem.cost_again(problem.graph.operators[operator])
        run.add(operator)
    return cost


def problem_of(seed: int, operators: int = 6, slack: int = 1) -> Problem:
    """Return a tiny network in little room, with recomputation costs that are low compared with bytes moved."""
    chance = random.Random(seed)
    make = long_lived_graph if seed % 2 else random_graph
    graph = make(seed, operators=operators, greatest_size=3)
    costs = {operator.name: chance.randint(0, 2) for operator in graph.operators}
    roomy = Problem(
        graph,
        (Memory("sram", 10**6),),
        chance.choice(OBJECTIVES),
        chance.choice((Order.FREE, Order.GIVEN)),
        recomputation=Recomputation(costs),
    )
    capacity_bytes = greatest_need(roomy).need_bytes + chance.randint(0, slack)
    return replace(roomy, memories=(Memory("sram", capacity_bytes),))


def first_runs_of(problem: Problem) -> FirstRuns:
    indexed = IndexedProblem.of(problem)
    return FirstRuns(indexed, tuple(range(indexed.operator_count)))


@pytest.mark.parametrize("seeds", [range(start, start + 15) for start in range(0, 60, 15)], ids=str)
def test_the_search_finds_the_least_cost_in_bytes(seeds: range) -> None:
    for seed in seeds:
        problem = problem_of(seed)
        indexed = IndexedProblem.of(problem)
        answer = RecomputationSearch(indexed, Run(), 10**6).search()
        assert answer.lower_bound == least_cost_with_recomputation(problem, with_addresses=False), seed
        if answer.moves is not None:
            schedule = schedule_of_moves(indexed, answer.moves)
            moved = 0 if problem.objective.forbids_spills else non_compulsory_cost(indexed, schedule)
            assert moved + recomputation_cost(indexed, schedule.order) == answer.lower_bound


def test_running_again_is_cheaper_for_some_and_dearer_for_none() -> None:
    cheaper = 0
    for seed in range(60):
        problem = replace(problem_of(seed), objective=Objective.TRAFFIC)
        indexed = IndexedProblem.of(problem)
        dear = Recomputation(dict.fromkeys(problem.recomputation.costs, 10**6) if problem.recomputation else {})
        once = IndexedProblem.of(replace(problem, recomputation=dear))
        with_it, without = (RecomputationSearch(each, Run(), 10**6).search().lower_bound for each in (indexed, once))
        assert with_it is not None
        assert without is not None
        assert with_it <= without
        cheaper += with_it < without
    assert cheaper >= 5


@pytest.mark.parametrize("seed", with_slow(range(24), {0}.__contains__))
def test_a_plan_is_legal_and_right_and_its_claim_true_with_addresses(seed: int) -> None:
    problem = problem_of(seed, operators=5)
    result = METHODS["exact"](problem, Run())
    least = least_cost_with_recomputation(problem, with_addresses=True)
    if result.answer is None or result.objective_value is None:
        assert least is None or result.status is Status.UNKNOWN
        return
    claim = Claim("exact", result.status, problem.objective, result.objective_value, result.lower_bound)
    assert verify(problem, result.answer, claim).violations == ()
    assert run_seeded(problem, result.answer).difference is None
    assert least is not None
    assert result.lower_bound <= least <= result.objective_value
    assert result.status is not Status.OPTIMAL or result.objective_value == least


def test_no_bound_of_moments_is_above_the_least_cost() -> None:
    """Any moments of the given order together; of a free order each alone."""
    attained = 0
    for seed in range(50):
        problem = problem_of(seed)
        first_runs = first_runs_of(problem)
        steps = range(len(first_runs.order))
        least = RecomputationSearch(first_runs.indexed, Run(), 10**6).search().lower_bound
        if problem.order is Order.GIVEN:
            chosen = sorted(random.Random(seed).sample(steps, 2))
            models = [moments_of_order(first_runs, chosen), moments_of_order(first_runs, steps)]
        else:
            models = [(moment_of_any_order(first_runs, step),) for step in steps]
        answers = [StageModel(first_runs, moments).solve(Run()) for moments in models]
        assert least is None or not any(answer.is_infeasible for answer in answers), seed
        best = max(answer.lower_bound for answer in answers)
        assert least is None or best <= least, seed
        attained += best == least and best > 0
    assert attained >= 5


def test_a_search_that_is_cut_off_claims_no_more_than_the_least_cost() -> None:
    cut_off = 0
    for seed in range(40):
        indexed = IndexedProblem.of(problem_of(seed))
        whole = RecomputationSearch(indexed, Run(), 10**6).search()
        part = RecomputationSearch(indexed, Run(), 12).search()
        if whole.lower_bound is not None:
            assert part.lower_bound is not None
            assert part.lower_bound <= whole.lower_bound
            cut_off += part.moves is None
    assert cut_off >= 20


@pytest.mark.parametrize("patience", [1.0, 1.3])
@pytest.mark.parametrize("distance", [0.0, 1.0])
def test_a_replay_costs_what_it_says_and_never_less_than_the_least(distance: float, patience: float) -> None:
    found = 0
    for seed in range(60):
        problem = problem_of(seed, slack=3)
        first_runs = first_runs_of(problem)
        indexed = first_runs.indexed
        units = indexed.room.capacity_units
        replayed = GuidedReplay(first_runs, units, Guide(distance=distance, patience=patience)).replay()
        if replayed is None:
            continue
        found += 1
        schedule = schedule_of_moves(indexed, replayed.moves)
        moved = 0 if problem.objective.forbids_spills else non_compulsory_cost(indexed, schedule)
        assert moved + recomputation_cost(indexed, schedule.order) == replayed.cost, seed
        least = RecomputationSearch(indexed, Run(), 10**6).search().lower_bound
        assert least is not None
        assert least <= replayed.cost, seed
        assert all(units_at(indexed, schedule, step) <= units for step in range(len(schedule.order))), seed
    assert found >= 30


def units_at(indexed: IndexedProblem, schedule: OperatorSchedule, step: int) -> int:
    there = {one.tensor for one in schedule.residencies if one.start <= step < one.stop}
    return indexed.room.units_of_all(there)


def test_what_waits_may_have_left_with_its_last_use() -> None:
    """Patience lets tensors leave with their last use, which makes some plan cheaper, or possible."""
    cheaper = 0
    for seed in range(300):
        first_runs = first_runs_of(replace(problem_of(seed, operators=9, slack=3), order=Order.GIVEN))
        units = first_runs.indexed.room.capacity_units
        prompt, patient = (GuidedReplay(first_runs, units, Guide(patience=one)).replay() for one in (1.0, 1.3))
        cheaper += patient is not None and (prompt is None or patient.cost < prompt.cost)
    assert cheaper


def test_least_cycles_of_what_runs_again_are_not_asked_of_plans_that_run_everything_once() -> None:
    problem = replace(problem_of(0), objective=Objective.RECOMPUTATION, recomputation=None)
    assert not any(method.supports(problem) for method in METHODS.values())
    with pytest.raises(UsageError, match="operators may not run again"):
        METHODS["exact"](problem, Run())
