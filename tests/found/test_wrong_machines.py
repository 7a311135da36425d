"""Machine and problem files that were once misread or refused are read correctly."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from onchip.arch.memory import Operand
from onchip.formats.foreign_files import load_any_accelerator, read_layers
from onchip.ir.layer import Layer

FILES: Final = Path(__file__).parent / "machines"


def test_a_register_file_of_32_instances_in_each_row_is_read_as_128_blocks() -> None:
    machine = load_any_accelerator(str(FILES / "block-size.arch.yaml"), str(FILES / "block-size.keep.yaml"))
    weights = machine.levels[0]
    assert weights.memory.name == "Weights"
    assert weights.memory.capacity_bytes == 128 * 32
    assert weights.access is not None
    assert weights.access.access_bits == 256


def test_nodes_of_version_0_4_are_read() -> None:
    machine = load_any_accelerator(str(FILES / "nodes.arch.yaml"))
    held = {level.memory.name: (level.memory.capacity_bytes, level.memory.holds) for level in machine.levels}
    assert held == {
        "oreg": (32, (Operand.OUTPUT,)),
        "wreg": (16, (Operand.WEIGHT,)),
        "scratch": (16 * 1024, (Operand.INPUT, Operand.OUTPUT)),
    }
    assert machine.array is not None
    assert machine.array.macs == 16


def test_an_inline_matrix_product_is_read() -> None:
    assert read_layers(FILES / "gemm.yaml") == {"gemm": Layer(n=32, k=16, c=64)}


def test_constraints_may_stand_as_a_list() -> None:
    machine = load_any_accelerator(str(FILES / "block-size.arch.yaml"), str(FILES / "list.keep.yaml"))
    assert machine.levels[-1].memory.holds == (Operand.INPUT, Operand.OUTPUT)
