"""Machine and problem files that were once misread or refused are read right now."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from onchip.formats.foreign_files import load_any_accelerator

FILES: Final = Path(__file__).parent / "machines"


def test_a_register_file_of_32_instances_in_each_row_is_read_as_128_blocks() -> None:
    machine = load_any_accelerator(str(FILES / "block-size.arch.yaml"), str(FILES / "block-size.keep.yaml"))
    weights = machine.levels[0]
    assert weights.memory.name == "Weights"
    assert weights.memory.capacity_bytes == 128 * 32
    assert weights.access is not None
    assert weights.access.access_bits == 256
