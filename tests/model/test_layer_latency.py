"""Cycles of a layer: figures computed by hand, and windows marked cycle by cycle."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.ir.layer import Layer
from onchip.model.layer.cost import Visit, covered_cycles, layer_cost
from support.nests import random_case
from support.series import series

ACCESS = Access(8, 1.0, 1.0)
READ, WRITE, BOTH = Direction.READ, Direction.WRITE, Direction.READ_WRITE


def _machine(*ports: Port, double_buffered: bool = False, dram: tuple[Port, ...] = ()) -> Accelerator:
    memory = Memory("buffer", 1024, holds=tuple(Operand))
    level = MemoryLevel(memory, None, is_scratchpad=True, double_buffered=double_buffered, access=ACCESS, ports=ports)
    return Accelerator(
        "small", (memory,), (level,), array=ComputeArray(free=4, mac_energy_pj=0.0), dram=Dram(ACCESS, dram)
    )


def test_cycles_are_those_of_the_temporal_loops_if_nothing_stalls() -> None:
    latency = layer_cost(
        LayerProblem(Layer(k=6), _machine()), LayerMapping((Loop("K", 3, "free"), Loop("K", 2)))
    ).latency
    assert (latency.ideal, latency.unused, latency.stall, latency.total) == (1.5, 0.5, 0, 2)


def test_units_that_want_more_than_the_port_gives_in_a_cycle_wait() -> None:
    mapping = LayerMapping((Loop("P", 2, "free"), Loop("P", 5)), input=(Kept("buffer", 2),))
    assert layer_cost(LayerProblem(Layer(p=10), _machine(Port(READ, 16), Port(WRITE, 99))), mapping).latency.stall == 0
    assert layer_cost(LayerProblem(Layer(p=10), _machine(Port(READ, 8), Port(WRITE, 99))), mapping).latency.stall == 5


def test_the_first_tile_comes_before_the_loops_and_the_last_sums_leave_after_them() -> None:
    layer, machine = Layer(p=4, c=2), _machine(Port(READ, 16), Port(WRITE, 32), dram=(Port(BOTH, 8),))
    everything = LayerMapping(
        (Loop("P", 4), Loop("C", 2)), (Kept("buffer", 2),), (Kept("buffer", 2),), (Kept("buffer", 2),)
    )
    latency = layer_cost(LayerProblem(layer, machine), everything).latency
    assert latency.preload == 8 + 2  # inputs and weights go through the one port of DRAM, 8 bits a cycle
    assert latency.offload == 6  # four sums of 24 bits are read 16 at a time, while DRAM takes 8 bits of each


def test_with_room_for_two_tiles_the_next_comes_at_any_time_else_when_this_one_is_used_for_the_last_time() -> None:
    nest = (Loop("P", 4), Loop("K", 3), Loop("P", 2))
    mapping = LayerMapping(nest, input=(Kept("buffer", 2),))
    for double_buffered, stall in ((False, 8 - 4), (True, 0)):
        machine = _machine(Port(READ, 99), Port(WRITE, 4), double_buffered=double_buffered)
        assert layer_cost(LayerProblem(Layer(p=8, k=3), machine), mapping).latency.stall == stall


def test_operands_that_share_a_port_wait_for_each_other() -> None:
    mapping = LayerMapping((Loop("P", 4), Loop("P", 2)), (Kept("buffer", 1),), (), (Kept("buffer", 1),))
    shared = layer_cost(LayerProblem(Layer(p=8), _machine(Port(BOTH, 8))), mapping).latency
    apart = layer_cost(
        LayerProblem(Layer(p=8), _machine(Port(READ, 8), Port(READ, 8), Port(WRITE, 8), Port(WRITE, 8))), mapping
    )
    assert apart.latency.stall == 0
    # One input is read and one output written in each cycle; the second inputs come and the first outputs go, 4 each.
    assert shared.stall == 8 + 8 + 4 + 4 - 8


@pytest.mark.parametrize("seed", series(range(300), 100))
def test_wider_ports_are_never_slower_and_no_time_is_below_the_ideal(seed: int) -> None:
    case = random_case(seed)
    narrow = layer_cost(case.problem, case.mapping).latency
    levels = tuple(
        replace(level, ports=tuple(replace(port, bits_per_cycle=2 * port.bits_per_cycle) for port in level.ports))
        for level in case.accelerator.levels
    )
    wide = layer_cost(replace(case.problem, accelerator=replace(case.accelerator, levels=levels)), case.mapping).latency
    assert wide.total <= narrow.total
    assert narrow.unused >= 0
    assert narrow.total == pytest.approx(round(narrow.total))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**6))
def test_covered_cycles_are_those_in_some_window(seed: int) -> None:
    random = Random(seed)
    period, periods = random.choice((2, 3, 4)), []
    for _ in range(random.randint(1, 4)):
        periods.append(period)
        period *= random.choice((1, 2, 3))
    cycles = period
    visits = [Visit("m", 0, "input", 1, length, random.randint(1, length), 1) for length in periods]
    marked = {
        start + cycle
        for visit in visits
        for start in range(0, cycles - visit.period, visit.period)
        for cycle in range(visit.period - visit.window, visit.period)
    }
    random.shuffle(visits)
    assert covered_cycles(visits, cycles) == len(marked)
