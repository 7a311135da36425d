"""Some operands of an operator lie whole on the chip, only while it runs, if it has no room to stream all of them."""

from __future__ import annotations

import pytest

from onchip.answer.options.fusion_options import LAYERS, Placements
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.answer.program import Compute
from onchip.answer.result import Status
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.program.composition import ScheduleQuestion
from onchip.scheduling.program.places import FirstPlaces
from onchip.scheduling.search.solve import solve_schedule
from onchip.search.budget.limits import Run

MAPS = (Operand.INPUT, Operand.OUTPUT)
ROWS = Memory("rows", 8)
LEVELS = tuple(
    MemoryLevel(memory, is_scratchpad=True, access=Access(8, 1, 2)) for memory in (Memory("maps", 12, holds=MAPS), ROWS)
)
MACHINE = Accelerator(
    "narrow",
    tuple(level.memory for level in LEVELS),
    LEVELS,
    None,
    ComputeArray({"lane": 1}, None, 0.0),
    Dram(Access(8, 10, 20), (Port(Direction.READ_WRITE, 8),)),
)
NETWORK = Graph(
    "two",
    tuple(
        Tensor.of_shape(name, (1, 6), 8, role)
        for name, role in (("x", Role.INPUT), ("a", Role.ACTIVATION), ("y", Role.OUTPUT))
    ),
    (Operator("one", "Softmax", ("x",), ("a",)), Operator("two", "Softmax", ("a",), ("y",))),
)


@pytest.mark.parametrize("placements", [*Placements])
def test_rows_that_have_no_room_together_do_not_leave_a_network_without_a_schedule(placements: Placements) -> None:
    """Two rows of six bytes are more than eight, and the memory that has room for a map lies nearer."""
    question = ScheduleQuestion(NETWORK, MACHINE, Precision(8, 8), ScheduleObjective.ENERGY, uses_cache=False)
    found = solve_schedule(question, ScheduleOptions(LAYERS, placements=placements), Run())
    assert found.status is Status.FEASIBLE
    assert found.answer is not None
    instructions = found.answer.composition.schedule.program.instructions
    assert sum(isinstance(one, Compute) for one in instructions) == 2


def test_without_a_schedule_the_operator_is_named_with_its_loops_and_the_room_that_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BestMapper, "__call__", lambda *_: None)
    sizes = (("x", Role.INPUT, (1, 6)), ("w", Role.PARAMETER, (6, 4)), ("y", Role.OUTPUT, (1, 4)))
    tensors = tuple(Tensor.of_shape(name, shape, 8, role) for name, role, shape in sizes)
    network = Graph("product", tensors, (Operator("multiply", "MatMul", ("x",), ("y",), ("w",)),))
    question = ScheduleQuestion(network, MACHINE, Precision(8, 8), ScheduleObjective.ENERGY, uses_cache=False)
    found = solve_schedule(question, ScheduleOptions(LAYERS), Run())
    assert found.status is Status.UNKNOWN
    room = "12 bytes of 'maps', 8 bytes of 'rows'"
    assert found.why_not == f"operator 'multiply': no mapping of its loop nest (K=4 C=6) fits in {room}"


def test_fewer_tensors_come_first_and_all_choices_come_once() -> None:
    first = FirstPlaces(NETWORK, LEVELS)
    found = []
    while (places := first.after("one")) is not None:
        found.append((dict(places.read), dict(places.written)))
    assert found[0] == ({}, {(0, "a"): "rows"})
    assert [len(read) + len(written) for read, written in found] == [1] * 4 + [2] * 4
    assert len({str(one) for one in found}) == 8


def test_what_lies_there_leaves_before_the_next_operator_runs() -> None:
    places = FirstPlaces(NETWORK, LEVELS).after("one")
    assert places is not None
    assert places.waiting[0, "a"] is None


def test_choices_of_one_operator_stay_while_another_looks_for_its_own() -> None:
    first = FirstPlaces(NETWORK, LEVELS)
    first.after("one")
    places = first.after("two")
    assert places is not None
    assert places.written == {(0, "a"): "rows", (1, "y"): "rows"}
