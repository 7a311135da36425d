"""A position that walks, against what follows from the set of operators that have run."""

from __future__ import annotations

import random

import pytest

from onchip.answer.problem import Count, Order, Problem
from onchip.arch.memory import Memory
from onchip.facts.indexed import IndexedProblem
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.solve.ordering.position import FEW, NOTHING_HAS_RUN, Position
from oracles.one_scratchpad import random_graph


def many_in_one_step(width: int) -> Graph:
    """A source, many readers of it, each with a reader of its own."""
    middle = [Tensor(f"m{i}", 1 + i % 3, Role.ACTIVATION) for i in range(width)]
    ends = [Tensor(f"e{i}", 1, Role.OUTPUT) for i in range(width)]
    tensors = (Tensor("x", 4, Role.INPUT), *middle, *ends)
    first = [Operator(f"f{i}", "Op", ("x",), (f"m{i}",)) for i in range(width)]
    second = [Operator(f"s{i}", "Op", (f"m{i}",), (f"e{i}",)) for i in range(width)]
    return Graph("wide", tensors, (*first, *second))


def indexed_of(graph: Graph, alignment_bytes: int, order: Order = Order.FREE) -> IndexedProblem:
    return IndexedProblem.of(Problem(graph, (Memory("sram", 1 << 20, alignment_bytes),), order=order, count=Count.ALL))


def resident_after(indexed: IndexedProblem, executed: set[int]) -> set[int]:
    """What has been written, or read from DRAM, and is still to be read."""
    return {
        tensor
        for tensor, readers in enumerate(indexed.reader_lists)
        if (indexed.producer[tensor] in executed or executed & set(readers)) and set(readers) - executed
    }


def ready_after(indexed: IndexedProblem, executed: set[int]) -> list[int]:
    befores = enumerate(indexed.predecessor_lists)
    return [operator for operator, before in befores if operator not in executed and executed.issuperset(before)]


def graphs() -> list[Graph]:
    return [*(random_graph(seed, 12) for seed in range(20)), many_in_one_step(3), many_in_one_step(100)]


@pytest.mark.parametrize("number", range(22))
@pytest.mark.parametrize("alignment_bytes", [1, 4])
@pytest.mark.parametrize("order", [Order.FREE, Order.GIVEN])
def test_a_walk_there_and_back_is_always_where_the_executed_set_says(
    number: int, alignment_bytes: int, order: Order
) -> None:
    indexed = indexed_of(graphs()[number], alignment_bytes, order)
    room, chance, position = indexed.room, random.Random(number), Position(indexed)
    path: list[int] = []
    for _ in range(4 * indexed.operator_count):
        executed = set(path)
        resident = resident_after(indexed, executed)
        assert position.resident == resident
        assert position.used_units == room.units_of_all(resident)
        assert position.ready == ready_after(indexed, executed)
        if path and (not position.ready or chance.random() < 0.4):
            position.take_back(path.pop())
            continue
        operator = chance.choice(position.ready)
        there = resident | set(indexed.operand_lists[operator])
        after = resident_after(indexed, executed | {operator})
        assert position.need_bytes(operator) == room.packed_bytes(there, room.units_of_all(there))
        come, gone = position.exchange(operator)
        assert (set(come), set(gone)) == (after - resident, resident - after)
        position.run(operator)
        path.append(operator)


@pytest.mark.parametrize("number", range(22))
def test_keys_are_alike_exactly_where_the_same_operators_have_run(number: int) -> None:
    indexed = indexed_of(graphs()[number], 1)
    chance = random.Random(number)
    set_of_key: dict[bytes, frozenset[int]] = {NOTHING_HAS_RUN: frozenset()}
    key_of_set: dict[frozenset[int], bytes] = {frozenset(): NOTHING_HAS_RUN}
    for _ in range(30):
        position = Position(indexed)
        path: list[int] = []
        while position.ready:
            for operator in position.ready:
                key, executed = position.key_after(operator), frozenset((*path, operator))
                assert set_of_key.setdefault(key, executed) == executed
                assert key_of_set.setdefault(executed, key) == key
            # Few runs in another order, so that the same sets are met on other ways.
            path.append(chance.choice(position.ready[:2]))
            position.run(path[-1])
    assert len(set_of_key) > indexed.operator_count


def test_keys_of_a_wide_graph_are_lists_of_what_has_run_then_bits_then_lists_of_what_is_ready() -> None:
    indexed = indexed_of(many_in_one_step(2_000), 1)
    position, lengths = Position(indexed), []
    while position.ready:
        lengths.append(len(position.key_after(position.ready[0])))
        position.run(position.ready[0])
    assert lengths[:FEW] == [4 * ran + 1 for ran in range(1, FEW + 1)]
    assert lengths[FEW] == indexed.operator_count // 8 + 1
    assert lengths[-3:] == [8, 4, 0]
