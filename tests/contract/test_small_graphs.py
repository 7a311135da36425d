"""Small graphs at the need of one operator are proven with addresses; two different provers agree."""

from __future__ import annotations

from contextlib import suppress
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
from oracles.one_plan import Question
from oracles.one_scratchpad import least_traffic, long_lived_graph, random_graph
from oracles.packing import TooLargeError
from oracles.placed_states import costs_less
from support.series import in_one_test, with_slow

AMPLE = 10**6


def tight_problem(seed: int, operators: int) -> Problem:
    graph = (random_graph, long_lived_graph)[seed % 2](seed, operators)
    problem = Problem(graph, (Memory("sram", AMPLE, 1 + seed % 2),), order=Order.GIVEN if seed % 3 else Order.FREE)
    capacity_bytes = greatest_need(problem).need_bytes + seed % 5 // 3
    return replace(problem, memories=(replace(problem.memories[0], capacity_bytes=capacity_bytes),))


def is_below(problem: Problem, cost: int, most_tries: int) -> bool:
    """Return True if the oracle over all scratchpad states finds a plan below `cost`."""
    tensors = problem.counted_tensors
    number = {tensor.name: index for index, tensor in enumerate(tensors)}
    question = Question(
        tuple(tensor.size_bytes for tensor in tensors),
        tuple(str(tensor.role) for tensor in tensors),
        tuple(tuple(number[name] for name in operator.inputs) for operator in problem.graph.operators),
        tuple(tuple(number[name] for name in operator.outputs) for operator in problem.graph.operators),
        problem.memories[0].alignment_bytes,
    )
    is_given = problem.order is Order.GIVEN
    return costs_less(question, problem.memories[0].capacity_bytes, cost, most_tries, is_given=is_given)


@pytest.mark.parametrize("seed", with_slow(range(60), {32}.__contains__))
def test_every_state_of_the_scratchpad_says_what_every_choice_and_packing_says(seed: int) -> None:
    problem = tight_problem(seed, 5)
    expected = least_traffic(problem)

    assert expected is not None
    assert not is_below(problem, expected, AMPLE * 10)
    assert is_below(problem, expected + 1, AMPLE * 10)


@in_one_test("operators", range(8, 21))
def test_the_second_prover_finds_nothing_less(operators: int) -> None:
    for seed in range(8):
        problem = tight_problem(100 * operators + seed, operators)
        result = plan_problem(problem)
        assert result.status is Status.OPTIMAL
        assert audit(problem, result.lower_bound).ruling is Ruling.CONFIRMED


def test_no_state_of_the_scratchpad_leads_to_less() -> None:
    judged = 0
    for seed in range(12):
        problem = tight_problem(seed, 8)
        with suppress(TooLargeError):
            assert not is_below(problem, plan_problem(problem).lower_bound, AMPLE // 20)
            judged += 1
    assert judged


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
