"""The compiled search and the one in Python are one search; a greedy one never claims more than it has."""

from __future__ import annotations

import pytest

from onchip.answer.problem import Count, Order, Problem
from onchip.arch.memory import Memory
from onchip.facts.bounds import greatest_need
from onchip.facts.indexed import IndexedProblem
from onchip.solve.joint.compiled import CompiledSearch
from onchip.solve.joint.search import BestFirstSearch, SearchOutcome
from onchip.solve.ordering.min_peak import min_peak_bytes
from onchip.solve.run.compose import non_compulsory_cost, schedule_of_moves
from onchip.solve.run.limits import Run
from oracles.one_scratchpad import random_graph


def tight_problem(seed: int) -> IndexedProblem:
    """A graph of up to 24 operators, between M_R and M_P, sometimes aligned or in the given order."""
    graph = random_graph(seed, operators=24, window=8)
    count = Count.ALL if seed % 3 == 0 else Count.ACTIVATIONS
    order = Order.GIVEN if seed % 5 == 0 else Order.FREE
    roomy = Problem(graph, (Memory("sram", 10**6, 1 + seed % 4),), order=order, count=count)
    least, most = greatest_need(roomy).need_bytes, min_peak_bytes(roomy, Run()).objective_value
    assert most is not None
    capacity = least + (most - least) * (seed % 7) // 7
    return IndexedProblem.of(Problem(graph, (Memory("sram", capacity, 1 + seed % 4),), order=order, count=count))


def cost_of(indexed: IndexedProblem, outcome: SearchOutcome) -> int:
    """What the moves of an outcome really cost."""
    assert outcome.moves is not None
    assert sorted(move.operator for move in outcome.moves) == list(range(indexed.operator_count))
    return non_compulsory_cost(indexed, schedule_of_moves(indexed, outcome.moves))


@pytest.mark.parametrize("seed", range(60))
def test_the_compiled_search_proves_the_same_optimum(seed: int) -> None:
    indexed = tight_problem(seed)
    reference, compiled = BestFirstSearch(indexed, Run()).solve(), CompiledSearch(indexed, Run()).solve()
    assert compiled.cost == reference.cost == compiled.lower_bound
    assert cost_of(indexed, compiled) == cost_of(indexed, reference) == reference.cost


@pytest.mark.parametrize("seed", range(20))
def test_an_upper_bound_at_the_optimum_leaves_nothing_and_proves_it(seed: int) -> None:
    indexed = tight_problem(seed)
    optimum = BestFirstSearch(indexed, Run()).solve().cost
    assert optimum is not None
    outcome = CompiledSearch(indexed, Run(), upper_bound=optimum).solve()
    assert outcome.lower_bound == optimum
    assert outcome.cost is None or outcome.cost == optimum == 0


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("greed", [1, 20])
def test_a_greedy_search_has_a_plan_of_the_cost_it_says_and_proves_nothing(seed: int, greed: int) -> None:
    indexed = tight_problem(seed)
    optimum = BestFirstSearch(indexed, Run()).solve().cost
    outcome = CompiledSearch(indexed, Run(), greed=greed).solve()
    assert optimum is not None
    assert outcome.cost is not None
    assert cost_of(indexed, outcome) == outcome.cost >= optimum
    assert outcome.lower_bound == 0


@pytest.mark.parametrize("seed", range(20))
def test_an_exhausted_greedy_search_proves_its_upper_bound(seed: int) -> None:
    indexed = tight_problem(seed)
    optimum = BestFirstSearch(indexed, Run()).solve().cost
    assert optimum is not None
    outcome = CompiledSearch(indexed, Run(), upper_bound=optimum, greed=5).solve()
    assert outcome.moves is None
    assert outcome.lower_bound == optimum


def test_another_seed_finds_another_optimum() -> None:
    indexed = tight_problem(2)
    outcomes = [CompiledSearch(indexed, Run(), seed=seed).solve() for seed in range(8)]
    assert len({outcome.cost for outcome in outcomes}) == 1
    assert len({outcome.moves for outcome in outcomes}) > 1
