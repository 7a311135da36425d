"""Nested blocks, as in U-Nets: tensors that are live across a block do not make the search restart the block."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import pytest

from onchip.answer.problem import Problem
from onchip.answer.result import Status
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.spill.min_peak import MinPeakSearch
from onchip.memory.spill.search import BestFirstSearch, SearchOutcome
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from oracles.one_scratchpad import least_traffic


class NestedBlocks:
    """A U-Net with `levels` levels, whose cells share a random wiring; sizes are random within a level.

    Each level is `narrowing` times as wide as the one above it.
    """

    def __init__(self, seed: int, levels: int, nodes: int, widest: int = 64, narrowing: float = 2 / 3) -> None:
        self._seed, self._nodes = seed, nodes
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._levels([max(2, int(widest * narrowing**level)) for level in range(levels + 1)])

    @property
    def graph(self) -> Graph:
        """Return the network."""
        return Graph("nested", tuple(self._tensors), tuple(self._operators))

    def _levels(self, sizes: Sequence[int]) -> None:
        hidden, skips = self._tensor(sizes[0], Role.INPUT), list[str]()
        for size in sizes[:-1]:
            skips.append(self._cell(hidden, size))
            hidden = self._add((skips[-1],), size)
        hidden = self._cell(hidden, sizes[-1])
        for size in reversed(sizes[:-1]):
            hidden = self._cell(self._add((hidden, skips.pop()), size), size)
        self._add((hidden,), 1, Role.OUTPUT)

    def _cell(self, read: str, size: int) -> str:
        """Add a cell whose first operator reads the input and whose last joins all unread maps.

        Any order in between is legal.
        """
        chance = random.Random(self._seed)
        made, first = [self._add((read,), size)], len(self._operators)
        for _ in range(self._nodes):
            one, other = (chance.choice(made) for _ in range(2))
            more = chance.randint(1, size), chance.randint(1, size)
            made.append(self._add((self._add((one,), more[0]), self._add((other,), more[1])), size))
        taken = {name for operator in self._operators[first:] for name in operator.inputs}
        return self._add([name for name in made if name not in taken], size)

    def _add(self, reads: Sequence[str], size: int, role: Role = Role.ACTIVATION) -> str:
        written = self._tensor(size, role)
        self._operators.append(Operator(f"o{len(self._operators)}", "Op", tuple(dict.fromkeys(reads)), (written,)))
        return written

    def _tensor(self, size: int, role: Role) -> str:
        self._tensors.append(Tensor.of_shape(f"t{len(self._tensors)}", (size,), 8, role))
        return self._tensors[-1].name


def in_room_for(graph: Graph, more: float) -> Problem:
    """Return the problem of a network with `more` times the capacity that its most demanding operator needs."""
    roomy = Problem(graph, (Memory("sram", 10**9),))
    need_bytes = greatest_need(roomy).need_bytes
    return Problem(graph, (Memory("sram", int(need_bytes * more)),))


ALIKE = 0.95
"""Skips of all levels are about as large: which of them leave is no matter of course."""


def searched(seed: int, levels: int, nodes: int, more: float, narrowing: float = 2 / 3) -> SearchOutcome:
    problem = in_room_for(NestedBlocks(seed, levels, nodes, narrowing=narrowing).graph, more)
    found = BestFirstSearch(IndexedProblem.of(problem), Run(), 200_000).solve()
    assert found.cost == found.lower_bound
    return found


@pytest.mark.parametrize(("levels", "nodes"), [(1, 0), (2, 0), (3, 0), (1, 1)])
def test_nested_blocks_cost_what_every_order_and_every_choice_costs_at_least(levels: int, nodes: int) -> None:
    costs = set()
    for widest in (7, 9, 12):
        for more in (1.0, 1.15, 1.3):
            problem = in_room_for(NestedBlocks(0, levels, nodes, widest, ALIKE).graph, more)
            found = BestFirstSearch(IndexedProblem.of(problem), Run()).solve()
            assert found.cost == least_traffic(problem, with_addresses=False)
            costs.add(found.cost)
    assert levels == 1 or len(costs) > 2


@pytest.mark.parametrize("seed", range(4))
def test_levels_around_a_block_add_to_the_states_and_do_not_multiply_them(seed: int) -> None:
    """Two levels or twelve: a skip that waits is not one more choice in each block."""
    for nodes in (2, 4):
        few, many = (searched(seed, levels, nodes, 1.0) for levels in (2, 12))
        operators = [len(NestedBlocks(seed, levels, nodes).graph.operators) for levels in (2, 12)]
        assert many.states * operators[0] <= 1.5 * few.states * operators[1]


@pytest.mark.parametrize("seed", range(4))
def test_of_skips_that_are_alike_far_fewer_sets_are_looked_at_than_there_are(seed: int) -> None:
    few, many = (searched(seed, levels, 4, 1.3, ALIKE) for levels in (2, 12))
    assert many.states < few.states + 2**12 * 12


@pytest.mark.parametrize(("levels", "nodes"), [(2, 1), (3, 2), (8, 2)])
def test_the_least_peak_is_that_of_a_block_with_all_that_passes_it(levels: int, nodes: int) -> None:
    """Tensors never leave: those that pass a block add their bytes to its peak, and the worst block decides alone."""
    graph = NestedBlocks(1, levels, nodes).graph
    found = MinPeakSearch(IndexedProblem.of(in_room_for(graph, 100.0)), Run()).solve()
    assert found.status is Status.OPTIMAL
    assert found.objective_value == max(map(partial(least_peak_of_block, graph), blocks_of(graph)))


def blocks_of(graph: Graph) -> Iterator[range]:
    """Yield ranges of operators: each range runs after all operators before it and before all operators behind it."""
    before: list[set[int]] = []
    number = {operator.name: at for at, operator in enumerate(graph.operators)}
    for operator in graph.operators:
        makers = {number[graph.producer[name].name] for name in operator.inputs if name in graph.producer}
        before.append(makers.union(*(before[maker] for maker in makers)))
    last = len(before)
    cuts = [at for at in range(last) if all(before[later].issuperset(range(at)) for later in range(at, last))]
    yield from (range(start, stop) for start, stop in pairwise([*cuts, last]))


def least_peak_of_block(graph: Graph, block: range) -> int:
    """Return the least peak over all orders of a block's operators, with the tensors that pass the block."""
    operators = [graph.operators[at] for at in block]
    earlier, later = graph.operators[: block.start], graph.operators[block.stop :]
    known = {name for operator in earlier for name in (*operator.inputs, *operator.outputs)}
    return min(_peak(graph, order, known, later) for order in _orders(graph, operators, known, ()))


def _orders(
    graph: Graph, left: list[Operator], known: set[str], done: tuple[Operator, ...]
) -> Iterator[tuple[Operator, ...]]:
    if not left:
        yield done
    made = known.union(*(operator.outputs for operator in done))
    for at, operator in enumerate(left):
        if all(name in made or name not in graph.producer for name in operator.inputs):
            yield from _orders(graph, left[:at] + left[at + 1 :], known, (*done, operator))


def _peak(graph: Graph, order: Sequence[Operator], known: set[str], later: Sequence[Operator]) -> int:
    peak, there = 0, set(known)
    for at, operator in enumerate(order):
        there = {name for name in there if any(name in one.inputs for one in (*order[at:], *later))}
        there |= {*operator.inputs, *operator.outputs}
        peak = max(peak, sum(graph.tensor[name].size_bytes for name in there))
    return peak
