"""Chrome trace JSON, which Perfetto and chrome://tracing open: what runs, what moves, what lies where.

One process for the program, with a lane for operators, one for each direction of transfers, and in time one for what
the array waits for; one process for each scratchpad, with a footprint counter and its residencies on as many lanes as
there are at once. The format:
"Trace Event Format" of the Chromium project (complete events X, counters C, metadata M; times in microseconds).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, nextafter
from typing import TypeAlias

from onchip.answer.problem import Problem
from onchip.answer.program import Compute, Copy, Plan
from onchip.answer.residencies import Residency, Transfer, residencies_of, transfers_of
from onchip.arch.memory import DRAM
from onchip.errors import PlanError
from onchip.formats.canonical import to_json
from onchip.reports.trace.spans import TracedWaits, TraceSpan, spans_in_steps

Event: TypeAlias = dict[str, object]

PROGRAM_PROCESS = 1
WAITS_LANE = 1000


def trace_to_json(
    problem: Problem, plan: Plan, spans: Sequence[TraceSpan] | None = None, waits: TracedWaits | None = None
) -> str:
    """The trace of a legal plan, in steps without `spans`; raises PlanError unless each instruction has a span."""
    times = spans_in_steps(plan) if spans is None else spans
    if len(times) != len(plan.instructions):
        raise PlanError(f"{len(times)} spans for {len(plan.instructions)} instructions", expected="one for each")
    events = [*_program(problem, plan, times), *(() if waits is None else _waits(waits))]
    for process, memory in enumerate(problem.memories, start=PROGRAM_PROCESS + 1):
        residencies = [one for one in residencies_of(plan, problem.graph) if one.memory == memory.name]
        events += _scratchpad(process, memory.name, problem, residencies, times)
    about: Event = {
        "network": problem.graph.name,
        "time": "steps" if spans is None else "microseconds",
        "instructions": len(plan.instructions),
    }
    if waits is not None:
        about["latency_parts"] = dict(waits.parts)
    lines = ",\n  ".join(to_json(event, PlanError) for event in events)
    return f'{{"displayTimeUnit": "ms", "otherData": {to_json(about, PlanError)}, "traceEvents": [\n  {lines}]}}\n'


def _program(problem: Problem, plan: Plan, times: Sequence[TraceSpan]) -> Iterator[Event]:
    yield _name("process_name", PROGRAM_PROCESS, 0, problem.graph.name)
    transfers = {transfer.instruction: transfer for transfer in transfers_of(plan, problem.graph)}
    threads: dict[str, int] = {}
    step = 0
    for index, (instruction, span) in enumerate(zip(plan.instructions, times, strict=True)):
        if not isinstance(instruction, Compute | Copy):
            continue
        lane = span.lane or _usual_lane(instruction)
        if lane not in threads:
            threads[lane] = len(threads) + 1
            yield _name("thread_name", PROGRAM_PROCESS, threads[lane], lane)
        if isinstance(instruction, Compute):
            operator = problem.graph.operator[instruction.operator]
            facts: Event = {"instruction": index, "step": step, "kind": operator.kind}
            facts |= {"reads": list(operator.reads), "writes": list(operator.outputs)}
            yield _slice(operator.name, "operator", (PROGRAM_PROCESS, threads[lane]), span, facts)
            step += 1
        else:
            transfer = transfers[index]
            place = (PROGRAM_PROCESS, threads[lane])
            yield _slice(f"{transfer.kind} {transfer.tensor}", "transfer", place, span, _transfer_facts(transfer))


def _waits(found: TracedWaits) -> Iterator[Event]:
    """What the array waits for while it runs nothing."""
    yield _name("thread_name", PROGRAM_PROCESS, WAITS_LANE, "the array waits")
    for one in found.waits:
        yield _slice(one.name, "wait", (PROGRAM_PROCESS, WAITS_LANE), one.span, dict(one.facts))


def _usual_lane(instruction: Compute | Copy) -> str:
    if isinstance(instruction, Compute):
        return "operators"
    return f"to {DRAM}" if instruction.target == DRAM else f"from {instruction.source}"


def _transfer_facts(transfer: Transfer) -> Event:
    return {
        "instruction": transfer.instruction,
        "step": transfer.step,
        "kind": transfer.kind,
        "tensor": transfer.tensor,
        "source": transfer.source,
        "target": transfer.target,
        "bytes": transfer.size_bytes,
    }


def _scratchpad(
    process: int, memory: str, problem: Problem, residencies: list[Residency], times: Sequence[TraceSpan]
) -> Iterator[Event]:
    yield _name("process_name", process, 0, f"scratchpad {memory}")
    end = max((span.stop for span in times), default=0.0)
    lives = [
        (times[one.start_instruction].start, times[one.stop_instruction].stop)
        if one.stop_instruction < len(times)
        else (times[one.start_instruction].start, end)
        for one in residencies
    ]
    yield from _footprint(process, residencies, times)
    lanes = _lanes(lives)
    for lane in sorted(set(lanes)):
        yield _name("thread_name", process, lane, f"residencies {lane}")
    for residency, (start, stop), lane in zip(residencies, lives, lanes, strict=True):
        facts = _residency_facts(residency, problem)
        yield _slice(residency.tensor, "residency", (process, lane), TraceSpan(start, stop), facts)


def _footprint(process: int, residencies: list[Residency], times: Sequence[TraceSpan]) -> Iterator[Event]:
    """The bytes resident after each Allocate and Free, in the order of time and then of the program."""
    changes = [(one.start_instruction, one.size_bytes) for one in residencies]
    changes += [(one.stop_instruction, -one.size_bytes) for one in residencies if one.stop_instruction < len(times)]
    resident_bytes = 0
    for index, change in sorted(changes, key=lambda change: (times[change[0]].start, change[0])):
        resident_bytes += change
        time, counted = _microseconds(round(times[index].start * 1000)), {"bytes": resident_bytes}
        yield {"ph": "C", "name": "footprint", "pid": process, "tid": 0, "ts": time, "args": counted}


def _lanes(lives: list[tuple[float, float]]) -> list[int]:
    """The lowest lane that is free: slices of one lane must not overlap, nor one without duration lie in another."""
    free_from: list[float] = []
    lanes = [0] * len(lives)
    for index, (start, stop) in sorted(enumerate(lives), key=lambda item: item[1]):
        lane = next((number for number, time in enumerate(free_from) if time <= start), len(free_from))
        free_from[lane : lane + 1] = [stop]
        lanes[index] = lane + 1
    return lanes


def _residency_facts(residency: Residency, problem: Problem) -> Event:
    tensor = problem.graph.tensor[residency.tensor]
    return {
        "offset_bytes": residency.offset_bytes,
        "end_bytes": residency.end_bytes,
        "bytes": residency.size_bytes,
        "role": tensor.role,
        "shape": None if tensor.shape is None else list(tensor.shape),
        "began": residency.began,
        "spilled": residency.is_spilled,
        "instructions": [residency.start_instruction, residency.stop_instruction],
        "steps": [residency.start_step, residency.stop_step],
    }


def _slice(name: str, category: str, place: tuple[int, int], span: TraceSpan, facts: Event) -> Event:
    process, lane = place
    start, stop = (round(time * 1000) for time in (span.start, span.stop))
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": process,
        "tid": lane,
        "ts": _microseconds(start),
        "dur": _microseconds(stop - start),
        "args": facts,
    }


def _microseconds(nanoseconds: int) -> float:
    """Viewers count whole nanoseconds and cut off the rest: a hair less, and slices one after the other overlap."""
    microseconds = nanoseconds / 1000
    return microseconds if int(microseconds * 1000) == nanoseconds else nextafter(microseconds, inf)


def _name(what: str, process: int, lane: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": lane, "args": {"name": name}}
