"""Schedules by hand of two convolutions on a machine with two addressed memories: resident, streamed, in tiles.

x(16) -> conv1, 3x3, w1(18) -> a(32) -> conv2, 1x1, w2(2) -> y(16)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from onchip.answer.document import Claim
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.program import Plan
from onchip.answer.result import Status
from onchip.answer.schedule import Homes, Schedule, ScheduledMapping, ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dma, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.schedule.machine import NestPrices, ScheduleSetting, ScheduleVerdict
from onchip.verify.schedule.verifier import verify_schedule
from support.programs import instructions

PORTS = (Port(Direction.READ_WRITE, 8),)
ACTIVATIONS = (Operand.INPUT, Operand.OUTPUT)


def level(name: str, capacity: int, energy_pj: float, holds: Sequence[Operand] = tuple(Operand)) -> MemoryLevel:
    memory = Memory(name, capacity, holds=tuple(holds))
    return MemoryLevel(memory, None, True, access=Access(8, energy_pj, energy_pj), ports=PORTS)


def machine(*levels: MemoryLevel, queues: int = 1) -> Accelerator:
    """Return a machine with a register of one byte per lane below the levels, which is not addressed."""
    register = MemoryLevel(Memory("register", 1, holds=(Operand.WEIGHT,)), (), access=Access(8, 0.1, 0.1))
    memories = tuple(one.memory for one in levels)
    dram = Dram(Access(8, 10.0, 10.0), PORTS)
    array = ComputeArray({"lane": 2}, None, 0.5)
    return Accelerator("hand", memories, (register, *levels), None, array, dram, Dma(queues, 2))


NEAR_AND_FAR = machine(level("near", 128, 1.0, ACTIVATIONS), level("far", 256, 2.0))


def tensor(name: str, shape: tuple[int, ...], role: Role = Role.ACTIVATION) -> Tensor:
    return Tensor.of_shape(name, shape, 8, role)


PAIR = Graph(
    "pair",
    (
        tensor("x", (1, 1, 4, 4), Role.INPUT),
        tensor("w1", (2, 1, 3, 3), Role.PARAMETER),
        tensor("a", (1, 2, 4, 4)),
        tensor("w2", (1, 2, 1, 1), Role.PARAMETER),
        tensor("y", (1, 1, 4, 4), Role.OUTPUT),
    ),
    (
        Operator("conv1", "Conv", ("x",), ("a",), ("w1",), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        Operator("conv2", "Conv", ("a",), ("y",), ("w2",), {"kernel_shape": [1, 1]}),
    ),
)
CONV1 = Layer(k=2, p=4, q=4, r=3, s=3, padding=(1, 1, 1, 1))
CONV2 = Layer(c=2, p=4, q=4)


@dataclass(frozen=True)
class NestFigures:
    stated_energy_pj: float | None
    cycles: float
    dram_read_bits: int
    dram_written_bits: int


def price(problem: LayerProblem, mapping: LayerMapping) -> NestFigures:
    """Return 1.5 pJ and 10 cycles; DRAM reads 12 bits per streamed input, and writes 20 for a streamed output."""
    streamed = [operand for operand in problem.layer.operands if problem.homes.of(Operand(operand)) is None]
    written = 20 * (Operand.OUTPUT in streamed)
    return NestFigures(1.5, 9.5, 12 * sum(operand != Operand.OUTPUT for operand in streamed), written)


def price_without_energy(problem: LayerProblem, mapping: LayerMapping) -> NestFigures:
    """Return the same for a machine that does not state the energy of a multiply-accumulate."""
    return replace(price(problem, mapping), stated_energy_pj=None)


def one_by_one(layer: Layer, **kept: Sequence[Kept]) -> LayerMapping:
    """Return a temporal nest with the output's loops outermost, and tiles as in `kept`."""
    nest = tuple(Loop(name, layer.bounds[name]) for name in "NGCRSKPQ" if layer.bounds[name] > 1)
    places = (tuple(kept.get(str(operand), ())) for operand in (Operand.INPUT, Operand.WEIGHT, Operand.OUTPUT))
    return LayerMapping(nest, *places)


