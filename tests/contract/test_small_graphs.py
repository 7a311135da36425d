"""Small graphs at the need of one operator are proven with addresses; two different provers agree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.problem import Order, Problem
from onchip.answer.result import Status
from onchip.api.audit import audit
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.audits.finding import Ruling
from onchip.model.capacity.bounds import greatest_need
from onchip.search.budget.limits import Limits
from oracles.one_scratchpad import least_traffic, long_lived_graph, random_graph
from oracles.scratchpads import least_cost_of_instructions
from support.series import in_one_test

AMPLE = 10**6


def tight_problem(seed: int, operators: int, greatest_size: int = 9) -> Problem:
    graph = (random_graph, long_lived_graph)[seed % 2](seed, operators, greatest_size=greatest_size)
    problem = Problem(graph, (Memory("sram", AMPLE, 1 + seed % 2),), order=Order.GIVEN if seed % 3 else Order.FREE)
    capacity_bytes = greatest_need(problem).need_bytes + seed % 5 // 3
    return replace(problem, memories=(replace(problem.memories[0], capacity_bytes=capacity_bytes),))


@in_one_test("seed", range(100))
def test_every_program_of_instructions_says_what_every_choice_and_packing_says(seed: int) -> None:
    problem = tight_problem(seed, 4, greatest_size=3)
    assert least_cost_of_instructions(problem) == least_traffic(problem)


@in_one_test("operators", range(8, 21))
def test_the_second_prover_finds_nothing_less(operators: int) -> None:
    for seed in range(8):
        problem = tight_problem(100 * operators + seed, operators)
        result = plan_problem(problem)
        assert result.status is Status.OPTIMAL
        assert audit(problem, result.lower_bound).ruling is Ruling.CONFIRMED


@pytest.mark.parametrize("node_limit", [1, 10, 100])
def test_with_little_work_the_bound_is_still_below_the_optimum(node_limit: int) -> None:
    for seed in (380, 2628, 3967):
        problem = Problem(long_lived_graph(seed, 9), (Memory("sram", 17),), order=Order.GIVEN)
        if greatest_need(problem).need_bytes > 17:
            continue
        expected = least_traffic(problem)
        result = plan_problem(problem, limits=Limits(node_limit=node_limit))
        assert expected is not None
        assert result.objective_value is not None
        assert result.lower_bound <= expected <= result.objective_value
