"""Independent components are planned separately, and the network costs their sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count as count_from

import pytest

from onchip.answer.document import Claim
from onchip.answer.problem import Objective, Order, Placement, Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.state import State
from onchip.ir.tensor import Role, Tensor
from onchip.memory.spill.exact import solve_exactly, solve_in_components
from onchip.memory.spill.min_peak import min_peak_bytes, peak_of_order
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.components import components_of
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Limits, Run
from onchip.verify.verifier import verify
from oracles.one_scratchpad import least_peak, least_traffic, random_graph
from support.unions import relisted, union


def problem_of(graph: Graph, slack_bytes: int = 0, objective: Objective = Objective.TRAFFIC) -> Problem:
    """Ask for a capacity that exceeds the greatest need of an operator by a few bytes."""
    problem = Problem(graph, (Memory("sram", 1),), objective)
    return replace(problem, memories=(Memory("sram", greatest_need(problem).need_bytes + slack_bytes),))


def small_graphs(seed: int, count: int, operators: int) -> list[Graph]:
    """Return graphs whose greatest need of an operator is about the same, so that all of them are tight together."""
    found: list[Graph] = []
    for number in count_from(10_000 * seed):
        graph = random_graph(number, operators)
        if greatest_need(Problem(graph, (Memory("sram", 1),))).need_bytes in range(14, 18):
            found.append(graph)
        if len(found) == count:
            return found
    return found


def alone(problem: Problem, graph: Graph) -> Problem:
    return replace(problem, graph=graph)


def legal(problem: Problem, result: Result[Plan]) -> Result[Plan]:
    assert result.answer is not None
    assert result.objective_value is not None
    claim = Claim("exact", result.status, problem.objective, result.objective_value, result.lower_bound)
    assert verify(problem, result.answer, claim).violations == ()
    return result


@pytest.mark.parametrize("seed", range(12))
def test_the_oracle_of_a_union_is_the_sum_of_the_oracles_of_its_components(seed: int) -> None:
    """Compare all interleaved orders of the union with all orders of each component."""
    graphs = small_graphs(seed, 2, 3)
    problem = problem_of(union(graphs, seed))
    parts = [least_traffic(alone(problem, graph)) for graph in graphs]

    assert least_traffic(problem) == sum(part for part in parts if part is not None)


@pytest.mark.parametrize("seed", range(12))
def test_the_least_arena_of_a_union_is_the_greatest_of_its_components(seed: int) -> None:
    graphs = small_graphs(seed, 2, 3)
    problem = problem_of(union(graphs, seed), 100, Objective.PEAK)
    result = legal(problem, solve_exactly(problem, Run()))

    assert result.status is Status.OPTIMAL
    assert result.objective_value == least_peak(problem)
    assert result.objective_value == max(least_peak(alone(problem, graph)) or 0 for graph in graphs)


@pytest.mark.parametrize(("seed", "count"), [(0, 10), (1, 10), (2, 20), (3, 60)])
def test_the_optimum_of_a_union_is_the_sum_of_the_optima_of_its_components(seed: int, count: int) -> None:
    graphs = small_graphs(seed, count, 6)
    problem = problem_of(union(graphs, seed), seed)
    result = legal(problem, solve_exactly(problem, Run()))

    assert result.status is Status.OPTIMAL
    assert result.objective_value == sum(least_traffic(alone(problem, graph)) or 0 for graph in graphs)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("order", [Order.GIVEN, Order.MIN_PEAK])
def test_a_free_order_is_never_worse_than_a_restricted_order(seed: int, order: Order) -> None:
    problem = problem_of(union(small_graphs(seed, 8, 7), seed), seed)
    restricted = solve_exactly(replace(problem, order=order), Run(Limits(time_limit_seconds=20.0)))
    free = solve_exactly(problem, Run())

    assert (free.objective_value or 0) <= (restricted.objective_value or 0)


def chains(count: int, shared: Sequence[str] = ()) -> Graph:
    """Optimiser steps of parameters of different sizes, listed level by level."""
    tensors = [Tensor(name, 4, Role.INPUT) for name in shared]
    levels: list[list[Operator]] = [[], [], [], [], []]
    steps = (("a", "m"), ("m2", "a g"), ("s", "m2"), ("d", "s"), ("p2", "p d"))
    for number in range(count):
        size = 16 * (1 + 37 * number % 101)
        for name in ("p", "g", "m", "a", "m2", "s", "d", "p2"):
            role = Role.INPUT if name in "pgm" else Role.OUTPUT if name.endswith("2") else Role.ACTIVATION
            tensors.append(Tensor(f"{name}_{number}", size, role))
        for level, (written, read) in zip(levels, steps, strict=True):
            inputs = [f"{name}_{number}" for name in read.split()]
            level.append(Operator(f"{written}.{number}", "Op", (*inputs, *shared), (f"{written}_{number}",)))
    return Graph("chains", tuple(tensors), tuple(operator for level in levels for operator in level))


@pytest.mark.parametrize("shared", [(), ("rate",)])
def test_parallel_chains_need_no_traffic_at_their_least_peak(shared: tuple[str, ...]) -> None:
    """A scalar that all chains read makes them one component, which an order of least peak solves."""
    problem = problem_of(chains(100, shared))
    peak = min_peak_bytes(problem, Run()).objective_value
    assert peak is not None
    problem = replace(problem, memories=(Memory("sram", peak),))
    result = legal(problem, solve_exactly(problem, Run()))

    assert (result.status, result.objective_value) == (Status.OPTIMAL, 0)
    assert len(components_of(problem)) == (1 if shared else 100)


def test_copies_are_planned_once_however_they_are_listed() -> None:
    graphs = [relisted(random_graph(seed % 4, 7), seed) for seed in range(40)]
    problem = problem_of(union(graphs, 7))
    asked: list[Problem] = []

    def counted(one: Problem, run: Run) -> Result[Plan]:
        asked.append(one)
        return solve_exactly(one, run)

    result = solve_in_components(problem, Run(), counted, "exact")

    assert result is not None
    assert len(asked) <= 8
    assert legal(problem, result).objective_value == 10 * sum(
        solve_exactly(alone(problem, random_graph(seed, 7)), Run()).objective_value or 0 for seed in range(4)
    )


def test_components_of_other_sizes_are_no_copies() -> None:
    problem = problem_of(chains(30))

    assert len(components_of(problem)) == 30


def test_the_least_peak_of_a_union_is_that_of_its_order() -> None:
    problem = problem_of(union([random_graph(seed, 7) for seed in range(20)], 3))
    found = min_peak_bytes(problem, Run())
    assert found.answer is not None

    assert found.status is Status.OPTIMAL
    assert peak_of_order(IndexedProblem.of(problem), found.answer) == found.objective_value


def test_a_state_ties_all_components() -> None:
    graph = union([random_graph(0, 4), random_graph(1, 4)], 0)
    tensors = (*graph.tensors, Tensor("old", 3, Role.INPUT), Tensor("new", 3, Role.OUTPUT))
    operators = (*graph.operators, Operator("update", "Op", ("old",), ("new",)))
    problem = problem_of(Graph("kept", tensors, operators, (State("old", "new"),)))

    assert len(components_of(problem)) == 1


@pytest.mark.parametrize("order", [Order.GIVEN, Order.MIN_PEAK])
def test_a_restricted_order_ties_all_components(order: Order) -> None:
    assert len(components_of(replace(problem_of(chains(5)), order=order))) == 1


@pytest.mark.parametrize("placement", list(Placement))
@pytest.mark.parametrize("seed", range(3))
def test_components_share_several_scratchpads(seed: int, placement: Placement) -> None:
    graphs = small_graphs(seed, 3, 4)
    whole = problem_of(union(graphs, seed))
    memories = (whole.memories[0], Memory("small", 9))
    problem = replace(whole, memories=memories, placement=placement)
    result = legal(problem, solve_exactly(problem, Run()))
    parts = [solve_exactly(alone(problem, graph), Run()) for graph in graphs]

    assert result.objective_value == sum(part.objective_value or 0 for part in parts)
    assert result.lower_bound == sum(part.lower_bound for part in parts)


def test_an_interrupted_search_still_has_a_plan_of_all_components() -> None:
    problem = problem_of(union(small_graphs(5, 20, 7), 5))
    run = Run()
    run.interrupt.set()
    result = legal(problem, solve_exactly(problem, run))

    assert result.lower_bound <= sum(least_traffic(alone(problem, one)) or 0 for one in small_graphs(5, 20, 7))
