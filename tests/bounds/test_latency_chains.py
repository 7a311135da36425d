"""Lower bounds on the cycles between two operators hold for all programs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Count, Durations, Objective, Order, Problem, Rate, Transfers
from onchip.answer.program import Compute, Plan
from onchip.arch.memory import DRAM, Memory
from onchip.bounds.latency.latency_bounds import NEVER, LatencyBounds, LatencyChains
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.ir.graph import Graph
from onchip.ir.operator import ChannelSplits, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.transform.slices.emission import ChannelBands
from oracles.byte_clock import ByteClock
from support.series import series
from support.skipping_graphs import skipping_graph
from support.timed_problems import random_program, timed_graph, timed_problem


def chains_of(problem: Problem) -> LatencyChains:
    ways = WaysToRun(problem)
    load = problem.transfers.rates[DRAM, problem.memories[0].name]
    return LatencyChains(ways, LatencyBounds(ways).borders, load)


def ends_of_last_bands(problem: Problem, plan: Plan) -> dict[str, int]:
    """Map each operator of the uncut graph to the end of its last band, in cycles."""
    clock, ends = ByteClock.at_start(problem), dict[str, int]()
    for instruction in plan.instructions:
        clock = clock.after(instruction)
        if isinstance(instruction, Compute):
            name = instruction.operator.partition("#")[0]
            ends[name] = max(ends.get(name, 0), clock.array_free)
    return ends


def pairs_that_hold(seed: int) -> int:
    """Return the number of bounded pairs of operators; fail if two ends are closer together than the bound."""
    random = Random(seed)
    graph = timed_graph(random, random.randint(2, 6))
    if random.random() < 0.5:
        graph = skipping_graph(random, random.randint(2, 6), random.choice((1, 2)), (1, 1, 2))
    problem = timed_problem(graph, random.randint(6, 16), random)
    splits = {one.name: one.stated.splits for one in graph.operators}
    parts = {name: random.choice(one.ways)[0] for name, one in splits.items() if one is not None}
    cut = ChannelBands({name: count for name, count in parts.items() if random.random() < 0.5})(graph)
    banded = timed_problem(cut, problem.memories[0].capacity_bytes, Random(seed + 1))
    asked = timed_problem(graph, problem.memories[0].capacity_bytes, Random(seed + 1))
    plan = random_program(banded, random)
    if plan is None:
        return 0
    chains, ends, count = chains_of(asked), ends_of_last_bands(banded, plan), 0
    operators = [one.name for one in asked.graph.operators]
    names = [operators[one.operator] for one in chains.borders]
    ways = [parts_of(cut, name) for name in names]
    is_last = [
        all(ends[operators[other]] <= ends[name] for other in one.others)
        for one, name in zip(chains.borders, names, strict=True)
    ]
    for at, first in enumerate(names):
        if not is_last[at]:
            continue
        known = np.full(max(map(len, chains.parts)), NEVER)
        known[chains.parts[at].index(ways[at])] = ends[first]
        for to, (row, possible) in enumerate(zip(chains.after(at, known), chains.parts, strict=True)):
            if is_last[to]:
                count += int(row.max() > 0)
                assert ends[names[to]] >= row[possible.index(ways[to])], (seed, first, names[to])
    return count


def parts_of(graph: Graph, name: str) -> int:
    """Return the number of bands of an operator in a graph that was cut."""
    return sum(one.name.partition("#")[0] == name for one in graph.operators)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.integers(0, 10**9))
def test_no_program_has_two_operators_closer_together(seed: int) -> None:
    pairs_that_hold(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", series(range(4), 1))
def test_no_program_of_two_thousand_has_two_operators_closer_together(part: int) -> None:
    assert sum(map(pairs_that_hold, range(500 * part, 500 * (part + 1)))) > 500


def test_what_has_no_room_while_an_operator_runs_is_loaded_after_it() -> None:
    waiting = 0
    for seed in range(200):
        random = Random(seed)
        chains = chains_of(timed_problem(timed_graph(random, 5), 6, random, Order.FREE))
        waiting += any(
            (chains._missing(at)[: len(parts)] > 0).all(axis=0).any() for at, parts in enumerate(chains.parts)
        )
    assert waiting > 50


def test_the_room_that_a_last_band_leaves_goes_with_the_time_that_all_bands_take() -> None:
    """Four of the 8 bytes that `b` reads fit next to the inputs of `a`; six next to those of a band, twice as long."""
    tensors = [("x", 2, Role.INPUT), ("p", 4, Role.PARAMETER), ("t", 4, Role.ACTIVATION), ("w", 4, Role.PARAMETER)]
    shaped = [Tensor.of_shape(name, (2, size // 2), 8, role) for name, size, role in [*tensors, ("y", 2, Role.OUTPUT)]]
    in_bands = StatedCost(4, None, ChannelSplits(cuts_inputs=False, ways=((2, 4),)))
    first = Operator("a", "Any", ("x",), ("t",), ("p",), stated=in_bands)
    graph = Graph("two", tuple(shaped), (first, Operator("b", "Any", ("t",), ("y",), ("w",), stated=StatedCost(6))))
    rates = {(DRAM, "sram"): Rate(), ("sram", DRAM): Rate()}
    memories, transfers = (Memory("sram", 10),), Transfers((), rates)
    asked = Problem(
        graph, memories, Objective.LATENCY, Order.FREE, Count.ALL, transfers=transfers, durations=Durations({})
    )

    assert chains_of(asked).ends([{1: 10, 2: 12}, {1: 16}]) == [{1: 10, 2: 12}, {1: 20}]
