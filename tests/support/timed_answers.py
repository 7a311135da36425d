"""Checks of least latency: plans are legal and end as claimed, and no program ends before a lower bound."""

from __future__ import annotations

from random import Random

from onchip.answer.document import Claim
from onchip.answer.problem import Objective, Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult
from onchip.bounds.latency.latency_bounds import least_latency_bound
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.memory.timed.homes import HomesOfOperands
from onchip.verify.verifier import verify
from oracles.least_latency import TimedStates, TooManyProgramsError, some_program_ends_before


def assert_ends_as_claimed(result: SearchResult[Plan]) -> None:
    """Assert that the plan is legal, and its status, latency and bound right."""
    assert result.answer is not None
    assert result.objective_value is not None
    claim = Claim("timed", result.status, Objective.LATENCY, result.objective_value, result.lower_bound)
    planned = result.answer.problem
    assert planned is not None
    assert verify(planned, result.answer, claim).violations == ()


def assert_no_floor_is_above_the_end(states: TimedStates, random: Random, most_steps: int) -> None:
    """Continue at random until all operators have run, or none can; no lower bound may exceed the end."""
    state, floors = states.begun(), list[int]()
    for _ in range(most_steps):
        floors.append(states.floor(state))
        if state.has_run == states.all_run and states.outputs & ~state.in_dram == 0:
            assert max(floors) <= state.latest
            return
        longer = list(states.longer(state))
        if not longer:
            return
        state = random.choice(longer)


def is_bound_proven(problem: Problem, most_states: int) -> bool:
    """Return True if the bound is proven by exhaustion; fail if some program ends before it."""
    if HomesOfOperands(WaysToRun(problem)).unfit is not None:
        return False
    bound = least_latency_bound(problem)
    try:
        assert not some_program_ends_before(problem, bound.cycles, most_states), (problem, bound)
    except TooManyProgramsError:
        return False
    return True
