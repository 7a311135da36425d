"""Formats of exported plans, the files of each format, CSV tables, and Chrome traces."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, nextafter
from pathlib import Path
from typing import Final, TypeAlias

from onchip.answer.document import PlanDocument
from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Plan, Residency, Transfer, residencies_of, transfers_of
from onchip.answer.words import picked
from onchip.arch.memory import DRAM
from onchip.errors import PlanError, UsageError
from onchip.formats.files import to_json, write_files
from onchip.ir.graph import Graph
from onchip.model.timeline.activity import Activity, PlaceUse, array_waits, latency_parts
from onchip.plugins import PluginGroup
from onchip.reports.shared.words import PART_WORDS, wait_lines, wait_object

RESIDENCY_COLUMNS = (
    "tensor", "role", "memory", "offset_bytes", "size_bytes", "start_instruction", "stop_instruction", "start_step",
    "stop_step", "began", "spilled",
)  # fmt: skip
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
TRANSFER_COLUMNS = ("instruction", "step", "kind", "tensor", "role", "source", "target", "size_bytes")


def residencies_to_csv(plan: Plan, graph: Graph) -> str:
    """Return one line per residency of a legal plan, in the order of their starts; ranges are half-open."""
    return _table(RESIDENCY_COLUMNS, residencies_of(plan, graph), graph)


def transfers_to_csv(plan: Plan, graph: Graph) -> str:
    """Return one line per Copy of a legal plan, in execution order."""
    return _table(TRANSFER_COLUMNS, transfers_of(plan, graph), graph)


def spreadsheet_cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: an apostrophe stands before text that begins like one."""
    is_formula = isinstance(value, str) and value[:1] in _FORMULA_STARTS
    return f"'{value}" if is_formula else value


def _table(columns: Sequence[str], rows: Sequence[Residency | Transfer], graph: Graph) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        others = {"role": graph.tensor[row.tensor].role, "spilled": int(getattr(row, "is_spilled", False))}
        cells = (others[name] if name in others else getattr(row, name) for name in columns)
        writer.writerow([spreadsheet_cell(cell) for cell in cells])
    return text.getvalue()


STEP_MICROSECONDS = 1000.0
"""Without a clock: viewers show one step as one millisecond."""


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """The interval [start, stop) of an instruction in microseconds; on the usual lane if `lane` is None."""

    start: float
    stop: float
    lane: str | None = None


@dataclass(frozen=True, slots=True)
class TraceWait:
    """A gap of the array, named by its reason; `facts` have the details."""

    name: str
    span: TraceSpan
    facts: Mapping[str, object] = field(hash=False)


@dataclass(frozen=True, slots=True)
class TracedWaits:
    """The gaps of the array, and the `parts` of the latency by name, in cycles."""

    parts: Mapping[str, int] = field(hash=False)
    waits: tuple[TraceWait, ...]


