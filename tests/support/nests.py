"""Random tiny layers, machines and mappings: uneven, with bypassed memories and loops split over time and space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.ir.layer import LOOPS, Layer
from onchip.model.layer.limits import checked_boundaries, needed_bits
from onchip.model.program.compute_cost import workspace_bytes

ROOMY = 1 << 20
PORTS = (
    (),
    (Port(Direction.READ, 16), Port(Direction.WRITE, 16)),
    (Port(Direction.READ_WRITE, 24),),
    (Port(Direction.READ, 8), Port(Direction.READ, 64), Port(Direction.WRITE, 8), Port(Direction.WRITE, 32)),
)
ACCESSES = (Access(8, 1.0, 1.5), Access(64, 3.0, 4.0, 16), Access(128, 5.0, 7.0))


@dataclass(frozen=True, slots=True)
class Case:
    problem: LayerProblem
    mapping: LayerMapping

    @property
    def layer(self) -> Layer:
        return self.problem.layer

    @property
    def accelerator(self) -> Accelerator:
        return self.problem.accelerator


def random_case(seed: int, most_macs: int = 600) -> Case:
    """Return a reproducible case for the seed."""
    random = Random(seed)
    accelerator = random_accelerator(random)
    layer = random_layer(random, most_macs)
    problem = random_problem(random, layer, accelerator)
    return Case(problem, random_mapping(random, problem))


def workspace_of(problem: LayerProblem, mapping: LayerMapping) -> Mapping[str, int]:
    """Return the bytes that a legal mapping needs of each addressed memory."""
    return workspace_bytes(problem, needed_bits(problem, checked_boundaries(problem, mapping)))


def random_problem(random: Random, layer: Layer, accelerator: Accelerator) -> LayerProblem:
    """Return a problem with some operands whole in a memory, if they fit."""
    homes = {
        operand: level.memory.name
        for operand in Operand
        if operand in layer.operands
        for level in accelerator.addressed
        if operand in level.memory.holds and random.random() < 0.2
    }
    return beside_operands(layer, accelerator, homes) or LayerProblem(layer, accelerator)


def beside_operands(layer: Layer, accelerator: Accelerator, homes: Mapping[Operand, str]) -> LayerProblem | None:
    """Return the problem with the capacity that whole operands leave to tiles; None if they exceed a capacity."""
    whole = LayerProblem(layer, accelerator, Homes(**{str(operand): name for operand, name in homes.items()}))
    left = {
        level.memory.name: level.memory.capacity_bytes * 8 - whole.resident_bits(level.memory.name)
        for level in accelerator.levels
    }
    if min(left.values()) < 0:
        return None
    return replace(whole, room_bytes={name: bits // 8 for name, bits in left.items()})


def random_layer(random: Random, most_macs: int) -> Layer:
    while True:
        sizes = {name: random.choice((1, 1, 2, 2, 3, 4)) for name in LOOPS}
        sizes["G"] = random.choice((1, 1, 1, 2, 3))
        for name in ("P", "Q"):
            sizes[name] = random.choice((1, 2, 3, 4, 5, 6))
        n, k, c, p, q, r, s, g = (sizes[name] for name in LOOPS)
        stride = random.choice(((1, 1), (1, 1), (2, 1), (2, 3)))
        dilation = random.choice(((1, 1), (1, 1), (1, 2), (3, 1)))
        padding = random.choice(((0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 1, 1)))
        span = (p - 1) * stride[0] + (r - 1) * dilation[0] + 1, (q - 1) * stride[1] + (s - 1) * dilation[1] + 1
        stays = span[0] > padding[0] + padding[2] and span[1] > padding[1] + padding[3]
        if n * k * c * p * q * r * s * g <= most_macs and stays:
            has_weight = random.random() > 0.1
            return Layer(n, k, c, p, q, r, s, g, stride, dilation, padding, 8, 4, 8, 20, has_weight)


def random_accelerator(random: Random) -> Accelerator:
    array = random.choice(
        (
            ComputeArray({"K": 4, "OX": 3}, mac_energy_pj=0.0),
            ComputeArray({"lane": 4, "pe": 6}, mac_energy_pj=0.0),
            ComputeArray(free=6, mac_energy_pj=0.0),
            ComputeArray(free=1, mac_energy_pj=0.0),
        )
    )
    levels: list[MemoryLevel] = []
    for index in range(random.choice((0, 1, 2, 3, 3))):
        holds = tuple(operand for operand in Operand if random.random() < 0.7) or (Operand.OUTPUT,)
        serves = _serves(random, array, levels)
        levels.append(
            MemoryLevel(
                Memory(f"memory{index}", ROOMY, holds=holds),
                serves,
                double_buffered=random.random() < 0.5,
                access=random.choice(ACCESSES),
                ports=random.choice(PORTS),
            )
        )
    sram = MemoryLevel(Memory("sram", ROOMY), None, is_scratchpad=True, access=ACCESSES[1], ports=random.choice(PORTS))
    dram = Dram(Access(64, 100, 110), (Port(Direction.READ_WRITE, 16),))
    return Accelerator("random", (sram.memory,), (*levels, sram), None, array, dram)


def _serves(random: Random, array: ComputeArray, below: list[MemoryLevel]) -> tuple[str, ...] | None:
    """Return the dimensions that a memory serves, at least those of all memories below, so that it can fill them."""
    if any(level.serves is None for level in below):
        return None
    least = {name for level in below for name in level.serves or ()}
    if array.free is not None:
        return random.choice(((), None))
    return tuple(name for name in array.dimensions if name in least or random.random() < 0.4)


def random_mapping(random: Random, problem: LayerProblem) -> LayerMapping:
    layer, array = problem.layer, problem.accelerator.array or ComputeArray(free=1, mac_energy_pj=0.0)
    temporal, left = _prime_loops(layer), dict(array.sizes)
    allowed = {"K": ("K",), "OX": ("Q",)}
    nest: list[Loop] = []
    for dimension, size in temporal:
        along = random.choice(list(left))
        fits = dimension in allowed.get(along, LOOPS) and size <= left[along]
        if fits and random.random() < 0.4:
            left[along] //= size
            nest.append(Loop(dimension, size, along))
        else:
            nest.append(Loop(dimension, size))
    random.shuffle(nest)
    kept = {o: _kept(random, problem, o, len(nest)) if o in layer.operands else () for o in Operand}
    return LayerMapping(tuple(nest), kept[Operand.INPUT], kept[Operand.WEIGHT], kept[Operand.OUTPUT])


def _prime_loops(layer: Layer) -> list[tuple[str, int]]:
    loops = []
    for name, bound in layer.bounds.items():
        for prime in (2, 3, 5):
            while bound % prime == 0:
                bound //= prime
                loops.append((name, prime))
    return loops


def _kept(random: Random, problem: LayerProblem, operand: Operand, loops: int) -> tuple[Kept, ...]:
    names = [level.memory.name for level in problem.keepers(operand)]
    names = [name for name in names if random.random() < 0.8]
    cuts = sorted(random.randint(0, loops) for _ in names)
    return tuple(Kept(name, cut) for name, cut in zip(names, cuts, strict=True))


def one_after_the_other(problem: LayerProblem) -> LayerMapping:
    """Return a mapping with one element per memory; an output element stays until its sum is complete."""
    summed = ("R", "S", "C")
    order = (*summed, *(name for name in LOOPS if name not in summed))
    nest = tuple(Loop(name, problem.layer.bounds[name]) for name in order)
    kept = (
        tuple(Kept(level.memory.name, len(summed) * (operand is Operand.OUTPUT)) for level in problem.keepers(operand))
        for operand in Operand
    )
    return LayerMapping(nest, *kept)
