"""Belady and the greedy eviction: legal plans, never better than the optimum of their order."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from onchip.answer.packing import Buffer, PackingProblem
from onchip.answer.problem import Count, Order, Problem
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import load_network
from onchip.memory.allocate.pack import order_by_size, place_by_size
from onchip.memory.baselines.belady import Eviction, cheapest_eviction
from onchip.memory.methods import method_named
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem, bits, mask_of
from onchip.search.budget.limits import Run
from onchip.transform.rewrite.activations import fuse
from onchip.verify.verifier import verify
from oracles.one_scratchpad import random_graph

RIVALS = ("belady", "greedy")


def tight_problem(seed: int, order: Order, operators: int) -> Problem:
    alignment = (1, 1, 4)[seed % 3]
    count = Count.ALL if seed % 2 else Count.ACTIVATIONS
    roomy = Problem(random_graph(seed, operators), (Memory("sram", 10_000, alignment),), order=order, count=count)
    return replace(roomy, memories=(Memory("sram", greatest_need(roomy).need_bytes + seed % 4, alignment),))


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("seed", range(6))
def test_a_rival_is_legal_on_a_larger_network(seed: int, rival: str) -> None:
    problem = tight_problem(seed, Order.GIVEN, 60)
    result = method_named(rival)(problem, Run())
    assert result.answer is not None
    assert verify(problem, result.answer).violations == ()


def test_greedy_attains_the_optimum_in_bytes_of_densenet_at_its_tightest() -> None:
    roomy = Problem(fuse(load_network("densenet121").with_bits(8)), (Memory("sram", 1),), order=Order.GIVEN)
    problem = replace(roomy, memories=(Memory("sram", greatest_need(roomy).need_bytes),))
    result = method_named("greedy")(problem, Run())
    assert result.answer is not None
    assert verify(problem, result.answer).violations == ()
    assert result.objective_value == 1_204_224  # the optimum of the given order


@pytest.mark.parametrize("seed", range(30))
def test_the_cheapest_eviction_is_the_least_of_all_sets(seed: int) -> None:
    problem = tight_problem(seed, Order.GIVEN, 6)
    indexed = IndexedProblem.of(problem)
    room = indexed.room
    tensors = range(len(indexed.tensors))
    resident = mask_of(tensors)
    candidates = [Eviction(room.units[t], indexed.load_costs[t], 0, (t,)) for t in tensors if t % 4]
    sets = [
        mask_of(t for one in chosen for t in one.tensors)
        for k in range(len(candidates) + 1)
        for chosen in combinations(candidates, k)
    ]
    fitting = [mask for mask in sets if room.holds(resident & ~mask, room.units_of(resident & ~mask))]
    if not fitting:
        pytest.skip("even what must stay does not fit")
    costs = {mask: sum(indexed.load_costs[t] for t in bits(mask)) for mask in sets}
    chosen = mask_of(cheapest_eviction(indexed, tensors, candidates))
    assert chosen in fitting
    assert costs[chosen] == min(costs[mask] for mask in fitting)


def test_the_larger_buffer_is_placed_first_in_the_tightest_gap() -> None:
    # By size: a (50) at 0, b (30) lives with a alone: 50; c (20) lives with b alone: below b the gap is all of 50.
    problem = PackingProblem((Buffer(0, 2, 50), Buffer(1, 4, 30), Buffer(3, 5, 20)), 100)
    assert order_by_size(problem) == [0, 1, 2]
    assert place_by_size(problem) == (0, 50, 0)


def test_what_lives_throughout_is_placed_first() -> None:
    problem = PackingProblem((Buffer(1, 2, 50), Buffer(0, 3, 10), Buffer(0, 3, 20)), 100)
    assert order_by_size(problem) == [1, 2, 0]
    assert place_by_size(problem) == (30, 0, 10)


def test_offsets_are_aligned() -> None:
    problem = PackingProblem((Buffer(0, 2, 5), Buffer(0, 2, 3), Buffer(1, 2, 1)), 100, 4)
    assert place_by_size(problem) == (0, 8, 12)
