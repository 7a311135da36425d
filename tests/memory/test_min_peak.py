"""Minimum peaks: the search, its bounds from parts and from guaranteed residents, and the reordering of steps."""

from __future__ import annotations

import random

import pytest

from onchip.answer.problem import Count, Order, Problem
from onchip.answer.result import Status
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.spill import min_peak
from onchip.memory.spill.min_peak import (
    MinPeakParams,
    MovableOrder,
    PeakProgram,
    flattened,
    min_peak_bytes,
    peak_of_order,
)
from onchip.model.lifetimes.indexed import IndexedProblem, sure_needs_bytes
from onchip.native import PeakOperator, PeakOutcome, PeakSearch, StopToken
from onchip.search.budget.limits import Limits, Run
from oracles.one_scratchpad import random_graph
from oracles.shared_bytes import random_sharing_graph
from support.series import in_one_test, series

ANY_STATES = 1 << 40
ANY_BYTES = 1 << 40


def indexed_of(graph: Graph, alignment_bytes: int = 1, order: Order = Order.FREE) -> IndexedProblem:
    return IndexedProblem.of(Problem(graph, (Memory("sram", 1 << 40, alignment_bytes),), order=order, count=Count.ALL))


def resident_after(indexed: IndexedProblem, executed: frozenset[int]) -> set[int]:
    """Return the tensors that have been written or loaded and have readers left."""
    return {
        tensor
        for tensor, readers in enumerate(indexed.reader_lists)
        if (indexed.producer[tensor] in executed or executed & set(readers)) and set(readers) - executed
    }


def need_bytes(indexed: IndexedProblem, executed: frozenset[int], operator: int) -> int:
    """Return the bytes that an operator needs. It overwrites the first input of each group without other readers."""
    there = resident_after(indexed, executed) | set(indexed.operand_lists[operator])
    inside: dict[int, tuple[int, ...]] = {}
    for one in indexed.overwritable_lists[operator]:
        if set(indexed.reader_lists[one.tensor]) - executed == {operator}:
            inside.setdefault(one.group, one.inside)
    apart = there.difference(*inside.values())
    return indexed.room.packed_bytes(apart, indexed.room.units_of_all(apart))


def ready_after(indexed: IndexedProblem, executed: frozenset[int]) -> list[int]:
    befores = enumerate(indexed.predecessor_lists)
    return [operator for operator, before in befores if operator not in executed and executed.issuperset(before)]


def least_peaks(indexed: IndexedProblem) -> dict[frozenset[int], int]:
    """Map each prefix of operators to the minimum peak of an order of it."""
    least = {frozenset[int](): 0}
    level = [frozenset[int]()]
    for _ in range(indexed.operator_count):
        following: dict[frozenset[int], int] = {}
        for executed in level:
            for operator in ready_after(indexed, executed):
                peak = max(least[executed], need_bytes(indexed, executed, operator))
                after = executed | {operator}
                following[after] = min(peak, following.get(after, peak))
        least |= following
        level = list(following)
    return least


def least_peak(indexed: IndexedProblem) -> int:
    return least_peaks(indexed)[frozenset(range(indexed.operator_count))]


def random_order(indexed: IndexedProblem, chance: random.Random) -> list[int]:
    order: list[int] = []
    while len(order) < indexed.operator_count:
        order.append(chance.choice(ready_after(indexed, frozenset(order))))
    return order


def some_graph(seed: int) -> Graph:
    kinds = (random_graph(seed, 9), random_sharing_graph(seed, 8), random_graph(seed, 40, window=3))
    return kinds[seed % 3]


