"""An exhaustive check for a program that ends sooner: all programs, in all bands, at every address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from onchip.answer.problem import Problem
from onchip.arch.memory import DRAM
from onchip.transform.slices.emission import ChannelBands
from oracles.byte_clock import ByteClock
from support.timed_problems import ProgramSoFar, begun


def in_all_bands(problem: Problem) -> Iterator[Problem]:
    """Yield the problem with its operators in every choice of the bands that they state."""
    operators = problem.graph.operators
    splits = [operator.stated.splits for operator in operators]
    ways = [[1, *(parts for parts, _ in one.ways)] if one else [1] for one in splits]
    for choice in product(*ways):
        parts = {one.name: count for one, count in zip(operators, choice, strict=True) if count > 1}
        yield replace(problem, graph=ChannelBands(parts)(problem.graph))


class TooManyProgramsError(Exception):
    """Raised if there are more programs than can be enumerated."""


def ends_before(problem: Problem, cycles: int, most_states: int = 3_000) -> bool:
    """Return True if some program ends before that cycle; raises TooManyProgramsError beyond `most_states` states.

    Equal states are visited once.
    """
    for banded in in_all_bands(problem):
        if _is_ended(begun(banded), ByteClock.at_start(banded), cycles, set(), most_states):
            return True
    return False


def _is_ended(so_far: ProgramSoFar, clock: ByteClock, cycles: int, seen: set[object], most: int) -> bool:
    durations = so_far.problem.durations
    assert durations is not None
    left = (durations.of_operator(one) for one in so_far.problem.graph.operators if one.name not in so_far.has_run)
    if max(clock.latest, clock.array_free + sum(left), clock.loads_free + _to_load(so_far)) >= cycles:
        return False
    if so_far.is_done:
        return True
    key = (so_far.resident, so_far.in_dram, so_far.has_run, clock.moment)
    if key in seen:
        return False
    if len(seen) == most:
        raise TooManyProgramsError
    seen.add(key)
    for longer in so_far.next_steps():
        then = clock
        for instruction in longer.instructions[len(so_far.instructions) :]:
            then = then.after(instruction)
        if _is_ended(longer, then, cycles, seen, most):
            return True
    return False


def _to_load(so_far: ProgramSoFar) -> int:
    """Return the cycles of the loads that the remaining operators need."""
    problem, resident = so_far.problem, {name for name, _, _ in so_far.resident}
    assert problem.durations is not None
    missing = [one for one in problem.counted_tensors if one.name in so_far.in_dram and one.name not in resident]
    read = {name for one in problem.graph.operators if one.name not in so_far.has_run for name in one.reads}
    names = [memory.name for memory in problem.memories]
    costs = (min(problem.transfer_cost(one, DRAM, name) for name in names) for one in missing if one.name in read)
    return sum(cost - problem.durations.setup_cycles for cost in costs)
