"""Reasons why tensors of a schedule move: a hand-written program with room computed by hand, and summed figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.schedule import Schedule, ScheduledStack
from onchip.arch.memory import DRAM
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision
from onchip.reports.explain.schedule_history import (
    MovementKind,
    MovementReason,
    ScheduleHistory,
    ScheduleMovements,
    TensorMovement,
)
from onchip.reports.schedule.outcome import ScheduleOutcome
from onchip.transform.groups.tiled import tile_graph
from support.schedule_outcomes import history_of, three_in_tiles, three_streamed
from support.series import series

MACHINE = """\
format: onchip-accelerator
version: 1
name: one
array: {dimensions: {K: 2}, mac_energy_pj: 0.5}
memories:
  - {name: buffer, capacity: 1000B, scratchpad: true, holds: [input, output], access_bits: 8, read_energy_pj: 1,
     write_energy_pj: 2}
dram: {access_bits: 8, read_energy_pj: 10, write_energy_pj: 20}
"""
SIZES = {
    "x": (256, Role.INPUT),
    "m": (256, Role.ACTIVATION),
    "big": (900, Role.INPUT),
    "n": (128, Role.ACTIVATION),
    "p": (64, Role.PARAMETER),
    "k": (1200, Role.ACTIVATION),
    "y": (300, Role.OUTPUT),
}
OPERATORS = (
    Operator("a", "Softmax", ("x",), ("m",)),
    Operator("b", "Softmax", ("big",), ("n",), ("p",)),
    Operator("c", "Concat", ("m", "n"), ("k",), ("p",)),
    Operator("d", "Concat", ("k",), ("y",)),
)
PROGRAM: tuple[Instruction, ...] = (
    Allocate("m", "buffer", 0),
    Compute("a"),  # x streams in
    Copy("m", "buffer", DRAM),  # is pushed out by big
    Free("m", "buffer"),
    Allocate("big", "buffer", 0),
    Copy("big", DRAM, "buffer"),
    Compute("b"),  # p streams in, n streams out
    Free("big", "buffer"),
    Allocate("m", "buffer", 100),
    Copy("m", DRAM, "buffer"),
    Compute("c"),  # n and p stream in, k streams out
    Free("m", "buffer"),
    Allocate("y", "buffer", 0),
    Compute("d"),  # k streams in
    Copy("y", "buffer", DRAM),
)


@pytest.fixture
def by_hand(tmp_path: Path) -> ScheduleMovements:
    path = tmp_path / "one.yaml"
    path.write_text(MACHINE)
    accelerator = load_accelerator(str(path))
    tensors = tuple(Tensor.of_shape(name, (size,), 8, role) for name, (size, role) in SIZES.items())
    stacks = tuple(ScheduledStack((one.name,)) for one in OPERATORS)
    tiles = tile_graph(Graph("by hand", tensors, OPERATORS), stacks, Precision())
    memories = tuple(level.memory for level in accelerator.addressed)
    schedule = Schedule(stacks, (), Plan(memories, PROGRAM))
    return ScheduleMovements(ScheduleHistory(schedule, tiles, accelerator, {}))


def only(found: ScheduleMovements, tensor: str, kind: MovementKind, step: int) -> TensorMovement:
    (one,) = (each for each in found.all if (each.tensor, each.kind, each.step) == (tensor, kind, step))
    return one


def test_every_copy_and_every_streamed_operand_is_there_once_in_order(by_hand: ScheduleMovements) -> None:
    found = [(one.step, one.kind.value, one.tensor, one.bits // 8) for one in by_hand.all]
    assert found == [
        (0, "streamed in", "x", 256),
        (1, "spill", "m", 256),
        (1, "load", "big", 900),
        (1, "streamed in", "p", 64),
        (1, "streamed out", "n", 128),
        (2, "reload", "m", 256),
        (2, "streamed in", "n", 128),
        (2, "streamed in", "p", 64),
        (2, "streamed out", "k", 1200),
        (3, "streamed in", "k", 1200),
        (4, "write", "y", 300),
    ]


@pytest.mark.parametrize(
    ("tensor", "kind", "step"),
    [
        ("x", MovementKind.STREAMED_IN, 0),
        ("big", MovementKind.LOAD, 1),
        ("p", MovementKind.STREAMED_IN, 1),
        ("y", MovementKind.WRITE, 4),
    ],
)
def test_what_comes_from_outside_is_needed_once_and_an_output_is_written_once(
    by_hand: ScheduleMovements, tensor: str, kind: MovementKind, step: int
) -> None:
    one = only(by_hand, tensor, kind, step)
    assert (one.reason, one.crowding) == (MovementReason.NEEDED, None)


@pytest.mark.parametrize(("kind", "step"), [(MovementKind.SPILL, 1), (MovementKind.RELOAD, 2)])
def test_what_was_pushed_out_lacks_the_bytes_that_are_too_many(
    by_hand: ScheduleMovements, kind: MovementKind, step: int
) -> None:
    one = only(by_hand, "m", kind, step)
    assert one.reason is MovementReason.NO_ROOM
    assert one.crowding is not None
    assert (one.crowding.memory.name, one.crowding.step) == ("buffer", 1)
    assert (one.crowding.need_bytes, one.crowding.others_bytes, one.crowding.missing_bytes) == (256, 900, 156)
    assert [other.tensor for other in by_hand.room.others(one.crowding, one.bands)] == ["big"]


def test_a_streamed_output_lacks_room_beside_what_is_there(by_hand: ScheduleMovements) -> None:
    one = only(by_hand, "n", MovementKind.STREAMED_OUT, 1)
    assert one.reason is MovementReason.NO_ROOM
    assert one.crowding is not None
    assert one.crowding.missing_bytes == 900 + 128 - 1000


def test_what_would_fit_is_streamed_by_choice(by_hand: ScheduleMovements) -> None:
    one = only(by_hand, "n", MovementKind.STREAMED_IN, 2)
    assert one.reason is MovementReason.CHOSEN
    assert one.crowding is not None
    assert one.crowding.missing_bytes == 256 + 128 - 1000


@pytest.mark.parametrize(("kind", "step"), [(MovementKind.STREAMED_OUT, 2), (MovementKind.STREAMED_IN, 3)])
def test_what_is_larger_than_the_memory_is_too_large(by_hand: ScheduleMovements, kind: MovementKind, step: int) -> None:
    assert only(by_hand, "k", kind, step).reason is MovementReason.TOO_LARGE


def test_a_parameter_that_no_memory_holds_is_read_again_because_of_that(by_hand: ScheduleMovements) -> None:
    one = only(by_hand, "p", MovementKind.STREAMED_IN, 2)
    assert (one.reason, one.crowding) == (MovementReason.NOT_HELD, None)


def test_a_copy_stands_before_the_operator_that_it_is_for_and_behind_the_one_whose_bytes_leave(
    by_hand: ScheduleMovements,
) -> None:
    assert only(by_hand, "m", MovementKind.SPILL, 1).operator == "a"
    assert only(by_hand, "m", MovementKind.RELOAD, 2).operator == "c"
    assert only(by_hand, "y", MovementKind.WRITE, 4).operator == "d"


def test_a_copy_costs_both_its_ends_and_a_stream_dram_alone(by_hand: ScheduleMovements) -> None:
    assert only(by_hand, "m", MovementKind.SPILL, 1).energy_pj == 256 * (1 + 20)
    assert only(by_hand, "m", MovementKind.RELOAD, 2).energy_pj == 256 * (10 + 2)
    assert only(by_hand, "k", MovementKind.STREAMED_OUT, 2).energy_pj == 1200 * 20


@pytest.mark.parametrize("make", series([three_streamed, three_in_tiles], 1))
def test_together_the_movements_are_the_schedule_s_traffic_and_its_energy_at_dram(
    make: Callable[[], ScheduleOutcome],
) -> None:
    outcome = make()
    figures = outcome.figures
    assert figures is not None
    found = ScheduleMovements(history_of(outcome)).all

    def moved_bytes(*kinds: MovementKind) -> int:
        return sum(one.bits for one in found if one.kind in kinds) // 8

    assert moved_bytes(MovementKind.LOAD, MovementKind.RELOAD) == figures.traffic.loads
    assert moved_bytes(MovementKind.WRITE, MovementKind.SPILL) == figures.traffic.write_backs
    assert moved_bytes(MovementKind.STREAMED_IN) == figures.traffic.streamed_reads
    assert moved_bytes(MovementKind.STREAMED_OUT) == figures.traffic.streamed_writes
    streamed = (MovementKind.STREAMED_IN, MovementKind.STREAMED_OUT)
    copied_pj = sum(one.energy_pj or 0.0 for one in found if one.kind not in streamed)
    streamed_pj = sum(one.energy_pj or 0.0 for one in found if one.kind in streamed)
    at_dram = {key: part for key, part in figures.energy.compute_access_pj.items() if key[0] == DRAM}
    assert copied_pj == pytest.approx(sum(figures.energy.copy_access_pj.values()))
    assert streamed_pj == pytest.approx(sum(at_dram.values()))
