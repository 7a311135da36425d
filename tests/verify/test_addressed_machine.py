"""Addressed memories, their possible contents, and transfer costs when an accelerator states little."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError
from onchip.ir.tensor import Role
from onchip.verify.schedule.machine import AddressedMachine
from support.schedule_cases import NEAR_AND_FAR, level, machine, tensor

INPUTS = level("inputs", 64, 1.0, (Operand.INPUT,))
WEIGHTS = level("weights", 64, 1.0, (Operand.WEIGHT,))
OUTPUTS = level("outputs", 64, 1.0, (Operand.OUTPUT,))


@pytest.mark.parametrize(("serves", "is_addressed"), [(None, True), (("lane",), True), ((), False)])
def test_a_memory_is_addressed_where_one_instance_serves_every_dimension(
    serves: tuple[str, ...] | None, is_addressed: bool
) -> None:
    shared = MemoryLevel(Memory("shared", 64), serves)
    found = AddressedMachine(replace(NEAR_AND_FAR, levels=(shared, *NEAR_AND_FAR.levels)))
    assert ("shared" in found.level) is is_addressed
    assert [one.memory.name for one in found.levels][-2:] == ["near", "far"]


def test_without_an_array_every_memory_is_addressed() -> None:
    waiting = replace(WEIGHTS, serves=(), is_scratchpad=False)
    found = AddressedMachine(Accelerator("lonely", (INPUTS.memory,), (INPUTS, waiting)))
    assert list(found.level) == ["inputs", "weights"]


@pytest.mark.parametrize(
    ("role", "memories"),
    [
        (Role.PARAMETER, ["weights"]),
        (Role.INPUT, ["inputs", "outputs"]),
        (Role.ACTIVATION, ["inputs", "outputs"]),
        (Role.OUTPUT, ["inputs", "outputs"]),
    ],
)
def test_weights_lie_where_they_are_held_and_maps_wherever_any_is(role: Role, memories: list[str]) -> None:
    found = AddressedMachine(machine(INPUTS, WEIGHTS, OUTPUTS))
    assert [name for name in found.level if found.may_hold(name, tensor("t", (4,), role))] == memories


def test_without_dram_nothing_is_known_of_it() -> None:
    found = AddressedMachine(replace(NEAR_AND_FAR, dram=None))
    assert found.bits_per_cycle("dram", Direction.READ) is None
    assert found.cycles("dram", Direction.WRITE, 8) == 0
    assert found.energy_fj("dram", Direction.READ, 8) is None


def test_a_memory_without_the_port_that_is_needed_is_refused_only_where_bits_move() -> None:
    found = AddressedMachine(replace(NEAR_AND_FAR, dram=Dram(Access(8, 1.0, 1.0), (Port(Direction.WRITE, 8),))))
    assert found.cycles("dram", Direction.READ, 0) == 0
    assert found.cycles("dram", Direction.WRITE, 9) == 2
    with pytest.raises(AcceleratorError) as error:
        found.cycles("dram", Direction.READ, 1)
    assert (error.value.place, error.value.expected) == ("memory 'dram'", "one")
    assert "can read" in str(error.value)


@pytest.mark.parametrize(
    ("access", "bits", "read_fj", "written_fj"),
    [
        (Access(16, 2.0, 4.0), 1, 2000, 4000),
        (Access(16, 2.0, 4.0), 17, 4000, 8000),
        (Access(16, 2.0, 4.0, 4), 17, 2500, 5000),
        (Access(16, 0.1, 0.3), 16, 100, 300),
    ],
)
def test_bits_move_in_shortest_accesses(access: Access, bits: int, read_fj: int, written_fj: int) -> None:
    levels = tuple(replace(one, access=access) for one in NEAR_AND_FAR.levels)
    found = AddressedMachine(replace(NEAR_AND_FAR, levels=levels))
    assert found.energy_fj("near", Direction.READ, bits) == read_fj
    assert found.energy_fj("near", Direction.WRITE, bits) == written_fj
    silent = AddressedMachine(replace(NEAR_AND_FAR, levels=tuple(replace(one, access=None) for one in levels)))
    assert silent.energy_fj("near", Direction.READ, bits) is None
