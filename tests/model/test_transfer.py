"""Costs of transfers, by hand and compared with the timeline and the simulator's energy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Objective, Problem, Rate
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Dma, Dram, Link, Memory, MemoryLevel, Port
from onchip.errors import AcceleratorError
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.recomputation import transfers_of
from onchip.model.timeline.plan_timeline import Links, accesses

TWO_WAYS = (Port(Direction.READ, 32), Port(Direction.WRITE, 16))
CHIP = Accelerator(
    "chip",
    (Memory("near", 64), Memory("far", 64)),
    (
        MemoryLevel(Memory("near", 64), is_scratchpad=True, access=Access(64, 1.0, 2.0), ports=TWO_WAYS),
        MemoryLevel(Memory("register", 1)),
        MemoryLevel(Memory("far", 64), is_scratchpad=True, access=Access(32, 0.0004, 3.0, shortest_access_bits=8)),
    ),
    dram=Dram(Access(64, 700, 750), (Port(Direction.READ_WRITE, 24),)),
    dma=Dma(setup_cycles=5),
    links=(Link("near", "far", 8), Link("far", "near")),
)


@pytest.mark.parametrize("objective", [Objective.TRAFFIC, Objective.PEAK])
def test_where_bytes_count_there_are_links_and_no_rates(objective: Objective) -> None:
    bare = replace(CHIP, levels=(), dram=None, dma=None)
    for accelerator in (CHIP, bare):
        transfers = transfers_of(accelerator, objective)
        assert transfers.links == (("near", "far"), ("far", "near"))
        assert transfers.rates == {}


def test_the_slowest_part_of_a_way_says_how_many_cycles() -> None:
    """near sends 32 bits and takes 16, DRAM 24, its link out 8; far keeps up with all."""
    assert transfers_of(CHIP, Objective.DMA_CYCLES).rates == {
        (DRAM, "near"): Rate(5, ((16, 1),)),
        (DRAM, "far"): Rate(5, ((24, 1),)),
        ("near", DRAM): Rate(5, ((24, 1),)),
        ("far", DRAM): Rate(5, ((24, 1),)),
        ("near", "far"): Rate(5, ((8, 1),)),
        ("far", "near"): Rate(5, ((16, 1),)),
    }


def test_without_a_dma_there_is_no_set_up() -> None:
    rates = transfers_of(replace(CHIP, dma=None), Objective.DMA_CYCLES).rates
    assert {rate.setup for rate in rates.values()} == {0}


def test_energy_is_that_of_the_shortest_accesses_at_both_ends() -> None:
    """The shortest access of far is a quarter of one: 0.0001 pJ to read, no whole femtojoule, and 0.75 pJ to write."""
    assert transfers_of(CHIP, Objective.DMA_ENERGY).rates == {
        (DRAM, "near"): Rate(0, ((64, 700_000), (64, 2000))),
        (DRAM, "far"): Rate(0, ((64, 700_000), (8, 750))),
        ("near", DRAM): Rate(0, ((64, 1000), (64, 750_000))),
        ("far", DRAM): Rate(0, ((8, 0), (64, 750_000))),
        ("near", "far"): Rate(0, ((64, 1000), (8, 750))),
        ("far", "near"): Rate(0, ((8, 0), (64, 2000))),
    }


@settings(max_examples=100, deadline=None)
@given(st.sampled_from((1, 2, 8)), st.integers(1, 64), st.floats(0, 1e4), st.floats(0, 1e4), st.integers(1, 10**6))
def test_energy_is_the_simulators_to_half_a_femtojoule_an_access(
    share: int, shortest: int, read_pj: float, write_pj: float, size_bytes: int
) -> None:
    access = Access(shortest * share, read_pj, write_pj, shortest)
    level = MemoryLevel(Memory("near", 64), is_scratchpad=True, access=access)
    chip = Accelerator("chip", (level.memory,), (level,), dram=Dram(Access(8, 0, 0)))
    rates = transfers_of(chip, Objective.DMA_ENERGY).rates
    rounding = 0.5 * -(-size_bytes * 8 // shortest) + 1
    for ends, energy_pj in (((DRAM, "near"), write_pj), (("near", DRAM), read_pj)):
        exact = 1000 * energy_pj * accesses(access, size_bytes)
        assert rates[ends].cost(size_bytes) == pytest.approx(exact, rel=1e-9, abs=rounding)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**6))
def test_cycles_are_those_of_the_timeline(size_bytes: int) -> None:
    x = Tensor("x", size_bytes, Role.INPUT)
    transfers = transfers_of(CHIP, Objective.DMA_CYCLES)
    problem = Problem(Graph("one", (x,), ()), CHIP.scratchpads, Objective.DMA_CYCLES, transfers=transfers)
    links = Links(problem, CHIP)
    for source, target in transfers.rates:
        cycles = links.dma.setup_cycles + links.cycles(size_bytes, source, target)
        assert problem.transfer_cost(x, source, target) == cycles


def without_ports(**levels: tuple[Port, ...]) -> tuple[MemoryLevel, ...]:
    return tuple(replace(level, ports=levels.get(level.memory.name, ())) for level in CHIP.levels)


READ_ONLY = (Port(Direction.READ, 8),)


@pytest.mark.parametrize(
    ("accelerator", "message"),
    [
        (replace(CHIP, dram=None), "accelerator 'chip': its DRAM has no port to read, so nothing can be timed on it"),
        (replace(CHIP, dram=Dram(ports=READ_ONLY)), "its DRAM has no port to write"),
        (replace(CHIP, levels=without_ports(far=READ_ONLY)), "no port leads from 'dram' to 'far'"),
        (replace(CHIP, levels=without_ports()), "link from 'far' to 'near': nothing says how many bits per cycle"),
    ],
)
def test_an_accelerator_that_does_not_say_how_fast_is_refused(accelerator: Accelerator, message: str) -> None:
    with pytest.raises(AcceleratorError) as raised:
        transfers_of(accelerator, Objective.DMA_CYCLES)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("accelerator", "message"),
    [
        (replace(CHIP, dram=None), "accelerator 'chip' does not say what its DRAM's accesses cost"),
        (replace(CHIP, dram=Dram()), "does not say what its DRAM's accesses cost"),
        (
            replace(CHIP, levels=(*CHIP.levels[:2], replace(CHIP.levels[2], access=None))),
            "accelerator 'chip' does not say what accesses to memory 'far' cost",
        ),
    ],
)
def test_an_accelerator_that_does_not_say_what_an_access_costs_is_refused(
    accelerator: Accelerator, message: str
) -> None:
    with pytest.raises(AcceleratorError) as raised:
        transfers_of(accelerator, Objective.DMA_ENERGY)
    assert message in str(raised.value)


def test_where_no_link_leads_nothing_moves() -> None:
    with pytest.raises(AcceleratorError, match="no link leads from 'near' to 'far'"):
        replace(CHIP, links=()).bits_per_cycle("near", "far")
