"""Exports of plans, their execution, and the progress line."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings

from onchip.answer.document import PlanDocument, Reading, Source
from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.api.run import timeline_of
from onchip.errors import PlanError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.model.timeline.activity import array_waits
from onchip.reports.execution import Execution, execution_object
from onchip.reports.exports import (
    TraceSpan,
    residencies_to_csv,
    spans_in_steps,
    timed_spans,
    trace_to_json,
    traced_waits,
    transfers_to_csv,
)
from onchip.reports.program.outcome import Check
from onchip.reports.shared import output
from onchip.reports.shared.output import CLEAR_LINE, COLUMNS, ProgressLine
from onchip.search.budget.limits import Progress
from onchip.simulate.machine import MachineRun
from onchip.verify.verifier import verify
from support.exported import BY_HAND, figures_of, planned, put_together
from support.programs import CHAIN, HELD, SPILLED, graph, sram
from support.several import LINKED, REQUESTS, real_plan

# Chrome traces and CSV tables of plans can be read back


Event: TypeAlias = dict[str, Any]
PHASES = {"X", "C", "M"}


def events_of(text: str) -> list[Event]:
    """Return the events as viewers read them; fails on illegal events and on overlapping slices of a lane."""
    trace = json.loads(text)
    events: list[Event] = trace["traceEvents"]
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    named = set()
    for event in events:
        assert event["ph"] in PHASES
        lane = (event["pid"], event["tid"])
        if event["ph"] == "M":
            named.add((event["name"], event["pid"], event["tid"]))
        if event["ph"] == "X":
            start, stop = nanoseconds(event)
            assert start <= stop
            assert ("thread_name", *lane) in named
            assert ("process_name", event["pid"], 0) in named
            lanes.setdefault(lane, []).append((start, stop))
    for slices in lanes.values():
        assert all(stop <= start for (_, stop), (start, _) in pairwise(sorted(slices)))
    return events


def nanoseconds(event: Event) -> tuple[int, int]:
    """Return start and stop of a slice in whole nanoseconds, truncated as in viewers."""
    start, duration = int(event["ts"] * 1000), int(event["dur"] * 1000)
    return start, start + duration


def slices(events: list[Event], category: str) -> list[Event]:
    return [event for event in events if event.get("cat") == category]


def scratchpads(events: list[Event]) -> dict[int, str]:
    """Return the name of each process that is a scratchpad."""
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    return {pid: name.removeprefix("scratchpad ") for pid, name in names.items() if pid > 1}


def read_back(plan: Plan, events: list[Event]) -> tuple[Instruction, ...]:
    found: dict[int, Instruction] = {}
    for event in slices(events, "operator"):
        found[event["args"]["instruction"]] = Compute(event["name"])
    for event in slices(events, "transfer"):
        facts = event["args"]
        found[facts["instruction"]] = Copy(facts["tensor"], facts["source"], facts["target"])
    for event in slices(events, "residency"):
        start, stop = event["args"]["instructions"]
        memory = scratchpads(events)[event["pid"]]
        found[start] = Allocate(event["name"], memory, event["args"]["offset_bytes"])
        if stop < len(plan.instructions):
            found[stop] = Free(event["name"], memory)
    return put_together(found)


def the_trace_says_what_the_plan_says(problem: Problem, plan: Plan, spans: tuple[TraceSpan, ...] | None = None) -> None:
    events = events_of(trace_to_json(problem, plan, spans))
    assert read_back(plan, events) == plan.instructions
    figures = figures_of(problem, plan)
    moved = sum(event["args"]["bytes"] for event in slices(events, "transfer"))
    assert moved == figures.total + figures.moved
    for pid, memory in scratchpads(events).items():
        footprint = [event["args"]["bytes"] for event in events if event["ph"] == "C" and event["pid"] == pid]
        ends = [event["args"]["end_bytes"] for event in slices(events, "residency") if event["pid"] == pid]
        assert max(ends, default=0) == dict(figures.arenas)[memory]
        assert all(0 <= size <= dict(figures.arenas)[memory] for size in footprint)
        if spans is None and len(problem.memories) == 1:
            assert max(footprint) == figures.peak_bytes


def the_rectangles_of_the_memory_map_are_apart(events: list[Event]) -> None:
    """Check that residencies that share bytes do not share time."""
    residencies = slices(events, "residency")
    for index, one in enumerate(residencies):
        for other in residencies[:index]:
            first, second = one["args"], other["args"]
            shares_bytes = first["offset_bytes"] < second["end_bytes"] and second["offset_bytes"] < first["end_bytes"]
            (start, stop), (other_start, other_stop) = nanoseconds(one), nanoseconds(other)
            shares_time = start < other_stop and other_start < stop
            assert not (one["pid"] == other["pid"] and shares_bytes and shares_time)


@pytest.mark.parametrize("name", BY_HAND)
def test_a_trace_of_a_plan_by_hand_can_be_read_back(name: str) -> None:
    the_trace_says_what_the_plan_says(BY_HAND[name].problem, BY_HAND[name].plan)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_trace_of_a_plan_for_several_scratchpads_can_be_read_back(name: str) -> None:
    problem, plan = real_plan(name)
    the_trace_says_what_the_plan_says(problem, plan)
    the_rectangles_of_the_memory_map_are_apart(events_of(trace_to_json(problem, plan)))


@pytest.mark.parametrize("name", [name for name in REQUESTS if name.startswith("linked")])
def test_a_trace_of_a_plan_with_moves_may_be_timed(name: str) -> None:
    problem, plan = real_plan(name)
    timeline = timeline_of(problem, plan, load_accelerator(LINKED))
    spans = timed_spans(plan, timeline.activities, timeline.places, 1.0)

    the_trace_says_what_the_plan_says(problem, plan, spans)
    events = events_of(trace_to_json(problem, plan, spans))
    the_rectangles_of_the_memory_map_are_apart(events)
    found = [(one["name"], one["ts"], one["ts"] + one["dur"]) for one in slices(events, "residency")]
    assert sorted(found) == sorted((one.tensor, one.start, one.stop or one.start) for one in timeline.places)


@pytest.mark.parametrize("name", [name for name in REQUESTS if name.startswith("linked")])
def test_a_trace_in_time_says_what_the_array_waits_for(name: str) -> None:
    problem, plan = real_plan(name)
    timeline = timeline_of(problem, plan, load_accelerator(LINKED))
    spans = timed_spans(plan, timeline.activities, timeline.places, 1.0)
    trace = json.loads(trace_to_json(problem, plan, spans, traced_waits(timeline.activities, 1.0)))
    waits = slices(trace["traceEvents"], "wait")
    found = [(one["ts"], one["dur"], sum(one["args"]["parts"].values())) for one in waits]
    assert found == [(one.start, one.cycles, one.cycles) for one in array_waits(timeline.activities)]
    assert found
    assert trace["otherData"]["latency_parts"] == timeline.parts.by_name
    assert sum(timeline.parts.by_name.values()) == timeline.total_cycles
    assert {one["tid"] for one in waits}.isdisjoint(one["tid"] for one in slices(trace["traceEvents"], "operator"))


def test_a_move_has_a_lane_named_for_where_it_comes_from_and_says_both_ends() -> None:
    events = events_of(trace_to_json(HELD.problem, HELD.plan))

    (move,) = (event for event in slices(events, "transfer") if event["args"]["kind"] == "move")
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert (move["name"], lanes[move["tid"]]) == ("move a", "from outputs")
    assert (move["args"]["source"], move["args"]["target"]) == ("outputs", "inputs")


@settings(max_examples=60, deadline=None)
@given(planned())
def test_a_trace_of_a_random_plan_can_be_read_back(made: tuple[Problem, Plan]) -> None:
    the_trace_says_what_the_plan_says(*made)
    the_rectangles_of_the_memory_map_are_apart(events_of(trace_to_json(*made)))


def test_without_a_clock_steps_are_milliseconds_and_transfers_come_before_their_operator() -> None:
    events = events_of(trace_to_json(SPILLED.problem, SPILLED.plan))

    assert [(event["name"], event["ts"], event["ts"] + event["dur"]) for event in slices(events, "operator")] == [
        ("f", 500, 1000), ("g", 1500, 2000), ("h", 2500, 3000),
    ]  # fmt: skip
    assert [(event["name"], event["ts"], event["ts"] + event["dur"]) for event in slices(events, "transfer")] == [
        ("load x", 0, 500), ("spill a", 1000, 1500), ("reload a", 2000, 2500), ("write y", 3000, 3500),
    ]  # fmt: skip


def test_residencies_of_a_tensor_lie_where_and_when_the_plan_says() -> None:
    events = events_of(trace_to_json(SPILLED.problem, SPILLED.plan))
    found = [
        (event["name"], event["args"]["offset_bytes"], event["ts"], event["ts"] + event["dur"])
        for event in slices(events, "residency")
        if event["name"] == "a"
    ]

    assert found == [("a", 4, 0 + 500, 1500), ("a", 8, 2000, 3500)]


def test_slices_one_after_the_other_do_not_overlap_when_nanoseconds_are_cut_off() -> None:
    """1.001 microseconds times 1000 is 1000.9999999999999 nanoseconds."""
    activities = {3: TraceSpan(0, 0.5), 7: TraceSpan(0.5, 1.001), 12: TraceSpan(1.001, 2)}
    activities |= {1: TraceSpan(0, 0), 4: TraceSpan(0.5, 0.5), 10: TraceSpan(1.001, 1.001), 13: TraceSpan(2, 2)}
    spans = tuple(activities.get(index, TraceSpan(0, 0)) for index in range(len(SPILLED.plan.instructions)))
    events = events_of(trace_to_json(SPILLED.problem, SPILLED.plan, spans))

    assert [nanoseconds(event) for event in slices(events, "operator")] == [(0, 500), (500, 1001), (1001, 2000)]


def test_as_many_spans_as_instructions_are_wanted() -> None:
    with pytest.raises(PlanError, match="9 spans for 10 instructions"):
        trace_to_json(CHAIN.problem, CHAIN.plan, spans_in_steps(CHAIN.plan)[:-1])


Row = dict[str, str]


def rows(table: str) -> list[Row]:
    return list(csv.DictReader(io.StringIO(table, newline=""), strict=True))


def tables(problem: Problem, plan: Plan) -> tuple[list[Row], list[Row]]:
    return rows(residencies_to_csv(plan, problem.graph)), rows(transfers_to_csv(plan, problem.graph))


def program_of_tables(plan: Plan, residencies: list[Row], transfers: list[Row]) -> tuple[Instruction, ...]:
    """Return the program read back; the operators, which are in neither table, come from the plan."""
    found: dict[int, Instruction] = {
        index: line for index, line in enumerate(plan.instructions) if isinstance(line, Compute)
    }
    for row in residencies:
        tensor, memory = row["tensor"], row["memory"]
        found[int(row["start_instruction"])] = Allocate(tensor, memory, int(row["offset_bytes"]))
        if int(row["stop_instruction"]) < len(plan.instructions):
            found[int(row["stop_instruction"])] = Free(tensor, memory)
    for row in transfers:
        found[int(row["instruction"])] = Copy(row["tensor"], row["source"], row["target"])
    return put_together(found)


def the_tables_say_what_the_plan_says(problem: Problem, plan: Plan) -> None:
    residencies, transfers = tables(problem, plan)
    assert program_of_tables(plan, residencies, transfers) == plan.instructions
    moved = dict.fromkeys(("load", "reload", "write", "spill", "move"), 0)
    for row in transfers:
        moved[row["kind"]] += int(row["size_bytes"])
    figures = figures_of(problem, plan)
    assert moved["load"] + moved["reload"] == figures.loads
    assert moved["reload"] == figures.reloads
    assert moved["write"] + moved["spill"] == figures.write_backs
    assert moved["move"] == figures.moved
    assert moved["spill"] + moved["reload"] >= figures.non_compulsory >= moved["spill"]
    for name, arena_bytes in figures.arenas:
        ends = [int(row["offset_bytes"]) + int(row["size_bytes"]) for row in residencies if row["memory"] == name]
        assert max(ends, default=0) == arena_bytes
    counts = [isinstance(line, Compute) for line in plan.instructions]
    for row in residencies:
        start, stop = int(row["start_instruction"]), int(row["stop_instruction"])
        assert (int(row["start_step"]), int(row["stop_step"])) == (sum(counts[:start]), sum(counts[:stop]))


@pytest.mark.parametrize("name", BY_HAND)
def test_tables_of_plans_by_hand_can_be_read_back(name: str) -> None:
    the_tables_say_what_the_plan_says(BY_HAND[name].problem, BY_HAND[name].plan)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(planned())
def test_tables_of_random_plans_can_be_read_back(made: tuple[Problem, Plan]) -> None:
    the_tables_say_what_the_plan_says(*made)


def test_a_spill_and_its_reload_are_told_apart_from_what_every_plan_moves() -> None:
    residencies, transfers = tables(SPILLED.problem, SPILLED.plan)

    assert [(row["kind"], row["tensor"]) for row in transfers] == [
        ("load", "x"), ("spill", "a"), ("reload", "a"), ("write", "y"),
    ]  # fmt: skip
    assert [(row["tensor"], row["began"], row["spilled"]) for row in residencies] == [
        ("x", "loaded", "0"), ("a", "computed", "1"), ("b", "computed", "0"), ("a", "reloaded", "0"),
        ("y", "computed", "0"),
    ]  # fmt: skip


def test_names_with_commas_quotes_and_line_ends_survive() -> None:
    wild = 'a,"b"\r\n;é'
    tensors = [replace(tensor, name=wild) if tensor.name == "x" else tensor for tensor in SPILLED.problem.graph.tensors]
    operators = [
        replace(operator, inputs=tuple(wild if name == "x" else name for name in operator.inputs))
        for operator in SPILLED.problem.graph.operators
    ]
    renamed = replace(SPILLED.problem.graph, tensors=tuple(tensors), operators=tuple(operators))
    lines = [
        replace(line, tensor=wild) if not isinstance(line, Compute) and line.tensor == "x" else line
        for line in SPILLED.plan.instructions
    ]

    the_tables_say_what_the_plan_says(
        replace(SPILLED.problem, graph=renamed), Plan(SPILLED.plan.memories, tuple(lines))
    )


def test_a_place_that_nothing_is_written_to_is_said_to_be_empty() -> None:
    problem = Problem(graph("x:input:4 y:output:4", f="x -> y"), sram(12))
    lines = (
        Allocate("x", "sram", 0), Copy("x", "dram", "sram"), Allocate("y", "sram", 4), Compute("f"),
        Copy("y", "sram", "dram"), Free("x", "sram"), Allocate("x", "sram", 8), Free("x", "sram"),
    )  # fmt: skip
    residencies, _ = tables(problem, Plan(problem.memories, lines))

    assert [row["began"] for row in residencies] == ["loaded", "computed", "empty"]
    the_tables_say_what_the_plan_says(problem, Plan(problem.memories, lines))


@pytest.mark.parametrize("name", REQUESTS)
def test_tables_of_plans_for_several_scratchpads_can_be_read_back(name: str) -> None:
    the_tables_say_what_the_plan_says(*real_plan(name))


def test_a_move_names_both_scratchpads_and_what_it_began() -> None:
    residencies, transfers = tables(HELD.problem, HELD.plan)

    (move,) = (row for row in transfers if row["kind"] == "move")
    assert (move["tensor"], move["source"], move["target"]) == ("a", "outputs", "inputs")
    began = {(row["tensor"], row["memory"]): row["began"] for row in residencies}
    assert (began["a", "outputs"], began["a", "inputs"]) == ("computed", "moved")


@pytest.fixture
def execution() -> Execution:
    """Return a legal plan with a move of three bytes, and a run with the transfers that the verifier computes."""
    source = Source(HELD.problem.graph.name)
    verdict = verify(HELD.problem, HELD.plan)
    check = Check(PlanDocument(source, source, Reading(), HELD.plan), HELD.problem, "", verdict)
    figures = verdict.figures
    run = MachineRun(figures.loads, figures.write_backs, figures.moved, 4, None, {})
    return Execution(check, "made up", (run,))


def test_a_run_that_moved_what_was_planned_is_right(execution: Execution) -> None:
    assert execution.is_right
    assert execution_object(execution)["right"] is True


@pytest.mark.parametrize("what", ["loads", "write_backs", "moved"])
def test_a_run_that_moved_anything_else_is_not(execution: Execution, what: str) -> None:
    assert execution.run is not None
    other = replace(execution.run, **{what: getattr(execution.run, what) + 1})

    assert not replace(execution, runs=(execution.run, other)).bytes_agree
    assert not replace(execution, runs=(execution.run, other)).is_right


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass
class Clock:
    """A clock that stands still."""

    seconds: float = 1.25

    def __call__(self) -> float:
        return self.seconds


def text_of(*told: Progress, limit_seconds: float | None = None) -> str:
    line = ProgressLine(Terminal(), Clock(), limit_seconds)
    with line.during("searching"):
        for progress in told:
            line.hear(progress)
        return line.text.strip()


def drawn_in(seconds: float, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> str:
    """Return the stream after a phase that reports no progress, with lines drawn every millisecond."""
    monkeypatch.setattr(output, "SECONDS_BETWEEN_TICKS", 0.001)
    line = ProgressLine(stream, Clock())
    with line.during("reading"):
        deadline = time.perf_counter() + seconds
        while "reading" not in stream.getvalue() and time.perf_counter() < deadline:
            time.sleep(0.001)
    return stream.getvalue()


def test_a_terminal_sees_the_phase_the_answer_the_bound_and_the_gap() -> None:
    terminal = Terminal()
    ProgressLine(terminal, Clock()).hear(Progress(0.0, 4096, 1024, "search"))

    assert "1.2 s  search: best 4,096, bound 1,024, gap 75.0%" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()


def test_the_limit_stands_beside_the_time() -> None:
    assert text_of(Progress(0.0, 4, 4, "search"), limit_seconds=60.0).startswith("1.2 s of 60 s  search: best 4")


FOUND = Progress(0.0, 4096, 1024, "search")


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ([], "1.2 s  searching"),
        (
            [Progress(0.0, 4096, 0, "first plan"), Progress(9.0, None, 1024, "search")],
            "best 4,096, bound 1,024, gap 75.0%",
        ),
        ([FOUND, Progress(9.0, 8192, 512, "another")], "another: best 4,096, bound 1,024, gap 75.0%"),
        ([Progress(0.0, None, 0, "search")], "search: no answer yet"),
        ([Progress(0.0, None, 7, "search")], "search: no answer yet, bound 7"),
        ([Progress(0.0, 0, 0, "search")], "best 0, bound 0, gap 0.0%"),
        ([Progress(0.0, 4096, 1024, "x" * 200)], "x…: best 4,096, bound 1,024, gap 75.0%"),
        ([Progress(0.0, 8, 2, "layer 1 of 2, \x1b[2J\n")], "layer 1 of 2, ?[2J?: best 8, bound 2, gap 75.0%"),
    ],
)
def test_the_best_answer_and_bound_of_all_phases_are_shown(told: list[Progress], shown: str) -> None:
    text = text_of(*told)
    assert text.endswith(shown)
    assert len(text) < COLUMNS


def test_a_phase_within_another_stands_in_its_place_while_it_lasts() -> None:
    line = ProgressLine(Terminal(), Clock())
    with line.during("planning"):
        with line.during("searching"):
            line.hear(Progress(0.0, 8, 2, "46 states"))
            assert "46 states: best 8" in line.text
        assert "planning: best 8, bound 2" in line.text


def test_updates_in_quick_succession_are_not_all_shown() -> None:
    terminal = Terminal()
    line = ProgressLine(terminal)
    for best in range(1000):
        line.hear(Progress(0.0, best, 0, "search"))

    assert terminal.getvalue().count("search") < 20


def test_work_that_tells_nothing_is_seen_to_go_on_until_the_line_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = drawn_in(60.0, monkeypatch, Terminal())
    assert "1.2 s  reading" in drawn
    assert drawn.endswith(CLEAR_LINE)


def test_the_line_is_taken_away_where_a_phase_fails() -> None:
    terminal = Terminal()
    with pytest.raises(ValueError, match="nonsense"):
        _fail_while_shown(ProgressLine(terminal))

    assert terminal.getvalue().endswith(CLEAR_LINE)


def test_a_phase_that_is_over_at_once_shows_nothing() -> None:
    terminal = Terminal()
    with ProgressLine(terminal).during("reading"):
        pass

    assert terminal.getvalue() == ""


def test_a_file_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    line = ProgressLine(file)
    with line.during("searching"):
        line.hear(Progress(0.0, 4, 1, "search"))

    assert file.getvalue() == ""
    assert drawn_in(0.02, monkeypatch, file) == ""


def test_a_terminal_that_goes_away_takes_nothing_with_it() -> None:
    terminal = Terminal()
    line = ProgressLine(terminal)
    with line.during("searching"):
        line.hear(Progress(0.0, 4, 1, "search"))
        terminal.write = _gone  # type: ignore[method-assign]


def _gone(_text: str) -> int:
    raise OSError("it went away")


def _fail_while_shown(line: ProgressLine) -> None:
    with line.during("reading"):
        line.hear(Progress(0.0, None, 0, "search"))
        raise ValueError("nonsense")
