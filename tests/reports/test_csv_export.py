from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given, settings

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.reports.exports import residencies_to_csv, transfers_to_csv
from support.exported import BY_HAND, figures_of, planned, put_together
from support.programs import HELD, SPILLED, graph, sram
from support.several import REQUESTS, real_plan

Row = dict[str, str]


def rows(table: str) -> list[Row]:
    return list(csv.DictReader(io.StringIO(table, newline=""), strict=True))


def tables(problem: Problem, plan: Plan) -> tuple[list[Row], list[Row]]:
    return rows(residencies_to_csv(plan, problem.graph)), rows(transfers_to_csv(plan, problem.graph))


def read_back(plan: Plan, residencies: list[Row], transfers: list[Row]) -> tuple[Instruction, ...]:
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
    assert read_back(plan, residencies, transfers) == plan.instructions
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
