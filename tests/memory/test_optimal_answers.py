"""Answers of OPTIMAL latency are right: no program of up to six operators, at any address, ends sooner."""

from __future__ import annotations

from random import Random

import pytest

from onchip.answer.problem import Problem
from onchip.answer.result import Status
from onchip.memory.timed.solve import solve_for_latency
from onchip.search.budget.limits import Limits, Run
from oracles.least_latency import TimedStates, TooManyProgramsError, ends_before, in_all_bands, some_program_ends_before
from support.series import series
from support.timed_answers import assert_no_floor_is_above_the_end
from support.timed_problems import timed_graph, timed_problem

SECONDS_OF_AN_ANSWER = 0.03
MOST_STATES = 1_000


def tight_problem(seed: int, operators: int) -> Problem:
    """Return a scratchpad with room for a few tensors; in a third of the graphs, operators may run in bands."""
    random = Random(seed)
    channels = random.choice([1, 1, 2])
    graph = timed_graph(random, operators, channels, widths=(1,) if channels == 2 else (1, 1, 2))
    return timed_problem(graph, random.randint(6, 12) if channels == 2 else random.randint(4, 8), random)


def is_right(problem: Problem, cycles: int) -> bool | None:
    """Return True if no program ends before that cycle, or None if the enumeration exceeds its limit."""
    try:
        return not some_program_ends_before(problem, cycles, MOST_STATES)
    except TooManyProgramsError:
        return None


def verdicts(seeds: range) -> list[bool | None]:
    """Return the verdict of `is_right` for each problem with the answer OPTIMAL."""
    found = []
    for seed in seeds:
        problem = tight_problem(seed, 1 + seed % 6)
        result = solve_for_latency(problem, Run(Limits(SECONDS_OF_AN_ANSWER)))
        if result.status is Status.OPTIMAL:
            assert result.objective_value is not None
            found.append(is_right(problem, result.objective_value))
            assert found[-1] is not False, seed
    return found


@pytest.mark.slow
@pytest.mark.parametrize("part", series(range(8), 1))
def test_no_program_ends_before_what_is_said_to_be_optimal_of_two_thousand_problems(part: int) -> None:
    found = verdicts(range(250 * part, 250 * (part + 1)))
    assert len(found) >= 40
    assert found.count(True) >= 0.9 * len(found)


@pytest.mark.slow
def test_states_answer_as_programs_do() -> None:
    answers = []
    for seed in range(12):
        problem = tight_problem(seed, 1 + seed % 2)
        value = solve_for_latency(problem, Run(Limits(SECONDS_OF_AN_ANSWER))).objective_value
        for cycles in () if value is None else (value, value + 1):
            try:
                answers.append(some_program_ends_before(problem, cycles, 300))
                assert ends_before(problem, cycles, 200) is answers[-1], (seed, cycles)
            except TooManyProgramsError:
                continue
    assert {True, False} == set(answers)


def test_what_was_found_is_among_the_programs_that_are_gone_through() -> None:
    found = 0
    for seed in range(24):
        problem = tight_problem(seed, 1 + seed % 3)
        value = solve_for_latency(problem, Run(Limits(SECONDS_OF_AN_ANSWER))).objective_value
        if value is not None:
            answer = is_right(problem, value + 1)
            assert answer is not True, seed
            found += answer is False
    assert found >= 5


@pytest.mark.parametrize("seed", series(range(40), 13))
def test_no_floor_of_what_has_begun_is_above_its_end(seed: int) -> None:
    random = Random(seed)
    problem = tight_problem(seed, 1 + seed % 6)
    banded = random.choice(list(in_all_bands(problem)))
    assert_no_floor_is_above_the_end(TimedStates(banded, 0), random, 200)
