"""Plans of least latency in several scratchpads: legal, timed as claimed, OPTIMAL only where nothing ends sooner."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.test_latency_in_several_scratchpads import odd_problem
from memory.test_least_latency import PLACED, latency_of_legal_program
from onchip.answer.problem import Order, Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status
from onchip.arch.memory import Memory, Operand
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import ChannelSplits, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.memory.timed.homes import HomesOfOperands, PackingEffort, PlacedOrder, latency_bands, packed_as_timed
from onchip.memory.timed.solve import solve_for_latency
from onchip.model.capacity.bounds import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import LatencyPlacing, LatencyRoom
from onchip.search.budget.limits import Limits, Run
from onchip.verify.verifier import verify
from oracles.least_latency import TooManyProgramsError, some_program_ends_before
from support.series import series
from support.timed_answers import assert_ends_as_claimed
from support.timed_problems import problem_of_several, timed_graph

SECONDS_OF_AN_ANSWER = 0.03


def roomy_problem(seed: int, operators: int, order: Order = Order.FREE) -> Problem:
    """Return two or three scratchpads in which most operators barely fit."""
    random = Random(seed)
    graph = timed_graph(random, operators)
    capacities = [random.randint(4, 10) for _ in range(random.choice([2, 2, 3]))]
    return problem_of_several(graph, capacities, random, order)


def answer(problem: Problem, seconds: float | None = None) -> SearchResult[Plan] | None:
    """Return the result, or None if bands of an operand would have to lie apart."""
    try:
        return solve_for_latency(problem, Run(Limits(seconds)))
    except UsageError:
        return None


@pytest.mark.slow
def test_what_fits_whole_has_a_plan_where_its_bands_are_aligned_apart() -> None:
    result = answer(roomy_problem(54380107, 3, Order.FREE))
    assert result is not None
    assert result.answer is not None
    assert_ends_as_claimed(result)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 7), st.sampled_from([Order.FREE, Order.GIVEN]))
def test_plans_are_legal_and_end_as_claimed(seed: int, operators: int, order: Order) -> None:
    problem = roomy_problem(seed, operators, order)
    result = answer(problem, seconds=0.1)
    if result is None or result.answer is None:
        assert operators_that_do_not_fit(IndexedProblem.of(problem))
        return
    assert_ends_as_claimed(result)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 7), st.booleans())
def test_what_fits_operator_by_operator_has_a_plan_in_no_time(seed: int, operators: int, is_alone: bool) -> None:
    random = Random(seed)
    graph = timed_graph(random, operators, channels=1, widths=(1, 2, 3))
    capacities = [random.randint(3, 7) for _ in range(1 if is_alone else 2)]
    problem = problem_of_several(graph, capacities, random)
    result = solve_for_latency(problem, Run(Limits(0.0)))
    is_infeasible = bool(operators_that_do_not_fit(IndexedProblem.of(problem)))
    assert (result.answer is None, result.status is Status.INFEASIBLE) == (is_infeasible, is_infeasible)
    if result.answer is not None and result.answer.problem is not None:
        assert verify(result.answer.problem, result.answer).violations == ()


def test_what_may_fit_only_with_bands_in_several_scratchpads_is_refused_in_one_line() -> None:
    shapes = (("x", (1, 2), Role.INPUT), ("h", (4, 2), Role.ACTIVATION), ("y", (1, 2), Role.OUTPUT))
    splits = ChannelSplits(False, ((4, 2),))
    operators = (
        Operator("first", "Any", ("x",), ("h",), stated=StatedCost(8, None, splits)),
        Operator("second", "Any", ("h",), ("y",), stated=StatedCost(1)),
    )
    graph = Graph("wide", tuple(Tensor.of_shape(name, shape, 8, role) for name, shape, role in shapes), operators)
    problem = problem_of_several(graph, (6, 6), Random(1), links=0)
    problem = replace(problem, memories=tuple(Memory(one.name, 6) for one in problem.memories))
    with pytest.raises(UsageError, match="operator 'second': its inputs would have to be split over several"):
        solve_for_latency(problem, Run(Limits()))
    smaller = replace(problem, memories=tuple(Memory(one.name, 4) for one in problem.memories))
    assert solve_for_latency(smaller, Run(Limits())).status is Status.INFEASIBLE


@pytest.mark.parametrize("held", [(Operand.WEIGHT,), (Operand.INPUT, Operand.WEIGHT), (Operand.OUTPUT, Operand.WEIGHT)])
def test_operators_in_bands_are_infeasible_if_no_scratchpad_holds_an_operand(held: tuple[Operand, ...]) -> None:
    graph = timed_graph(Random(2), 4)
    assert any(one.stated.splits for one in graph.operators)
    problem = problem_of_several(graph, (40, 40), Random(1), links=0)
    problem = replace(problem, memories=tuple(replace(one, holds=held) for one in problem.memories))
    assert solve_for_latency(problem, Run(Limits())).status is Status.INFEASIBLE


def test_operators_that_read_nothing_have_a_bound_where_no_scratchpad_holds_inputs() -> None:
    made = Operator("made", "Any", (), ("y",), stated=StatedCost(3))
    graph = Graph("source", (Tensor.of_shape("y", (1, 2), 8, Role.OUTPUT),), (made,))
    problem = problem_of_several(graph, (2, 2), Random(1), links=0)
    problem = replace(problem, memories=tuple(replace(one, holds=(Operand.OUTPUT,)) for one in problem.memories))
    assert solve_for_latency(problem, Run(Limits())).status is Status.OPTIMAL


def is_right(problem: Problem, result: SearchResult[Plan], most_states: int) -> bool | None:
    """Return True if no program ends sooner (or exists, without a value), or None if the enumeration is too large."""
    cycles = 10**6 if result.objective_value is None else result.objective_value
    try:
        return not some_program_ends_before(problem, cycles, most_states)
    except TooManyProgramsError:
        return None


def verdicts(seeds: range, status: Status, most_states: int = 400) -> list[bool | None]:
    """Return the verdict of `is_right` for each problem with that status."""
    found = []
    for seed in seeds:
        problem = odd_problem(seed, 1 + seed % 6)
        result = answer(problem, SECONDS_OF_AN_ANSWER)
        if result is not None and result.status is status:
            found.append(is_right(problem, result, most_states))
            assert found[-1] is not False, seed
    return found


@pytest.mark.slow
def test_there_is_no_program_where_none_is_said_to_be() -> None:
    assert verdicts(range(20), Status.INFEASIBLE).count(True) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("part", series(range(20), 4))
def test_nothing_ends_before_what_is_said_to_be_optimal_of_two_thousand(part: int) -> None:
    found = verdicts(range(100 * part, 100 * (part + 1)), Status.OPTIMAL)
    assert len(found) >= 3
    assert found.count(True) >= 0.6 * len(found)


@pytest.mark.slow
def test_what_was_found_is_among_the_programs_that_are_gone_through() -> None:
    found = 0
    for seed in range(16):
        problem = odd_problem(seed, 1 + seed % 3)
        result = answer(problem, SECONDS_OF_AN_ANSWER)
        if result is not None and result.objective_value is not None:
            try:
                assert some_program_ends_before(problem, result.objective_value + 1, 400), seed
                found += 1
            except TooManyProgramsError:
                continue
    assert found >= 5


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 9), st.sampled_from(PLACED), st.booleans(), st.booleans())
def test_what_is_placed_while_it_is_timed_is_legal_and_ends_as_the_search_says(
    seed: int, operators: int, placing: LatencyPlacing, is_longest_first: bool, has_place_for_all: bool
) -> None:
    problem, random = roomy_problem(seed, operators), Random(seed)
    ways = WaysToRun(problem)
    homes = HomesOfOperands(ways)
    if homes.unfit is not None:
        return
    search = latency_bands(ways, homes.start(spreads=random.random() < 0.5))
    search.begin([random.choice(sorted(one.cycles)) for one in ways.operators], seed)
    timing = search.evaluate(LatencyRoom(1.0, 1.0, placing, is_longest_first, has_place_for_all, rounds=4))
    if timing.fits:
        found = PlacedOrder.of_best(search, LatencyRoom(1.0, 1.0), timing)
        latency = latency_of_legal_program(problem, search, found)
        if all(tensor.same_as < 0 for tensor in search.tensors):
            assert latency == timing.latency


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 9), st.sampled_from([0.0, 0.5, 1.0]))
def test_what_is_timed_in_bytes_ends_no_later_wherever_it_is_packed(seed: int, operators: int, ahead: float) -> None:
    problem = roomy_problem(seed, operators)
    ways = WaysToRun(problem)
    homes = HomesOfOperands(ways)
    if homes.unfit is not None:
        return
    search = latency_bands(ways, homes.start(spreads=True))
    search.begin([min(one.cycles) for one in ways.operators], seed)
    for effort in (PackingEffort(3_000), PackingEffort(0, 60)):
        found = packed_as_timed(ways, search, Run(Limits()), effort, LatencyRoom(1.0, ahead))
        if found is not None:
            latency = latency_of_legal_program(problem, search, found)
            if all(tensor.same_as < 0 for tensor in search.tensors):
                assert latency <= found.timing.latency


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 6))
def test_moves_of_homes_lead_where_the_array_reads_and_writes(seed: int, operators: int) -> None:
    problem = roomy_problem(seed, operators)
    ways = WaysToRun(problem)
    choices = HomesOfOperands(ways)
    if choices.unfit is not None:
        return
    homes = choices.start(spreads=False)
    for move in [{}, *choices.moves(), *choices.swaps(homes)]:
        for operator, places in zip(problem.graph.operators, choices.moved(homes, move), strict=True):
            for tensor, place in zip(problem.operands(operator), places, strict=True):
                assert problem.operand(operator, tensor) in problem.memories[place].holds


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 5), st.integers(2, 4), st.booleans())
def test_homes_are_found_where_operands_fit_and_only_there(
    seed: int, operators: int, scratchpads: int, spreads: bool
) -> None:
    random = Random(seed)
    graph = timed_graph(random, operators, channels=1, widths=(1, 2, 3))
    problem = problem_of_several(graph, [random.randint(1, 5) for _ in range(scratchpads)], random)
    homes = HomesOfOperands(WaysToRun(problem))
    unfit = operators_that_do_not_fit(IndexedProblem.of(problem))
    assert homes.unfit == (unfit[0] if unfit else None)
    if not unfit:
        found = homes.start(spreads=spreads)
        assert all(homes.fits(operator, 1, found) for operator in range(operators))
