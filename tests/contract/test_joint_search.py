"""The best-first search costs what every order and eviction costs at least, whole, in pieces, greedy or bounded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversary.levels.plan import Case, crowd_facts
from onchip.answer.problem import Count, Order, Problem
from onchip.answer.result import Stop
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import graph_from_json
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.retention.kept_gaps import KeptGaps
from onchip.memory.spill.search import UNLIMITED, BestFirstSearch, SearchOutcome, joint_operators, joint_tensors
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import JointOutcome, JointSearch, StopToken
from onchip.search.budget.limits import Limits, Run
from oracles.one_scratchpad import least_traffic, long_lived_graph, random_graph
from support.series import in_one_test, series
from support.strategies import graphs
from support.tight_problems import cost_of, least_cost, tight_problem

SLACK = st.integers(0, 12)


def at_a_budget(graph: Graph, alignment: int, order: Order, count: Count, slack_bytes: int) -> Problem:
    """Return a problem whose scratchpad has some bytes beyond the need of one operator."""
    need = greatest_need(Problem(graph, (Memory("sram", 1, alignment),), count=count)).need_bytes
    return Problem(graph, (Memory("sram", need + slack_bytes, alignment),), order=order, count=count)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    order, count = draw(st.sampled_from((Order.FREE, Order.FREE, Order.GIVEN))), draw(st.sampled_from(Count))
    return at_a_budget(draw(graphs(max_operators=5)), draw(st.sampled_from((1, 1, 2, 4))), order, count, draw(SLACK))


def searched(problem: Problem) -> SearchOutcome:
    return BestFirstSearch(IndexedProblem.of(problem), Run()).solve()


@settings(max_examples=120, deadline=None)
@given(problem=problems())
def test_the_cost_is_that_of_every_order_and_eviction(problem: Problem) -> None:
    outcome = searched(problem)
    assert outcome.cost == outcome.lower_bound == least_traffic(problem, with_addresses=False)
    assert cost_of(IndexedProblem.of(problem), outcome) == outcome.cost


def some_graph(seed: int) -> Graph:
    return (random_graph, long_lived_graph)[seed % 2](seed, 7)


def crowd_of_alike_tensors(seed: int) -> Graph:
    """Return a graph in which the best order alone determines which of several alike tensors leave."""
    facts = {**crowd_facts(Random(seed)), "bits": None, "count": "activations"}
    return graph_from_json(json.dumps(Case(facts).file).encode(), "crowd.json")


def waiting_inputs(seed: int) -> Graph:
    """Return a graph whose inputs wait while wide tensors live, for less than what is made of them would cost."""
    chance = Random(seed)
    waiting = [f"x{number}" for number in range(chance.randint(1, 2))]
    sizes = {name: chance.randint(1, 3) for name in waiting} | {"a": 1, "out": 1}
    operators, last = [Operator("first", "Op", tuple(waiting), ("a",))], "a"
    for number in range(chance.randint(1, 2)):
        wide, narrow = f"wide{number}", f"narrow{number}"
        operators += [
            Operator(f"to_{wide}", "Op", (last,), (wide,)),
            Operator(f"to_{narrow}", "Op", (wide,), (narrow,)),
        ]
        sizes |= {wide: chance.randint(3, 8), narrow: 1}
        last = narrow
    operators += [Operator(f"late_{name}", "Op", (name,), (f"y_{name}",)) for name in waiting]
    sizes |= {f"y_{name}": chance.randint(1, sizes[name]) for name in waiting}
    operators.append(Operator("last", "Op", (last, *(f"y_{name}" for name in waiting)), ("out",)))
    roles = dict.fromkeys(waiting, Role.INPUT) | {"out": Role.OUTPUT}
    tensors = (Tensor(name, size, roles.get(name, Role.ACTIVATION)) for name, size in sizes.items())
    return Graph("waiting", tuple(tensors), tuple(operators))


@pytest.mark.parametrize("first", series(range(0, 250, 50), 2))
@pytest.mark.parametrize(("make", "needed"), [(some_graph, 10), (crowd_of_alike_tensors, 10), (waiting_inputs, 30)])
def test_the_cost_is_that_of_every_order_and_eviction_where_evictions_are_needed(
    first: int, make: Callable[[int], Graph], needed: int
) -> None:
    """A search that makes safe moves or exchanges without their conditions costs more in some of these cases."""
    paid = 0
    for seed in range(first, first + 50):
        order = Order.GIVEN if make is some_graph and seed % 5 == 4 else Order.FREE
        problem = at_a_budget(make(seed), (1, 1, 2, 4)[seed // 2 % 4], order, Count.ACTIVATIONS, seed % 3)
        outcome = searched(problem)
        assert outcome.cost == outcome.lower_bound == least_traffic(problem, with_addresses=False), seed
        assert cost_of(IndexedProblem.of(problem), outcome) == outcome.cost
        paid += outcome.cost != 0
    assert paid >= needed


@in_one_test("seed", range(80))
def test_the_cost_of_a_long_order_is_that_of_the_model_of_kept_gaps(seed: int) -> None:
    """Tensors are read several times, so that some leave twice, and are written once: a copy in DRAM counts."""
    graph = long_lived_graph(seed, 18) if seed % 2 else random_graph(seed, 30, window=20)
    indexed = IndexedProblem.of(at_a_budget(graph, 1 + seed % 3, Order.GIVEN, Count.ACTIVATIONS, seed % 4))
    outcome = BestFirstSearch(indexed, Run()).solve()
    kept = KeptGaps(indexed, range(indexed.operator_count)).solve(Run())
    assert outcome.cost == outcome.lower_bound == kept.objective_value == kept.lower_bound


@in_one_test("seed", range(30))
def test_every_bound_on_the_way_is_below_the_optimum(seed: int) -> None:
    indexed = IndexedProblem.of(at_a_budget(random_graph(seed), 1 + seed % 3, Order.FREE, Count.ALL, seed % 4))
    optimum = BestFirstSearch(indexed, Run()).solve().cost
    assert optimum is not None
    for limit in range(1, 40, 3):
        assert BestFirstSearch(indexed, Run(), limit).solve().lower_bound <= optimum


@in_one_test("seed", range(20))
def test_an_upper_bound_at_the_optimum_leaves_nothing_and_proves_it(seed: int) -> None:
    indexed = tight_problem(seed)
    optimum = least_cost(indexed)
    outcome = BestFirstSearch(indexed, Run(), upper_bound=optimum).solve()
    assert outcome.lower_bound == optimum
    assert outcome.cost is None or outcome.cost == optimum == 0


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("greed", [1, 20])
def test_a_greedy_search_has_a_plan_of_the_cost_it_says_and_proves_nothing(seed: int, greed: int) -> None:
    indexed = tight_problem(seed)
    optimum = least_cost(indexed)
    outcome = BestFirstSearch(indexed, Run(), greed=greed).solve()
    assert outcome.cost is not None
    assert cost_of(indexed, outcome) == outcome.cost >= optimum
    assert outcome.lower_bound == 0


@in_one_test("seed", range(20))
def test_an_exhausted_greedy_search_proves_its_upper_bound(seed: int) -> None:
    indexed = tight_problem(seed)
    optimum = least_cost(indexed)
    outcome = BestFirstSearch(indexed, Run(), upper_bound=optimum, greed=5).solve()
    assert outcome.moves is None
    assert outcome.lower_bound == optimum


def test_another_seed_finds_another_optimum() -> None:
    indexed = tight_problem(2)
    outcomes = [BestFirstSearch(indexed, Run(), seed=seed).solve() for seed in range(8)]
    assert len({outcome.cost for outcome in outcomes}) == 1
    assert len({outcome.moves for outcome in outcomes}) > 1


def test_it_runs_out_of_states_or_memory_with_a_bound_below_the_optimum() -> None:
    indexed = IndexedProblem.of(
        Problem(random_graph(5, operators=40, window=10), (Memory("sram", 30),), count=Count.ACTIVATIONS)
    )
    whole = BestFirstSearch(indexed, Run()).solve()
    assert whole.cost is not None
    for most_bytes in (0, 1 << 10, 1 << 14, 1 << 16):
        search = JointSearch(
            joint_tensors(indexed),
            joint_operators(indexed),
            capacity_units=indexed.room.capacity_units,
            most_bytes=most_bytes,
        )
        assert search.run(StopToken()) is JointOutcome.MEMORY_SPENT
        assert search.lower_bound <= whole.cost
        assert search.states < whole.states
        assert search.moves == []


def test_sums_of_more_than_60_bits_are_left_open() -> None:
    graph = random_graph(5, operators=12)
    tensors = tuple(replace(tensor, size_bytes=tensor.size_bytes << 60) for tensor in graph.tensors)
    huge = Graph(graph.name, tensors, graph.operators)
    outcome = BestFirstSearch(IndexedProblem.of(Problem(huge, (Memory("sram", 60 << 60),))), Run()).solve()
    assert outcome == SearchOutcome(None, None, 0, 0, Stop.MEMORY_LIMIT)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seed", range(20))
def test_a_search_in_pieces_proves_what_the_whole_search_proves(seed: int, workers: int) -> None:
    indexed, run = tight_problem(seed), Run(Limits(workers=workers))
    whole = BestFirstSearch(indexed, run, states_alone=9).solve()
    pieces, bounds = BestFirstSearch(indexed, run, states_alone=9), []
    outcome = pieces.go_on(run, 1)
    while outcome.stop is Stop.NODE_LIMIT:
        bounds.append(outcome.lower_bound)
        outcome = pieces.go_on(run, outcome.states + 5)
    assert bounds == sorted(bounds)
    assert cost_of(indexed, outcome) == outcome.cost == outcome.lower_bound == whole.cost
    if workers == 1:
        assert outcome == whole


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seed", range(20))
def test_a_search_whose_upper_bound_falls_proves_the_optimum(seed: int, workers: int) -> None:
    indexed, run = tight_problem(seed), Run(Limits(workers=workers))
    optimum = least_cost(indexed)
    for lowered in (optimum + seed % 3, optimum):
        search = BestFirstSearch(indexed, run, states_alone=0)
        outcome = search.go_on(run, 1 + seed)
        if outcome.stop is Stop.NODE_LIMIT:
            search.lower_upper_bound(lowered)
            outcome = search.go_on(run, UNLIMITED)
        assert outcome.stop is Stop.COMPLETED
        assert outcome.lower_bound == optimum
        assert outcome.cost in (None, optimum)
        assert outcome.cost is not None or lowered == optimum


def test_the_end_of_a_turn_pauses_a_search() -> None:
    indexed, run = tight_problem(3), Run()
    search = BestFirstSearch(indexed, run)
    paused = search.go_on(run.within(0), UNLIMITED)
    assert paused.stop in (Stop.NODE_LIMIT, Stop.COMPLETED)
    assert search.go_on(run, UNLIMITED).cost == BestFirstSearch(indexed, run).solve().cost
