"""Checks of least latency: the plan is legal and ends as claimed, and lower bounds on the way are below its end."""

from __future__ import annotations

from random import Random

from onchip.answer.document import Claim
from onchip.answer.problem import Objective
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult
from onchip.verify.verifier import verify
from oracles.least_latency_states import TimedStates


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
