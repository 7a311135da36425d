"""What lies between two operators at least, against programs: none has them closer together."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Order, Problem
from onchip.answer.program import Compute, Plan
from onchip.arch.memory import DRAM
from onchip.facts.latency_bounds import LatencyBounds
from onchip.facts.latency_chains import LatencyChains
from onchip.facts.ways_to_run import WaysToRun
from onchip.lower.split.channel_bands import ChannelBands
from oracles.byte_clock import ByteClock
from support.timed_problems import timed_graph, timed_problem
from support.timed_programs import random_program


def chains_of(problem: Problem) -> LatencyChains:
    ways = WaysToRun(problem)
    load = problem.transfers.rates[DRAM, problem.memories[0].name]
    return LatencyChains(ways, LatencyBounds(ways).borders, load)


def ends_of_last_bands(problem: Problem, plan: Plan) -> dict[str, int]:
    """By operator of the graph that was cut."""
    clock, ends = ByteClock.at_start(problem), dict[str, int]()
    for instruction in plan.instructions:
        clock = clock.after(instruction)
        if isinstance(instruction, Compute):
            name = instruction.operator.partition("#")[0]
            ends[name] = max(ends.get(name, 0), clock.array_free)
    return ends


def pairs_that_hold(seed: int) -> int:
    """How many pairs of operators were looked at; fails where two are closer together than said."""
    random = Random(seed)
    graph = timed_graph(random, random.randint(2, 6))
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
    names = [asked.graph.operators[one.operator].name for one in chains.borders]
    for first, row in zip(names, chains.cycles, strict=True):
        for second, cycles in zip(names, row, strict=True):
            if cycles >= 0:
                count += 1
                assert ends[second] - ends[first] >= cycles, (seed, first, second)
    return count


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 10**9))
def test_no_program_has_two_operators_closer_together(seed: int) -> None:
    pairs_that_hold(seed)


@pytest.mark.slow
def test_no_program_of_four_thousand_has_two_operators_closer_together() -> None:
    assert sum(map(pairs_that_hold, range(4_000))) > 5_000


def test_what_has_no_room_while_an_operator_runs_is_loaded_after_it() -> None:
    waiting = 0
    for seed in range(200):
        random = Random(seed)
        problem = timed_problem(timed_graph(random, 5), 6, random, Order.FREE)
        chains = chains_of(problem)
        waiting += int((chains.cycles > 0).sum() > 0 and (chains._missing(chains._waited_for) > 0).any())
    assert waiting > 50
