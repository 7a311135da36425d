"""Floors of loop nests in a schedule: energy, port cycles, and both together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import islice, pairwise, product
from random import Random

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.bounds.layer.needed import ALL, NeededPixels
from onchip.bounds.layer.nest_floor import FeedingFloors, NestOrigins
from onchip.bounds.layer.nest_work import NestWork, work_of
from onchip.bounds.layer.port_floor import MovedOperand, PortFloors, least_cycles_to_move
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.ir.tensor import Role, Tensor
from onchip.model.layer.cost import LayerCost, layer_cost
from onchip.model.program.compute_cost import MemoryRates, OperandAtHome, cost_without_nest
from oracles.mapspace import all_mappings, homed_toy, lean_toy, narrow_toy, toy
from support.nest_tiles import costed, energy_of, holding, least_bit_pj, machine_of, tile_of, tiles_of, whole_map
from support.nests import random_layer
from support.ragged_nests import random_ragged_mapping
from support.series import in_one_test, series

ROUNDED = 1 + 1e-9
SEEDS = in_one_test("seed", range(50))


def elements_seen(layer: Layer) -> tuple[int, int]:
    """Count, one by one, the multiply-accumulates that read no padded zero, and the distinct input elements read."""
    pairs, seen = 0, set()
    height, width = layer.axes
    for p, q, r, s in product(range(layer.p), range(layer.q), range(layer.r), range(layer.s)):
        row = p * height.stride + r * height.dilation - height.padding
        column = q * width.stride + s * width.dilation - width.padding
        if 0 <= row < height.size and 0 <= column < width.size:
            pairs += 1
            seen.add((row, column))
    return pairs * layer.n * layer.g * layer.k * layer.c, len(seen) * layer.n * layer.g * layer.c


@SEEDS
def test_work_is_counted_as_one_by_one(seed: int) -> None:
    layer = random_layer(Random(seed), 300)
    work = work_of(layer, ALL, whole_map(layer))
    assert (work.macs_with_input, work.inputs) == elements_seen(layer)
    assert (work.macs, work.weights) == (layer.macs, layer.elements("weight"))
    assert work.outputs == layer.elements("output")
    if layer.has_weight:
        assert work.weights * work.uses_of_weight == work.macs


@SEEDS
def test_the_work_of_some_pixels_is_that_of_the_tiles_that_they_are(seed: int) -> None:
    random = Random(seed)
    layer = random_layer(random, 300)
    rows, columns = (frozenset(random.sample(range(size), random.randint(1, size))) for size in (layer.p, layer.q))
    found = work_of(layer, NeededPixels(rows, columns), whole_map(layer))
    try:
        tiles = [tile_of(layer, (p, p + 1), (q, q + 1)) for p, q in product(rows, columns)]
    except InputError:  # a pixel of nothing but zeros
        return
    every = [work_of(tile.layer, ALL, whole_map(tile.layer)) for tile in tiles]
    assert found.macs == sum(one.macs for one in every)
    assert found.macs_with_input == sum(one.macs_with_input for one in every)
    assert found.outputs == sum(one.outputs for one in every)


def test_where_pixels_are_groups_a_share_of_them_is_needed() -> None:
    layer, output = Layer(g=2 * 4 * 6), Tensor.of_shape("y", (1, 2, 4, 6), 8, Role.ACTIVATION)
    assert work_of(layer, NeededPixels(frozenset((0, 2)), None), output) == NestWork(
        24, 24, 24, 24, 24, 1, 1, ((1, 24),)
    )
    smaller = Layer(n=24, g=2)
    assert work_of(smaller, NeededPixels(frozenset((0, 2)), None), output) == NestWork(
        24, 24, 24, 2, 24, 1, 12, ((1, 24),)
    )
    assert work_of(layer, NeededPixels(frozenset(), None), output) == NestWork(0, 0, 0, 0, 0, 1, 1, ((1, 0),))


IN_DRAM = NestOrigins(True, True, weight_is_an_input=False, output_leaves=True)
ON_THE_WAY = NestOrigins(False, False, weight_is_an_input=False, output_leaves=False)


@SEEDS
def test_feeding_costs_at_least_its_floor_in_all_tiles_together(seed: int) -> None:
    """The floor holds wherever operands come from: `ON_THE_WAY` leaves their origin open."""
    random = Random(seed)
    layer = random_layer(random, 200)
    machine = machine_of(seed)
    floor = FeedingFloors(machine).of(layer, work_of(layer, ALL, whole_map(layer)), ON_THE_WAY)
    least = dict.fromkeys(Operand, 0.0)
    cycles = 0.0
    for tile in tiles_of(layer, random):
        costs = [cost for _, cost in costed(tile.layer, machine, random)]
        if not costs:
            return
        for operand in Operand:
            least[operand] += min(energy_of(cost, operand) for cost in costs)
        cycles += min(cost.cycles for cost in costs)
    assert floor.input_pj <= least[Operand.INPUT] * ROUNDED
    assert floor.weight_pj <= least[Operand.WEIGHT] * ROUNDED
    assert floor.output_pj <= least[Operand.OUTPUT] * ROUNDED
    assert layer.macs <= cycles * floor.units * ROUNDED


@SEEDS
def test_what_only_dram_has_costs_a_read_of_each_element_and_its_floor(seed: int) -> None:
    """Some tiles read it there themselves, others find it on the chip, where it was loaded once for all of them."""
    random = Random(seed)
    layer = random_layer(random, 200)
    machine = machine_of(seed)
    work = work_of(layer, ALL, whole_map(layer))
    floor = FeedingFloors(machine).of(layer, work, IN_DRAM)
    elements = {Operand.INPUT: work.inputs, Operand.WEIGHT: work.weights}
    floors = {Operand.INPUT: floor.input_pj, Operand.WEIGHT: floor.weight_pj}
    for operand, count in elements.items():
        bits = count * layer.bits(operand)
        spent, loaded = 0.0, set[str]()
        for tile in tiles_of(layer, random):
            costs = costed(tile.layer, machine, random)
            found = [(energy_of(cost, operand), problem.home(operand)) for problem, cost in costs]
            if not found:
                return
            energy, home = random.choice((min(found), random.choice(found)))
            spent += energy
            loaded.add(home)
        for home in loaded - {DRAM}:
            spent += bits * least_bit_pj(machine, DRAM, is_written=False)
            spent += bits * least_bit_pj(machine, home, is_written=True)
        assert floors[operand] + bits * least_bit_pj(machine, DRAM, is_written=False) <= spent * ROUNDED


@SEEDS
def test_what_leaves_costs_a_write_of_each_element_and_its_floor(seed: int) -> None:
    random = Random(seed)
    layer = random_layer(random, 200)
    machine = machine_of(seed)
    floor = FeedingFloors(machine).of(layer, work_of(layer, ALL, whole_map(layer)), IN_DRAM)
    spent = 0.0
    for tile in tiles_of(layer, random):
        energies = []
        for problem, cost in costed(tile.layer, machine, random):
            energies.append(energy_of(cost, Operand.OUTPUT))
            home = problem.home(Operand.OUTPUT)
            if home != DRAM:
                bits = tile.layer.elements("output") * layer.output_bits
                energies[-1] += bits * least_bit_pj(machine, home, is_written=False)
                energies[-1] += bits * least_bit_pj(machine, DRAM, is_written=True)
        if not energies:
            return
        spent += min(energies)
    assert floor.output_pj <= spent * ROUNDED


def costs_in_the_mapspace(seed: int) -> Iterator[tuple[LayerProblem, LayerCost]]:
    """Yield costs of mappings of tiny layers: memories keep all their operands, and some operands have homes there."""
    problem = (toy, lean_toy, homed_toy, narrow_toy, narrow_toy)[seed % 5](seed)
    for mapping in islice(all_mappings(problem), 0, 1500, Random(seed).randint(5, 40)):
        try:
            yield problem, layer_cost(problem, mapping)
        except MappingError:
            continue


@pytest.mark.parametrize("seed", series(range(40), 13))
def test_no_mapping_in_which_every_memory_keeps_what_it_holds_costs_less(seed: int) -> None:
    for problem, cost in costs_in_the_mapspace(seed):
        layer, machine = problem.layer, problem.accelerator
        work = work_of(layer, ALL, whole_map(layer))
        for keeps in (False, True):
            floor = FeedingFloors(machine, keeps).of(layer, work, ON_THE_WAY)
            alone_pj = floor.mac_pj + floor.input_pj + floor.weight_pj + floor.output_pj
            assert alone_pj + floor.unrolling_pj <= cost.energy_pj * ROUNDED


def copied_pj(problem: LayerProblem, operand: Operand) -> float:
    """Return the energy per bit of copying an operand from DRAM to its home, or back for an output."""
    machine, home = problem.accelerator, problem.home(operand)
    if home == DRAM:
        return 0.0
    kinds = {Operand.WEIGHT} if operand is Operand.WEIGHT else {Operand.INPUT, Operand.OUTPUT}
    names = [one.memory.name for one in machine.addressed]
    above = [one for one in machine.addressed[names.index(home) + 1 :] if kinds & set(one.memory.holds)]
    way = [home, *(one.memory.name for one in above), DRAM]
    lower, upper = operand is not Operand.OUTPUT, operand is Operand.OUTPUT
    return sum(
        least_bit_pj(machine, a, is_written=lower) + least_bit_pj(machine, b, is_written=upper)
        for a, b in pairwise(way)
    )


@pytest.mark.parametrize("seed", series(range(40), 13))
def test_from_dram_to_dram_none_costs_less_with_its_copies(seed: int) -> None:
    for problem, cost in costs_in_the_mapspace(seed):
        layer, machine = problem.layer, problem.accelerator
        work = work_of(layer, ALL, whole_map(layer))
        counts = {Operand.INPUT: work.inputs, Operand.WEIGHT: work.weights, Operand.OUTPUT: work.outputs}
        read_pj = least_bit_pj(machine, DRAM, is_written=False)
        for keeps in (False, True):
            floor = FeedingFloors(machine, keeps).of(layer, work, IN_DRAM)
            floors = {Operand.INPUT: floor.input_pj, Operand.WEIGHT: floor.weight_pj, Operand.OUTPUT: floor.output_pj}
            for operand, count in counts.items():
                bits = count * layer.bits(operand)
                once_pj = 0.0 if operand is Operand.OUTPUT else bits * read_pj
                spent = energy_of(cost, operand) + bits * copied_pj(problem, operand)
                assert floors[operand] + once_pj <= spent * ROUNDED, (operand, keeps)


def test_floors_are_not_nothing() -> None:
    """Floors of 0 would make the comparisons above vacuous; most of these layers have floors above 0."""
    counts = dict.fromkeys(("input", "weight", "output", "input in dram", "weight in dram"), 0)
    for seed in range(100):
        layer, machine = random_layer(Random(seed), 300), machine_of(seed)
        work = work_of(layer, ALL, whole_map(layer))
        on_the_way, in_dram = (FeedingFloors(machine).of(layer, work, one) for one in (ON_THE_WAY, IN_DRAM))
        counts["input"] += on_the_way.input_pj > 0
        counts["weight"] += on_the_way.weight_pj > 0
        counts["output"] += on_the_way.output_pj > 0
        counts["input in dram"] += in_dram.input_pj > 0
        counts["weight in dram"] += in_dram.weight_pj > 0
    assert min(counts["input"], counts["weight"], counts["output"]) > 80, counts
    assert min(counts.values()) > 20, counts


SPREAD = Accelerator(
    "spread",
    (Memory("sram", 64),),
    (MemoryLevel(Memory("sram", 64), is_scratchpad=True, access=Access(8, 1, 1)),),
    None,
    ComputeArray({"lane": 4}, None, 0.5),
    Dram(Access(8, 10, 11)),
)


@pytest.mark.parametrize(("operand", "layer", "loop"), [("input", Layer(k=4), "K"), ("weight", Layer(q=4), "Q")])
def test_one_read_of_dram_may_serve_all_units_and_be_all_that_an_element_costs(
    operand: str, layer: Layer, loop: str
) -> None:
    """The floor of an operand in DRAM alone is therefore 0 if all its uses are spatial."""
    mapping = LayerMapping((Loop(loop, 4, "lane"),))
    floor = FeedingFloors(SPREAD).of(layer, work_of(layer, ALL, whole_map(layer)), IN_DRAM)
    assert energy_of(layer_cost(LayerProblem(layer, SPREAD), mapping), Operand(operand)) == 10
    assert {"input": floor.input_pj, "weight": floor.weight_pj}[operand] == 0


@pytest.mark.parametrize(("operand", "layer", "loop"), [("input", Layer(k=12), "K"), ("weight", Layer(q=12), "Q")])
def test_further_uses_are_fed_from_somewhere(operand: str, layer: Layer, loop: str) -> None:
    """Three turns of four units: two more DRAM reads cost 20 pJ; from `sram`, each read for four units costs 1 pJ."""
    nest = (Loop(loop, 4, "lane"), Loop(loop, 3))
    above = (Kept("sram", 2),)
    kept = LayerMapping(nest, input=above) if operand == "input" else LayerMapping(nest, weight=above)
    floor = FeedingFloors(SPREAD).of(layer, work_of(layer, ALL, whole_map(layer)), IN_DRAM)
    assert energy_of(layer_cost(LayerProblem(layer, SPREAD), LayerMapping(nest)), Operand(operand)) == 30
    assert energy_of(layer_cost(LayerProblem(layer, SPREAD), kept), Operand(operand)) == 10 + 1 + 3
    assert {"input": floor.input_pj, "weight": floor.weight_pj}[operand] == {"input": 2, "weight": 3}[operand]


def test_a_sum_that_stays_near_the_units_is_written_once_and_goes_home() -> None:
    layer = Layer(c=4, partial_bits=8)
    floor = FeedingFloors(SPREAD).of(layer, work_of(layer, ALL, whole_map(layer)), IN_DRAM)
    at_once = LayerMapping((Loop("C", 4, "lane"),))
    assert energy_of(layer_cost(LayerProblem(layer, SPREAD), at_once), Operand.OUTPUT) == floor.output_pj == 11


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
    """Yield the cycles of a layer in random ragged mappings with random homes."""
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
    """Tiles run in their fastest sampled mapping; the floor reaches a quarter of the total in some cases."""
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
