"""Common properties of all registered methods, also at limits and on real networks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from onchip.answer.document import Claim, Granularity, Reading
from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.result import Status
from onchip.api.networks import read_network
from onchip.api.plan import Request, plan_network, plan_problem
from onchip.api.target import CapacityBudget, Target
from onchip.arch.memory import Memory
from onchip.errors import UsageError
from onchip.memory.methods import METHODS
from onchip.model.capacity.bounds import greatest_need
from onchip.search.budget.limits import Limits
from onchip.verify.verifier import verify
from oracles.one_scratchpad import least_peak, least_traffic, random_graph
from support.onnx_networks import LIGHT_MODELS
from support.series import with_slow
from support.timed_problems import with_durations

# Common properties and claims of every registered method, on the same small problems


SEEDS = (3, 4, 8, 11, 16)
OPERATORS = 5
LIMITS = Limits(time_limit_seconds=20)
OBJECTIVES = tuple(one for one in Objective if one is not Objective.RECOMPUTATION)
"""Those of plans that run everything once; test_recomputation has the other."""
SUPPORTED = [
    (name, objective, order)
    for name, objective, order in product(METHODS, OBJECTIVES, Order)
    if objective in METHODS[name].objectives and order in METHODS[name].orders
]


def small_problem(seed: int, objective: Objective, order: Order) -> Problem:
    """Return a problem with room for a plan: the greatest need for traffic, ample room for the peak."""
    graph = random_graph(seed, operators=OPERATORS)
    problem = asked(Problem(graph, (Memory("sram", 1000, (1, 4)[seed % 2]),), order=order), objective)
    if objective is Objective.PEAK:
        return problem
    return replace(problem, memories=(replace(problem.memories[0], capacity_bytes=greatest_need(problem).need_bytes),))


def asked(problem: Problem, objective: Objective) -> Problem:
    """Return the problem with an objective, and with durations for latency."""
    known = with_durations(problem) if objective is Objective.LATENCY else problem
    return replace(known, objective=objective)


def least(problem: Problem) -> int | None:
    """Return the minimum that the oracle finds over all orders, or None for latency, which has separate oracles."""
    if problem.objective is Objective.LATENCY:
        return None
    any_order = problem if problem.order is Order.GIVEN else replace(problem, order=Order.FREE)
    return least_peak(any_order) if problem.objective is Objective.PEAK else least_traffic(any_order)


@pytest.mark.parametrize(("name", "objective", "order"), SUPPORTED)
def test_a_method_makes_legal_plans_and_claims_nothing_false(name: str, objective: Objective, order: Order) -> None:
    for seed in SEEDS:
        problem = small_problem(seed, objective, order)
        result = plan_problem(problem, name, LIMITS)

        optimum = least(problem)
        assert (optimum is None) is (objective is Objective.LATENCY)
        assert result.status is not Status.INFEASIBLE
        assert optimum is None or result.lower_bound <= optimum or order is Order.MIN_PEAK
        if result.answer is None or result.objective_value is None:
            continue
        claim = Claim(name, result.status, objective, result.objective_value, result.lower_bound)
        assert verify(result.answer.problem or problem, result.answer, claim).violations == ()
        assert result.lower_bound <= result.objective_value
        assert optimum is None or result.objective_value >= optimum
        if optimum is not None and result.status is Status.OPTIMAL and order is not Order.MIN_PEAK:
            assert result.objective_value == optimum, f"seed {seed}"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_finds_plans(name: str) -> None:
    """UNKNOWN is honest, but not of five operators in ample time with room for everything."""
    objective, order = next((objective, order) for method, objective, order in SUPPORTED if method == name)
    problem = asked(Problem(random_graph(3, operators=OPERATORS), (Memory("sram", 1000),), order=order), objective)

    assert plan_problem(problem, name, LIMITS).answer is not None


@pytest.mark.parametrize("name", METHODS)
def test_one_byte_too_little_for_an_operator_is_infeasible(name: str) -> None:
    objective, order = next((objective, order) for method, objective, order in SUPPORTED if method == name)
    problem = small_problem(3, Objective.TRAFFIC, order)
    small = replace(problem.memories[0], capacity_bytes=greatest_need(problem).need_bytes - 1)
    result = plan_problem(asked(replace(problem, memories=(small,)), objective), name, LIMITS)

    assert result.status is Status.INFEASIBLE
    assert result.answer is None


@pytest.mark.parametrize(("name", "objective", "order"), [*product(METHODS, OBJECTIVES, Order)])
def test_what_a_method_does_not_support_is_refused(name: str, objective: Objective, order: Order) -> None:
    if (name, objective, order) in SUPPORTED:
        return
    with pytest.raises(UsageError, match="does not support"):
        plan_problem(small_problem(3, objective, order), name, LIMITS)


# Third-party networks: plans are proven where the proof is quick, and legal at any time limit


QUICK_MODELS = [
    path for path in LIGHT_MODELS if path.stem in ("light_squeezenet", "light_shufflenet", "light_densenet121")
]
BUNDLED = ("amoebanetd_18_256", "darts_v2", "nasnetalarge", "pnasnet5large")
AMPLE = Limits(time_limit_seconds=60)


@pytest.mark.parametrize("granularity", Granularity)
@pytest.mark.parametrize(
    "path", with_slow(QUICK_MODELS, lambda path: "densenet" in path.stem), ids=lambda path: path.stem
)
def test_a_light_model_is_planned_optimally_at_every_budget(path: Path, granularity: Granularity) -> None:
    """The pipeline raises for a plan that the verifier does not pass."""
    reading = Reading(bits=8, granularity=granularity)
    values = []
    for budget in CapacityBudget:
        outcome = plan_network(Request(str(path), reading, Target(budget), limits=AMPLE))
        assert outcome.result.status is Status.OPTIMAL
        assert outcome.figures is not None
        assert outcome.figures.arena_bytes <= outcome.capacity_bytes
        values.append(outcome.figures.non_compulsory)
    assert values == sorted(values, reverse=True)
    assert values[-1] == 0


@pytest.mark.parametrize(
    ("name", "order"), with_slow(product(BUNDLED, (Order.FREE, Order.GIVEN)), lambda case: case[0] == "pnasnet5large")
)
def test_one_second_leaves_a_legal_plan_of_a_searched_architecture(name: str, order: Order) -> None:
    graph = read_network(name, Reading(bits=8))
    need_bytes = greatest_need(Problem(graph, (Memory("sram", 1),))).need_bytes
    problem = Problem(graph, (Memory("sram", need_bytes),), order=order)
    result = plan_problem(problem, limits=Limits(time_limit_seconds=1))

    assert result.answer is not None
    assert result.objective_value is not None
    assert result.lower_bound <= result.objective_value
