"""Lower bounds on port cycles: nests in any mapping without bypass, and operators without a nest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from random import Random

import pytest

from onchip.answer.layer_mapping import MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.bounds.layer.needed import ALL
from onchip.bounds.layer.nest_work import work_of
from onchip.bounds.layer.port_floor import MovedOperand, PortFloors, least_cycles_to_move
from onchip.ir.layer import Layer
from onchip.model.layer.cost import layer_cost
from onchip.model.program.compute_cost import MemoryRates, OperandAtHome, cost_without_nest
from oracles.mapspace import all_mappings, homed_toy, lean_toy, narrow_toy, toy
from support.nest_tiles import holding, machine_of, tiles_of, whole_map
from support.nests import random_layer
from support.ragged_nests import random_ragged_mapping
from support.series import series


def floor_of(layer: Layer, machine: Accelerator, *, weight_is_an_input: bool = False) -> Fraction:
    work = work_of(layer, ALL, whole_map(layer))
    return PortFloors(machine).cycles(layer, work, weight_is_an_input=weight_is_an_input)


@pytest.mark.parametrize("seed", series(range(40), 13))
def test_no_mapping_in_which_every_memory_keeps_is_over_before_its_busiest_port(seed: int) -> None:
    problem = (toy, lean_toy, homed_toy, narrow_toy, lean_toy)[seed % 5](seed)
    floor = floor_of(problem.layer, problem.accelerator, weight_is_an_input=problem.weight_is_an_input)
    for mapping in islice(all_mappings(problem), 0, 1500, Random(seed).randint(5, 40)):
        try:
            assert floor <= layer_cost(problem, mapping).cycles
        except MappingError:
            continue


def cycles_of_some(layer: Layer, machine: Accelerator, random: Random) -> Iterator[float]:
    """Of a layer in ragged mappings with homes here and there."""
    for _ in range(6):
        homes = {operand: random.choice([None, *holding(machine, operand)]) for operand in Operand}
        weight = homes[Operand.WEIGHT] if layer.has_weight else None
        problem = LayerProblem(layer, machine, Homes(homes[Operand.INPUT], weight, homes[Operand.OUTPUT]))
        try:
            yield layer_cost(problem, random_ragged_mapping(random, problem, keeps_all=True)).cycles
        except MappingError:
            continue


@pytest.mark.slow
def test_all_tiles_together_keep_the_busiest_port_of_the_whole() -> None:
    """Each at its fastest among those tried; of some the floor is a quarter or more."""
    compared = tight = 0
    for seed in range(50):
        random, machine = Random(seed), machine_of(seed)
        layer = random_layer(random, 200)
        floor = floor_of(layer, machine)
        fastest = [min(cycles_of_some(tile.layer, machine, random), default=None) for tile in tiles_of(layer, random)]
        if None not in fastest:
            spent = sum(one for one in fastest if one is not None)
            assert floor <= spent
            compared += 1
            tight += floor * 4 >= spent
    assert compared > 15
    assert tight > 5, (tight, compared)


def test_what_passes_the_memory_nearest_the_units_counts_wherever_its_home_is() -> None:
    """Six inputs and a weight are read at eight bits a cycle, outputs written at sixteen."""
    ports = (Port(Direction.READ, 8), Port(Direction.WRITE, 16))
    memory = Memory("sram", 64)
    level = MemoryLevel(memory, is_scratchpad=True, access=Access(8, 1, 1), ports=ports)
    machine = replace(machine_of(0), levels=(level,), scratchpads=(memory,), links=())
    assert floor_of(Layer(q=6), machine) == 6 + 1
    assert floor_of(Layer(k=20), machine) == 1 + 20
    narrow = replace(level, ports=(Port(Direction.READ_WRITE, 8),))
    assert floor_of(Layer(q=6), replace(machine, levels=(narrow,))) == 6 + 1 + 6
    only_inputs = replace(level, memory=replace(memory, holds=(Operand.INPUT,)), ports=ports)
    dram = Dram(Access(8, 1, 1), (Port(Direction.READ_WRITE, 4),))
    elsewhere = replace(machine, levels=(only_inputs,), scratchpads=(only_inputs.memory,), dram=dram)
    assert floor_of(Layer(q=6), elsewhere) == 2 * (1 + 6)


@pytest.mark.parametrize("seed", series(range(60), 20))
def test_no_places_of_the_parts_of_what_is_moved_take_less(seed: int) -> None:
    random = Random(seed)
    rates = [random.choice([(), (Port(Direction.READ, 8), Port(Direction.WRITE, 3)), (Port(Direction.READ_WRITE, 5),)])]
    rates += [(Port(Direction.READ, random.choice((2, 8))), Port(Direction.WRITE, 7)) for _ in range(2)]
    memories = [Memory("near", 999), Memory("far", 999)]
    levels = tuple(
        MemoryLevel(one, is_scratchpad=True, access=Access(8, 1, 1), ports=ports)
        for one, ports in zip(memories, rates[:2], strict=True)
    )
    dram = Dram(Access(8, 1, 1), rates[2])
    machine = replace(machine_of(0), levels=levels, scratchpads=tuple(memories), links=(), dram=dram)
    names = ["near", "far", DRAM]
    kinds = [random.choice((Operand.INPUT, Operand.OUTPUT)) for _ in range(3)]
    tiles = [[random.randint(1, 40) for _ in kinds] for _ in range(3)]
    ways = [Direction.WRITE if kind is Operand.OUTPUT else Direction.READ for kind in kinds]
    totals = [sum(tile[at] for tile in tiles) for at in range(3)]
    moved = [MovedOperand(way, bits, names) for way, bits in zip(ways, totals, strict=True)]
    floor = least_cycles_to_move(MemoryRates(machine), moved)
    for _ in range(60):
        spent = 0
        for tile in tiles:
            homes = [random.choice((None, "near", "far")) for _ in kinds]
            operands = zip(kinds, tile, homes, strict=True)
            spent += cost_without_nest(
                [OperandAtHome(kind, bits, 8, home) for kind, bits, home in operands], machine
            ).cycles
        assert floor <= spent
