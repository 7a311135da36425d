"""In-place outputs: plans equal a brute force over all scratchpad states, and run on real bytes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from onchip.answer.problem import Objective, Order, Placement, Problem
from onchip.answer.program import Allocate, Plan
from onchip.answer.result import Status
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.audits.finding import Ruling
from onchip.audits.planning import audit_plan
from onchip.errors import UsageError
from onchip.memory.allocate.repair import place_or_cut_by_time
from onchip.memory.allocate.residencies import chained, pack_with_ties
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions import compose, non_compulsory_cost, schedule_of_moves
from onchip.memory.methods import METHODS
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.verify.verifier import verify
from oracles.shared_bytes import least_shared_arena, least_shared_traffic, random_sharing_graph
from support.runs import run_seeded
from support.series import in_one_test, series

AMPLE = 99


def tight_problem(seed: int, operators: int = 5, alignment: int = 1) -> Problem:
    chance = random.Random(seed + 7)
    graph = random_sharing_graph(seed, operators)
    order = chance.choice((Order.FREE, Order.GIVEN))
    problem = Problem(graph, (Memory("sram", AMPLE, alignment),), order=order)
    capacity_bytes = greatest_need(problem).need_bytes + chance.choice((0, 0, 1, 2))
    return replace(problem, memories=(Memory("sram", capacity_bytes, alignment),))


def shares(plan: Plan, problem: Problem) -> int:
    """Return the number of outputs allocated at the offset of one of their inputs."""
    there: dict[str, int] = {}
    found = 0
    for instruction in plan.instructions:
        if isinstance(instruction, Allocate):
            there[instruction.tensor] = instruction.offset_bytes
            producer = problem.graph.producer.get(instruction.tensor)
            pairs = producer.in_place if producer else ()
            found += any(
                there.get(one.input, -AMPLE) + one.shift_bytes == instruction.offset_bytes
                for one in pairs
                if one.output == instruction.tensor
            )
    return found


@pytest.mark.parametrize("seed", series(range(140), 40))
def test_the_least_traffic_is_that_of_every_state_of_the_scratchpad(seed: int) -> None:
    problem = tight_problem(seed)

    in_bytes = BestFirstSearch(IndexedProblem.of(problem), Run()).solve()
    result = plan_problem(problem)

    assert in_bytes.cost == least_shared_traffic(problem, with_addresses=False)
    assert result.status is Status.OPTIMAL
    assert result.objective_value == least_shared_traffic(problem)


@pytest.mark.parametrize("seed", series(range(40), 20))
@pytest.mark.parametrize("alignment", [2, 3])
def test_so_it_is_with_an_alignment(seed: int, alignment: int) -> None:
    problem = tight_problem(seed, alignment=alignment)
    least = least_shared_traffic(problem)
    result = plan_problem(problem)
    assert least is not None
    assert result.lower_bound <= least <= (result.objective_value or 0)
    assert result.objective_value == least


@pytest.mark.parametrize("seed", series(range(60), 25))
@pytest.mark.parametrize("alignment", [1, 2])
def test_the_least_arena_is_that_of_every_state_of_the_scratchpad(seed: int, alignment: int) -> None:
    problem = replace(tight_problem(seed), memories=(Memory("sram", 40, alignment),), objective=Objective.PEAK)
    result = plan_problem(problem)
    assert (result.status, result.objective_value) == (Status.OPTIMAL, least_shared_arena(problem))


@pytest.mark.parametrize("workers", [1, 3])
def test_several_workers_find_the_same_cost(workers: int) -> None:
    for seed in range(200, 215):
        indexed = IndexedProblem.of(tight_problem(seed, operators=8))
        run = Run(replace(Run().limits, workers=workers))
        alone = BestFirstSearch(indexed, Run()).solve()
        assert BestFirstSearch(indexed, run, states_alone=1).solve().cost == alone.cost


@in_one_test("seed", range(100))
def test_the_first_plan_is_legal_whatever_has_to_be_overwritten(seed: int) -> None:
    """The capacity is the greatest need of an operator; Belady's evictions come first, then addresses by time."""
    problem = tight_problem(1000 + seed, operators=9, alignment=1 + seed % 2)
    indexed = IndexedProblem.of(problem)
    schedule, offsets = place_or_cut_by_time(
        indexed, schedule_of_moves(indexed, belady_moves(indexed, range(indexed.operator_count)))
    )
    verdict = verify(problem, compose(indexed, schedule, offsets))
    assert verdict.is_legal, verdict.violations[0]
    assert verdict.figures.non_compulsory == non_compulsory_cost(indexed, schedule)


@in_one_test("seed", range(60))
def test_chains_and_chosen_ties_are_legal(seed: int) -> None:
    """Checks all ties of a schedule, and the ties that the model chooses, in an ample scratchpad."""
    problem = replace(tight_problem(seed, operators=9), memories=(Memory("sram", AMPLE),))
    indexed = IndexedProblem.of(problem)
    schedule = schedule_of_moves(indexed, belady_moves(indexed, range(indexed.operator_count)))
    chains = chained(indexed, schedule)
    ends = [0]
    for buffer in chains.problem.buffers:
        ends.append(ends[-1] + buffer.size_bytes)
    placed = [(chains.schedule, chains.offsets_bytes(ends[:-1]))]
    if (chosen := pack_with_ties(indexed, schedule, Run()).answer) is not None:
        placed.append(chosen)
    assert len(placed) == 2
    for one, offsets in placed:
        assert verify(problem, compose(indexed, one, offsets)).is_legal


@pytest.mark.slow
def test_plans_that_share_run_on_real_bytes() -> None:
    shared = 0
    for seed in range(80):
        problem = tight_problem(seed, operators=7)
        plan = plan_problem(problem).answer
        assert plan is not None
        shared += shares(plan, problem)
        assert run_seeded(problem, plan).difference is None
    assert shared > 80


def test_sharing_is_never_worse() -> None:
    for seed in range(60):
        problem = tight_problem(seed)
        operators = tuple(replace(operator, in_place=()) for operator in problem.graph.operators)
        apart = replace(problem, graph=replace(problem.graph, operators=operators))
        alone, together = plan_problem(apart), plan_problem(problem)
        if alone.objective_value is not None:
            assert (together.objective_value or 0) <= alone.objective_value


def test_methods_that_share_nothing_refuse() -> None:
    problem = tight_problem(0)
    assert any(operator.in_place for operator in problem.graph.operators)
    for name, method in METHODS.items():
        if name != "exact" and Objective.TRAFFIC in method.objectives:
            with pytest.raises(UsageError, match="share"):
                plan_problem(replace(problem, order=method.orders[0]), name)


def test_several_scratchpads_and_static_placement_refuse() -> None:
    problem = tight_problem(0)
    several = replace(problem, memories=(Memory("one", 9), Memory("two", 9)))
    static = replace(problem, placement=Placement.STATIC, order=Order.GIVEN)
    for one, why in ((several, "within one scratchpad"), (static, "static addresses")):
        with pytest.raises(UsageError, match=why):
            plan_problem(one)


def test_the_second_prover_says_nothing_of_what_it_has_no_model_of() -> None:
    assert audit_plan(tight_problem(0), 1, 5.0).ruling is Ruling.UNDECIDED
