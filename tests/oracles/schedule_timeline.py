"""The start and end of the instructions of a schedule's program, written from section 7 of docs/schedule.md.

Every query searches the full history of instructions; nothing of `cost` is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Direction, Dma, MemoryLevel, Operand, Port
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role


@dataclass(frozen=True)
class OperatorFacts:
    """The duration, DRAM bits and workspaces of an operator's Compute."""

    cycles: int
    read_bits: int
    written_bits: int
    workspace_bytes: Mapping[str, int]


@dataclass
class Residency:
    tensor: str
    memory: str
    start: int
    stop: int
    begun: int
    ended: int | None = None
    uses: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Done:
    """Instruction `number` ran in cycles [start, stop), and occupied DRAM until `dram_until`."""

    number: int
    start: int
    stop: int
    dram_until: int
    queue: int | None


class OracleTimeline:
    def __init__(self, graph: Graph, accelerator: Accelerator, facts: Mapping[str, OperatorFacts]) -> None:
        self.graph, self.accelerator, self.facts = graph, accelerator, facts
        self.residencies: list[Residency] = []
        self.done: list[Done] = []
        self.in_dram: list[tuple[str, int]] = []
        sizes = set(accelerator.array.sizes) if accelerator.array else set()
        self.addressed = [one for one in accelerator.levels if one.serves is None or sizes <= set(one.serves)]

    def run(self, instructions: Sequence[Instruction]) -> int:
        """Return the latency in cycles."""
        for number, instruction in enumerate(instructions):
            match instruction:
                case Allocate(tensor, memory, offset):
                    stop = offset + self.size_of(tensor, memory)
                    self.residencies.append(Residency(tensor, memory, offset, stop, number))
                case Free(tensor, memory):
                    self.resident(tensor, memory).ended = number
                case Copy():
                    self.copy(number, instruction)
                case Compute(operator):
                    self.compute(number, operator)
        return max([max(one.stop, one.dram_until) for one in self.done], default=0)

    def size_of(self, tensor: str, memory: str) -> int:
        if tensor in self.graph.tensor:
            return self.graph.tensor[tensor].size_bytes
        return self.facts[tensor.split("@")[0]].workspace_bytes[memory]

    def resident(self, tensor: str, memory: str) -> Residency:
        (found,) = [
            one for one in self.residencies if one.ended is None and (one.tensor, one.memory) == (tensor, memory)
        ]
        return found

    def is_resident(self, tensor: str, memory: str) -> bool:
        return any(one.ended is None and (one.tensor, one.memory) == (tensor, memory) for one in self.residencies)

    def copy(self, number: int, copy: Copy) -> None:
        bits = self.graph.tensor[copy.tensor].size_bytes * 8
        way = self.way(copy)
        hops = [
            max(self.cycles(a, Direction.READ, bits), self.cycles(b, Direction.WRITE, bits)) for a, b in pairwise(way)
        ]
        dma = self.accelerator.dma or Dma()
        numbered = [one for one in self.done if one.queue is not None]
        queue = len(numbered) % dma.queues
        waits = [one.stop for one in numbered if one.queue == queue]
        waits.append(self.there_at(copy.tensor, copy.source))
        if copy.target != DRAM:
            waits.append(self.place_is_free_at(self.resident(copy.tensor, copy.target)))
        turn = 0
        if copy.source == DRAM:
            turn = self.cycles(DRAM, Direction.READ, bits)
        if copy.target == DRAM:
            turn = self.cycles(DRAM, Direction.WRITE, bits)
        if turn:
            waits += [one.dram_until for one in self.done]
        start = max(waits)
        stop = start + dma.setup_cycles + max(hops)
        self.done.append(Done(number, start, stop, start + turn if turn else 0, queue))
        for memory in (copy.source, copy.target):
            if memory != DRAM:
                self.resident(copy.tensor, memory).uses.append(stop)
        self.written(copy.tensor, copy.target, stop)

    def compute(self, number: int, name: str) -> None:
        facts, operator = self.facts[name], self.graph.operator[name]
        waits = [0, *(one.stop for one in self.done if one.queue is None)]
        used: list[Residency] = []
        for bands, home in self.operands(operator.reads):
            waits += [self.there_at(band, home) for band in bands]
            used += [self.resident(band, home) for band in bands if home != DRAM]
        outputs = self.outputs(operator.outputs)
        places = [self.resident(band, home) for band, home in outputs if home != DRAM]
        places += [self.resident(f"{name}@workspace", memory) for memory in facts.workspace_bytes]
        waits += [self.place_is_free_at(place) for place in places]
        turn = self.cycles(DRAM, Direction.READ, facts.read_bits)
        turn += self.cycles(DRAM, Direction.WRITE, facts.written_bits)
        if turn:
            waits += [one.dram_until for one in self.done]
        start = max(waits)
        stop = start + facts.cycles
        self.done.append(Done(number, start, stop, start + turn if turn else 0, None))
        for residency in (*used, *places):
            residency.uses.append(stop)
        for band, home in outputs:
            self.written(band, home, stop)

    def operands(self, names: Sequence[str]) -> list[tuple[list[str], str]]:
        """Return, for each tensor of the network, the bands that are read and their common home."""
        bases: dict[tuple[str, bool], list[str]] = {}
        for name in dict.fromkeys(names):
            tensor = self.graph.tensor[name]
            bases.setdefault((tensor.part_of or name, tensor.role is Role.PARAMETER), []).append(name)
        found = []
        for (_, is_parameter), bands in bases.items():
            operand = Operand.WEIGHT if is_parameter else Operand.INPUT
            homes = [
                one.memory.name
                for one in self.addressed
                if operand in one.memory.holds
                and all(
                    self.is_resident(band, one.memory.name) and self.resident(band, one.memory.name).writes
                    for band in bands
                )
            ]
            found.append((bands, homes[0] if homes else DRAM))
        return found

    def outputs(self, names: Sequence[str]) -> list[tuple[str, str]]:
        found = []
        for name in names:
            homes = [
                one.memory.name
                for one in self.addressed
                if Operand.OUTPUT in one.memory.holds and self.is_resident(name, one.memory.name)
            ]
            found.append((name, homes[0] if homes else DRAM))
        return found

    def there_at(self, tensor: str, memory: str) -> int:
        if memory == DRAM:
            return [0, *(cycle for name, cycle in self.in_dram if name == tensor)][-1]
        return self.resident(tensor, memory).writes[-1]

    def place_is_free_at(self, place: Residency) -> int:
        earlier = [
            one
            for one in self.residencies
            if one.memory == place.memory
            and one.begun < place.begun
            and (one.ended is None or one.ended < place.begun)
            and one.start < place.stop
            and place.start < one.stop
        ]
        return max([cycle for one in earlier for cycle in one.uses], default=0)

    def written(self, tensor: str, memory: str, cycle: int) -> None:
        if memory == DRAM:
            self.in_dram.append((tensor, cycle))
        else:
            self.resident(tensor, memory).writes.append(cycle)

    def way(self, copy: Copy) -> list[str]:
        is_parameter = self.graph.tensor[copy.tensor].role is Role.PARAMETER
        wanted = {Operand.WEIGHT} if is_parameter else {Operand.INPUT, Operand.OUTPUT}
        names = [*(one.memory.name for one in self.addressed), DRAM]
        ends = sorted((names.index(copy.source), names.index(copy.target)))
        between = [one.memory.name for one in self.addressed[ends[0] + 1 : ends[1]] if wanted & set(one.memory.holds)]
        way = [names[ends[0]], *between, names[ends[1]]]
        return way if way[0] == copy.source else way[::-1]

    def cycles(self, memory: str, direction: Direction, bits: int) -> int:
        ports = self.ports(memory)
        if not ports or not bits:
            return 0
        rate = sum(port.bits_per_cycle for port in ports if port.direction in (direction, Direction.READ_WRITE))
        return -(-bits // rate)

    def ports(self, memory: str) -> tuple[Port, ...]:
        if memory == DRAM:
            return self.accelerator.dram.ports if self.accelerator.dram else ()
        level: MemoryLevel
        (level,) = [one for one in self.addressed if one.memory.name == memory]
        return level.ports
