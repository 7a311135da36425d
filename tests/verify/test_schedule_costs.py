"""Costs of a Compute and a Copy of a schedule, compared with figures computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.program import Copy
from onchip.arch.memory import Access, Direction, Dma, Dram, Operand, Port
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.verify.schedule.costs import (
    Expense,
    expense_of_copy,
    expense_of_nests,
    expense_without_nest,
    in_bytes,
    with_own_workspace,
)
from onchip.verify.schedule.machine import AddressedMachine, PricedNest
from onchip.verify.schedule.streaming import HomeOf, tile_operands
from onchip.verify.schedule.tiles import TileOfNetwork
from support.schedule_cases import ACTIVATIONS, NEAR_AND_FAR, NestFigures, level, machine, tensor

GRAPH = Graph(
    "odd",
    (
        tensor("x", (2, 3), Role.INPUT),
        Tensor("v", 5, Role.INPUT),
        tensor("w", (2, 4), Role.PARAMETER),
        Tensor.of_shape("y", (4, 3), 4, Role.OUTPUT),
    ),
    (Operator("odd", "Odd", ("x", "v"), ("y",), ("w",)),),
)


def without_nest(homes: HomeOf, addressed: AddressedMachine) -> Expense:
    (operator,) = GRAPH.operators
    operands = tile_operands(GRAPH, TileOfNetwork(operator, operator, 0, 0))
    return expense_without_nest(addressed, GRAPH, operands, homes)


def test_an_operator_without_a_nest_reads_and_writes_each_operand_once() -> None:
    found = without_nest({"x": "near", "v": None, "w": "far", "y": None}, AddressedMachine(NEAR_AND_FAR))
    assert found.energy_fj == 6 * 1_000 + 5 * 10_000 + 8 * 2_000 + 6 * 10_000
    assert (found.cycles, found.dram_cycles) == (5 + 6, 5 + 6)
    assert (found.dram_read_bits, found.dram_written_bits, found.traffic_bytes) == (40, 48, 11)


def test_what_an_operator_without_a_nest_takes_longest_for_are_its_cycles() -> None:
    found = without_nest({"x": "far", "v": None, "w": "far", "y": "near"}, AddressedMachine(NEAR_AND_FAR))
    assert (found.cycles, found.dram_cycles, found.traffic_bytes) == (6 + 8, 5, 5)


def test_rows_of_what_streams_are_rounded_up_together() -> None:
    """The rows are all of v, which has no shape, and a row of y of twelve bits."""
    found = without_nest({"x": "near", "v": None, "w": "far", "y": None}, AddressedMachine(NEAR_AND_FAR))
    assert found.workspaces == {"far": in_bytes(40 + 12)}
    everything = without_nest(dict.fromkeys("xvwy"), AddressedMachine(NEAR_AND_FAR))
    assert everything.workspaces == {"far": in_bytes(24 + 40 + 32 + 12)}


def test_the_row_of_a_single_element_is_all_of_it() -> None:
    scalar = Graph(
        "scalar",
        (tensor("x", (), Role.INPUT), Tensor.of_shape("y", (3,), 1, Role.OUTPUT)),
        (Operator("odd", "Odd", ("x",), ("y",)),),
    )
    (operator,) = scalar.operators
    operands = tile_operands(scalar, TileOfNetwork(operator, operator, 0, 0))
    found = expense_without_nest(AddressedMachine(NEAR_AND_FAR), scalar, operands, {"x": None, "y": "near"})
    assert found.workspaces == {"far": 1}
    found = expense_without_nest(AddressedMachine(NEAR_AND_FAR), scalar, operands, {"x": None, "y": None})
    assert found.workspaces == {"far": in_bytes(8 + 3)}


@pytest.mark.parametrize(("kind", "shape", "bits"), [("Slice", (9,), 24), ("Slice", (2,), 16), ("Odd", (9,), 72)])
def test_what_takes_elements_out_reads_no_more_than_it_writes(kind: str, shape: tuple[int, ...], bits: int) -> None:
    tensors = (tensor("x", shape, Role.INPUT), tensor("y", (3,), Role.OUTPUT))
    taken = Graph("taken", tensors, (Operator("op", kind, ("x",), ("y",)),))
    operands = tile_operands(taken, TileOfNetwork(taken.operators[0], taken.operators[0], 0, 0))
    found = expense_without_nest(AddressedMachine(NEAR_AND_FAR), taken, operands, {"x": None, "y": "near"})
    assert found.dram_read_bits == bits


def test_of_what_has_no_shape_all_is_read() -> None:
    tensors = (Tensor("x", 9, Role.INPUT), tensor("y", (3,), Role.OUTPUT))
    taken = Graph("taken", tensors, (Operator("op", "Slice", ("x",), ("y",)),))
    operands = tile_operands(taken, TileOfNetwork(taken.operators[0], taken.operators[0], 0, 0))
    found = expense_without_nest(AddressedMachine(NEAR_AND_FAR), taken, operands, {"x": None, "y": "near"})
    assert found.dram_read_bits == 72


def test_rows_that_are_larger_than_their_memory_pass_through_it_in_pieces() -> None:
    for size, room in ((13, 13), (14, 14), (15, 14)):
        small = machine(level("near", 14, 1.0, (*ACTIVATIONS, Operand.WEIGHT)))
        row = Graph("row", (tensor("x", (size,), Role.INPUT), tensor("y", (1,), Role.OUTPUT)), (_odd(("x",)),))
        operands = tile_operands(row, TileOfNetwork(row.operators[0], row.operators[0], 0, 0))
        found = expense_without_nest(AddressedMachine(small), row, operands, {"x": None, "y": "near"})
        assert (found.workspaces, found.dram_read_bits) == ({"near": room}, 8 * size)


def _odd(inputs: tuple[str, ...]) -> Operator:
    return Operator("odd", "Odd", inputs, ("y",))


def test_a_workspace_of_its_own_lies_in_the_last_memory_beside_what_else_is_there() -> None:
    found = without_nest({"x": "near", "v": None, "w": "far", "y": None}, AddressedMachine(NEAR_AND_FAR))
    own = with_own_workspace(AddressedMachine(NEAR_AND_FAR), found, 9)
    assert own == replace(found, workspaces={"far": in_bytes(40 + 12) + 9})
    assert with_own_workspace(AddressedMachine(NEAR_AND_FAR), found, 0) == found
    resident = without_nest(dict.fromkeys("xvy", "near") | {"w": "far"}, AddressedMachine(NEAR_AND_FAR))
    assert with_own_workspace(AddressedMachine(NEAR_AND_FAR), resident, 9).workspaces == {"far": 9}


@pytest.mark.parametrize(("own_bytes", "left"), [(0, 20), (5, 15), (6, 14), (7, 13), (19, 1), (25, 1)])
def test_rows_pass_through_what_a_workspace_leaves_a_byte_at_least(own_bytes: int, left: int) -> None:
    small = AddressedMachine(machine(level("near", 30, 1.0, ACTIVATIONS), level("far", 20, 2.0)))
    row = Graph("row", (tensor("x", (28,), Role.INPUT), tensor("y", (1,), Role.OUTPUT)), (_odd(("x",)),))
    operands = tile_operands(row, TileOfNetwork(row.operators[0], row.operators[0], 0, 0))
    found = expense_without_nest(small, row, operands, {"x": None, "y": "near"}, own_bytes)
    assert found.workspaces == {"far": left}


def test_rows_lie_where_such_operands_may() -> None:
    """A parameter that no addressed memory holds takes no room."""
    outputs = level("outputs", 99, 1.0, (Operand.OUTPUT,))
    found = without_nest(dict.fromkeys("xvwy"), AddressedMachine(machine(level("near", 99, 1.0, ACTIVATIONS), outputs)))
    assert found.workspaces == {"near": in_bytes(24 + 40), "outputs": 2}
    resident = without_nest(dict.fromkeys("xvy", "near") | {"w": "far"}, AddressedMachine(NEAR_AND_FAR))
    assert resident.workspaces == {}


def test_nests_that_run_one_after_another_share_their_workspace() -> None:
    first = PricedNest(NestFigures(1.25, 2.25, 5, 11), {"near": 17, "far": 8})
    second = PricedNest(NestFigures(2.00025, 1.5, 4, 0), {"near": 8})
    found = expense_of_nests(AddressedMachine(NEAR_AND_FAR), [first, second])
    assert (found.energy_fj, found.cycles) == (3250, 4)
    assert (found.dram_read_bits, found.dram_written_bits, found.dram_cycles) == (9, 11, 2 + 2)
    assert found.traffic_bytes == 2 + 2
    assert found.workspaces == {"near": 3, "far": 1}


@pytest.mark.parametrize(
    ("source", "target", "energy_pj", "slowest_hop", "traffic"),
    [
        ("dram", "near", 10 + 2 + 2 + 1, 6, (48, 0)),
        ("near", "far", 1 + 2, 4, (0, 0)),
        ("far", "near", 2 + 1, 6, (0, 0)),
        ("near", "dram", 1 + 2 + 2 + 10, 6, (0, 48)),
        ("far", "dram", 2 + 10, 6, (0, 48)),
    ],
)
def test_a_copy_costs_what_its_hops_read_and_write_and_lasts_as_long_as_the_slowest(
    source: str, target: str, energy_pj: int, slowest_hop: int, traffic: tuple[int, int]
) -> None:
    """The copy has six bytes: far sends 8 bits in a cycle, near takes or sends 12, and the others move more."""
    ports = {"near": (Port(Direction.READ_WRITE, 12),), "far": (Port(Direction.READ, 8), Port(Direction.WRITE, 48))}
    levels = tuple(replace(one, ports=ports.get(one.memory.name, ())) for one in NEAR_AND_FAR.levels)
    dram = Dram(Access(8, 10.0, 10.0), (Port(Direction.READ_WRITE, 16),))
    addressed = AddressedMachine(replace(NEAR_AND_FAR, levels=levels, dram=dram))
    found = expense_of_copy(addressed, GRAPH.tensor["x"], Copy("x", source, target))
    assert (found.energy_fj, found.cycles) == (6 * 1000 * energy_pj, 2 + slowest_hop)
    assert (found.dram_read_bits, found.dram_written_bits) == traffic
    assert found.dram_cycles == sum(traffic) // 16
    assert found.workspaces == {}


def test_a_machine_that_says_nothing_of_copies_has_one_queue_and_no_set_up() -> None:
    assert AddressedMachine(replace(NEAR_AND_FAR, dma=None)).dma == Dma()
    assert (Dma().queues, Dma().setup_cycles) == (1, 0)