@dataclass(frozen=True)
class ScheduleCase:
    """A schedule of a network, its program with an instruction per line, and the claim for it."""

    stacks: tuple[ScheduledStack, ...]
    mappings: tuple[ScheduledMapping, ...]
    program: str
    network: Graph = PAIR
    accelerator: Accelerator = NEAR_AND_FAR
    tiles: Graph | None = None
    claim: Claim | None = None
    prices: NestPrices = price

    @property
    def tile_graph(self) -> Graph:
        return self.tiles or tile_graph(self.network, self.stacks, Precision(8)).graph

    def verdict(self) -> ScheduleVerdict:
        setting = ScheduleSetting(self.network, self.accelerator, self.tiles or self.lowered(), 24)
        memories = tuple(one.memory for one in self.accelerator.addressed)
        schedule = Schedule(self.stacks, self.mappings, Plan(memories, instructions(self.program)))
        return verify_schedule(setting, schedule, self.claim, self.prices)

    def lowered(self) -> Graph:
        """Return the tile graph, or the network itself if its stacks cannot be lowered."""
        try:
            return self.tile_graph
        except InputError:
            return self.network

    def edited(self, index: int, *lines: str) -> ScheduleCase:
        """Return the case with instruction `index` replaced by `lines`; without lines it is dropped."""
        program = self.program.strip().splitlines()
        program[index : index + 1] = lines
        return replace(self, program="\n".join(program))

    def of(self, **changes: object) -> ScheduleCase:
        return replace(self, **changes)  # type: ignore[arg-type]

    def claimed(self, **changes: object) -> ScheduleCase:
        assert self.claim is not None
        return replace(self, claim=replace(self.claim, **changes))  # type: ignore[arg-type]

    def with_tile(self, name: str, **changes: object) -> ScheduleCase:
        """Return the case with changes to one tile operator."""
        tiles = self.tile_graph
        operators = tuple(
            replace(one, **changes) if one.name == name else one  # type: ignore[arg-type]
            for one in tiles.operators
        )
        return replace(self, tiles=replace(tiles, operators=operators))

    def with_tensor(self, name: str, **changes: object) -> ScheduleCase:
        tiles = self.tile_graph
        tensors = tuple(
            replace(one, **changes) if one.name == name else one  # type: ignore[arg-type]
            for one in tiles.tensors
        )
        return replace(self, tiles=replace(tiles, tensors=tensors))


def mapped(stack: int, layer: Layer, homes: Homes, **kept: Sequence[Kept]) -> ScheduledMapping:
    return ScheduledMapping(stack, layer, homes, one_by_one(layer, **kept))


def whole_stacks(*names: str) -> tuple[ScheduledStack, ...]:
    return tuple(ScheduledStack((name,)) for name in names)


AT_HOME = Homes("near", "far", "near")
STREAMED_HOMES = Homes()
CLAIM = Claim(
    "any", Status.OPTIMAL, "energy", 723_000, 723_000, {"energy_pj": 723.0, "latency_cycles": 80, "traffic_bytes": 52}
)

RESIDENT = ScheduleCase(
    whole_stacks("conv1", "conv2"),
    (mapped(0, CONV1, AT_HOME), mapped(1, CONV2, AT_HOME)),
    """
    allocate x near 0
    copy x dram near
    allocate w1 far 0
    copy w1 dram far
    allocate a near 16
    allocate conv1@workspace near 48
    compute conv1
    free conv1@workspace near
    free x near
    free w1 far
    allocate w2 far 0
    copy w2 dram far
    allocate y near 0
    allocate conv2@workspace near 48
    compute conv2
    free conv2@workspace near
    copy y near dram
    """,
    claim=CLAIM,
)
"""The workspaces hold two more bytes for each of the 32 and 16 sums of conv1 and conv2: 24 bits instead of 8."""

STREAMED = ScheduleCase(
    whole_stacks("conv1", "conv2"),
    (mapped(0, CONV1, STREAMED_HOMES), mapped(1, CONV2, STREAMED_HOMES)),
    "compute conv1\ncompute conv2",
)

HALF = ScheduleCase(
    whole_stacks("conv1", "conv2"),
    (
        mapped(0, CONV1, Homes(None, "far", "near"), input=[Kept("near", 4)]),
        mapped(1, CONV2, Homes("near", None, None), weight=[Kept("far", 1)]),
    ),
    """
    allocate w1 far 8
    copy w1 dram far
    allocate a near 0
    allocate conv1@workspace near 32
    compute conv1
    free conv1@workspace near
    allocate conv2@workspace far 0
    compute conv2
    """,
)
"""conv1 reads x from DRAM; near holds a row of 4 and its halo, 12 bytes per tile, next to 64 bytes of sums."""

TWO_TILES = (ScheduledStack(("conv1", "conv2"), Tiling(4, 2, OverlapMode.RECOMPUTE)),)
CONV1_ABOVE = replace(CONV1, p=2, padding=(1, 1, 0, 1))
CONV1_BELOW = replace(CONV1, p=2, padding=(0, 1, 1, 1))
CONV2_HALF = replace(CONV2, p=2)


def tiled_mappings(
    homes: Homes, layers: Iterable[Layer] = (CONV1_ABOVE, CONV1_BELOW, CONV2_HALF)
) -> tuple[ScheduledMapping, ...]:
    return tuple(mapped(0, layer, homes) for layer in layers)


TILED = ScheduleCase(
    TWO_TILES, tiled_mappings(STREAMED_HOMES), "compute conv1#0\ncompute conv2#0\ncompute conv1#1\ncompute conv2#1"
)

FORK = Graph(
    "fork",
    (
        tensor("x", (1, 1, 4, 4), Role.INPUT),
        *(tensor(name, (1, 1, 4, 4)) for name in "abc"),
        tensor("y", (1, 1, 4, 4), Role.OUTPUT),
    ),
    (
        Operator("f", "Relu", ("x",), ("a",)),
        Operator("g", "Relu", ("a",), ("b",)),
        Operator("h", "Relu", ("b",), ("c",)),
        Operator("add", "Add", ("a", "c"), ("y",)),
    ),
)
