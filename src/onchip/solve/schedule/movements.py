"""From places to what moves when: the program of a tile graph without workspaces.

Tile operators run in the graph's order. What an operator reads on the chip is brought there before it runs, from the
nearest memory that has it; what nobody reads any more is freed, a network output written to DRAM before. Where a
memory has no room for an operand, the next one farther from the MACs takes it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import DRAM, MemoryLevel
from onchip.cost.schedule.operands import BandedOperand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from onchip.lower.schedule.tile_graph import TileGraph
from onchip.solve.schedule.addresses import AddressSpace
from onchip.solve.schedule.places import Places
from onchip.solve.schedule.runs import Step


@dataclass(frozen=True, slots=True)
class TiledNetwork:
    """A tile graph as a program runs it: each tile operator's step, the number of its tile, when tensors are read."""

    graph: Graph
    steps: tuple[Step, ...]
    tile_numbers: tuple[int, ...]
    uses: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, tiles: TileGraph, steps: Sequence[Step]) -> TiledNetwork:
        """The steps of a tile graph, in its order."""
        numbers = (_tile_number(step.operator, tiles.operators[step.operator].operator) for step in steps)
        uses: dict[str, list[int]] = {}
        for at, operator in enumerate(tiles.graph.operators):
            for name in operator.reads:
                uses.setdefault(name, []).append(at)
        return cls(tiles.graph, tuple(steps), tuple(numbers), uses)


@dataclass(frozen=True, slots=True)
class Movements:
    """Instructions, and of each step by memory the bytes below all that is resident while its operator runs."""

    instructions: tuple[Instruction, ...]
    free_below: tuple[Mapping[str, int], ...]


