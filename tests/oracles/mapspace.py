"""The exact mapper's map space by enumeration of every mapping: the oracle for toy layers.

It lists splits, orders and level boundaries, whereas the mapper uses tile hierarchies; nothing of the mapper is used.
docs/mapping.md, section 1, defines a memory's tiles and the position of spatial loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, permutations, product
from math import inf, prod
from random import Random
from typing import TypeAlias

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.ir.layer import LOOPS, OUTPUT, RELEVANT
from onchip.model.layer.cost import layer_cost
from support.nests import beside_operands, random_accelerator, random_layer, random_problem


@dataclass(frozen=True)
class StandingLevels:
    """The memory levels that divide the loop nest, and by operand those that keep its tiles."""

    levels: Sequence[MemoryLevel]
    keepers: Mapping[str, Sequence[MemoryLevel]]


def standing_levels(problem: LayerProblem) -> StandingLevels:
    """Return the levels without those that have no capacity for any element and are no operand's home."""
    streamed = levels_with_room(replace(problem, homes=Homes(), room_bytes={}))
    useful = [level for levels in streamed.values() for level in levels]
    homes = [home for _, home in problem.homes]
    left = [level for level in problem.levels if level in useful or level.memory.name in homes]
    return StandingLevels(left or problem.levels, levels_with_room(problem))


def levels_with_room(problem: LayerProblem) -> dict[str, list[MemoryLevel]]:
    """Return, by operand, the levels below its home in which one element fits, or two if double buffered.

    Of all sets of operands that fit a memory with one element each, the level keeps one with outputs if possible, then
    with inputs, then with weights. In the first memory that keeps outputs, sums arrive with partial width if there is
    more than one product.
    """
    layer, found = problem.layer, {str(operand): list[MemoryLevel]() for operand in Operand}
    for level in problem.levels:
        held = [one for one in Operand if one in level.memory.holds and one in layer.operands]
        bits = {one: layer.bits(one) for one in held}
        if Operand.OUTPUT in bits and not found["output"] and layer.c * layer.r * layer.s > 1:
            bits[Operand.OUTPUT] = layer.partial_bits
        copies, capacity_bits = 1 + level.double_buffered, 8 * level.memory.capacity_bytes
        sets = [one for size in range(len(held) + 1) for one in combinations(held, size)]
        fitting = [one for one in sets if copies * sum(bits[operand] for operand in one) <= capacity_bits]
        for operand in max(fitting, key=lambda one: [wanted in one for wanted in ("output", "input", "weight")]):
            found[operand].append(level)
    names = [level.memory.name for level in problem.levels]
    for name, levels in found.items():
        home = problem.home(name)
        if home != DRAM:
            found[name] = [one for one in levels if names.index(one.memory.name) < names.index(home)]
    return found


Orders: TypeAlias = Callable[[list[Loop]], Iterator[list[Loop]]]


def toy(seed: int) -> LayerProblem:
    """Return a reproducible problem of two to four memory levels; many tiles do not fit."""
    random = Random(seed)
    accelerator = random_accelerator(random)
    levels = tuple(
        replace(level, memory=replace(level.memory, capacity_bytes=random.choice((4, 8, 16, 32, 64, 1 << 20))))
        for level in accelerator.levels
    )
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    layer = random_layer(random, random.choice((12, 24, 48)))
    return random_problem(random, layer, replace(accelerator, levels=levels, scratchpads=scratchpads))


def lean_toy(seed: int) -> LayerProblem:
    """Return a machine like Simba, most of whose memories keep one operand; as levels are many, layers are tiny."""
    random = Random(seed)
    array = ComputeArray({"lane": 2, "pe": 2}, None, 0.5)

    def level(name: str, holds: tuple[Operand, ...], serves: tuple[str, ...] | None) -> MemoryLevel:
        memory = Memory(name, random.choice((2, 4, 8, 64)), holds=holds)
        access = Access(8, random.choice((1, 3, 10)), random.choice((1, 4, 9)), random.choice((None, 4)))
        ports = random.choice(
            (
                (Port(Direction.READ_WRITE, random.choice((4, 8))),),
                (Port(Direction.READ, random.choice((2, 8))), Port(Direction.WRITE, random.choice((2, 8)))),
            )
        )
        is_doubled = random.random() < 0.2
        return MemoryLevel(memory, serves, access=access, ports=ports, double_buffered=is_doubled)

    levels = [
        level("sums", (Operand.OUTPUT,), random.choice(((), ("lane",)))),
        level("weights", (Operand.WEIGHT,), ("lane",)),
        level("inputs", (Operand.INPUT,), random.choice((("lane",), ("lane", "pe")))),
        level("both", (Operand.INPUT, Operand.OUTPUT), None),
    ]
    del levels[random.randrange(len(levels))]
    dram = Dram(Access(8, 60, 70), (Port(Direction.READ_WRITE, random.choice((4, 16))),))
    levels[-1] = replace(levels[-1], is_scratchpad=True)
    layer = random_layer(random, random.choice((8, 12, 18)))
    return LayerProblem(layer, Accelerator("lean", (levels[-1].memory,), tuple(levels), None, array, dram))


