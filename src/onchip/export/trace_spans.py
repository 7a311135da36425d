"""When each instruction of a plan happens, in the microseconds of a trace: by the step, or as a clock says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from onchip.arch.memory import DRAM
from onchip.plan.plan import Allocate, Compute, Copy, Free, Plan
from onchip.plan.problem import Problem

STEP_MICROSECONDS = 1000.0
"""Without a clock: viewers show one step as one millisecond."""


@dataclass(frozen=True, slots=True)
class Span:
    """When an instruction happens, over [start, stop) microseconds; on a lane of its own choice, or the usual one."""

    start: float
    stop: float
    lane: str | None = None


def spans_in_steps(plan: Plan) -> tuple[Span, ...]:
    """Step k begins at k milliseconds; what follows the last operator has the step after it.

    Transfers before its operator share the first half of its millisecond, in their order, and the operator has the
    rest; Allocate and Free take no time.
    """
    spans: list[Span] = []
    waiting: list[bool] = []
    step = 0
    for instruction in plan.instructions:
        if isinstance(instruction, Compute):
            spans += _spans_before_operator(step, waiting)
            start = step + 0.5 if any(waiting) else step
            step += 1
            spans.append(Span(start * STEP_MICROSECONDS, step * STEP_MICROSECONDS))
            waiting = []
        else:
            waiting.append(isinstance(instruction, Copy))
    return (*spans, *_spans_before_operator(step, waiting))


def _spans_before_operator(step: int, is_transfer: list[bool]) -> Iterator[Span]:
    start, share = step * STEP_MICROSECONDS, STEP_MICROSECONDS / 2 / max(1, sum(is_transfer))
    moved = 0
    for takes_time in is_transfer:
        begun, moved = moved, moved + takes_time
        yield Span(start + begun * share, start + moved * share)


def spans_of_activities(problem: Problem, plan: Plan, activities: Mapping[int, Span]) -> tuple[Span, ...]:
    """One span for each instruction, from those of every Compute and Copy by their index.

    A place is taken when its first activity begins and given back when its last one ends.
    """
    spans = dict(activities)
    begun: dict[tuple[str, str], int] = {}
    used: dict[tuple[str, str], list[Span]] = {}
    for index, instruction in enumerate(plan.instructions):
        match instruction:
            case Allocate(tensor, memory, _):
                begun[tensor, memory], used[tensor, memory] = index, []
            case Copy(tensor, source, target):
                used[tensor, source if target == DRAM else target].append(activities[index])
            case Compute(name):
                operands = {tensor.name for tensor in problem.operands(problem.graph.operator[name])}
                for place in used.keys() & {(tensor, memory.name) for tensor in operands for memory in plan.memories}:
                    used[place].append(activities[index])
            case Free(tensor, memory):
                uses = used.pop((tensor, memory))
                spans[begun[tensor, memory]] = _first_moment(uses)
                stop = max((use.stop for use in uses), default=0.0)
                spans[index] = Span(stop, stop)
    spans |= {begun[place]: _first_moment(uses) for place, uses in used.items()}
    return tuple(spans[index] for index in range(len(plan.instructions)))


def _first_moment(uses: list[Span]) -> Span:
    start = min((use.start for use in uses), default=0.0)
    return Span(start, start)
