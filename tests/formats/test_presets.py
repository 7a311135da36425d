"""Bundled accelerators have the figures of their sources."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import NamedTuple

import pytest

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access, Direction, Operand, Port
from onchip.formats.own.accelerator_yaml import (
    accelerator_from_yaml,
    accelerator_to_yaml,
    bundled_accelerators,
    load_accelerator,
)

KIB = 1024


class Facts(NamedTuple):
    """Figures of a source; `dram_gb_per_second` is exact to a bit a cycle."""

    source: str
    scratchpads: tuple[tuple[str, int], ...]
    alignment_bytes: int
    macs: int
    clock_mhz: float
    dram_gb_per_second: float


FACTS = {
    "nvdla-like": Facts(
        "arXiv 1912.04481",
        (("input_0", 128 * KIB), ("input_1", 128 * KIB), ("output", 128 * KIB)),
        1,
        8 * 32,
        1000,
        25.6,
    ),
    "ethos-u55-like": Facts("vela.ini", (("sram", 384 * KIB),), 16, 128, 500, 0.5),
    "ethos-u65-like": Facts("vela.ini", (("sram", 393_216),), 16, 512, 1000, 3.75),
    "tpu-like": Facts("arXiv 1704.04760", (("unified_buffer", 24 * KIB * KIB),), 256, 65_536, 700, 34),
    "hifi4-like": Facts("imx_dsp_rproc.c", (("dram0", 0x8000), ("dram1", 0x8000)), 8, 4, 800, 3.2),
    "cortex-m4-like": Facts("DS8626", (("sram", 128 * KIB),), 16, 2, 168, 0.441),
    "cortex-m7-like": Facts("RM0433", (("dtcm", 128 * KIB), ("axi_sram", 512 * KIB)), 16, 2, 400, 0.4),
}
DEFINES = {
    "meta-prototype": ({"K": 32, "C": 2, "OX": 4, "OY": 4}, (1, 2, 64 * KIB, KIB * KIB, 32 * KIB, KIB * KIB)),
    "meta-prototype-df": ({"K": 32, "C": 2, "OX": 4, "OY": 4}, (1, 2, 32 * KIB, 64 * KIB, KIB * KIB, KIB * KIB)),
    "tpu-like-defines": ({"K": 32, "C": 32}, (128, 2, 2 * KIB * KIB)),
    "tpu-like-df": ({"K": 32, "C": 32}, (64, 2, 64 * KIB, KIB * KIB, KIB * KIB)),
    "edge-tpu-like": ({"K": 8, "C": 8, "OX": 4, "OY": 4}, (1, 2, 32 * KIB, 2 * KIB * KIB)),
    "edge-tpu-like-df": ({"K": 8, "C": 8, "OX": 4, "OY": 4}, (1, 2, 16 * KIB, KIB * KIB, 16 * KIB, KIB * KIB)),
    "ascend-like": ({"K": 16, "C": 16, "OX": 2, "OY": 2}, (1, 2, 8 * KIB, 8 * KIB, 256 * KIB, KIB * KIB, KIB * KIB)),
    "ascend-like-df": ({"K": 16, "C": 16, "OX": 2, "OY": 2}, (1, 2, 8 * KIB, 8 * KIB, 256 * KIB, KIB * KIB, KIB * KIB)),
    "tesla-npu-like": ({"K": 32, "OX": 8, "OY": 4}, (1, 4, KIB, KIB, KIB * KIB, KIB * KIB)),
    "tesla-npu-like-df": ({"K": 32, "OX": 8, "OY": 4}, (1, 4, KIB, KIB, 128 * KIB, 128 * KIB, KIB * KIB, 896 * KIB)),
}
"""Arrays and memory sizes in bytes of DeFiNES, commit 7097d60, from the MACs up, in the order of its files."""
ENERGIES = {
    KIB * KIB: {(1024, 208.08, 189.2), (4096, 465.6, 825.6)},
    2 * KIB * KIB: {(2048, 416.16, 378.4)},
    896 * KIB: {(896, 182.07, 189.2)},
    128 * KIB: {(1024, 34.4, 56.56)},
    64 * KIB: {(512, 26.56, 30.8), (2048, 36.96, 94.88)},
    1: {(8, 0.01, 0.01)},
    4: {(16, 0.022, 0.022)},
}
"""Map from memory size in bytes to access width in bits, read energy and write energy in pJ, in DeFiNES."""
SIMBAS = {"simba": 128 * KIB, "simba-64-pes": 128 * KIB, "simba-large-buffers": KIB * KIB, "simba-cosa": 64 * KIB}
HOLDS_NOT_ALL = {
    "nvdla-like": {
        "input_0": {Operand.INPUT, Operand.WEIGHT},
        "input_1": {Operand.INPUT, Operand.WEIGHT},
        "output": {Operand.OUTPUT},
    },
    "tpu-like": {
        "accumulators": {Operand.OUTPUT},
        "weight_fifo": {Operand.WEIGHT},
        "unified_buffer": {Operand.INPUT, Operand.OUTPUT},
    },
}


def preset_text(name: str) -> str:
    return files("onchip.arch").joinpath("presets", f"{name}.yaml").read_text(encoding="utf-8")


def bits_per_cycle(ports: tuple[Port, ...], direction: Direction) -> int:
    return sum(port.bits_per_cycle for port in ports if port.direction in (direction, Direction.READ_WRITE))


def test_depfin_is_as_its_authors_describe_it() -> None:
    chip = load_accelerator("depfin")
    assert chip.array is not None
    assert chip.array.sizes == {"OX": 128, "K": 16}
    assert [level.memory.capacity_bytes for level in chip.levels] == [1, 1, 2, 512 * KIB, KIB * KIB]
    assert [level.ports[0].bits_per_cycle for level in chip.levels] == [8, 8, 16, 128, 1024]
    teraoperations_per_second = 2 * chip.array.macs * (chip.clock_mhz or 0) / 1e6
    assert teraoperations_per_second == pytest.approx(3.8, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "multiprocessors", "teraflops", "gigabytes_per_second", "l2_bytes"),
    [("h100-like", 132, 66.9, 3350, 50_000_000), ("k80-like", 13, 2.806, 240, 1536 * KIB)],
)
def test_a_gpu_has_the_figures_of_its_maker(
    name: str, multiprocessors: int, teraflops: float, gigabytes_per_second: float, l2_bytes: int
) -> None:
    gpu = load_accelerator(name)
    assert gpu.array is not None
    assert gpu.dram is not None
    assert gpu.clock_mhz is not None
    threads = gpu.array.sizes["thread"]
    assert gpu.array.sizes == {"thread": threads, "block": multiprocessors}
    assert 2 * gpu.array.macs * gpu.clock_mhz / 1e6 == pytest.approx(teraflops, rel=1e-3)
    assert bits_per_cycle(gpu.dram.ports, Direction.READ) * gpu.clock_mhz / 8e3 == pytest.approx(
        gigabytes_per_second, rel=1e-3
    )
    registers, shared, l2 = (level.memory.capacity_bytes for level in gpu.levels)
    assert (shared, l2) == (48 * KIB, l2_bytes)
    assert registers // 4 < min(255, 65_536 // threads)


def test_the_bundled_accelerators_are_listed() -> None:
    of_paper = {"ascend-like-paper", "ascend-like-df-paper", "tesla-npu-like-df-paper"}
    assert set(bundled_accelerators()) == {
        *FACTS,
        *DEFINES,
        *SIMBAS,
        *of_paper,
        "depfin",
        "eyeriss-like",
        "h100-like",
        "k80-like",
        "soma-edge",
        "single-2mib",
    }


@pytest.mark.parametrize("name", DEFINES)
def test_an_architecture_of_defines_has_its_array_memories_and_energies(name: str) -> None:
    accelerator, (dimensions, capacities) = load_accelerator(name), DEFINES[name]
    assert accelerator.array is not None
    assert (accelerator.array.dimensions, accelerator.array.mac_energy_pj) == (dimensions, 0.04)
    assert tuple(level.memory.capacity_bytes for level in accelerator.levels) == capacities
    for level in accelerator.levels:
        access, bytes_of_it = level.access, level.memory.capacity_bytes
        assert access is not None
        assert {port.bits_per_cycle for port in level.ports} == {access.access_bits}
        if bytes_of_it in ENERGIES:
            found = access.access_bits, access.read_energy_pj, access.write_energy_pj
            assert found in ENERGIES[bytes_of_it], level.memory.name
    assert accelerator.dram is not None
    assert accelerator.dram.access == Access(64, 700.0, 750.0)
    assert "7097d60" in preset_text(name)
    assert "Ours" in preset_text(name)


@pytest.mark.parametrize("name", SIMBAS)
def test_a_simba_has_one_global_buffer(name: str) -> None:
    accelerator = load_accelerator(name)
    assert [memory.capacity_bytes for memory in accelerator.scratchpads] == [SIMBAS[name]]
    assert accelerator.array is not None
    assert accelerator.array.macs == (64 * 64 if name == "simba-64-pes" else 16 * 64)


@pytest.mark.parametrize("name", FACTS)
def test_a_preset_has_the_figures_of_its_source(name: str) -> None:
    accelerator, facts = load_accelerator(name), FACTS[name]
    assert accelerator.name == name
    assert tuple((memory.name, memory.capacity_bytes) for memory in accelerator.scratchpads) == facts.scratchpads
    assert {memory.alignment_bytes for memory in accelerator.scratchpads} == {facts.alignment_bytes}
    assert accelerator.array is not None
    assert accelerator.array.macs == facts.macs
    assert accelerator.clock_mhz == facts.clock_mhz
    assert accelerator.dram is not None
    for direction in (Direction.READ, Direction.WRITE):
        bits = facts.dram_gb_per_second * 8000 / facts.clock_mhz
        assert 0 <= bits - bits_per_cycle(accelerator.dram.ports, direction) < 1


@pytest.mark.parametrize("name", FACTS)
def test_memories_hold_the_operands_their_roles_say(name: str) -> None:
    listed = HOLDS_NOT_ALL.get(name, {})
    for level in load_accelerator(name).levels:
        assert set(level.memory.holds) == listed.get(level.memory.name, set(Operand)), level.memory.name


@pytest.mark.parametrize("name", bundled_accelerators())
def test_a_bundled_accelerator_survives_writing_and_reading(name: str) -> None:
    accelerator = load_accelerator(name)
    assert accelerator_from_yaml(accelerator_to_yaml(accelerator), f"{name}.yaml") == accelerator


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
