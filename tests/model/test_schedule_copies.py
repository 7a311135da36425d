"""Costs of copies and of operators without a loop nest, by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import pytest

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Access, Direction, Dma, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import (
    ComputeCost,
    CopyPrices,
    NestCost,
    OperandAtHome,
    cost_of_nests,
    cost_without_nest,
)
from onchip.ops.nests import BandedOperand, operands_of

MAPS = (Operand.INPUT, Operand.OUTPUT)


def level(name: str, holds: tuple[Operand, ...], access: Access, *ports: Port) -> MemoryLevel:
    return MemoryLevel(Memory(name, 1024, holds=holds), None, True, access=access, ports=ports)


LOCAL = level("local", tuple(Operand), Access(8, 1, 2), Port(Direction.READ_WRITE, 64))
WEIGHTS = level("weights", (Operand.WEIGHT,), Access(64, 16, 32, 16), Port(Direction.READ, 8), Port(Direction.WRITE, 8))
SHARED = level("shared", MAPS, Access(64, 10, 12), Port(Direction.READ, 32), Port(Direction.WRITE, 16))
REGISTER = replace(level("register", tuple(Operand), Access(8, 0.1, 0.1)), serves=(), is_scratchpad=False)
LEVELS = (REGISTER, LOCAL, WEIGHTS, SHARED)
CHIP = Accelerator(
    "chip",
    tuple(one.memory for one in LEVELS[1:]),
    LEVELS,
    None,
    ComputeArray({"lane": 2}, mac_energy_pj=0.0),
    Dram(Access(64, 700, 750, 8), (Port(Direction.READ_WRITE, 8), Port(Direction.READ, 16))),
    Dma(1, 5),
)
PRICES = CopyPrices(CHIP)


@pytest.mark.parametrize(
    ("source", "target", "is_parameter", "way"),
    [
        (DRAM, "local", False, (DRAM, "shared", "local")),
        (DRAM, "local", True, (DRAM, "weights", "local")),
        ("local", DRAM, False, ("local", "shared", DRAM)),
        ("local", "shared", False, ("local", "shared")),
        ("shared", "weights", False, ("shared", "weights")),
        (DRAM, "shared", True, (DRAM, "shared")),
    ],
)
def test_a_copy_passes_what_may_hold_the_tensor(
    source: str, target: str, is_parameter: bool, way: tuple[str, ...]
) -> None:
    assert PRICES.way(source, target, is_parameter=is_parameter) == way


def test_each_hop_is_a_read_and_a_write_in_shortest_accesses() -> None:
    cost = PRICES.of(9, DRAM, "local", is_parameter=False)
    assert cost.access_pj == {DRAM: 9 * 700 / 8, "shared": 2 * 12 + 2 * 10, "local": 9 * 2}
    assert cost.energy_fj == 787_500 + 44_000 + 18_000
    assert (cost.dram_read_bits, cost.dram_written_bits) == (72, 0)
    weights = PRICES.of(3, "local", DRAM, is_parameter=True)
    assert weights.access_pj == {"local": 3, "weights": 2 * 8 + 2 * 4, DRAM: 3 * 750 / 8}
    assert (weights.dram_read_bits, weights.dram_written_bits) == (0, 24)


def test_a_copy_takes_its_set_up_and_its_slowest_hop() -> None:
    assert PRICES.of(9, DRAM, "local", is_parameter=False).cycles == 5 + 5  # 72 bits at 16 into `shared`
    assert PRICES.of(9, "local", "weights", is_parameter=True).cycles == 5 + 9
    assert PRICES.of(9, DRAM, "local", is_parameter=False).dram_cycles == 3
    assert PRICES.of(9, "local", DRAM, is_parameter=False).dram_cycles == 9


def test_a_memory_without_ports_keeps_up() -> None:
    quick = replace(CHIP, levels=tuple(replace(one, ports=()) for one in LEVELS), dma=None)
    assert CopyPrices(quick).of(9, "local", "shared", is_parameter=False).cycles == 0
    assert CopyPrices(quick).of(9, DRAM, "local", is_parameter=False).cycles == 3


@pytest.mark.parametrize(("energy_pj", "rounded_fj"), [(0.0005, 0), (0.0015, 2), (0.1, 100), (0.00149999, 1)])
def test_the_whole_copy_is_rounded_once_half_to_even(energy_pj: float, rounded_fj: int) -> None:
    half = Access(8, energy_pj, 0.0)
    levels = tuple(replace(one, access=half if one is LOCAL else Access(8, 0, 0)) for one in LEVELS)
    assert CopyPrices(replace(CHIP, levels=levels)).of(1, "local", "shared", is_parameter=False).energy_fj == rounded_fj


def test_where_a_copy_cannot_be_it_is_refused() -> None:
    with pytest.raises(AcceleratorError, match="cannot address memory 'register'"):
        PRICES.of(1, "register", DRAM, is_parameter=False)


def test_the_energy_of_a_copy_is_unknown_where_a_memory_states_none() -> None:
    silent = replace(CHIP, levels=(REGISTER, replace(LOCAL, access=None)), scratchpads=(LOCAL.memory,))
    known = replace(CHIP, levels=(REGISTER, LOCAL), scratchpads=(LOCAL.memory,))
    cost, same = (CopyPrices(chip).of(1, DRAM, "local", is_parameter=False) for chip in (silent, known))
    assert cost == replace(same, stated_energy_fj=None, access_pj={DRAM: same.access_pj[DRAM]})
    with pytest.raises(AcceleratorError, match="does not state all energies"):
        _ = cost.energy_fj


@pytest.mark.parametrize("way", list(permutations(["local", "weights", "shared", DRAM], 2)))
@pytest.mark.parametrize("is_parameter", [False, True])
def test_a_copy_costs_as_much_as_its_hops_one_by_one(way: tuple[str, str], is_parameter: bool) -> None:
    cost = PRICES.of(16, *way, is_parameter=is_parameter)
    hops = [PRICES.of(16, *hop, is_parameter=is_parameter) for hop in pairwise(cost.memories)]
    assert cost.energy_fj == sum(hop.energy_fj for hop in hops)
    assert cost.cycles == max(hop.cycles for hop in hops)


def test_an_operator_without_a_nest_reads_and_writes_once_where_its_operands_are() -> None:
    operands = [
        OperandAtHome(Operand.INPUT, 80, 40, "shared"),
        OperandAtHome(Operand.INPUT, 24, 8, None),
        OperandAtHome(Operand.WEIGHT, 9, 9, None),
        OperandAtHome(Operand.OUTPUT, 80, 40, "shared"),
    ]
    cost = cost_without_nest(operands, CHIP)
    assert cost.access_pj == {
        ("shared", "input"): 20,
        (DRAM, "input"): 3 * 700 / 8,
        (DRAM, "weight"): 2 * 700 / 8,
        ("shared", "output"): 24,
    }
    assert cost.energy_fj == 20_000 + 262_500 + 175_000 + 24_000
    assert cost.cycles == max(3 + 5, 2)  # `shared`: 80 bits at 32, 80 at 16; DRAM: 33 bits at 24
    assert (cost.dram_read_bits, cost.dram_written_bits) == (33, 0)
    assert cost.workspace_bytes == {"shared": 1, "weights": 2}


def test_rows_of_one_memory_share_its_last_byte() -> None:
    rows = [OperandAtHome(Operand.INPUT, 12, 4, None), OperandAtHome(Operand.OUTPUT, 12, 5, None)]
    assert cost_without_nest(rows, CHIP).workspace_bytes == {"shared": 2}
    no_maps = replace(CHIP, levels=(WEIGHTS,), scratchpads=(WEIGHTS.memory,))
    assert cost_without_nest(rows, no_maps).workspace_bytes == {}


def test_rows_that_are_larger_than_their_memory_pass_through_it_in_pieces() -> None:
    capacity = next(one.memory.capacity_bytes for one in CHIP.levels if one.memory.name == "shared")
    rows = [OperandAtHome(Operand.INPUT, 80 * capacity, bits, None) for bits in (8 * capacity, 1)]
    assert cost_without_nest(rows[:1], CHIP).workspace_bytes == {"shared": capacity}
    assert cost_without_nest(rows, CHIP).workspace_bytes == {"shared": capacity}
    assert cost_without_nest(rows, CHIP).dram_read_bits == 160 * capacity


def test_of_several_nests_costs_add_up_and_the_greatest_workspace_counts() -> None:
    nests = [
        NestCost(0.0004, 7, 8, 0, {"local": 3, "shared": 1}, 0.0002, {("local", "input"): 0.0002}),
        NestCost(0.0004, 5, 3, 9, {"local": 2, "weights": 4}, 0.0, {("local", "input"): 0.0004}),
    ]
    cost = cost_of_nests(nests)
    assert (cost.energy_fj, cost.cycles, cost.dram_read_bits, cost.dram_written_bits) == (1, 12, 11, 9)
    assert cost.workspace_bytes == {"local": 3, "shared": 1, "weights": 4}
    assert cost.access_pj == pytest.approx({("local", "input"): 0.0006})


def test_a_negative_figure_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 0"):
        ComputeCost(0, -1, 0, 0, {})


def test_all_bands_of_a_tensor_are_one_operand() -> None:
    tensors = (
        Tensor("x[0]", 5, Role.INPUT, (1, 5), 8, part_of="x", region=((0, 1), (0, 5))),
        Tensor("x[1]", 3, Role.INPUT, (1, 3), 8, part_of="x", region=((0, 1), (5, 8))),
        Tensor("b", 2, Role.PARAMETER),
        Tensor("y", 4, Role.OUTPUT, (2, 4), 4),
    )
    operator = Operator("scale", "Softmax", ("x[1]", "x[0]", "x[1]"), ("y",), ("b",))
    found = operands_of(Graph("bands", tensors, (operator,)), operator)
    assert found == (
        BandedOperand(Operand.INPUT, (tensors[1], tensors[0])),
        BandedOperand(Operand.WEIGHT, (tensors[2],)),
        BandedOperand(Operand.OUTPUT, (tensors[3],)),
    )
    assert [one.bits for one in found] == [64, 16, 32]
    assert [one.row_bits for one in found] == [24, 16, 16]
