"""Chrome traces and CSV tables of plans can be read back."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.api.run import timeline_of
from onchip.errors import PlanError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.model.timeline.activity import array_waits
from onchip.reports.exports import (
    TraceSpan,
    residencies_to_csv,
    spans_in_steps,
    timed_spans,
    trace_to_json,
    traced_waits,
    transfers_to_csv,
)
from support.exported import BY_HAND, figures_of, planned, put_together
from support.programs import CHAIN, HELD, SPILLED, graph, sram
from support.several import LINKED, REQUESTS, real_plan

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
