"""The floor of all operands of a loop nest under one spatial unrolling, against mappings of tiny layers in tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from random import Random

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Dram, Memory, MemoryLevel, Operand
from onchip.bounds.layer.needed import ALL
from onchip.bounds.layer.nest_floor import FeedingFloors, FloorOfNest, NestOrigins
from onchip.bounds.layer.nest_work import work_of
from onchip.ir.layer import Layer
from onchip.model.layer.cost import layer_cost
from oracles.mapspace import homed_toy, lean_toy, narrow_toy, toy
from oracles.wide_mapspace import every_cost
from support.nest_tiles import tiles_of, whole_map
from support.series import series

ON_THE_WAY = NestOrigins(False, False, weight_is_an_input=False, output_leaves=False)
ROUNDED = 1 + 1e-9
TOYS = (toy, lean_toy, homed_toy, narrow_toy)


def floor_of(layer: Layer, machine: Accelerator) -> FloorOfNest:
    """Return the floor for operands that are made on the chip, wherever they lie."""
    return FeedingFloors(machine, every_memory_keeps=True).of(layer, work_of(layer, ALL, whole_map(layer)), ON_THE_WAY)


def least_pj(floor: FloorOfNest) -> float:
    """Return the sum of its parts."""
    return floor.mac_pj + floor.input_pj + floor.weight_pj + floor.output_pj + floor.unrolling_pj


def uneven_mapping(problem: LayerProblem, random: Random) -> LayerMapping:
    """Return a mapping without bypass, whose loops divide their bounds or have remainders."""
    array = problem.accelerator.array or ComputeArray(free=1)
    parts = {name: parts_of(bound, random) for name, bound in problem.layer.bounds.items()}
    names = [name for name, sizes in parts.items() for _ in sizes]
    random.shuffle(names)
    left, sizes = dict(array.sizes), {name: iter(own) for name, own in parts.items()}
    nest = []
    for name in names:
        size = next(sizes[name])
        free = [one for one, units in left.items() if units >= size and name in loops_along(array, one)]
        along = random.choice([None, *free, *free])
        if along is not None:
            left[along] //= size
        nest.append(Loop(name, size, along))
    kept = []
    for operand in Operand:
        memories = [one.memory.name for one in problem.keepers(operand)] if operand in problem.layer.operands else []
        kept.append(tuple(map(Kept, memories, sorted(random.randint(0, len(nest)) for _ in memories))))
    return LayerMapping(tuple(nest), *kept, ragged=tuple(name for name, own in parts.items() if own))


def parts_of(bound: int, random: Random) -> tuple[int, ...]:
    """Return sizes of a dimension's loops, innermost first; the bound needs the outermost loop's last iteration."""
    found, inner = [], 1
    while (left := -(-bound // inner)) > 1:
        found.append(random.randint(2, left))
        inner *= found[-1]
    return tuple(found)


def cut_in_tiles(layer: Layer, random: Random) -> list[Layer]:
    """Cut rows, columns and output channels."""
    cuts = sorted({0, layer.k, random.randint(0, layer.k)})
    channels = [stop - start for start, stop in pairwise(cuts)]
    return [replace(tile.layer, k=k) for tile, k in product(tiles_of(layer, random), channels)]


def least_found_pj(problem: LayerProblem, random: Random, tries: int) -> float | None:
    """Return the least energy of some uneven mappings; None if none of them fits."""
    found = []
    for _ in range(tries):
        try:
            found.append(layer_cost(problem, uneven_mapping(problem, random)).energy_pj)
        except MappingError:
            continue
    return min(found, default=None)


@pytest.mark.parametrize("seed", series(range(200), 20))
def test_tiles_under_uneven_mappings_cost_at_least_the_floor_of_the_whole(seed: int) -> None:
    problem, random = TOYS[seed % len(TOYS)](seed), Random(seed)
    floor = least_pj(floor_of(problem.layer, problem.accelerator))
    spent = 0.0
    for tile in cut_in_tiles(problem.layer, random):
        own = LayerProblem(tile, problem.accelerator, problem.homes, problem.room_bytes)
        least = least_found_pj(own, random, 120)
        if least is None:
            return
        spent += least
    assert floor <= spent * ROUNDED


def small_machine(random: Random) -> Accelerator:
    """Return registers for one weight and some sums, and a buffer; refills, spilled sums and shared inputs are dear."""
    prices = (0.5, 1.0, 4.0, 20.0)

    def level(name: str, holds: tuple[Operand, ...], serves: tuple[str, ...] | None, size: int) -> MemoryLevel:
        access = Access(8, random.choice(prices), random.choice(prices), random.choice((None, 8, 4)))
        return MemoryLevel(Memory(name, size, holds=holds), serves, access=access, is_scratchpad=serves is None)

    levels = (
        level("weights", (Operand.WEIGHT,), random.choice(((), ("lane",))), random.choice((1, 2))),
        level("sums", (Operand.OUTPUT,), random.choice(((), ("lane",), ("pe",))), random.choice((3, 6, 12))),
        level("buffer", tuple(Operand), None, 4096),
    )
    array = ComputeArray({"lane": random.choice((2, 3)), "pe": 2}, None, 0.5)
    return Accelerator("small", (levels[-1].memory,), levels, None, array, Dram(Access(8, 60, 70)))


SHAPES = (
    *(Layer(c=3, q=2), Layer(c=2, q=3), Layer(k=3, c=2), Layer(q=3, s=2), Layer(k=3, q=2), Layer(n=2, c=3)),
    Layer(c=3, s=3),
)
AT_HOME = Homes("buffer", "buffer", "buffer")


def costs_of(layer: Layer, machine: Accelerator) -> Iterator[float]:
    """Yield the energies of all mappings, even or not, of operands that lie in the buffer."""
    return (cost.energy_pj for cost in every_cost(LayerProblem(layer, machine, AT_HOME)))


@pytest.mark.parametrize("seed", series(range(60), 4))
def test_no_mapping_of_a_tiny_layer_costs_less_than_its_floor(seed: int) -> None:
    """Try all mappings, uniform or not, in one tile and in two."""
    random = Random(seed)
    machine, layer = small_machine(random), random.choice(SHAPES)
    floor = least_pj(floor_of(layer, machine))
    assert floor <= min(costs_of(layer, machine)) * ROUNDED
    if layer.q > 1 and layer.s == 1:
        tiles = [replace(layer, q=1), replace(layer, q=layer.q - 1)]
        assert floor <= sum(min(costs_of(tile, machine)) for tile in tiles) * ROUNDED


@pytest.mark.slow
def test_the_floor_of_all_operands_is_above_the_floors_of_each() -> None:
    """Lanes take inputs along K or add up sums along C, not both: the floor is reached by some mapping."""
    gains, reached = 0, 0
    for seed in range(6):
        machine, layer = small_machine(Random(seed)), SHAPES[2 + seed % 3]
        floor = floor_of(layer, machine)
        least = min(costs_of(layer, machine))
        gains += floor.unrolling_pj > 0.05 * least_pj(floor)
        reached += least_pj(floor) > 0.8 * least
    assert gains > 2, gains
    assert reached > 3, reached


LANES = Accelerator(
    "lanes",
    (Memory("buffer", 4096),),
    (
        MemoryLevel(Memory("weight", 1, holds=(Operand.WEIGHT,)), (), access=Access(8, 0.0, 1.0)),
        MemoryLevel(Memory("sums", 12, holds=(Operand.OUTPUT,)), ("lane",), access=Access(24, 3.0, 3.0)),
        MemoryLevel(Memory("buffer", 4096), is_scratchpad=True, access=Access(8, 4.0, 0.0)),
    ),
    None,
    ComputeArray({"lane": 8}, None, 0.0),
    Dram(Access(8, 0.0, 0.0)),
)


def test_lanes_share_inputs_or_add_up_sums() -> None:
    """An input read (4 pJ) serves k of 8 lanes, an update of a sum (6 pJ) 8 / k lanes: 3.5 pJ per MAC at k = 2."""
    layer = Layer(k=64, c=64, q=64)
    joint = floor_of(layer, LANES)
    near_pj = least_pj(joint) - layer.elements("weight") * 4.0 - layer.macs / 4 * 1.0
    assert near_pj >= layer.macs * min(4.0 / k + 6.0 * k / 8 for k in (1, 2, 4, 8)) * 0.99


def test_a_register_of_one_weight_is_refilled_when_sums_have_no_room() -> None:
    """Four sums have room: each weight comes at least once for four outputs, but for the products that begin a sum."""
    layer = Layer(c=64, q=16)
    machine = replace(LANES, array=ComputeArray({"lane": 1}, None, 0.0))
    floor = floor_of(layer, machine)
    fed = layer.macs * 4.0 + (layer.macs * 2 - layer.elements("output")) * 3.0
    refills = (layer.macs - layer.elements("output")) / 4
    assert least_pj(floor) >= fed + refills * (1.0 + 4.0)
    assert floor.unrolling_pj > 0


@pytest.mark.parametrize("lanes", [2, 3, 4, 8])
def test_a_sum_takes_no_fewer_additions_than_said_in_any_mapping(lanes: int) -> None:
    """Lanes that add up cover a part of C and a part of S: three channels of three taps take 6 additions in 2 lanes."""
    machine = replace(LANES, array=ComputeArray({"lane": lanes}, None, 0.0))
    problem = LayerProblem(Layer(c=3, s=3), machine, AT_HOME)
    floor = least_pj(floor_of(problem.layer, machine))
    least = min(cost.energy_pj for cost in every_cost(problem))
    assert floor <= least * ROUNDED
    assert floor >= 0.9 * least
