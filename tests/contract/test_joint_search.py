"""The search in C++ and the plain one decide the same, state by state; a greedy one never claims more than it has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.problem import Count, Problem
from onchip.answer.result import Stop
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.memory.spill.search import (
    UNLIMITED,
    BestFirstSearch,
    SearchOutcome,
    joint_operators,
    joint_tensors,
)
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import JointOutcome, JointSearch, StopToken
from onchip.search.budget.limits import Limits, Run
from oracles.joint_search import PlainSearch
from oracles.one_scratchpad import random_graph
from support.series import in_one_test
from support.tight_problems import cost_of, tight_problem


@in_one_test("seed", range(60))
def test_the_search_decides_what_the_plain_one_decides(seed: int) -> None:
    """The outcomes agree in moves, cost, bound and number of states."""
    indexed = tight_problem(seed)
    plain = PlainSearch(indexed).solve()
    assert plain == BestFirstSearch(indexed, Run()).solve()
    assert cost_of(indexed, plain) == plain.cost == plain.lower_bound


@in_one_test("seed", range(40))
def test_so_it_does_with_any_options(seed: int) -> None:
    indexed = tight_problem(seed)
    optimum = PlainSearch(indexed).solve().cost
    assert optimum is not None
    for upper_bound, ties, greed, most_states in (
        (UNLIMITED, 1 + seed, 0, UNLIMITED),
        (optimum + seed % 3, 0, 0, UNLIMITED),
        (2 * optimum + 1, 0, 1 + seed, UNLIMITED),
        (UNLIMITED, 7, 2, 1 + 3 * seed),
    ):
        plain = PlainSearch(indexed, most_states, upper_bound=upper_bound, seed=ties, greed=greed)
        search = BestFirstSearch(indexed, Run(), most_states, upper_bound=upper_bound, seed=ties, greed=greed)
        assert plain.solve() == search.solve()


@in_one_test("seed", range(20))
def test_an_upper_bound_at_the_optimum_leaves_nothing_and_proves_it(seed: int) -> None:
    indexed = tight_problem(seed)
    optimum = PlainSearch(indexed).solve().cost
    assert optimum is not None
    outcome = BestFirstSearch(indexed, Run(), upper_bound=optimum).solve()
    assert outcome.lower_bound == optimum
    assert outcome.cost is None or outcome.cost == optimum == 0


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("greed", [1, 20])
def test_a_greedy_search_has_a_plan_of_the_cost_it_says_and_proves_nothing(seed: int, greed: int) -> None:
    indexed = tight_problem(seed)
    optimum = PlainSearch(indexed).solve().cost
    outcome = BestFirstSearch(indexed, Run(), greed=greed).solve()
    assert optimum is not None
    assert outcome.cost is not None
    assert cost_of(indexed, outcome) == outcome.cost >= optimum
    assert outcome.lower_bound == 0


@in_one_test("seed", range(20))
def test_an_exhausted_greedy_search_proves_its_upper_bound(seed: int) -> None:
    indexed = tight_problem(seed)
    optimum = PlainSearch(indexed).solve().cost
    assert optimum is not None
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
    optimum = PlainSearch(indexed).solve().cost
    assert optimum is not None
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
