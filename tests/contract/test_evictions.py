"""Claims of `docs/search.md` on evictions: no cheaper set is omitted, and unlisted sets cost at least their bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from onchip.answer.problem import Order, Problem
from onchip.answer.result import Stop
from onchip.arch.memory import Memory
from onchip.ir.tensor import Role
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.lifetimes.indexed import IndexedProblem, bits, mask_of
from onchip.search.budget.limits import Run
from oracles import joint_evictions
from oracles.joint_evictions import Choice, Evictions
from oracles.joint_search import PlainSearch
from oracles.joint_state import SearchState
from support.crowds import crowd
from support.series import in_one_test

Listed = list[tuple[int, int]]


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


def before_the_large(indexed: IndexedProblem) -> tuple[SearchState, int]:
    """Return the state before the large tensor, with some copies of tensors read twice, and that tensor's producer."""
    operators = [operator.name for operator in indexed.problem.graph.operators]
    grow = operators.index("grow")
    executed = (1 << grow) - 1
    resident = mask_of(
        t for t, readers in enumerate(indexed.readers) if readers & ~executed and t not in _later(indexed)
    )
    copied = mask_of(t for t in bits(resident & ~indexed.backed) if indexed.readers[t].bit_count() > 1 and t % 2)
    return SearchState(0, executed, 1 << grow, resident, indexed.room.units_of(resident), copied, None, ()), grow


def _later(indexed: IndexedProblem) -> set[int]:
    return {t for t, tensor in enumerate(indexed.tensors) if tensor.name == "large"}


def everything_listed(lister: Evictions, state: SearchState, choice: Choice) -> Listed:
    """Return all sets of a choice, deferred sets included; check each bound against its sets."""
    listing = lister.listed(state, choice)
    sets = list(listing.sets)
    for later, bound in listing.rest:
        more = everything_listed(lister, state, later)
        assert all(bound <= cost for _, cost in more)
        sets += more
    return sets


def every_minimal_set(indexed: IndexedProblem, state: SearchState, operator: int) -> Listed:
    """Return all minimal eviction sets by brute force over the subsets of evictable tensors."""
    room, everything = indexed.room, state.resident | indexed.operands[operator]

    def fits(evicted: int) -> bool:
        rest = everything & ~evicted
        return room.holds(rest, room.units_of(rest))

    costs = {
        t: indexed.load_costs[t] + (0 if (indexed.backed | state.copied) >> t & 1 else indexed.store_costs[t])
        for t in bits(state.resident & ~indexed.operands[operator])
    }
    subsets = (mask_of(c) for count in range(len(costs) + 1) for c in combinations(costs, count))
    return [
        (evicted, sum(costs[t] for t in bits(evicted)))
        for evicted in subsets
        if fits(evicted) and not any(fits(evicted & ~(1 << t)) for t in bits(evicted))
    ]


@pytest.mark.parametrize("seed", range(40))
def test_every_minimal_set_is_listed_once_or_one_that_is_as_good(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An equally good set has the same cost and units, with tensors that are read later or by the same operators."""
    indexed = crowded(seed, waiting=3 + seed % 8, greatest_size=(1, 2, 5, 9)[seed // 4 % 4], reads=1 + seed % 3)
    state, grow = before_the_large(indexed)
    monkeypatch.setattr(joint_evictions, "NODES_OF_A_CHOICE", (1, 2, 7, 256)[seed % 4])

    listed = everything_listed(Evictions(indexed), state, Choice(grow))

    truth = every_minimal_set(indexed, state, grow)
    assert len({evicted for evicted, _ in listed}) == len(listed)
    assert set(listed) <= set(truth)
    units = indexed.room.units_of
    looks = {(cost, units(evicted)) for evicted, cost in listed}
    assert {(cost, units(evicted)) for evicted, cost in truth} == looks


class _EveryCombination(Evictions):
    """Takes tensors that are alike in every combination."""

    def _leaves_rather(self, readers: dict[int, int], rather: int, tensor: int) -> bool:
        return False


@in_one_test("seed", range(60))
def test_what_would_rather_leave_may_leave_in_place_of_what_is_alike(seed: int) -> None:
    order = (Order.GIVEN, Order.GIVEN, Order.FREE)[seed % 3]
    waiting = 4 if order is Order.FREE else 7
    indexed = crowded(seed, waiting, greatest_size=1 + seed % 2, reads=1 + seed // 3 % 3, order=order)
    without_rule = PlainSearch(indexed)
    without_rule._evictions = _EveryCombination(indexed)

    assert BestFirstSearch(indexed, Run()).solve().cost == without_rule.solve().cost


@in_one_test("seed", range(60))
def test_what_has_a_copy_in_whatever_way_is_alike(seed: int) -> None:
    indexed = with_copies_elsewhere(seed)
    without_rule = PlainSearch(indexed)
    without_rule._evictions = _EveryCombination(indexed)

    cost = BestFirstSearch(indexed, Run()).solve().cost
    assert cost == PlainSearch(indexed).solve().cost == without_rule.solve().cost
    assert cost


def test_of_alike_tensors_that_are_read_once_only_the_last_read_leave() -> None:
    indexed = crowded(0, waiting=30, greatest_size=1)
    state, grow = before_the_large(indexed)

    listing = Evictions(indexed).listed(state, Choice(grow))

    assert len(listing.sets) == 1
    assert not listing.rest


@in_one_test("seed", range(24))
def test_the_search_comes_back_to_what_it_has_not_listed(seed: int) -> None:
    """Sets by the thousands, more than are listed at once."""
    indexed = crowded(seed, waiting=13, greatest_size=6, reads=3)

    assert BestFirstSearch(indexed, Run()).solve() == PlainSearch(indexed).solve()


@pytest.mark.parametrize("seed", [0, 1, 4, 5])
def test_a_state_may_have_more_residents_than_a_word_has_bits(seed: int) -> None:
    indexed = crowded(seed, waiting=90, greatest_size=2)

    outcome = BestFirstSearch(indexed, Run()).solve()

    assert outcome == PlainSearch(indexed).solve()
    assert outcome.moves is not None
    assert max(len(move.evicted) for move in outcome.moves) > 20


@pytest.mark.slow
def test_sets_by_the_millions_do_not_keep_a_search_from_stopping() -> None:
    indexed = crowded(1, waiting=60, greatest_size=9, reads=3)
    outcome = BestFirstSearch(indexed, Run().within(0.3)).solve()

    assert outcome.stop in (Stop.TIME_LIMIT, Stop.COMPLETED)