def some_problem(seed: int) -> IndexedProblem:
    return indexed_of(some_graph(seed), (1, 1, 4, 3)[seed % 4], (Order.FREE, Order.FREE, Order.GIVEN)[seed // 3 % 3])


def many_in_one_step(width: int) -> Graph:
    """Return a graph of a source with `width` readers, each followed by one further operator."""
    middle = [Tensor(f"m{i}", 1 + i % 3, Role.ACTIVATION) for i in range(width)]
    ends = [Tensor(f"e{i}", 1, Role.OUTPUT) for i in range(width)]
    tensors = (Tensor("x", 4, Role.INPUT), *middle, *ends)
    first = [Operator(f"f{i}", "Op", ("x",), (f"m{i}",)) for i in range(width)]
    second = [Operator(f"s{i}", "Op", (f"m{i}",), (f"e{i}",)) for i in range(width)]
    return Graph("wide", tensors, (*first, *second))


def in_rounds(monkeypatch: pytest.MonkeyPatch, states: int, width: int) -> None:
    """Limit the states per round, so that the search approaches the peak from both sides."""
    monkeypatch.setattr(min_peak, "PARAMS", MinPeakParams(first_states=states, first_width=width))


@pytest.mark.parametrize("seed", series(range(100), 20))
def test_the_least_peak_is_that_of_every_order(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    indexed = some_problem(seed)
    least = least_peak(indexed)
    for states in (2, 20, 16_000):
        in_rounds(monkeypatch, states, 4)
        result = min_peak_bytes(indexed.problem, Run())
        assert (result.status, result.objective_value) == (Status.OPTIMAL, least), states
        assert result.answer is not None
        assert peak_of_order(indexed, result.answer) == result.objective_value


@pytest.mark.parametrize("seed", series(range(0, 60, 2), 8))
def test_stopped_early_its_order_is_one_and_its_bound_is_true(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    in_rounds(monkeypatch, 2, 4)
    indexed = some_problem(seed)
    least = least_peak(indexed)
    for node_limit in (1, 3, 9, 27):
        result = min_peak_bytes(indexed.problem, Run(Limits(node_limit=node_limit)))
        assert result.answer is not None
        assert result.objective_value == peak_of_order(indexed, result.answer)
        assert result.lower_bound <= least <= result.objective_value


@pytest.mark.parametrize("seed", series(range(40), 20))
def test_what_each_step_needs_is_what_the_executed_set_says(seed: int) -> None:
    indexed = some_problem(seed)
    order = random_order(indexed, random.Random(seed))
    needs = PeakProgram.of(indexed).needs_bytes(order)
    assert needs == [need_bytes(indexed, frozenset(order[:at]), operator) for at, operator in enumerate(order)]


@pytest.mark.parametrize("seed", series(range(40), 20))
def test_no_order_needs_less_than_what_is_surely_there(seed: int) -> None:
    indexed = some_problem(seed)
    sure, chance = sure_needs_bytes(indexed), random.Random(seed)
    for _ in range(5):
        order = random_order(indexed, chance)
        needs = PeakProgram.of(indexed).needs_bytes(order)
        assert all(sure[operator] <= need for operator, need in zip(order, needs, strict=True))
    assert all(sure[operator] >= indexed.required_bytes(operator) for operator in order)


def test_what_waits_across_a_bottleneck_is_surely_there() -> None:
    """x is read before m and after it, whatever the order; y may come after."""
    tensors = (Tensor("x", 5, Role.INPUT), Tensor("y", 7, Role.INPUT), Tensor("a", 1, Role.ACTIVATION))
    middle = (Tensor("b", 2, Role.ACTIVATION), Tensor("c", 1, Role.OUTPUT))
    operators = (
        Operator("first", "Op", ("x",), ("a",)),
        Operator("m", "Op", ("a",), ("b",)),
        Operator("last", "Op", ("x", "b", "y"), ("c",)),
    )
    assert sure_needs_bytes(indexed_of(Graph("waits", (*tensors, *middle), operators))) == (6, 8, 15)


@pytest.mark.parametrize("seed", series(range(40), 20))
def test_no_order_needs_less_than_a_part_of_any_order(seed: int) -> None:
    indexed, chance = some_problem(seed), random.Random(seed)
    least = least_peak(indexed)
    for _ in range(5):
        order = random_order(indexed, chance)
        begin = chance.randrange(len(order))
        part = PeakProgram.part(indexed, order[begin : begin + chance.randint(1, len(order))])
        search = part.search(0, ANY_BYTES, ANY_BYTES)
        assert search.run(StopToken(), ANY_STATES) is PeakOutcome.FOUND
        assert search.lower_bound <= least


@pytest.mark.parametrize("seed", series(range(40), 20))
def test_steps_put_anew_are_what_the_whole_order_says(seed: int) -> None:
    indexed, chance = some_problem(seed), random.Random(seed)
    movable = MovableOrder(indexed, random_order(indexed, chance))
    padding = indexed.room.alignment_bytes - 1
    for _ in range(8):
        begin = chance.randrange(len(movable.order))
        program = movable.between(begin, begin + min(chance.randint(1, 6), len(movable.order) - begin))
        search = program.search(0, ANY_BYTES, ANY_BYTES)
        assert search.run(StopToken(), ANY_STATES) is PeakOutcome.FOUND
        before = max(movable.needs_bytes[begin : begin + len(search.order) - 2])
        movable.put(begin, program, search.order)
        assert max(movable.needs_bytes[begin : begin + len(search.order) - 2]) <= before + padding
        again = MovableOrder(indexed, movable.order)
        pairs = zip(movable.needs_bytes, again.needs_bytes, strict=True)
        assert all(true <= said <= true + padding for said, true in pairs)
        whole = again.between(0, len(movable.order))
        assert whole.needs_bytes(range(len(movable.order) + 2))[1:-1] == again.needs_bytes


@in_one_test("seed", range(30))
def test_a_flattened_order_needs_no_more_at_its_neediest_and_less_in_all(seed: int) -> None:
    indexed = indexed_of(random_graph(seed, 60, window=8))
    order = tuple(range(indexed.operator_count))
    flat = flattened(indexed, order, Run())
    before, after = (sorted(PeakProgram.of(indexed).needs_bytes(one), reverse=True) for one in (order, flat))
    assert sorted(flat) == list(order)
    assert after <= before


def test_most_random_orders_can_be_flattened() -> None:
    problems = [indexed_of(random_graph(seed, 60, window=8)) for seed in range(30)]
    orders = [tuple(range(indexed.operator_count)) for indexed in problems]
    changed = [flattened(indexed, order, Run()) != order for indexed, order in zip(problems, orders, strict=True)]
    assert sum(changed) > 20


@pytest.mark.parametrize(("width", "peak_bytes"), series([(3, 4 + 3), (100, 4 + 3 + 1), (400, 4 + 3 + 1)], 2))
def test_wide_graphs_are_told_apart_by_what_has_run_then_by_what_is_ready(width: int, peak_bytes: int) -> None:
    """Only the last of several middle tensors of 3 bytes can wait until x is gone."""
    assert min_peak_bytes(indexed_of(many_in_one_step(width)).problem, Run()).objective_value == peak_bytes


@in_one_test("seed", range(0, 90, 3))
def test_above_what_is_allowed_there_is_no_order_and_that_is_a_bound(seed: int) -> None:
    indexed = indexed_of(random_graph(seed, 9))
    least = least_peak(indexed)
    for most in (least - 1, least):
        search = PeakProgram.of(indexed).search(0, most, ANY_BYTES)
        outcome = search.run(StopToken(), ANY_STATES)
        assert outcome is (PeakOutcome.FOUND if most >= least else PeakOutcome.EXHAUSTED)
        assert search.lower_bound == least


def test_a_search_ends_where_its_states_its_memory_or_somebody_says() -> None:
    program = PeakProgram.of(indexed_of(many_in_one_step(100)))
    assert program.search(0, ANY_BYTES, ANY_BYTES).run(StopToken(), 3) is PeakOutcome.STATES_SPENT
    assert program.search(0, ANY_BYTES, 1_000).run(StopToken(), ANY_STATES) is PeakOutcome.MEMORY_SPENT
    asked = StopToken()
    asked.ask()
    assert program.search(0, ANY_BYTES, ANY_BYTES).run(asked, ANY_STATES) is PeakOutcome.STOPPED


def test_a_search_that_was_stopped_goes_on() -> None:
    indexed = indexed_of(random_graph(1, 12))
    search = PeakProgram.of(indexed).search(0, ANY_BYTES, ANY_BYTES)
    for states in range(1, 10_000):
        if search.run(StopToken(), states) is PeakOutcome.FOUND:
            break
    assert peak_of_order(indexed, search.order) == search.lower_bound == least_peak(indexed)


def test_what_is_no_problem_is_refused() -> None:
    with pytest.raises(ValueError, match="index"):
        PeakSearch([1], [PeakOperator(reads=[1], writes=[], predecessors=[])])
    with pytest.raises(ValueError, match="alignment"):
        PeakSearch([1], [], alignment_bytes=0)
    with pytest.raises(ValueError, match="negative"):
        PeakSearch([-1], [])
    with pytest.raises(ValueError, match="before what it waits for"):
        peak_of_order(indexed_of(many_in_one_step(3)), [3, 0, 1, 2, 4, 5])


def test_of_very_many_operators_only_what_they_use_is_sure() -> None:
    indexed = indexed_of(many_in_one_step(3))
    needs = tuple(map(indexed.required_bytes, range(6)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onchip.model.lifetimes.indexed.MOST_OPERATORS", 5)
        assert sure_needs_bytes(indexed) == needs
