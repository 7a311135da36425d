"""Several workers of the joint search find plans of the same cost, and prove the same, in any order of their work."""

from __future__ import annotations

import threading
import time

import pytest

from onchip.answer.problem import Count, Problem
from onchip.answer.result import Stop
from onchip.arch.memory import Memory
from onchip.memory.decisions import non_compulsory_cost, schedule_of_moves
from onchip.memory.spill.search import UNLIMITED, BestFirstSearch, LeastBytes, joint_operators, joint_tensors
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import JointOutcome, JointSearch, StopToken
from onchip.search.budget.limits import Budget, Limits, Run
from onchip.search.strategy.portfolio import Portfolio
from oracles.one_scratchpad import random_graph
from support.series import in_one_test, series
from support.tight_problems import cost_of, least_cost, tight_problem


def compiled_search(indexed: IndexedProblem, workers: int, **options: int) -> JointSearch:
    return JointSearch(
        joint_tensors(indexed),
        joint_operators(indexed),
        capacity_units=indexed.room.capacity_units,
        workers=workers,
        **options,
    )


def hard_problem() -> IndexedProblem:
    """Return a problem that takes one worker at least some minutes."""
    graph = random_graph(5, operators=120, window=20)
    need = greatest_need(Problem(graph, (Memory("sram", 1),))).need_bytes
    return IndexedProblem.of(Problem(graph, (Memory("sram", need + need // 4),)))


@pytest.mark.parametrize("seed", series(range(200), 100))
def test_several_workers_prove_what_one_proves(seed: int) -> None:
    indexed = tight_problem(seed)
    least = least_cost(indexed)
    for workers in (2, 3):
        outcome = BestFirstSearch(indexed, Run(Limits(workers=workers)), states_alone=0).solve()
        assert (outcome.cost, outcome.lower_bound, outcome.stop) == (least, least, Stop.COMPLETED)
        assert cost_of(indexed, outcome) == least


@pytest.mark.parametrize("seed", series(range(60), 30))
def test_so_they_do_with_upper_bounds_ties_and_greed(seed: int) -> None:
    indexed, run = tight_problem(seed), Run(Limits(workers=2 + seed % 3))
    optimum = least_cost(indexed)
    for greed in (0, 1 + seed):
        nothing = BestFirstSearch(indexed, run, upper_bound=optimum, greed=greed, states_alone=0).solve()
        assert nothing.cost is None or nothing.cost == optimum == 0
        assert nothing.lower_bound == optimum
        found = BestFirstSearch(indexed, run, upper_bound=optimum + 1, greed=greed, seed=seed, states_alone=0).solve()
        assert found.cost == optimum == cost_of(indexed, found)


@pytest.mark.parametrize("seed", series(range(60), 30))
def test_with_few_states_what_they_say_is_true(seed: int) -> None:
    indexed = tight_problem(seed)
    optimum = least_cost(indexed)
    for most_states in (1, 3 + seed, 20 + 5 * seed):
        for greed in (0, 2):
            run = Run(Limits(node_limit=most_states, workers=2 + seed % 2))
            outcome = BestFirstSearch(indexed, run, greed=greed, states_alone=most_states // 3).solve()
            assert outcome.lower_bound <= optimum
            assert outcome.cost is None or optimum <= outcome.cost == cost_of(indexed, outcome)
            assert greed or outcome.stop is not Stop.COMPLETED or outcome.cost == outcome.lower_bound


@pytest.mark.parametrize("seed", series(range(20), 10))
def test_while_they_search_the_bound_rises_and_stays_below_the_optimum(seed: int) -> None:
    indexed = IndexedProblem.of(
        Problem(random_graph(seed, operators=40, window=10), (Memory("sram", 30),), count=Count.ACTIVATIONS)
    )
    optimum = BestFirstSearch(indexed, Run(), 20_000).solve()
    search, told = compiled_search(indexed, 3), [0]
    thread = threading.Thread(target=search.run, args=(StopToken(), 20_000))
    thread.start()
    while thread.is_alive():
        told.append(search.lower_bound)
    assert told == sorted(told)
    assert optimum.cost is None or search.lower_bound <= optimum.cost


def test_a_search_of_few_states_is_that_of_one_worker() -> None:
    for seed in range(20):
        indexed = tight_problem(seed)
        assert BestFirstSearch(indexed, Run(Limits(workers=3))).solve() == BestFirstSearch(indexed, Run()).solve()


@in_one_test("seed", range(20))
def test_the_stages_end_with_the_same_cost_and_proof(seed: int) -> None:
    found = []
    for workers in (1, 2):
        indexed = tight_problem(seed)
        run = Run(Limits(workers=workers))
        search = LeastBytes(indexed, run, lambda *_: None, lambda _: None)
        Portfolio(search, search.strategies(search), Budget(run)).solve()
        assert search.answer is not None
        assert non_compulsory_cost(indexed, schedule_of_moves(indexed, search.answer)) == search.value
        found.append((search.value, search.lower_bound, search.is_proven))
    assert found[0] == found[1]


@pytest.mark.parametrize("workers", [2, 3])
def test_asked_to_stop_all_of_them_end(workers: int) -> None:
    search, token = compiled_search(hard_problem(), workers), StopToken()
    outcomes: list[JointOutcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(search.run(token)))
    thread.start()
    while search.states < 1_000:
        time.sleep(0.001)
    token.ask()
    thread.join()
    assert outcomes == [JointOutcome.STOPPED]


@pytest.mark.slow
def test_interrupted_they_end_with_the_bound_so_far() -> None:
    run = Run(Limits(workers=3))
    threading.Timer(0.5, run.interrupt.set).start()
    outcome = BestFirstSearch(hard_problem(), run, states_alone=100).solve()
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.lower_bound > 0


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_their_memory_is_limited_together(workers: int) -> None:
    search = compiled_search(hard_problem(), workers, most_bytes=1 << 22)
    assert search.run(StopToken()) is JointOutcome.MEMORY_SPENT
    assert 0 < search.states < 1 << 16


@pytest.mark.parametrize("workers", [0, -1, 257])
def test_so_many_workers_there_cannot_be(workers: int) -> None:
    with pytest.raises(ValueError, match="workers are not between 1 and 256"):
        compiled_search(tight_problem(0), workers)


def test_more_workers_than_there_can_be_are_as_many_as_there_can_be() -> None:
    outcome = BestFirstSearch(tight_problem(1), Run(Limits(workers=300)), UNLIMITED, states_alone=0).solve()
    assert outcome.cost == BestFirstSearch(tight_problem(1), Run()).solve().cost
