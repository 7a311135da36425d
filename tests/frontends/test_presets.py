"""The bundled accelerators against the figures of their sources."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

import pytest

from onchip.arch.memory import Direction, Operand, Port
from onchip.cost.simple import SimpleCost
from onchip.frontends.accelerator_text import accelerator_to_yaml
from onchip.frontends.accelerator_yaml import (
    accelerator_from_yaml,
    bundled_accelerators,
    load_accelerator,
)
from onchip.frontends.fusion import fuse
from onchip.pipeline import plan_problem
from onchip.plan.problem import Problem
from onchip.simulate.timeline import time_plan
from onchip.workloads.bundled import load_network

KIB = 1024


class Facts(NamedTuple):
    """What a source says; `dram_gb_per_second` within a bit a cycle."""

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
    "ethos-u65-like": Facts("vela.ini", (("sram", 393_216),), 16, 512, 1000, 3.75),
    "tpu-like": Facts("arXiv 1704.04760", (("unified_buffer", 24 * KIB * KIB),), 256, 65_536, 700, 34),
    "hifi4-like": Facts("imx_dsp_rproc.c", (("dram0", 0x8000), ("dram1", 0x8000)), 8, 4, 800, 3.2),
    "cortex-m7-like": Facts("RM0433", (("dtcm", 128 * KIB), ("axi_sram", 512 * KIB)), 16, 2, 400, 0.4),
}
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


def test_the_bundled_accelerators_are_listed() -> None:
    assert set(bundled_accelerators()) == {*FACTS, "meta-prototype-df", "single-2mib"}


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
def test_a_preset_names_its_source_and_what_is_ours(name: str) -> None:
    comment = " ".join(line for line in preset_text(name).splitlines() if line.startswith("#"))
    assert FACTS[name].source in comment
    assert "urs:" in comment


@pytest.mark.parametrize("name", FACTS)
def test_a_preset_without_a_source_for_energies_has_none(name: str) -> None:
    assert "energy" not in preset_text(name)


@pytest.mark.parametrize("name", FACTS)
def test_memories_hold_the_operands_their_roles_say(name: str) -> None:
    listed = HOLDS_NOT_ALL.get(name, {})
    for level in load_accelerator(name).levels:
        assert set(level.memory.holds) == listed.get(level.memory.name, set(Operand)), level.memory.name


@pytest.mark.parametrize("name", bundled_accelerators())
def test_a_bundled_accelerator_survives_writing_and_reading(name: str) -> None:
    accelerator = load_accelerator(name)
    assert accelerator_from_yaml(accelerator_to_yaml(accelerator), f"{name}.yaml") == accelerator


@pytest.mark.parametrize("name", ["ethos-u65-like", "tpu-like"])
def test_a_network_that_fits_is_planned_and_timed(name: str) -> None:
    accelerator = load_accelerator(name)
    problem = Problem(fuse(load_network("lenet5")), accelerator.scratchpads)
    result = plan_problem(problem)
    assert result.answer is not None
    assert accelerator.dram is not None
    cost = SimpleCost(problem.graph, accelerator)
    timing = time_plan(problem, result.answer, accelerator, cost.cycles, cost.macs)
    # Nothing is spilled: the image comes in and the ten classes go out.
    rate = bits_per_cycle(accelerator.dram.ports, Direction.READ)
    assert timing.transfer_cycles == -(-2 * 28 * 28 * 8 // rate) + -(-2 * 10 * 8 // rate)
    assert timing.compute_cycles == sum(map(cost.cycles, problem.graph.operators))
