"""Properties of every plan of `exact`, for any network."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.document import Claim, PlanDocument, Reading, Source
from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import graph_sha256
from onchip.formats.own.plan_json import plan_to_json, read_plan, write_plan
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.model.capacity.bounds import compulsory_bytes, greatest_need
from onchip.search.budget.limits import Limits
from onchip.verify.verifier import verify
from support.strategies import graphs
from support.timed_problems import UNTIMED

MILLISECOND = 0.001
OBJECTIVES = st.sampled_from(UNTIMED)
ORDERS = st.sampled_from((Order.FREE, Order.GIVEN))


def problem_of(graph: Graph, slack_bytes: int, objective: Objective, order: Order, alignment_bytes: int = 1) -> Problem:
    problem = Problem(graph, (Memory("sram", 1, alignment_bytes),), objective, order)
    return with_capacity(problem, greatest_need(problem).need_bytes + slack_bytes)


def with_capacity(problem: Problem, capacity_bytes: int) -> Problem:
    return replace(problem, memories=(replace(problem.memories[0], capacity_bytes=capacity_bytes),))


def document(problem: Problem, result: SearchResult[Plan]) -> PlanDocument:
    assert result.answer is not None
    assert result.objective_value is not None
    claim = Claim(result.method, result.status, problem.objective, result.objective_value, result.lower_bound)
    source = Source(problem.graph.name, graph_sha256(problem.graph))
    return PlanDocument(source, Source("sram"), Reading(count=problem.count), result.answer, claim)


def cost(problem: Problem) -> int | None:
    """Return the proven optimum, or None if no plan exists."""
    result = plan_problem(problem)
    assert result.status in (Status.OPTIMAL, Status.INFEASIBLE)
    return result.objective_value


@pytest.mark.slow
@settings(max_examples=60)
@given(graph=graphs(), slack=st.integers(0, 8), more=st.integers(1, 9), objective=OBJECTIVES, order=ORDERS)
def test_more_capacity_never_costs_more(
    graph: Graph, slack: int, more: int, objective: Objective, order: Order
) -> None:
    problem = problem_of(graph, slack, objective, order)
    before = cost(problem)
    after = cost(with_capacity(problem, problem.memories[0].capacity_bytes + more))

    assert before is None or (after is not None and after <= before)


@pytest.mark.slow
@settings(max_examples=60)
@given(graph=graphs(), slack=st.integers(0, 8), order=ORDERS, chance=st.randoms(use_true_random=False))
def test_names_and_the_order_of_the_tensors_change_nothing(
    graph: Graph, slack: int, order: Order, chance: random.Random
) -> None:
    tensors, operators = (shuffled(chance, len(listed)) for listed in (graph.tensors, graph.operators))
    renamed = rename(
        graph,
        {tensor.name: f"tensor {number}" for tensor, number in zip(graph.tensors, tensors, strict=True)},
        {operator.name: f"operator {number}" for operator, number in zip(graph.operators, operators, strict=True)},
    )
    moved = replace(renamed, tensors=tuple(renamed.tensors[index] for index in tensors))

    assert cost(problem_of(moved, slack, Objective.TRAFFIC, order)) == cost(
        problem_of(graph, slack, Objective.TRAFFIC, order)
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(graph=graphs(), slack=st.integers(0, 8), objective=OBJECTIVES, chance=st.randoms(use_true_random=False))
def test_the_given_order_does_not_matter_where_the_order_is_free(
    graph: Graph, slack: int, objective: Objective, chance: random.Random
) -> None:
    reordered = replace(graph, operators=another_order(graph, chance))

    assert cost(problem_of(reordered, slack, objective, Order.FREE)) == cost(
        problem_of(graph, slack, objective, Order.FREE)
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(graph=graphs(), slack=st.integers(0, 8), order=ORDERS, alignment=st.sampled_from((1, 2, 4)))
def test_traffic_is_at_least_the_bound_and_what_is_compulsory(
    graph: Graph, slack: int, order: Order, alignment: int
) -> None:
    problem = problem_of(graph, slack, Objective.TRAFFIC, order, alignment)
    result = plan_problem(problem)
    assert result.answer is not None
    figures = verify(problem, result.answer).figures

    assert figures.total >= compulsory_bytes(problem) + result.lower_bound
    assert figures.non_compulsory == result.objective_value


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    graph=graphs(max_operators=12),
    slack=st.integers(0, 6),
    objective=OBJECTIVES,
    limits=st.sampled_from(
        (Limits(time_limit_seconds=MILLISECOND), Limits(time_limit_seconds=10 * MILLISECOND), Limits(node_limit=1))
    ),
)
def test_any_limit_leaves_a_legal_plan_or_says_that_none_was_found(
    graph: Graph, slack: int, objective: Objective, limits: Limits
) -> None:
    """`plan_problem` raises if a plan is not legal."""
    result = plan_problem(problem_of(graph, slack, objective, Order.FREE), limits=limits)

    if objective is Objective.TRAFFIC:
        assert result.answer is not None
    assert (result.answer is None) is (result.status in (Status.UNKNOWN, Status.INFEASIBLE))


@settings(max_examples=40)
@given(graph=graphs(), slack=st.integers(0, 8), objective=OBJECTIVES, seed=st.integers(0, 9))
@pytest.mark.parametrize("node_limit", [None, 1])
def test_the_same_seed_one_worker_and_a_node_limit_give_the_same_bytes(
    graph: Graph, slack: int, objective: Objective, seed: int, node_limit: int | None
) -> None:
    problem = problem_of(graph, slack, objective, Order.FREE)
    limits = Limits(node_limit=node_limit, seed=seed)
    first, second = (plan_problem(problem, limits=limits) for _ in range(2))

    if first.answer is None:
        assert second.status is first.status
    else:
        assert plan_to_json(document(problem, first)) == plan_to_json(document(problem, second))


@pytest.mark.slow
@settings(max_examples=60)
@given(graph=graphs(), slack=st.integers(0, 8), order=ORDERS)
def test_a_plan_survives_a_file(graph: Graph, slack: int, order: Order) -> None:
    problem = problem_of(graph, slack, Objective.TRAFFIC, order)
    written = document(problem, plan_problem(problem))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        write_plan(written, path)

        assert read_plan(path) == written


def shuffled(chance: random.Random, count: int) -> list[int]:
    indices = list(range(count))
    chance.shuffle(indices)
    return indices


def rename(graph: Graph, tensors: Mapping[str, str], operators: Mapping[str, str]) -> Graph:
    def new(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(tensors[name] for name in names)

    return replace(
        graph,
        tensors=tuple(replace(tensor, name=tensors[tensor.name]) for tensor in graph.tensors),
        operators=tuple(
            replace(
                o, name=operators[o.name], inputs=new(o.inputs), outputs=new(o.outputs), parameters=new(o.parameters)
            )
            for o in graph.operators
        ),
    )


def another_order(graph: Graph, chance: random.Random) -> tuple[Operator, ...]:
    """Return any topological order."""
    done: list[Operator] = []
    left = list(graph.operators)
    while left:
        ready = [o for o in left if all(graph.producer.get(name) in (None, *done) for name in o.reads)]
        done.append(chance.choice(ready))
        left.remove(done[-1])
    return tuple(done)
