"""Step windows compared with all orders."""

from __future__ import annotations

from itertools import combinations

from onchip.answer.problem import Count, Order, Problem
from onchip.arch.memory import Memory
from onchip.model.lifetimes.indexed import IndexedProblem, Windows
from oracles.one_scratchpad import orders, random_graph
from support.series import in_one_test


def problem_of(seed: int, order: Order = Order.FREE) -> Problem:
    return Problem(random_graph(seed, 6), (Memory("sram", 1000),), order=order, count=Count.ALL)


def uses_by_order(problem: Problem, indexed: IndexedProblem) -> list[list[list[int]]]:
    """Return per order and tensor the steps in which it is an operand."""
    found = []
    for order in orders(problem):
        uses: list[list[int]] = [[] for _ in indexed.tensors]
        for step, operator in enumerate(order):
            for tensor in indexed.operand_lists[operator]:
                uses[tensor].append(step)
        found.append(uses)
    return found


@in_one_test("seed", range(20))
def test_every_order_keeps_to_the_windows(seed: int) -> None:
    problem = problem_of(seed)
    indexed = IndexedProblem.of(problem)
    windows = Windows.of(indexed)
    ever: list[set[int]] = [set() for _ in problem.graph.operators]
    for order in orders(problem):
        for step, operator in enumerate(order):
            ever[operator].add(step)
    for operator_index, steps in enumerate(ever):
        window = windows.steps[operator_index]
        assert steps <= set(window)
        assert min(steps) == window.start, "the earliest step is attained"
        assert max(steps) == window.stop - 1, "the latest step is attained"


@in_one_test("seed", range(20))
def test_tensors_meet_only_in_shared_steps(seed: int) -> None:
    problem = problem_of(seed)
    indexed = IndexedProblem.of(problem)
    windows = Windows.of(indexed)
    for uses in uses_by_order(problem, indexed):
        for first, second in combinations(range(len(indexed.tensors)), 2):
            if uses[first] and uses[second]:
                start = max(uses[first][0], uses[second][0])
                stop = min(uses[first][-1], uses[second][-1]) + 1
                assert set(range(start, stop)) <= set(windows.shared_steps(first, second))


def test_a_tensor_that_is_dead_before_another_is_made_shares_no_step() -> None:
    chain = Problem(random_graph(0, 6), (Memory("sram", 1000),), order=Order.GIVEN)
    indexed = IndexedProblem.of(chain)
    windows = Windows.of(indexed)
    lives = windows.lifetimes
    for first, second in combinations(range(len(indexed.tensors)), 2):
        if lives[first] and lives[second] and lives[first].stop <= lives[second].start:
            assert not windows.shared_steps(first, second)


def test_a_given_order_leaves_one_step_to_each_operator() -> None:
    windows = Windows.of(IndexedProblem.of(problem_of(1, Order.GIVEN)))
    assert windows.steps == tuple(range(step, step + 1) for step in range(len(windows.steps)))
