"""Indexed problems, and the cost of recomputation."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.problem import Count, Objective, Order, Problem, Recomputation
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Direction, Dram, Memory, Port
from onchip.errors import AcceleratorError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.model.capacity.bounds import inner_peak_bytes
from onchip.model.lifetimes.indexed import LONG_MASK, IndexedProblem, Windows, bits, mask_of
from onchip.model.program.recomputation import recomputation_on
from oracles.one_scratchpad import orders, random_graph
from support.series import in_one_test

# Lists and masks of a problem agree with each other and with the graph


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


# Long masks, which take a different code path, compared with short steps


@pytest.mark.parametrize("greatest", [1, 63, LONG_MASK - 1, LONG_MASK, LONG_MASK + 1, 50_000])
def test_a_mask_has_the_bits_that_were_asked_for(greatest: int) -> None:
    chance = random.Random(greatest)
    indices = sorted({greatest, *(chance.randrange(greatest) for _ in range(100))})
    mask = mask_of(reversed(indices))

    assert mask == sum(1 << index for index in indices)
    assert list(bits(mask)) == indices


def test_no_bits_are_no_mask() -> None:
    assert mask_of(()) == 0
    assert list(bits(0)) == []


# Step windows compared with all orders


def problem_of(seed: int, order: Order = Order.FREE) -> Problem:
    return Problem(random_graph(seed, 6), (Memory("sram", 1000),), order=order, count=Count.ALL)


def uses_by_order(problem: Problem, indexed: IndexedProblem) -> list[list[list[int]]]:
    """Return per order and tensor the steps in which it is an operand."""
    found = []
    for order in orders(problem):
        uses: list[list[int]] = [[] for _ in indexed.tensors]
        for step, operator in enumerate(order):
            for tensor in indexed.operand_lists[operator]:
                uses[tensor].append(step)
        found.append(uses)
    return found


@in_one_test("seed", range(20))
def test_every_order_keeps_to_the_windows(seed: int) -> None:
    problem = problem_of(seed)
    indexed = IndexedProblem.of(problem)
    windows = Windows.of(indexed)
    ever: list[set[int]] = [set() for _ in problem.graph.operators]
    for order in orders(problem):
        for step, operator in enumerate(order):
            ever[operator].add(step)
    for operator_index, steps in enumerate(ever):
        window = windows.steps[operator_index]
        assert steps <= set(window)
        assert min(steps) == window.start, "the earliest step is attained"
        assert max(steps) == window.stop - 1, "the latest step is attained"


@in_one_test("seed", range(20))
def test_tensors_meet_only_in_shared_steps(seed: int) -> None:
    problem = problem_of(seed)
    indexed = IndexedProblem.of(problem)
    windows = Windows.of(indexed)
    for uses in uses_by_order(problem, indexed):
        for first, second in combinations(range(len(indexed.tensors)), 2):
            if uses[first] and uses[second]:
                start = max(uses[first][0], uses[second][0])
                stop = min(uses[first][-1], uses[second][-1]) + 1
                assert set(range(start, stop)) <= set(windows.shared_steps(first, second))


def test_a_tensor_that_is_dead_before_another_is_made_shares_no_step() -> None:
    chain = Problem(random_graph(0, 6), (Memory("sram", 1000),), order=Order.GIVEN)
    indexed = IndexedProblem.of(chain)
    windows = Windows.of(indexed)
    lives = windows.lifetimes
    for first, second in combinations(range(len(indexed.tensors)), 2):
        if lives[first] and lives[second] and lives[first].stop <= lives[second].start:
            assert not windows.shared_steps(first, second)


def test_a_given_order_leaves_one_step_to_each_operator() -> None:
    windows = Windows.of(IndexedProblem.of(problem_of(1, Order.GIVEN)))
    assert windows.steps == tuple(range(step, step + 1) for step in range(len(windows.steps)))


# Bytes that a graph needs in addition to its inputs and outputs, compared with all tensors in each step


def plainly(graph: Graph) -> int:
    """Return the largest total size, over the steps, of activations that are live and of the workspace."""
    most = 0
    for step, operator in enumerate(graph.operators):
        before = {name for one in graph.operators[:step] for name in one.outputs}
        after = {name for one in graph.operators[step:] for name in one.inputs}
        alive = (before & after) | set(operator.outputs)
        sizes = [one.size_bytes for one in graph.tensors if one.name in alive and one.role is Role.ACTIVATION]
        most = max(most, sum(sizes) + operator.workspace_bytes)
    return most


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    names = ["x"]
    tensors, operators = [Tensor("x", 7, Role.INPUT)], []
    for step in range(draw(st.integers(1, 8))):
        read = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
        written = tuple(f"t{step}.{at}" for at in range(draw(st.integers(1, 2))))
        operators.append(Operator(f"o{step}", "Any", tuple(read), written, workspace_bytes=draw(st.integers(0, 3))))
        for name in written:
            role = draw(st.sampled_from([Role.ACTIVATION, Role.ACTIVATION, Role.OUTPUT]))
            tensors.append(Tensor(name, draw(st.integers(1, 9)), role))
            names.append(name)
    return Graph("graph", tuple(tensors), tuple(operators))


@given(graphs())
def test_it_is_what_lives_in_the_fullest_step(graph: Graph) -> None:
    assert inner_peak_bytes(graph) == plainly(graph)


GRAPH = Graph(
    "two",
    (
        Tensor("x", 12, Role.INPUT, (1, 12), 8),
        Tensor("a", 12, Role.ACTIVATION, (1, 12), 8),
        Tensor("y", 12, Role.OUTPUT, (1, 12), 8),
    ),
    (Operator("first", "Relu", ("x",), ("a",)), Operator("second", "Relu", ("a",), ("y",), stated=StatedCost(7, 2.5))),
)
PLAIN = Accelerator("sram", (Memory("sram", 100),))
MACHINE = replace(
    PLAIN, array=ComputeArray(free=4, mac_energy_pj=0.5), dram=Dram(ports=(Port(Direction.READ_WRITE, 24),))
)


@pytest.mark.parametrize(
    ("accelerator", "objective", "price", "costs"),
    [
        (PLAIN, Objective.RECOMPUTATION, None, (12, 7)),
        (MACHINE, Objective.RECOMPUTATION, None, (3, 7)),
        (MACHINE, Objective.DMA_CYCLES, None, (3, 7)),
        (MACHINE, Objective.TRAFFIC, None, (9, 21)),
        (MACHINE, Objective.DMA_ENERGY, None, (6000, 2500)),
        (PLAIN, Objective.TRAFFIC, 500_000.0, (6, 4)),
        (MACHINE, Objective.TRAFFIC, 0.0, (0, 0)),
    ],
)
def test_a_further_run_costs_cycles_energy_or_the_bytes_of_dram_s_time(
    accelerator: Accelerator, objective: Objective, price: float | None, costs: tuple[int, int]
) -> None:
    found = recomputation_on(accelerator, GRAPH, objective, price=price)
    assert tuple(found.cost(operator) for operator in GRAPH.operators) == costs


def test_what_nothing_says_is_refused() -> None:
    with pytest.raises(UsageError, match="DRAM bandwidth"):
        recomputation_on(PLAIN, GRAPH, Objective.TRAFFIC)
    with pytest.raises(AcceleratorError, match="what energy operator 'first' takes"):
        recomputation_on(PLAIN, GRAPH, Objective.DMA_ENERGY)
    with pytest.raises(UsageError, match=r"-1\.0 is invalid"):
        recomputation_on(MACHINE, GRAPH, Objective.TRAFFIC, price=-1.0)
    with pytest.raises(UsageError, match="counts cycles as they are"):
        recomputation_on(MACHINE, GRAPH, Objective.RECOMPUTATION, price=1.0)
    with pytest.raises(UsageError, match=r"costs\.f is -1"):
        Recomputation({"f": -1})
