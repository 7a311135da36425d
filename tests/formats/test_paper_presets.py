"""DeFiNES's machines with the sizes of its paper if the files differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.arch.accelerator import Accelerator
from onchip.formats.own.accelerator_yaml import load_accelerator

KIB = 1024
CHANGED = {
    "ascend-like": (8 * KIB, {"weight_local_buffer", "input_local_buffer"}),
    "ascend-like-df": (8 * KIB, {"weight_local_buffer", "activation_local_buffer"}),
    "tesla-npu-like-df": (128 * KIB, {"weight_middle_buffer", "activation_middle_buffer"}),
}
"""Sizes in the files for the memories that have 64 KB in Table I(a) of the paper."""


def resized(accelerator: Accelerator, names: set[str], capacity_bytes: int) -> Accelerator:
    levels = [
        replace(level, memory=replace(level.memory, capacity_bytes=capacity_bytes))
        if level.memory.name in names
        else level
        for level in accelerator.levels
    ]
    return replace(accelerator, levels=tuple(levels))


@pytest.mark.parametrize("name", CHANGED)
def test_a_machine_of_the_paper_differs_from_the_files_in_two_memories(name: str) -> None:
    of_files, of_paper = load_accelerator(name), load_accelerator(f"{name}-paper")
    capacity_bytes, names = CHANGED[name]
    assert {one.memory.capacity_bytes for one in of_files.levels if one.memory.name in names} == {capacity_bytes}
    assert replace(of_paper, name=name) == resized(of_files, names, 64 * KIB)
