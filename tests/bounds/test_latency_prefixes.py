"""Bounds from the set of operators that have ended hold for all programs."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Count, Durations, Objective, Order, Problem, Rate, Transfers
from onchip.answer.program import Compute, Plan
from onchip.arch.memory import DRAM, Memory
from onchip.bounds.latency.latency_bounds import LatencyBounds
from onchip.bounds.latency.latency_prefixes import LatencyPrefixes, Missing, Work
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.stated_cost import ChannelSplits, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.transform.slices.channel_bands import ChannelBands
from oracles.byte_clock import ByteClock
from oracles.least_latency import TooManyProgramsError
from oracles.least_latency_states import some_program_ends_before
from support.series import series
from support.skipping_graphs import skipping_graph
from support.timed_problems import timed_graph, timed_problem
from support.timed_programs import random_program
from support.woven_graphs import woven_graph


def last_ends(problem: Problem, plan: Plan) -> tuple[dict[str, int], int]:
    """By operator of the graph that was cut when its last band ends, the last to end behind; and when all has ended."""
    clock, ends = ByteClock.at_start(problem), dict[str, int]()
    for instruction in plan.instructions:
        clock = clock.after(instruction)
        if isinstance(instruction, Compute):
            name = instruction.operator.partition("#")[0]
            ends.pop(name, None)
            ends[name] = clock.array_free
    return ends, clock.latest


def moments_that_hold(seed: int) -> int:
    """How many moments of a random program say more than its computing; fails where one is later than it allows."""
    random = Random(seed)
    kind = random.choice(("woven", "woven", "skipping", "timed"))
    if kind == "skipping":
        graph = skipping_graph(random, random.randint(2, 6), random.choice((1, 2)), (1, 1, 2))
    else:
        graph = (
            woven_graph(random, random.randint(1, 3)) if kind == "woven" else timed_graph(random, random.randint(2, 6))
        )
    capacity_bytes = random.randint(5, 14)
    splits = {one.name: one.stated.splits for one in graph.operators}
    parts = {name: one.ways[0][0] for name, one in splits.items() if one is not None and random.random() < 0.7}
    banded = timed_problem(ChannelBands(parts)(graph), capacity_bytes, Random(seed + 1))
    plan = random_program(banded, random)
    if plan is None:
        return 0
    bounds = LatencyBounds(WaysToRun(timed_problem(graph, capacity_bytes, Random(seed + 1))))
    prefixes, (ends, latency) = prefixes_of(bounds), last_ends(banded, plan)
    number = {one.name: at for at, one in enumerate(graph.operators)}
    computed, ended, count = prefixes.first_load, 0, 0
    for name, end in ends.items():
        operator, ways = bounds.ways.operators[number[name]], parts.get(name, 1)
        computed += ways * operator.cycles[ways]
        assert end >= computed, (seed, name)
        moment = prefixes.moment(ended, number[name])
        missing = Missing(end, computed, moment.missing_bytes[ways], prefixes.tail)
        least = missing.least_latency(moment.works(ways), prefixes.load)
        assert latency >= max(least, end + prefixes.last_store), (seed, name)
        ended |= 1 << number[name]
        count += least > end
    return count


def prefixes_of(bounds: LatencyBounds) -> LatencyPrefixes:
    """Those of a problem where nothing is known of when operators end."""
    return bounds.prefixes({at: dict.fromkeys(one.cycles, 0) for at, one in enumerate(bounds.ways.operators)})


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_no_program_ends_before_a_moment_of_its_own_allows(seed: int) -> None:
    moments_that_hold(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", series(range(4), 1))
def test_no_program_of_two_thousand_ends_before_a_moment_of_its_own_allows(part: int) -> None:
    assert sum(map(moments_that_hold, range(500 * part, 500 * (part + 1)))) > 100


def bound_over_prefixes_holds(seed: int, most_states: int) -> bool | None:
    """Whether no program ends before it; None where it says no more than other bounds do, or that was too much."""
    random = Random(seed)
    problem = timed_problem(woven_graph(random, random.choice([1, 2, 2])), random.randint(5, 11), random)
    *others, last = LatencyBounds(WaysToRun(problem)).all()
    if last.cycles == max(one.cycles for one in others):
        return None
    try:
        return not some_program_ends_before(problem, last.cycles, most_states)
    except TooManyProgramsError:
        return None


@pytest.mark.slow
def test_no_program_at_all_ends_before_the_bound_over_prefixes() -> None:
    found = Counter(bound_over_prefixes_holds(seed, most_states=100) for seed in range(60))
    assert found[False] == 0
    assert found[True] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("part", series(range(4), 1))
def test_no_program_at_all_ends_before_the_bound_over_prefixes_of_a_thousand_problems(part: int) -> None:
    seeds = range(250 * part, 250 * (part + 1))
    found = Counter(bound_over_prefixes_holds(seed, most_states=200) for seed in seeds)
    assert found[False] == 0
    assert found[True] >= 5


def test_fewer_labels_bound_no_more() -> None:
    for seed in range(40):
        random = Random(seed)
        problem = timed_problem(woven_graph(random, 3), random.randint(5, 11), random)
        prefixes = prefixes_of(LatencyBounds(WaysToRun(problem)))
        found = [prefixes.bound(0, most_labels) for most_labels in (0, 1, 3, 10, 30, 100, 10_000)]
        assert found == sorted(found)
        assert found[0] == 0 < found[-1]
        assert prefixes.bound(10**6) == 10**6


def test_in_the_given_order_each_operator_ends_after_all_before_it() -> None:
    random = Random(3)
    graph = timed_graph(random, 5)
    free, given_order = (timed_problem(graph, 6, Random(3), order) for order in (Order.FREE, Order.GIVEN))
    assert prefixes_of(LatencyBounds(WaysToRun(given_order))).bound(0) >= prefixes_of(
        LatencyBounds(WaysToRun(free))
    ).bound(0)


def test_what_saves_most_in_a_cycle_is_run_first() -> None:
    """Of 20 missing bytes 12 are saved in 3 cycles, of which 2 were idle; 4 more take 8, longer than their loads."""
    missing = Missing(end=100, computed_cycles=98, size_bytes=20, tail=5)
    assert missing.least_latency([], Rate()) == 125
    assert missing.least_latency([Work(3, 12), Work(8, 4)], Rate()) == 101 + 8 + 5
    assert missing.least_latency([Work(3, 60)], Rate()) == 100
    assert missing.least_latency([Work(30, 20)], Rate()) == 123


def test_inputs_of_bands_that_have_not_run_wait_beside_the_last_band() -> None:
    """When `b` ends, `meet` has run half: 4 bytes of its inputs and 1 of its output wait, and 2 of what `b` reads.

    So of the 8 of `v` only 5 have room, beside none of `w`'s: 3 are loaded from then on.
    """
    tensors = (
        ("x", 2, Role.INPUT),
        ("w", 2, Role.PARAMETER),
        ("b", 8, Role.ACTIVATION),
        ("p", 2, Role.ACTIVATION),
        ("v", 8, Role.PARAMETER),
        ("y", 2, Role.OUTPUT),
    )
    shaped = tuple(Tensor.of_shape(name, (2, size // 2), 8, role) for name, size, role in tensors)
    halves = StatedCost(10, None, ChannelSplits(cuts_inputs=True, ways=((2, 1),)))
    banded = StatedCost(10, None, ChannelSplits(cuts_inputs=False, ways=((2, 5),)))
    operators = (
        Operator("b", "Any", ("x",), ("b",), ("w",), stated=banded),
        Operator("meet", "Any", ("b",), ("p",), stated=halves),
        Operator("last", "Any", ("p",), ("y",), ("v",), stated=StatedCost(1)),
    )
    rates = {(DRAM, "sram"): Rate(), ("sram", DRAM): Rate()}
    problem = Problem(
        Graph("halves", shaped, operators),
        (Memory("sram", 13),),
        Objective.LATENCY,
        Order.FREE,
        Count.ALL,
        transfers=Transfers((), rates),
        durations=Durations({}),
    )
    moment = prefixes_of(LatencyBounds(WaysToRun(problem))).moment(0, 0)
    assert moment.missing_bytes[2] == 8 + 8 + 2 + 1 - 13
    assert moment.works(2) == [Work(1, 3)]
