"""Least latency in several scratchpads: no program at all of tiny problems ends before a bound."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Problem, Rate
from onchip.bounds.latency.latency_bounds import least_latency_bound, no_slower
from onchip.ir.graph import Graph
from onchip.ir.operator import ChannelSplits, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.memory.timed.solve import solve_for_latency
from onchip.model.capacity.bounds import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Limits, Run
from oracles.least_latency import TimedStates, TooManyProgramsError, ends_before, some_program_ends_before
from support.series import series
from support.timed_answers import assert_no_floor_is_above_the_end, is_bound_proven
from support.timed_problems import problem_of_several, timed_graph


def odd_problem(seed: int, operators: int) -> Problem:
    """Return two or three scratchpads with room for a few tensors; in some graphs, operators may run in bands."""
    random = Random(seed)
    channels = random.choice([1, 1, 1, 2])
    graph = timed_graph(random, operators, channels, widths=(1,) if channels == 2 else (1, 1, 2))
    capacities = [random.randint(1, 4 * channels) for _ in range(random.choice([2, 2, 2, 3]))]
    return problem_of_several(graph, capacities, random, links=random.choice([0, 0, 0.5]))


@pytest.mark.slow
@pytest.mark.parametrize("part", series(range(16), 1))
def test_no_program_in_several_scratchpads_ends_before_a_bound_of_four_thousand(part: int) -> None:
    seeds = range(250 * part, 250 * (part + 1))
    assert sum(is_bound_proven(odd_problem(seed, 1 + seed % 4), 300) for seed in seeds) >= 75


def answers_alike(seed: int, operators: int, most_states: int) -> list[bool]:
    """Return for several cycles whether some program ends before them; fail if states and programs disagree."""
    problem, answers = odd_problem(seed, operators), list[bool]()
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return answers
    bound = least_latency_bound(problem).cycles
    for cycles in range(bound, bound + 12, 3):
        try:
            answer = some_program_ends_before(problem, cycles, most_states)
            assert ends_before(problem, cycles, most_states) is answer, (seed, cycles)
            answers.append(answer)
        except TooManyProgramsError:
            continue
    return answers


@pytest.mark.slow
def test_states_of_several_scratchpads_answer_as_programs_do_of_two_operators() -> None:
    answers = [one for seed in range(40) for one in answers_alike(seed, 1 + seed % 2, most_states=200)]
    assert answers.count(True) >= 6
    assert answers.count(False) >= 6


@pytest.mark.parametrize("seed", series(range(30), 10))
def test_no_floor_of_what_has_begun_in_several_scratchpads_is_above_its_end(seed: int) -> None:
    assert_no_floor_is_above_the_end(TimedStates(odd_problem(seed, 1 + seed % 4), 0), Random(seed), 300)


TERMS = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 5)), min_size=1, max_size=2)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(st.builds(lambda setup, terms: Rate(setup, tuple(terms)), st.integers(0, 3), TERMS), min_size=1))
def test_a_merged_rate_is_nowhere_above_any_of_those_it_merges(rates: list[Rate]) -> None:
    merged = no_slower(rates)
    for size_bytes in range(40):
        assert merged.cost(size_bytes) <= min(rate.cost(size_bytes) for rate in rates)


def test_what_fits_only_in_bands_has_a_bound() -> None:
    wide = Tensor.of_shape("x", (4, 2), 8, Role.INPUT)
    tensors = (wide, replace(wide, name="h", role=Role.ACTIVATION), replace(wide, name="y", role=Role.OUTPUT))
    splits = ChannelSplits(True, ((4, 2),))
    operators = (
        Operator("first", "Any", ("x",), ("h",), stated=StatedCost(8, None, splits)),
        Operator("second", "Any", ("h",), ("y",), stated=StatedCost(8, None, splits)),
    )
    problem = problem_of_several(Graph("wide", tensors, operators), (6, 6), Random(1), links=0)
    result = solve_for_latency(problem, Run(Limits(0.05)))
    assert result.objective_value is not None
    assert 16 < least_latency_bound(problem).cycles <= result.objective_value
