"""When each instruction of a plan happens, in the microseconds of a trace: by the step, or as a clock says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Plan
from onchip.arch.memory import DRAM
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor

Place: TypeAlias = tuple[str, str]
"""A tensor in a scratchpad, by their names."""
STEP_MICROSECONDS = 1000.0
"""Without a clock: viewers show one step as one millisecond."""


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """When an instruction happens, over [start, stop) microseconds; on a lane of its own choice, or the usual one."""

    start: float
    stop: float
    lane: str | None = None


@dataclass(frozen=True, slots=True)
class TraceWait:
    """A gap in which the array runs nothing, by the name of what it waits for; `facts` say more of it."""

    name: str
    span: TraceSpan
    facts: Mapping[str, object] = field(hash=False)


@dataclass(frozen=True, slots=True)
class TracedWaits:
    """All gaps of the array, and the `parts` of the latency by name, in cycles."""

    parts: Mapping[str, int] = field(hash=False)
    waits: tuple[TraceWait, ...]


def spans_in_steps(plan: Plan) -> tuple[TraceSpan, ...]:
    """Step k begins at k milliseconds; what follows the last operator has the step after it.

    Transfers before its operator share the first half of its millisecond, in their order, and the operator has the
    rest; Allocate and Free take no time.
    """
    spans: list[TraceSpan] = []
    waiting: list[bool] = []
    step = 0
    for instruction in plan.instructions:
        if isinstance(instruction, Compute):
            spans += _spans_before_operator(step, waiting)
            start = step + 0.5 if any(waiting) else step
            step += 1
            spans.append(TraceSpan(start * STEP_MICROSECONDS, step * STEP_MICROSECONDS))
            waiting = []
        else:
            waiting.append(isinstance(instruction, Copy))
    return (*spans, *_spans_before_operator(step, waiting))


def _spans_before_operator(step: int, is_transfer: list[bool]) -> Iterator[TraceSpan]:
    start, share = step * STEP_MICROSECONDS, STEP_MICROSECONDS / 2 / max(1, sum(is_transfer))
    moved = 0
    for takes_time in is_transfer:
        begun, moved = moved, moved + takes_time
        yield TraceSpan(start + begun * share, start + moved * share)


def spans_of_activities(problem: Problem, plan: Plan, activities: Mapping[int, TraceSpan]) -> tuple[TraceSpan, ...]:
    """One span for each instruction, from those of every Compute and Copy by their index.

    A place is taken when its first activity begins and given back when its last one ends. An operator uses one
    place of each tensor that it reads, and every place of one that it writes.
    """
    spans = dict(activities)
    begun: dict[Place, int] = {}
    used: dict[Place, list[TraceSpan]] = {}
    written: set[Place] = set()
    for index, instruction in enumerate(plan.instructions):
        match instruction:
            case Allocate(tensor, memory, _, is_state):
                begun[tensor, memory], used[tensor, memory] = index, []
                if is_state:
                    written.add((tensor, memory))
            case Copy(tensor, source, target):
                for memory in {source, target} - {DRAM}:
                    used[tensor, memory].append(activities[index])
                written.add((tensor, target))
            case Compute(name):
                operator = problem.graph.operator[name]
                for place in _places_read(problem, operator, written):
                    used[place].append(activities[index])
                for place in _places_written(problem, operator, used.keys()):
                    used[place].append(activities[index])
                    written.add(place)
            case Free(tensor, memory):
                written.discard((tensor, memory))
                uses = used.pop((tensor, memory))
                spans[begun[tensor, memory]] = _first_moment(uses)
                stop = max((use.stop for use in uses), default=0.0)
                spans[index] = TraceSpan(stop, stop)
    spans |= {begun[place]: _first_moment(uses) for place, uses in used.items()}
    return tuple(spans[index] for index in range(len(plan.instructions)))


def _places_read(problem: Problem, operator: Operator, written: AbstractSet[Place]) -> Iterator[Place]:
    """Of each tensor, the first scratchpad that holds what it is to the operator and has its bytes; else it streams."""
    for tensor in problem.operands(operator):
        if tensor.name not in operator.outputs:
            yield from islice((place for place in _places(problem, operator, tensor) if place in written), 1)


def _places_written(problem: Problem, operator: Operator, taken: AbstractSet[Place]) -> Iterator[Place]:
    for tensor in problem.operands(operator):
        if tensor.name in operator.outputs:
            yield from (place for place in _places(problem, operator, tensor) if place in taken)


def _places(problem: Problem, operator: Operator, tensor: Tensor) -> Iterator[Place]:
    """Where the operator may read or write it."""
    operand = problem.operand(operator, tensor)
    return ((tensor.name, memory.name) for memory in problem.memories if operand in memory.holds)


def _first_moment(uses: list[TraceSpan]) -> TraceSpan:
    start = min((use.start for use in uses), default=0.0)
    return TraceSpan(start, start)