def spans_in_steps(plan: Plan) -> tuple[TraceSpan, ...]:
    """Return spans in which step k begins at k milliseconds; a last step follows the last operator.

    Transfers before an operator share the first half of its millisecond, in their order, and the operator has the
    second half; Allocate and Free take no time.
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


def timed_spans(
    plan: Plan, activities: Sequence[Activity], places: Iterable[PlaceUse], clock_mhz: float | None
) -> tuple[TraceSpan, ...]:
    """Return the span of each instruction in microseconds; without a clock, a cycle is a microsecond.

    An Allocate stands at the first use of its place, and a Free at the last; `places` are in the order of Allocates.
    """
    microseconds = 1 / (clock_mhz or 1.0)
    lanes = {one.queue: None if one.queue is None else f"DMA queue {one.queue}" for one in activities}
    spans = {one.instruction: _span(one.start, one.stop, microseconds, lanes[one.queue]) for one in activities}
    uses, held = iter(places), dict[tuple[str, str], PlaceUse]()
    for index, instruction in enumerate(plan.instructions):
        match instruction:
            case Allocate(tensor, memory):
                use = held[tensor, memory] = next(uses)
                spans[index] = _span(use.start, use.start, microseconds)
            case Free(tensor, memory):
                use = held.pop((tensor, memory))
                stop = use.start if use.stop is None else use.stop
                spans[index] = _span(stop, stop, microseconds)
    return tuple(spans[index] for index in range(len(plan.instructions)))


def traced_waits(activities: Sequence[Activity], clock_mhz: float | None) -> TracedWaits:
    """Return every gap of the array with its reason, and the parts of the latency."""
    microseconds = 1 / (clock_mhz or 1.0)
    found = tuple(
        TraceWait(
            PART_WORDS[one.greatest_part],
            _span(one.start, one.stop, microseconds),
            {**wait_object(one, activities), "why": list(wait_lines(one, activities))},
        )
        for one in array_waits(activities)
    )
    return TracedWaits(latency_parts(activities).by_name, found)


def _span(start: int, stop: int, microseconds: float, lane: str | None = None) -> TraceSpan:
    return TraceSpan(start * microseconds, stop * microseconds, lane)


Event: TypeAlias = dict[str, object]

PROGRAM_PROCESS = 1
WAITS_LANE = 1000


def trace_to_json(
    problem: Problem, plan: Plan, spans: Sequence[TraceSpan] | None = None, waits: TracedWaits | None = None
) -> str:
    """Return the trace of a legal plan, in steps without `spans`; raises PlanError if an instruction has no span."""
    times = spans_in_steps(plan) if spans is None else spans
    if len(times) != len(plan.instructions):
        raise PlanError(
            f"{len(times)} spans for {len(plan.instructions)} instructions", expected="a span for each instruction"
        )
    events = list(_program(problem, plan, times))
    if waits is not None:
        events.append(_name("thread_name", PROGRAM_PROCESS, WAITS_LANE, "the array waits"))
        place = (PROGRAM_PROCESS, WAITS_LANE)
        events += (_slice(one.name, "wait", place, one.span, dict(one.facts)) for one in waits.waits)
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
        if isinstance(instruction, Compute):
            usual = "operators"
        else:
            usual = f"to {DRAM}" if instruction.target == DRAM else f"from {instruction.source}"
        lane = span.lane or usual
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
            facts = picked(transfer, "instruction", "step", "kind", "tensor", "source", "target")
            facts["bytes"] = transfer.size_bytes
            place = (PROGRAM_PROCESS, threads[lane])
            yield _slice(f"{transfer.kind} {transfer.tensor}", "transfer", place, span, facts)


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
        tensor = problem.graph.tensor[residency.tensor]
        facts = {
            **picked(residency, "offset_bytes", "end_bytes"),
            "bytes": residency.size_bytes,
            "role": tensor.role,
            "shape": None if tensor.shape is None else list(tensor.shape),
            "began": residency.began,
            "spilled": residency.is_spilled,
            "instructions": [residency.start_instruction, residency.stop_instruction],
            "steps": [residency.start_step, residency.stop_step],
        }
        yield _slice(residency.tensor, "residency", (process, lane), TraceSpan(start, stop), facts)


def _footprint(process: int, residencies: list[Residency], times: Sequence[TraceSpan]) -> Iterator[Event]:
    changes = [(one.start_instruction, one.size_bytes) for one in residencies]
    changes += [(one.stop_instruction, -one.size_bytes) for one in residencies if one.stop_instruction < len(times)]
    resident_bytes = 0
    for index, change in sorted(changes, key=lambda change: (times[change[0]].start, change[0])):
        resident_bytes += change
        time, counted = _microseconds(round(times[index].start * 1000)), {"bytes": resident_bytes}
        yield {"ph": "C", "name": "footprint", "pid": process, "tid": 0, "ts": time, "args": counted}


def _lanes(lives: list[tuple[float, float]]) -> list[int]:
    """Return the lowest free lane for each slice, because slices of one lane must not overlap."""
    free_from: list[float] = []
    lanes = [0] * len(lives)
    for index, (start, stop) in sorted(enumerate(lives), key=lambda item: item[1]):
        lane = next((number for number, time in enumerate(free_from) if time <= start), len(free_from))
        free_from[lane : lane + 1] = [stop]
        lanes[index] = lane + 1
    return lanes


def _slice(name: str, category: str, place: tuple[int, int], span: TraceSpan, facts: Event) -> Event:
    start, stop = (round(time * 1000) for time in (span.start, span.stop))
    head = {"ph": "X", "name": name, "cat": category, "pid": place[0], "tid": place[1]}
    return {**head, "ts": _microseconds(start), "dur": _microseconds(stop - start), "args": facts}


def _microseconds(nanoseconds: int) -> float:
    """Round up by a hair, because viewers truncate to whole nanoseconds and would show gaps or overlaps."""
    microseconds = nanoseconds / 1000
    return microseconds if int(microseconds * 1000) == nanoseconds else nextafter(microseconds, inf)


def _name(what: str, process: int, lane: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": lane, "args": {"name": name}}


class ExportFormat(StrEnum):
    """Chrome trace, C99 tables, a C project, CSV tables, the TFLite model with the plan, the graph it runs."""

    TRACE = "trace"
    C = "c"
    C_PROJECT = "c-project"
    CSV = "csv"
    GRAPH = "graph"
    TFLITE = "tflite"


OUTSIDE_EXPORTS: Final = PluginGroup[[PlanDocument, Problem], bytes]("onchip.exports", bytes)
"""Plug-ins that return the content of an exported file, by name."""


@dataclass(frozen=True, slots=True)
class Export:
    """An export of a legal plan; `form` is an ExportFormat or the name of a plug-in.

    `network` is the plan's network file. `spans` are the times of a trace, one for each instruction, and `waits` the
    waits of the array; without them the trace counts steps.
    """

    form: str
    files: tuple[Path, ...]
    document: PlanDocument
    problem: Problem
    network: str
    spans: Sequence[TraceSpan] | None = None
    waits: TracedWaits | None = None

    def write(self) -> None:
        """Write all files, or none where one cannot be made.

        Raises InputError, OutputError where they cannot be written, PluginError for a broken plug-in.
        """
        write_files(*zip(self.files, self._contents(), strict=True))

    def _contents(self) -> tuple[bytes, ...]:
        plan, graph = self.document.answer, self.problem.graph
        match self.form:
            case ExportFormat.TRACE:
                return (trace_to_json(self.problem, plan, self.spans, self.waits).encode(),)
            case ExportFormat.CSV:
                return residencies_to_csv(plan, graph).encode(), transfers_to_csv(plan, graph).encode()
            case ExportFormat.GRAPH:
                from onchip.formats.own.graph_json import graph_to_json

                return (graph_to_json(graph).encode(),)
        return (_outside_export(self.form)(self.document, self.problem),)


def files_of(form: str, output: Path, network: str) -> tuple[Path, ...]:
    """Return the files of an export to `output`; raises UsageError for an unknown form or an unsuitable name."""
    if form not in tuple(ExportFormat):
        _outside_export(form)
    if form == ExportFormat.C:
        _ends_in(output, (".h", ".c"))
        _can_be_included(output)
        return output.with_suffix(".h"), output.with_suffix(".c")
    if form == ExportFormat.CSV:
        _ends_in(output, (".csv",))
        return output.with_suffix(".residencies.csv"), output.with_suffix(".transfers.csv")
    if form == ExportFormat.TFLITE:
        if not network.endswith(".tflite"):
            raise UsageError("there is no model to put the plan in", file=network, expected="a .tflite file")
        _ends_in(output, (".tflite",))
    if form == ExportFormat.GRAPH:
        _ends_in(output, (".json", ".json.gz"))
    return (output,)


def _outside_export(form: str) -> Callable[[PlanDocument, Problem], bytes]:
    export = OUTSIDE_EXPORTS.find(form)
    if export is None:
        expected = ", ".join((*ExportFormat, *OUTSIDE_EXPORTS.names))
        raise UsageError(f"there is no export format {form!r}", "to", expected)
    return export


def _ends_in(output: Path, endings: tuple[str, ...]) -> None:
    if not (output.suffix and output.name.endswith(endings)):
        names = " or ".join(endings)
        raise UsageError("the name has the wrong ending", file=str(output), expected=f"a name that ends in {names}")


def _can_be_included(output: Path) -> None:
    if not output.name.isprintable() or set('"\\') & set(output.name):
        expected = "a printable name without quotes and backslashes"
        raise UsageError("an #include cannot name the file", file=str(output), expected=expected)
