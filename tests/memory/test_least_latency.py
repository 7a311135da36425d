"""Plans of least latency: legal, timed as claimed, and no bound above any program."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Order, Problem
from onchip.answer.result import Status
from onchip.arch.memory import Memory
from onchip.bounds.latency.latency_bounds import LatencyBounds
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.ir.graph import Graph
from onchip.ir.operator import ChannelSplits, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.memory.timed.homes import (
    Homes,
    PackingEffort,
    PlacedOrder,
    latency_bands,
    packed_as_timed,
    packed_then_placed,
)
from onchip.memory.timed.solve import ProgramWriter, solve_for_latency
from onchip.model.timeline.plan_timeline import latency_of_plan
from onchip.native import LatencyBands, LatencyPlacing, LatencyRoom
from onchip.search.budget.limits import Limits, Run
from onchip.transform.slices.emission import ChannelBands
from onchip.verify.verifier import verify
from oracles.least_latency import TooManyProgramsError, ends_before
from support.series import series
from support.timed_answers import assert_ends_as_claimed
from support.timed_problems import SCRATCHPAD, timed_graph, timed_problem

SECONDS_OF_A_SEARCH = 0.1


def small_problem(seed: int, operators: int, order: Order = Order.FREE) -> Problem:
    random = Random(seed)
    graph = timed_graph(random, operators)
    return timed_problem(graph, random.randint(5, 20), random, order)


def in_one_scratchpad(ways: WaysToRun) -> Homes:
    """Return the homes of all operands in the one scratchpad, whether they fit or not."""
    return tuple((0,) * len((*one.reads, *one.writes)) for one in ways.operators)


def tiny_problem(seed: int) -> Problem:
    """Return a problem small enough to enumerate all its programs."""
    random = Random(seed)
    graph = timed_graph(random, 1 + seed % 3, widths=(1,))
    return timed_problem(graph, random.randint(4, 6), random)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 6), st.sampled_from([Order.FREE, Order.GIVEN]))
def test_plans_are_legal_and_end_as_claimed(seed: int, operators: int, order: Order) -> None:
    assert_plan_ends_as_claimed(small_problem(seed, operators, order), Limits(SECONDS_OF_A_SEARCH))


@pytest.mark.parametrize(("seed", "operators"), [(1, 2), (9, 4)])
def test_plans_of_searches_that_end_by_themselves_are_legal_and_end_as_claimed(seed: int, operators: int) -> None:
    assert_plan_ends_as_claimed(small_problem(seed, operators), Limits())


def assert_plan_ends_as_claimed(problem: Problem, limits: Limits) -> None:
    result = solve_for_latency(problem, Run(limits))
    if result.answer is None:
        assert result.status in (Status.INFEASIBLE, Status.UNKNOWN)
        return
    assert_ends_as_claimed(result)


def latency_of_legal_program(problem: Problem, search: LatencyBands, found: PlacedOrder) -> int:
    """Write the program of a found order in the bands of the search, verify it, and return its latency in cycles."""
    named = {one.name: count for one, count in zip(problem.graph.operators, search.parts, strict=True) if count > 1}
    banded = replace(problem, graph=ChannelBands(named)(problem.graph))
    plan = ProgramWriter(banded, found).plan()
    assert verify(banded, plan).violations == ()
    return latency_of_plan(banded, plan)


def bounds_hold(seed: int, most_states: int = 3_000) -> bool:
    """Return True if the bounds are proven by exhaustion; fail if some program ends before one."""
    problem = tiny_problem(seed)
    greatest = LatencyBounds(WaysToRun(problem)).greatest
    try:
        assert not ends_before(problem, greatest.cycles, most_states), (seed, greatest)
    except TooManyProgramsError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("part", series(range(8), 1))
def test_no_program_at_all_ends_before_a_bound_of_a_thousand_problems(part: int) -> None:
    seeds = range(125 * part, 125 * (part + 1))
    assert sum(bounds_hold(seed, most_states=300) for seed in seeds) >= 25


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 6))
def test_the_search_cuts_as_channel_bands_do(seed: int, operators: int) -> None:
    problem = small_problem(seed, operators)
    ways = WaysToRun(problem)
    random = Random(seed)
    parts = [random.choice(sorted(one.cycles)) for one in ways.operators]
    search = latency_bands(ways, in_one_scratchpad(ways))
    search.begin(parts, seed)
    named = {one.name: count for one, count in zip(problem.graph.operators, parts, strict=True) if count > 1}
    lowered = replace(problem, graph=ChannelBands(named)(problem.graph))
    assert search.sizes_bytes == [tensor.size_bytes for tensor in lowered.counted_tensors]
    timing = search.evaluate(LatencyRoom(10**6, 10**6))
    durations = lowered.durations
    assert durations is not None
    lasting = [durations.of_operator(one) for one in lowered.graph.operators]
    assert len(timing.ends) == len(lasting)
    names = [tensor.name for tensor in lowered.counted_tensors]
    written = {names[stay.tensor]: stay.start for stay in timing.stays if not stay.is_loaded}
    assert written == {name: step for step, one in enumerate(lowered.graph.operators) for name in one.outputs}
    loaded = {names[stay.tensor] for stay in timing.stays if stay.is_loaded}
    assert loaded == {name for one in lowered.graph.operators for name in one.reads} - written.keys()


def test_an_operator_that_fits_in_no_way_is_infeasible() -> None:
    problem = replace(small_problem(3, 4), memories=(Memory(SCRATCHPAD, 1),))
    assert solve_for_latency(problem, Run(Limits())).status is Status.INFEASIBLE


@pytest.mark.slow
def test_an_operator_too_large_whole_runs_in_bands() -> None:
    stated = StatedCost(8, None, ChannelSplits(True, ((4, 2),)))
    graph = Graph(
        "wide",
        (
            Tensor.of_shape("x", (4, 4), 8, Role.INPUT),
            Tensor.of_shape("w", (4, 4), 8, Role.PARAMETER),
            Tensor.of_shape("y", (4, 4), 8, Role.OUTPUT),
        ),
        (Operator("o", "Any", ("x",), ("y",), ("w",), stated=stated),),
    )
    problem = timed_problem(graph, 20, Random(0))
    result = solve_for_latency(problem, Run(Limits()))
    assert result.answer is not None
    assert result.answer.problem is not None
    assert [one.name for one in result.answer.problem.graph.operators] == ["o#0", "o#1", "o#2", "o#3"]


PLACED = [LatencyPlacing.LOWEST, LatencyPlacing.HIGHEST, LatencyPlacing.AFTERWARDS]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 9), st.sampled_from(PLACED), st.booleans(), st.booleans())
def test_what_is_placed_while_it_is_timed_is_legal_and_ends_as_the_search_says(
    seed: int, operators: int, placing: LatencyPlacing, is_longest_first: bool, has_place_for_all: bool
) -> None:
    problem = small_problem(seed, operators)
    ways = WaysToRun(problem)
    random = Random(seed)
    search = latency_bands(ways, in_one_scratchpad(ways))
    search.begin([random.choice(sorted(one.cycles)) for one in ways.operators], seed)
    room = LatencyRoom(1.0, 1.0, placing, is_longest_first, has_place_for_all, rounds=4)
    timing = search.evaluate(room)
    if timing.fits:
        found = PlacedOrder.of_best(search, room, timing)
        assert latency_of_legal_program(problem, search, found) == timing.latency


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 9))
def test_what_is_packed_first_and_then_loaded_as_early_as_can_be_is_legal(seed: int, operators: int) -> None:
    problem = small_problem(seed, operators)
    ways = WaysToRun(problem)
    random = Random(seed)
    search = latency_bands(ways, in_one_scratchpad(ways))
    search.begin([random.choice(sorted(one.cycles)) for one in ways.operators], seed)
    found = packed_then_placed(ways, search, Run(Limits()))
    if found is not None:
        assert latency_of_legal_program(problem, search, found) == found.timing.latency


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 12), st.sampled_from([0.0, 0.5, 1.0]))
def test_what_is_timed_in_bytes_ends_no_later_wherever_it_is_packed(seed: int, operators: int, ahead: float) -> None:
    problem = small_problem(seed, operators)
    ways = WaysToRun(problem)
    random = Random(seed)
    search = latency_bands(ways, in_one_scratchpad(ways))
    search.begin([random.choice(sorted(one.cycles)) for one in ways.operators], seed)
    room = LatencyRoom(1.0, ahead)
    for effort in (PackingEffort(3_000), PackingEffort(0, 60)):
        found = packed_as_timed(ways, search, Run(Limits()), effort, room)
        if found is not None:
            assert latency_of_legal_program(problem, search, found) <= found.timing.latency
