"""Random small programs, legal by docs/schedule.md: bands, streamed operands, workspaces, prefetches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Access, Direction, Dma, Dram, Memory, MemoryLevel, Operand, Port
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import ComputeCost
from onchip.verify.schedule.machine import AddressedMachine
from onchip.verify.schedule.streaming import StreamingReplay, TileOperand, tile_operands, tile_problem
from onchip.verify.schedule.tiles import TileOfNetwork

PORTS = (
    (),
    (Port(Direction.READ_WRITE, 8),),
    (Port(Direction.READ, 16), Port(Direction.WRITE, 5)),
    (Port(Direction.READ, 8), Port(Direction.READ_WRITE, 24)),
    (Port(Direction.READ, 1), Port(Direction.WRITE, 3)),
)
ACCESSES = (Access(8, 1.0, 1.5), Access(64, 3.0, 4.1, 16), Access(128, 5.3, 7.0))


@dataclass(frozen=True)
class ProgramCase:
    graph: Graph
    accelerator: Accelerator
    program: Plan
    costs: Mapping[str, ComputeCost]


def random_program(seed: int) -> ProgramCase:
    """Return a reproducible program for the seed."""
    random = Random(seed)
    while True:
        graph, accelerator = random_banded_graph(random), random_addressed_machine(random)
        writer = _Writer(random, graph, accelerator)
        if writer.has_written():
            break
    memories = tuple(level.memory for level in writer.levels)
    return ProgramCase(graph, accelerator, Plan(memories, tuple(writer.instructions)), writer.costs)


def random_addressed_machine(random: Random) -> Accelerator:
    """Return a machine with a register per lane, and one to three small addressed memories above it."""
    register = MemoryLevel(Memory("register", 8), (), access=ACCESSES[0], ports=random.choice(PORTS))
    levels = [register]
    for number in range(random.randint(1, 3)):
        holds = tuple(operand for operand in Operand if random.random() < 0.75) or (Operand.INPUT,)
        memory = Memory(f"memory{number}", random.choice((64, 96, 160)), random.choice((1, 4)), holds)
        ports, access = random.choice(PORTS), random.choice(ACCESSES)
        levels.append(MemoryLevel(memory, random.choice((None, ("lane",))), True, access=access, ports=ports))
    dram = Dram(Access(64, 100, 110, random.choice((None, 8))), random.choice(PORTS))
    dma = Dma(random.choice((1, 1, 2, 3)), random.choice((0, 0, 4)))
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    return Accelerator("random", scratchpads, tuple(levels), None, ComputeArray({"lane": 4}, None, 0.3), dram, dma)


def random_banded_graph(random: Random) -> Graph:
    """Return up to five operators in a row or with branches; some tensors are cut into two bands."""
    tensors, operators = [], []
    bases: list[list[str]] = []

    def new(name: str, role: Role) -> list[str]:
        sizes = [random.randint(1, 12) for _ in range(random.choice((1, 1, 2)))]
        if len(sizes) == 1:
            tensors.append(Tensor.of_shape(name, (sizes[0],), 8, role))
            return [name]
        for number, size in enumerate(sizes):
            start = sum(sizes[:number])
            band = Tensor(f"{name}[{number}]", size, role, (size,), 8, part_of=name, region=((start, start + size),))
            tensors.append(band)
        return [f"{name}[{number}]" for number in range(len(sizes))]

    bases.append(new("x", Role.INPUT))
    count = random.randint(1, 5)
    for number in range(count):
        sources = [random.choice(bases) for _ in range(random.choice((1, 1, 2)))]
        reads = tuple(dict.fromkeys(name for source in sources for name in source))
        parameters = tuple(new(f"w{number}", Role.PARAMETER)) if random.random() < 0.5 else ()
        written = new(f"y{number}", Role.ACTIVATION if number < count - 1 else Role.OUTPUT)
        operators.append(Operator(f"op{number}", "Conv", reads, tuple(written), parameters))
        bases.append(written)
    return Graph("random", tuple(tensors), tuple(operators))


class _NoPlaceError(Exception):
    """Raised if simultaneous operands leave no free address."""


@dataclass
class _Writer:
    """A writer of a program that tracks the residencies."""

    random: Random
    graph: Graph
    accelerator: Accelerator
    instructions: list[Instruction] = field(default_factory=list)
    costs: dict[str, ComputeCost] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.levels = [level for level in self.accelerator.levels if level.is_scratchpad]
        self.residents: dict[str, dict[str, tuple[int, int, bool]]] = {one.memory.name: {} for one in self.levels}
        self.in_dram = {one.name for one in self.graph.tensors if one.role in (Role.INPUT, Role.PARAMETER)}

    def has_written(self) -> bool:
        """Return True if all simultaneous operands of each operator found an address."""
        try:
            self._write()
        except _NoPlaceError:
            return False
        return True

    def _write(self) -> None:
        for operator in self.graph.operators:
            for _ in range(self.random.choice((0, 0, 1, 2))):
                self._prefetch()
            self._run(operator)
        for tensor in self.graph.with_role(Role.OUTPUT):
            self._to_dram(tensor.name)

    def _run(self, operator: Operator) -> None:
        pinned = {*operator.reads, *operator.outputs}
        read = written = 0
        for bands, operand in self._operands(operator):
            memory = self._memory_for(operand)
            for band in bands:
                if memory is not None and operand is not Operand.OUTPUT:
                    self._bring(band, memory, pinned)
                elif memory is not None:
                    self._allocate(band, memory, self.graph.tensor[band].size_bytes, pinned)
                elif operand is not Operand.OUTPUT:
                    self._to_dram(band)
            if memory is None and operand is Operand.OUTPUT:
                written += self.random.randint(1, 300)
                self.in_dram |= set(bands)
            elif operand is not Operand.OUTPUT and not self._has_home(bands, operand):
                read += self.random.randint(1, 300)
        workspaces = {}
        for level in self.levels:
            if self.random.random() < 0.3:
                workspaces[level.memory.name] = size = self.random.randint(1, 8)
                self._allocate(f"{operator.name}@workspace", level.memory.name, size, pinned)
        cycles, energy_fj = self.random.randint(0, 60), self.random.randint(0, 1000)
        self.costs[operator.name] = ComputeCost(energy_fj, cycles, read, written, workspaces)
        self.instructions.append(Compute(operator.name))
        for memory in workspaces:
            self._free(f"{operator.name}@workspace", memory)
        for residents in self.residents.values():
            for name in operator.outputs:
                if name in residents:
                    residents[name] = (*residents[name][:2], True)

    def _operands(self, operator: Operator) -> list[tuple[list[str], Operand]]:
        bases: dict[tuple[str, Operand], list[str]] = {}
        for name in operator.reads:
            tensor = self.graph.tensor[name]
            operand = Operand.WEIGHT if tensor.role is Role.PARAMETER else Operand.INPUT
            bases.setdefault((tensor.part_of or name, operand), []).append(name)
        return [*((bands, operand) for (_, operand), bands in bases.items()), ([*operator.outputs], Operand.OUTPUT)]

    def _memory_for(self, operand: Operand) -> str | None:
        names = [one.memory.name for one in self.levels if operand in one.memory.holds]
        return self.random.choice([None, *names, *names])

    def _has_home(self, bands: list[str], operand: Operand) -> bool:
        return any(
            all(band in self.residents[one.memory.name] and self.residents[one.memory.name][band][2] for band in bands)
            for one in self.levels
            if operand in one.memory.holds
        )

    def _prefetch(self) -> None:
        """Copy some tensor to some memory that may hold it, or only reserve its address."""
        tensor = self.random.choice(self.graph.tensors)
        if self._sources(tensor.name):
            kinds = {Operand.WEIGHT} if tensor.role is Role.PARAMETER else {Operand.INPUT, Operand.OUTPUT}
            names = [one.memory.name for one in self.levels if kinds & set(one.memory.holds)]
            if names:
                memory = self.random.choice(names)
                if self.random.random() < 0.3 and tensor.name not in self.residents[memory]:
                    self._allocate(tensor.name, memory, tensor.size_bytes, {tensor.name})
                    if self.random.random() < 0.5:
                        self._free(tensor.name, memory)
                else:
                    self._bring(tensor.name, memory, {tensor.name})

    def _sources(self, name: str) -> list[str]:
        held = [memory for memory, residents in self.residents.items() if name in residents and residents[name][2]]
        return [*held, *([DRAM] if name in self.in_dram else [])]

    def _bring(self, name: str, memory: str, pinned: set[str]) -> None:
        if name not in self.residents[memory]:
            self._allocate(name, memory, self.graph.tensor[name].size_bytes, pinned)
        elif self.residents[memory][name][2]:
            return
        self.instructions.append(Copy(name, self.random.choice(self._sources(name)), memory))
        self.residents[memory][name] = (*self.residents[memory][name][:2], True)

    def _to_dram(self, name: str) -> None:
        if name not in self.in_dram:
            self.instructions.append(Copy(name, self._sources(name)[0], DRAM))
            self.in_dram.add(name)

    def _allocate(self, name: str, memory: str, size: int, pinned: set[str]) -> None:
        (level,) = (one for one in self.levels if one.memory.name == memory)
        residents, alignment = self.residents[memory], level.memory.alignment_bytes
        while True:
            places = range(0, level.memory.capacity_bytes - size + 1, alignment)
            free = [
                at for at in places if all(at >= stop or at + size <= start for start, stop, _ in residents.values())
            ]
            if free:
                break
            self._evict(memory, pinned)
        offset = self.random.choice((free[0], self.random.choice(free)))
        residents[name] = offset, offset + size, False
        self.instructions.append(Allocate(name, memory, offset))

    def _evict(self, memory: str, pinned: set[str]) -> None:
        others = [name for name in self.residents[memory] if name not in pinned and "@" not in name]
        if not others:
            raise _NoPlaceError
        name = self.random.choice(others)
        if name not in self.in_dram and len(self._sources(name)) == 1:
            self._to_dram(name)
        self._free(name, memory)

    def _free(self, name: str, memory: str) -> None:
        del self.residents[memory][name]
        self.instructions.append(Free(name, memory))


def operands_of(graph: Graph) -> Mapping[str, Sequence[TileOperand]]:
    return {one.name: tile_operands(graph, TileOfNetwork(one, one, 0, 0)) for one in graph.operators}


def replayed(case: ProgramCase, instructions: Sequence[Instruction]) -> StreamingReplay:
    machine = AddressedMachine(case.accelerator)
    workspaces = {name: cost.workspace_bytes for name, cost in case.costs.items()}
    replay = StreamingReplay(tile_problem(case.graph, machine), machine, operands_of(case.graph), workspaces)
    for index, instruction in enumerate(instructions):
        replay.execute(index, instruction)
    replay.finish()
    return replay
