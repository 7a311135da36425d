"""Warm starts: known answers are kept, never trusted for another problem, and change no optimum."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from onchip.answer.problem import Count, Objective, Problem
from onchip.answer.result import Status
from onchip.api.plan import plan_problem
from onchip.api.target import roomy_problem
from onchip.search.budget.limits import WarmStart
from oracles.one_scratchpad import least_traffic, random_graph
from support.series import in_one_test, with_slow
from support.timed_problems import timed_graph, timed_problem


def sized(problem: Problem, capacity_bytes: int) -> Problem:
    return replace(problem, memories=(replace(problem.memories[0], capacity_bytes=capacity_bytes),))


@in_one_test("seed", range(40))
def test_the_least_is_the_same_with_what_neighbours_say(seed: int) -> None:
    random = Random(seed)
    roomy = roomy_problem(random_graph(seed, operators=5), Count.ACTIVATIONS)
    greatest = roomy.memories[0].capacity_bytes
    smaller, capacity, larger = sorted(random.randint(greatest // 4, greatest) for _ in range(3))
    below, above = plan_problem(sized(roomy, smaller)), plan_problem(sized(roomy, larger))
    problem = sized(roomy, capacity)

    known = WarmStart.of(problem, below.answer, below.objective_value, above.lower_bound)
    result = plan_problem(problem, warm_start=known)

    least = least_traffic(problem)
    assert result.objective_value == least
    assert result.status is (Status.INFEASIBLE if least is None else Status.OPTIMAL)


def test_a_plan_that_meets_the_bound_is_the_answer() -> None:
    problem = roomy_problem(random_graph(1, operators=5), Count.ACTIVATIONS)
    plan = plan_problem(problem)
    larger = sized(problem, problem.memories[0].capacity_bytes + 8)
    result = plan_problem(larger, warm_start=WarmStart.of(larger, plan.answer, plan.objective_value, plan.lower_bound))
    assert plan.answer is not None
    assert result.answer is not None
    assert (result.status, result.answer.instructions) == (Status.OPTIMAL, plan.answer.instructions)
    assert result.answer.memories == larger.memories


def test_what_is_known_of_another_problem_is_not_taken() -> None:
    problem = roomy_problem(random_graph(2, operators=5), Count.ACTIVATIONS)
    wrong = WarmStart.of(problem, None, None, 10**9)
    assert plan_problem(sized(problem, problem.memories[0].capacity_bytes + 1), warm_start=wrong).lower_bound < 10**9


@pytest.mark.parametrize("seed", with_slow(range(10), {0, 1, 6, 7}.__contains__))
def test_no_plan_ends_later_than_one_that_is_known(seed: int) -> None:
    random = Random(seed)
    graph = timed_graph(random, 4)
    problem = timed_problem(graph, 2 * sum(tensor.size_bytes for tensor in graph.tensors), random)
    capacity = problem.memories[0].capacity_bytes
    below = plan_problem(sized(problem, capacity // 3), "timed")
    larger = sized(problem, capacity // 2)

    result = plan_problem(larger, "timed", warm_start=WarmStart.of(larger, below.answer, below.objective_value, 3))

    assert problem.objective is Objective.LATENCY
    assert result.lower_bound >= 3
    if below.objective_value is not None:
        assert result.objective_value is not None
        assert result.objective_value <= below.objective_value