def homed_toy(seed: int) -> LayerProblem:
    """Return a problem with operands whole in shared memories, with little capacity left, often too little for sums."""
    random = Random(seed)
    layer = random_layer(random, random.choice((16, 24, 36)))
    both = (Operand.INPUT, Operand.OUTPUT)
    names = {"local": both, "global": random.choice((both, tuple(Operand)))}
    homes = {
        operand: random.choice([name for name, held in names.items() if operand in held])
        for operand in Operand
        if operand in layer.operands and operand in names["global"] and random.random() < 0.7
    }

    def level(name: str, holds: tuple[Operand, ...], capacity_bytes: int) -> MemoryLevel:
        access = Access(8, random.choice((1, 3, 10)), random.choice((1, 4, 9)), random.choice((None, 4)))
        ports = (Port(Direction.READ, random.choice((4, 8))), Port(Direction.WRITE, random.choice((4, 8))))
        serves = random.choice(((), ("lane",))) if name == "sums" else None
        memory = Memory(name, capacity_bytes, holds=holds)
        return MemoryLevel(memory, serves, access=access, ports=ports, double_buffered=random.random() < 0.2)

    levels = [level("sums", (Operand.OUTPUT,), random.choice((3, 8)))]
    for name, holds in names.items():
        here = [operand for operand, home in homes.items() if home == name]
        whole = sum(layer.elements(operand) * layer.bits(operand) for operand in here)
        wider = layer.elements(OUTPUT) * (layer.partial_bits - layer.output_bits)
        levels.append(level(name, holds, (whole + random.choice((0, wider)) + 7) // 8 + random.choice((1, 2, 3))))
    del levels[0 : random.choice((0, 1))]
    levels[-1] = replace(levels[-1], is_scratchpad=True)
    dram = Dram(Access(8, 60, 70), (Port(Direction.READ_WRITE, random.choice((4, 16))),))
    array = ComputeArray({"lane": 2, "pe": 2}, None, 0.5)
    machine = Accelerator("homed", (levels[-1].memory,), tuple(levels), None, array, dram)
    problem = beside_operands(layer, machine, homes)
    if problem is None:
        raise ValueError("memories are as large as what lies whole in them, and more")
    return problem


def narrow_toy(seed: int) -> LayerProblem:
    """Return a machine with registers and memories that often have no capacity for an element of some operand."""
    random = Random(seed)
    both = (Operand.INPUT, Operand.OUTPUT)
    array = ComputeArray({"lane": 2, "pe": 2}, None, 0.5)
    bits, partial_bits = random.choice(((8, 8), (8, 16), (12, 20), (16, 24), (24, 24)))

    def level(
        name: str, holds: tuple[Operand, ...], serves: tuple[str, ...] | None, *capacities_bytes: int
    ) -> MemoryLevel:
        memory = Memory(name, random.choice(capacities_bytes), holds=holds)
        access = Access(8, random.choice((1, 3, 10)), random.choice((1, 4, 9)), random.choice((None, 4)))
        ports = (Port(Direction.READ, random.choice((4, 8))), Port(Direction.WRITE, random.choice((4, 8))))
        return MemoryLevel(memory, serves, access=access, ports=ports, double_buffered=random.random() < 0.2)

    levels = [
        level("register", random.choice(((Operand.WEIGHT,), both, tuple(Operand))), (), 1, 2, 3, 6),
        level("sums", (Operand.OUTPUT,), random.choice(((), ("lane",))), 1, 2, 3, 6),
        level(
            "local", random.choice((both, tuple(Operand), (Operand.INPUT,))), random.choice((("lane",), None)), 2, 5, 16
        ),
        level("global", random.choice((both, tuple(Operand))), None, 4, 64),
    ]
    for _ in range(random.choice((1, 1, 2))):
        del levels[random.randrange(len(levels))]
    levels[-1] = replace(levels[-1], serves=None, is_scratchpad=True)
    dram = Dram(Access(8, 60, 70), (Port(Direction.READ_WRITE, random.choice((4, 16))),))
    layer = replace(
        random_layer(random, random.choice((8, 12, 24))),
        input_bits=bits, weight_bits=random.choice((bits, 4)), output_bits=bits, partial_bits=partial_bits,
    )  # fmt: skip
    machine = Accelerator("narrow", (levels[-1].memory,), tuple(levels), None, array, dram)
    return random_problem(random, layer, machine)


def least_values(problem: LayerProblem, most: int) -> dict[MappingObjective, float] | None:
    """Return the least value by objective, infinite if nothing fits; None for more than `most` mappings."""
    mappings = list(islice(all_mappings(problem), most + 1))
    if len(mappings) > most:
        return None
    best = dict.fromkeys(MappingObjective, inf)
    for mapping in mappings:
        try:
            cost = layer_cost(problem, mapping)
        except MappingError:
            continue
        for objective in MappingObjective:
            best[objective] = min(best[objective], objective.of(cost.energy_pj, cost.cycles))
    return best


def are_few(problem: LayerProblem, most: int) -> bool:
    """Return True if there are at most `most` mappings, without costing them."""
    return next(islice(all_mappings(problem), most, None), None) is None


def all_mappings(problem: LayerProblem, *, in_any_order: bool = False) -> Iterator[LayerMapping]:
    """Yield every split of every bound, with every order of the classes of loops at every level.

    `in_any_order` yields the orders of all prime factors instead, including those that interleave classes.
    """
    standing = standing_levels(problem)
    units, places = units_of(problem.accelerator), len(standing.levels) + 1
    names = list(units)
    splits = [
        [
            split
            for split in _splits(bound, places + len(names))
            if all(
                size == 1 or loop in unrolled_along(problem.accelerator, name)
                for name, size in zip(names, split[places:], strict=True)
            )
        ]
        for loop, bound in problem.layer.bounds.items()
    ]
    orders_of = _orders_of_factors if in_any_order else _orders
    for chosen in product(*splits):
        used = [prod(split[places + at] for split in chosen) for at in range(len(names))]
        if all(side <= units[name] for name, side in zip(names, used, strict=True)):
            yield from _of_split(problem, standing, chosen, orders_of)


def units_of(accelerator: Accelerator) -> dict[str, int]:
    """Return the units along each dimension of the array; free units are one dimension."""
    array = accelerator.array
    if array is None:
        raise ValueError("an accelerator without an array maps nothing")
    return dict(array.dimensions) or {"free": array.free or 1}


def unrolled_along(accelerator: Accelerator, name: str) -> tuple[str, ...]:
    """Return the loops that may be unrolled along a dimension of the array."""
    listed = accelerator.array.unrolls if accelerator.array is not None else {}
    if name in listed:
        return listed[name]
    loop = {"B": "N", "OY": "P", "OX": "Q", "FY": "R", "FX": "S"}.get(name, name)
    return (loop,) if loop in LOOPS else LOOPS


def _splits(bound: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (bound,)
        return
    for size in range(1, bound + 1):
        if bound % size == 0:
            for rest in _splits(bound // size, parts - 1):
                yield (size, *rest)


def _of_split(
    problem: LayerProblem, standing: StandingLevels, chosen: tuple[tuple[int, ...], ...], orders_of: Orders
) -> Iterator[LayerMapping]:
    places = len(standing.levels) + 1
    beside = _beside(problem, standing, chosen)
    parts = [
        list(
            orders_of([Loop(loop, split[place]) for loop, split in zip(LOOPS, chosen, strict=True) if split[place] > 1])
        )
        for place in range(places)
    ]
    for orders in product(*parts):
        nest, cuts = list(beside[0]), []
        for place, order in enumerate(orders):
            nest.extend(order)
            cuts.append(len(nest))
            nest.extend(beside[place + 1])
        yield LayerMapping(tuple(nest), *(_kept(standing, nest, cuts, operand) for operand in Operand))


def _beside(problem: LayerProblem, standing: StandingLevels, chosen: tuple[tuple[int, ...], ...]) -> list[list[Loop]]:
    """Return the spatial loops above each level: directly above the input's last tile that excludes them."""
    places = len(standing.levels) + 1
    found: list[list[tuple[int, Loop]]] = [[] for _ in range(places + 1)]
    for at, name in enumerate(units_of(problem.accelerator)):
        above, passed = 0, 0
        for number, level in enumerate(standing.levels):
            if level in standing.keepers["input"]:
                if level.serves is None or name in level.serves:
                    break
                above, passed = number + 1, passed + 1
        for loop, split in zip(LOOPS, chosen, strict=True):
            if split[places + at] > 1:
                found[above].append((passed, Loop(loop, split[places + at], name)))
    return [[loop for _, loop in sorted(loops, key=lambda one: one[0])] for loops in found]


def _orders(loops: list[Loop]) -> Iterator[list[Loop]]:
    classes: dict[tuple[str, ...], list[Loop]] = {}
    for loop in loops:
        same = tuple(operand for operand in RELEVANT if loop.dimension not in RELEVANT[operand])
        classes.setdefault(same, []).append(loop)
    for order in permutations(classes.values()):
        yield [loop for own in order for loop in own]


def _orders_of_factors(loops: list[Loop]) -> Iterator[list[Loop]]:
    factors = [Loop(loop.dimension, prime) for loop in loops for prime in _primes(loop.size)]
    for order in sorted(set(permutations((one.dimension, one.size) for one in factors))):
        yield [Loop(*one) for one in order]


def _primes(number: int) -> Iterator[int]:
    for prime in range(2, number + 1):
        while number % prime == 0:
            yield prime
            number //= prime


def _kept(standing: StandingLevels, nest: list[Loop], cuts: list[int], operand: Operand) -> tuple[Kept, ...]:
    """Return the tiles kept, extended over the loops directly above along which the operand does not change."""
    found = []
    for level, cut in zip(standing.levels, cuts, strict=False):
        if level in standing.keepers[operand]:
            at = spanned = cut
            while at < len(nest) and (nest[at].along is not None or nest[at].dimension not in RELEVANT[operand]):
                at += 1
                spanned = at if nest[at - 1].along is None else spanned
            found.append(Kept(level.memory.name, spanned))
    return tuple(found)
