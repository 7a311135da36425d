"""Rematerialisation and outputs in bytes of inputs, held against brute force."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from onchip.answer.document import Claim
from onchip.answer.problem import Objective, Order, Placement, Problem, Recomputation
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
from onchip.memory.decisions import OperatorSchedule, compose, non_compulsory_cost, schedule_of_moves
from onchip.memory.methods import METHODS
from onchip.memory.remat.replay import FirstRuns, Guide, GuidedReplay
from onchip.memory.remat.search import RecomputationSearch, StageModel, moment_of_any_order, moments_of_order
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.verify.verifier import verify
from oracles.one_scratchpad import long_lived_graph, random_graph
from oracles.recomputation import least_cost_with_recomputation
from oracles.shared_bytes import least_shared_arena, least_shared_traffic, random_sharing_graph
from support.runs import run_seeded
from support.series import in_one_test, series, with_slow

# Operators that run again: plans, bounds and proofs against every single instruction tried


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


# In-place outputs: plans equal a brute force over all scratchpad states, and run on real bytes


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
