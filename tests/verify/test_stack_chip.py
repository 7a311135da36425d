"""Memories of a chip while a stack runs, and cases in which the chip states nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Direction, Operand, Port
from onchip.errors import AcceleratorError
from onchip.verify.stack.chip import ChipInUse, with_groups_along_all
from support.fused import level, machine

BUFFER = level("buffer", 8)
BARE = Accelerator("bare", (BUFFER.memory,), (BUFFER,))
"""A chip that states neither units nor DRAM."""


@pytest.mark.parametrize(
    ("serves", "array", "is_single"),
    [
        (None, ComputeArray({"K": 2, "C": 2}), True),
        (("K", "C"), ComputeArray({"K": 2, "C": 2}), True),
        (("K",), ComputeArray({"K": 2, "C": 2}), False),
        (None, None, True),
        ((), None, True),
    ],
)
def test_an_operand_lies_whole_where_one_instance_serves_all_units(
    serves: tuple[str, ...] | None, array: ComputeArray | None, is_single: bool
) -> None:
    accelerator = replace(BARE, levels=(replace(BUFFER, serves=serves),), array=array)
    places = ChipInUse(accelerator, {}).places(Operand.INPUT)
    assert places == (("buffer", DRAM) if is_single else (DRAM,))


@pytest.mark.parametrize("memory", ["buffer", DRAM])
def test_an_access_may_have_no_price(memory: str) -> None:
    chip = ChipInUse(replace(BARE, levels=(replace(BUFFER, access=None),)), {})
    assert chip.access(memory) is None


def test_a_chip_without_dram_has_no_port_to_it() -> None:
    assert ChipInUse(BARE, {}).port(DRAM, Direction.READ, towards_macs=True) is None


def test_ports_of_which_none_has_a_direction_are_an_error() -> None:
    chip = ChipInUse(machine(level("buffer", 8, ports=(Port(Direction.READ, 64),))), {})
    assert chip.port("buffer", Direction.READ, towards_macs=True) == (0, Port(Direction.READ, 64))
    with pytest.raises(AcceleratorError, match="no port can write"):
        chip.port("buffer", Direction.WRITE, towards_macs=True)


def test_groups_run_along_every_dimension_that_there_is() -> None:
    assert with_groups_along_all(BARE) == BARE
    wider = with_groups_along_all(replace(BARE, array=ComputeArray({"K": 2})))
    assert wider.array is not None
    assert wider.array.unrolls == {"K": ("K", "G")}
