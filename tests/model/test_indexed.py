"""Lists and masks of a problem agree with each other and with the graph."""

from __future__ import annotations

import pytest

from onchip.answer.problem import Count, Order, Problem
from onchip.arch.memory import Memory
from onchip.model.lifetimes.indexed import IndexedProblem, mask_of
from oracles.one_scratchpad import random_graph


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("count", list(Count))
def test_lists_and_masks_say_what_the_graph_says(seed: int, count: Count) -> None:
    graph = random_graph(seed)
    problem = Problem(graph, (Memory("sram", 1000),), count=count)
    indexed = IndexedProblem.of(problem)
    names = [tensor.name for tensor in problem.counted_tensors]
    for at, operator in enumerate(graph.operators):
        assert indexed.read_lists[at] == tuple(i for i, name in enumerate(names) if name in operator.reads)
        assert indexed.write_lists[at] == tuple(i for i, name in enumerate(names) if name in operator.outputs)
        befores = {graph.producer[name].name for name in operator.reads if name in graph.producer}
        named = tuple(i for i, other in enumerate(graph.operators) if other.name in befores)
        assert indexed.predecessor_lists[at] == named
    for at, name in enumerate(names):
        assert indexed.reader_lists[at] == tuple(i for i, o in enumerate(graph.operators) if name in o.reads)
    for masks, lists in (
        (indexed.reads, indexed.read_lists),
        (indexed.writes, indexed.write_lists),
        (indexed.operands, indexed.operand_lists),
        (indexed.predecessors, indexed.predecessor_lists),
        (indexed.readers, indexed.reader_lists),
    ):
        assert masks == tuple(map(mask_of, lists))


def test_a_given_order_is_a_chain_of_predecessors() -> None:
    problem = Problem(random_graph(0), (Memory("sram", 1000),), order=Order.GIVEN)
    indexed = IndexedProblem.of(problem)

    assert indexed.predecessor_lists == ((), *((at,) for at in range(indexed.operator_count - 1)))
    assert indexed.successors == (*((at,) for at in range(1, indexed.operator_count)), ())
    assert indexed.has_one_order
