"""Crowds of alike tensors, of which some must leave: the search costs what another model and brute force find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.problem import Order, Problem
from onchip.answer.result import Stop
from onchip.arch.memory import Memory
from onchip.ir.tensor import Role
from onchip.memory.retention.kept_gaps import KeptGaps
from onchip.memory.spill.search import BestFirstSearch, SearchOutcome
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from oracles.one_scratchpad import least_traffic
from support.crowds import crowd
from support.series import in_one_test


def crowded(seed: int, waiting: int, greatest_size: int, reads: int = 1, order: Order = Order.GIVEN) -> IndexedProblem:
    """Return a problem whose scratchpad holds the crowd, or the large tensor and a part of the crowd."""
    graph = crowd(seed, waiting, greatest_size, reads)
    capacity = sum(graph.tensor[f"t{i}"].size_bytes for i in range(waiting)) + 3
    alignment = (1, 1, 2, 3)[seed % 4]
    memory = Memory("sram", capacity * alignment + seed % alignment, alignment)
    return IndexedProblem.of(Problem(graph, (memory,), order=order))


def with_copies_elsewhere(seed: int) -> IndexedProblem:
    """Return a crowd of tensors: DRAM has copies of the network outputs, and may have copies of tensors read twice."""
    graph = crowd(seed, waiting=7, greatest_size=1 + seed % 2, reads=1 + seed % 3)
    tensors = tuple(
        replace(tensor, role=Role.OUTPUT) if tensor.name in {f"t{i}" for i in range(seed % 4)} else tensor
        for tensor in graph.tensors
    )
    capacity_bytes = sum(graph.tensor[f"t{i}"].size_bytes for i in range(7)) + 2
    problem = Problem(replace(graph, tensors=tensors), (Memory("sram", capacity_bytes),), order=Order.GIVEN)
    return IndexedProblem.of(problem)


def searched(indexed: IndexedProblem) -> SearchOutcome:
    """Search the given order, and compare with the model of tensors kept over the gaps between their uses."""
    outcome = BestFirstSearch(indexed, Run()).solve()
    kept = KeptGaps(indexed, range(indexed.operator_count)).solve(Run())
    assert outcome.cost == outcome.lower_bound == kept.objective_value == kept.lower_bound
    return outcome


@in_one_test("seed", range(60))
def test_of_alike_tensors_any_may_leave(seed: int) -> None:
    searched(crowded(seed, waiting=7, greatest_size=1 + seed % 2, reads=1 + seed // 3 % 3))


@in_one_test("seed", range(20))
def test_of_alike_tensors_any_may_leave_in_any_order(seed: int) -> None:
    indexed = crowded(seed, waiting=3, greatest_size=1 + seed % 2, order=Order.FREE)
    outcome = BestFirstSearch(indexed, Run()).solve()
    assert outcome.cost == outcome.lower_bound == least_traffic(indexed.problem, with_addresses=False)


@in_one_test("seed", range(60))
def test_what_has_a_copy_in_whatever_way_is_alike(seed: int) -> None:
    assert searched(with_copies_elsewhere(seed)).cost


@in_one_test("seed", range(24))
def test_the_search_comes_back_to_what_it_has_not_listed(seed: int) -> None:
    """Sets by the thousands, more than are listed at once."""
    searched(crowded(seed, waiting=13, greatest_size=6, reads=3))


@pytest.mark.parametrize("seed", [0, 1, 4, 5])
def test_a_state_may_have_more_residents_than_a_word_has_bits(seed: int) -> None:
    outcome = searched(crowded(seed, waiting=90, greatest_size=2))
    assert outcome.moves is not None
    assert max(len(move.evicted) for move in outcome.moves) > 20


@pytest.mark.slow
def test_sets_by_the_millions_do_not_keep_a_search_from_stopping() -> None:
    indexed = crowded(1, waiting=60, greatest_size=9, reads=3)
    outcome = BestFirstSearch(indexed, Run().within(0.3)).solve()

    assert outcome.stop in (Stop.TIME_LIMIT, Stop.COMPLETED)
