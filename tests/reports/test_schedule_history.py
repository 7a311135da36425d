"""Events of a hand-written schedule of two operators: loads, a spill, a reload, a move, a write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onchip.answer.program import Allocate, Began, Compute, Copy, Free, Plan
from onchip.answer.schedule import Schedule, ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.memory import DRAM
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import ComputeCost
from onchip.model.timeline.schedule_timeline import time_schedule
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.schedule.explanation import OperatorFigures, figures_of_stacks
from onchip.reports.schedule.html import moved_bytes, network_figure
from onchip.reports.shared.figures import DrawnResidencies
from onchip.transform.groups.tile_graph import TileGraph, TileOperator
from support.fused_files import CHIP

INSTRUCTIONS = (
    Allocate("x", "buffer", 0),
    Copy("x", DRAM, "buffer"),
    Allocate("m", "buffer", 64),
    Compute("a"),
    Free("x", "buffer"),
    Copy("m", "buffer", DRAM),
    Free("m", "buffer"),
    Allocate("m", "global", 0),
    Copy("m", DRAM, "global"),
    Allocate("m", "buffer", 0),
    Copy("m", "global", "buffer"),
    Allocate("y", "buffer", 100),
    Allocate("b@workspace", "buffer", 200),
    Compute("b"),
    Free("b@workspace", "buffer"),
    Copy("y", "buffer", DRAM),
)


@pytest.fixture
def history(tmp_path: Path) -> ScheduleHistory:
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP)
    accelerator = load_accelerator(str(path))
    tensors = (
        Tensor.of_shape("x", (40,), 8, Role.INPUT),
        Tensor.of_shape("m", (24,), 8, Role.ACTIVATION),
        Tensor.of_shape("y", (16,), 8, Role.OUTPUT),
    )
    operators = Operator("a", "Softmax", ("x",), ("m",)), Operator("b", "Softmax", ("m",), ("y",))
    program = Plan(tuple(level.memory for level in accelerator.addressed), INSTRUCTIONS)
    schedule = Schedule((ScheduledStack(("a",)), ScheduledStack(("b",))), (), program)
    tiles = TileGraph(
        Graph("two", tensors, operators), {"a": TileOperator(0, "a", ()), "b": TileOperator(1, "b", ())}, ()
    )
    costs = {"a": ComputeCost(5, 3, 0, 0, {}), "b": ComputeCost(7, 4, 0, 0, {"buffer": 9})}
    return ScheduleHistory(schedule, tiles, accelerator, costs)


def test_residencies_have_their_steps_and_say_how_their_bytes_came_there(history: ScheduleHistory) -> None:
    found = [(one.tensor, one.memory, one.start_step, one.stop_step, one.began) for one in history.residencies]
    assert found == [
        ("x", "buffer", 0, 1, Began.LOADED),
        ("m", "buffer", 0, 1, Began.COMPUTED),
        ("m", "global", 1, 2, Began.RELOADED),
        ("m", "buffer", 1, 2, Began.MOVED),
        ("y", "buffer", 1, 2, Began.COMPUTED),
        ("b@workspace", "buffer", 1, 2, Began.EMPTY),
    ]


def drawn_residencies(history: ScheduleHistory, most: int) -> DrawnResidencies:
    return DrawnResidencies(history.residencies, history.tiles.graph, history.operators, history.role, most)


def test_the_bytes_of_a_spill_a_reload_and_a_move_stand_at_the_residency(history: ScheduleHistory) -> None:
    costs = [moved_bytes(one) for one in history.residencies]
    assert costs == [(0, 0, 0), (24, 0, 0), (0, 24, 0), (0, 0, 24), (0, 0, 0), (0, 0, 0)]


def test_a_memory_with_more_residencies_than_may_be_drawn_is_coarse(history: ScheduleHistory) -> None:
    assert drawn_residencies(history, 5).coarse == set()
    few = drawn_residencies(history, 4)
    assert few.coarse == {"buffer"}
    rows: Any = few.facts(lambda _: (0, 0, 0))["residencies"]
    assert [row[1] for row in rows] == ["global"]


def test_tensors_of_which_anything_is_copied_from_or_to_dram_are_known(history: ScheduleHistory) -> None:
    assert history.tensors_in_dram == {"x", "m", "y"}


def test_copies_count_in_the_stack_of_the_next_compute_and_the_last_ones_in_the_last(history: ScheduleHistory) -> None:
    program, graph = history.schedule.program, history.tiles.graph
    timeline = time_schedule(graph, history.accelerator, program, history.compute_costs)
    first, second = figures_of_stacks(history, timeline)

    assert (first.traffic["loads"], first.traffic["write-backs"]) == (40, 0)
    assert (second.traffic["loads"], second.traffic["write-backs"]) == (24, 24 + 16)
    assert first.latency_cycles + second.latency_cycles == timeline.latency_cycles


def test_operators_of_each_colour_open_their_own_mappings(history: ScheduleHistory) -> None:
    stacks = ScheduledStack(("a",)), ScheduledStack(("b",), Tiling(1, 1, OverlapMode.RECOMPUTE))
    operators = [OperatorFigures(name, "Softmax", at, stacks[at], 1) for at, name in enumerate("ab")]

    figure: Any = network_figure(history.tiles.graph, operators, frozenset({"x"}))

    marks = {trace["name"]: (trace["x"], trace["meta"]["opens"]) for trace in figure["traces"][2:]}
    assert marks == {"single operators": ([0], ["operator-0"]), "group 1: 1x1 recompute": ([1], ["operator-1"])}