@dataclass(slots=True)
class _Walk:
    """`resident`: for each tensor on the chip, the memories that have it."""

    network: TiledNetwork
    levels: Sequence[MemoryLevel]
    places: Places
    spaces: Mapping[str, AddressSpace]
    resident: dict[str, list[str]] = field(default_factory=dict)
    in_dram: set[str] = field(default_factory=set)
    free_below: list[Mapping[str, int]] = field(default_factory=list)

    def instructions(self) -> Iterator[Instruction]:
        graph = self.network.graph
        self.in_dram |= {one.name for one in graph.tensors if one.role in (Role.INPUT, Role.PARAMETER)}
        for at, step in enumerate(self.network.steps):
            written = set(graph.operators[at].outputs)
            for operand in step.operands:
                bands = [one for one in operand.bands if one.name not in written]
                if bands:
                    yield from self._bring(operand, self.places.read.get((step.stack, _base(bands[0]))))
            for operand in step.operands:
                if operand.bands[0].name in written:
                    yield from self._make_room(operand, self.places.written.get((step.stack, _base(operand.bands[0]))))
            self.free_below.append({name: space.free_below for name, space in self.spaces.items()})
            yield Compute(step.operator)
            for name in dict.fromkeys((*graph.operators[at].reads, *graph.operators[at].outputs)):
                yield from self._settle(graph.tensor[name], at)

    def _bring(self, operand: BandedOperand, memory: str | None) -> Iterator[Instruction]:
        """To the memory in which it is read, or one farther from the MACs; else to DRAM, if it is not there."""
        for name in self._from(memory, operand):
            missing = [band for band in operand.bands if name not in self.resident.get(band.name, ())]
            offsets = self._taken(name, missing)
            if offsets is not None:
                for band, offset in zip(missing, offsets, strict=True):
                    held = self.resident.setdefault(band.name, [])
                    source = min(held, key=lambda one: self._distance(one, name), default=DRAM)
                    yield Allocate(band.name, name, offset)
                    yield Copy(band.name, source, name)
                    held.append(name)
                return
        for band in operand.bands:
            yield from self._to_dram(band)

    def _make_room(self, operand: BandedOperand, memory: str | None) -> Iterator[Instruction]:
        for name in self._from(memory, operand):
            offsets = self._taken(name, operand.bands)
            if offsets is not None:
                for band, offset in zip(operand.bands, offsets, strict=True):
                    yield Allocate(band.name, name, offset)
                    self.resident[band.name] = [name]
                return
        self.in_dram |= {band.name for band in operand.bands}

    def _settle(self, tensor: Tensor, at: int) -> Iterator[Instruction]:
        """After a step that used it: it stays, waits elsewhere, or leaves."""
        held = self.resident.get(tensor.name)
        if held is None:
            return
        next_use = self._next_use(tensor.name, at)
        if next_use is None:
            if tensor.role is Role.OUTPUT:
                yield from self._to_dram(tensor)
            yield from self._freed(tensor, tuple(held))
            return
        key = self.network.steps[at].stack, _base(tensor)
        if not self.places.waits_elsewhere(key) or self._is_soon(at, next_use):
            return
        memory = self.places.waiting[key]
        if memory is None:
            yield from self._to_dram(tensor)
        elif memory not in held:
            offsets = self._taken(memory, (tensor,))
            if offsets is None:
                return
            yield Allocate(tensor.name, memory, offsets[0])
            yield Copy(tensor.name, held[0], memory)
            held.append(memory)
        yield from self._freed(tensor, tuple(one for one in held if one != memory))

    def _from(self, memory: str | None, operand: BandedOperand) -> Iterator[str]:
        """The memory and those farther from the MACs that hold such operands; none for DRAM."""
        if memory is not None:
            names = [level.memory.name for level in self.levels]
            for level in self.levels[names.index(memory) :]:
                if operand.operand in level.memory.holds:
                    yield level.memory.name

    def _taken(self, memory: str, bands: Sequence[Tensor]) -> list[int] | None:
        """Addresses for all of them; None, and nothing taken, where not all have a place."""
        offsets: list[int] = []
        for band in bands:
            offset = self.spaces[memory].take(band.name, band.size_bytes)
            if offset is None:
                for taken in bands[: len(offsets)]:
                    self.spaces[memory].give_back(taken.name)
                return None
            offsets.append(offset)
        return offsets

    def _is_soon(self, at: int, next_use: int) -> bool:
        """In the same tile of the same stack, or the next one."""
        steps, numbers = self.network.steps, self.network.tile_numbers
        return steps[at].stack == steps[next_use].stack and numbers[next_use] <= numbers[at] + 1

    def _to_dram(self, tensor: Tensor) -> Iterator[Instruction]:
        if tensor.name not in self.in_dram:
            yield Copy(tensor.name, self.resident[tensor.name][0], DRAM)
            self.in_dram.add(tensor.name)

    def _freed(self, tensor: Tensor, memories: Sequence[str]) -> Iterator[Instruction]:
        for memory in memories:
            yield Free(tensor.name, memory)
            self.spaces[memory].give_back(tensor.name)
            self.resident[tensor.name].remove(memory)
        if not self.resident[tensor.name]:
            del self.resident[tensor.name]

    def _next_use(self, tensor: str, at: int) -> int | None:
        steps = self.network.uses.get(tensor, ())
        place = bisect_right(steps, at)
        return steps[place] if place < len(steps) else None

    def _distance(self, source: str, target: str) -> int:
        names = [level.memory.name for level in self.levels]
        return abs(names.index(source) - names.index(target))


def movements_of(network: TiledNetwork, levels: Sequence[MemoryLevel], places: Places) -> Movements:
    """What happens when every tensor lies where `places` says, as far as there is room, in its order."""
    spaces = {level.memory.name: AddressSpace(level.memory) for level in levels}
    walk = _Walk(network, levels, places, spaces)
    return Movements(tuple(walk.instructions()), tuple(walk.free_below))


def _tile_number(name: str, original: str) -> int:
    """Of `conv1#12` or a view's `slice1#12.1`; an operator that stands as it is runs in the first tile."""
    return 0 if name == original else int(name.removeprefix(f"{original}#").partition(".")[0])


def _base(tensor: Tensor) -> str:
    return tensor.part_of or tensor.name
