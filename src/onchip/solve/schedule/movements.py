"""From places to what moves when: the program of a tile graph without workspaces.

Tile operators run in the graph's order. What an operator reads on the chip is brought there before it runs, from the
nearest memory that has it; what nobody reads any more is freed, a network output written to DRAM before. Where a
memory has no room for an operand, the next one farther from the MACs takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.cost.schedule.operands import BandedOperand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from onchip.lower.schedule.tile_graph import TileGraph
from onchip.solve.schedule.addresses import AddressSpace
from onchip.solve.schedule.places import Places
from onchip.solve.schedule.runs import Step

TensorInUse: TypeAlias = tuple[Tensor, int | None]
"""A tensor that a step reads or writes, and the number of the next step that reads it; None if none does."""


@dataclass(frozen=True, slots=True)
class TiledNetwork:
    """A tile graph as a program runs it: each tile operator's step, the number of its tile, what it uses."""

    graph: Graph
    steps: tuple[Step, ...]
    tile_numbers: tuple[int, ...]
    in_use: tuple[tuple[TensorInUse, ...], ...]

    @classmethod
    def of(cls, tiles: TileGraph, steps: Sequence[Step]) -> TiledNetwork:
        """The steps of a tile graph, in its order."""
        numbers = (_tile_number(step.operator, tiles.operators[step.operator].operator) for step in steps)
        return cls(tiles.graph, tuple(steps), tuple(numbers), tuple(_in_use(tiles.graph))[::-1])


def _in_use(graph: Graph) -> Iterator[tuple[TensorInUse, ...]]:
    """What each step uses, the last one first."""
    next_read: dict[str, int] = {}
    for at in reversed(range(len(graph.operators))):
        operator = graph.operators[at]
        names = dict.fromkeys((*operator.reads, *operator.outputs))
        yield tuple([(graph.tensor[name], next_read.get(name)) for name in names])
        next_read |= dict.fromkeys(operator.reads, at)


@dataclass(frozen=True, slots=True)
class Movements:
    """Instructions, and of each step by memory the bytes below all that is resident while its operator runs."""

    instructions: tuple[Instruction, ...]
    free_below: tuple[Mapping[str, int], ...]


class _Walk:
    """Goes from step to step; `resident`: for each tensor on the chip, the memories that have it."""

    def __init__(self, network: TiledNetwork, levels: Sequence[MemoryLevel], places: Places) -> None:
        self.instructions: list[Instruction] = []
        self.free_below: list[Mapping[str, int]] = []
        self._network = network
        self._places = places
        self._spaces = {level.memory.name: AddressSpace(level.memory) for level in levels}
        self._distance = {name: at for at, name in enumerate(self._spaces)}
        self._farther = {
            (level.memory.name, operand): _from(levels[at:], operand)
            for at, level in enumerate(levels)
            for operand in Operand
        }
        self._resident: dict[str, list[str]] = {}
        self._in_dram = {one.name for one in network.graph.tensors if one.role in (Role.INPUT, Role.PARAMETER)}

    def go(self) -> None:
        """Write down what happens before and after each step."""
        for at, step in enumerate(self._network.steps):
            for operand in step.operands:
                if operand.operand is not Operand.OUTPUT:
                    self._bring(operand, self._places.read.get((step.stack, _base(operand.bands[0]))))
            for operand in step.operands:
                if operand.operand is Operand.OUTPUT:
                    self._make_room(operand, self._places.written.get((step.stack, _base(operand.bands[0]))))
            self.free_below.append({name: space.free_below for name, space in self._spaces.items()})
            self.instructions.append(Compute(step.operator))
            for tensor, next_read in self._network.in_use[at]:
                if tensor.name in self._resident:
                    self._settle(tensor, at, next_read)

    def _bring(self, operand: BandedOperand, memory: str | None) -> None:
        """To the memory in which it is read, or one farther from the MACs; else to DRAM, if it is not there."""
        for name in self._farther[memory, operand.operand] if memory is not None else ():
            missing = [band for band in operand.bands if name not in self._resident.get(band.name, ())]
            offsets = self._taken(name, missing)
            if offsets is not None:
                for band, offset in zip(missing, offsets, strict=True):
                    self._load(band, name, offset)
                return
        for band in operand.bands:
            self._to_dram(band)

    def _load(self, band: Tensor, memory: str, offset: int) -> None:
        """From the nearest memory that has it."""
        held = self._resident.setdefault(band.name, [])
        rank = self._distance[memory]
        source = min(held, key=lambda one: abs(self._distance[one] - rank)) if held else DRAM
        self.instructions += (Allocate(band.name, memory, offset), Copy(band.name, source, memory))
        held.append(memory)

    def _make_room(self, operand: BandedOperand, memory: str | None) -> None:
        for name in self._farther[memory, operand.operand] if memory is not None else ():
            offsets = self._taken(name, operand.bands)
            if offsets is not None:
                for band, offset in zip(operand.bands, offsets, strict=True):
                    self.instructions.append(Allocate(band.name, name, offset))
                    self._resident[band.name] = [name]
                return
        self._in_dram |= {band.name for band in operand.bands}

    def _settle(self, tensor: Tensor, at: int, next_read: int | None) -> None:
        """After a step that used it, what is resident stays, waits elsewhere, or leaves."""
        held = self._resident[tensor.name]
        if next_read is None:
            if tensor.role is Role.OUTPUT:
                self._to_dram(tensor)
            self._free(tensor, tuple(held))
            return
        key = self._network.steps[at].stack, _base(tensor)
        if not self._places.waits_elsewhere(key) or self._is_soon(at, next_read):
            return
        memory = self._places.waiting[key]
        if memory is None:
            self._to_dram(tensor)
        elif memory not in held:
            offsets = self._taken(memory, (tensor,))
            if offsets is None:
                return
            self.instructions += (Allocate(tensor.name, memory, offsets[0]), Copy(tensor.name, held[0], memory))
            held.append(memory)
        self._free(tensor, tuple(one for one in held if one != memory))

    def _taken(self, memory: str, bands: Sequence[Tensor]) -> list[int] | None:
        """Addresses for all of them; None, and nothing taken, where not all have a place."""
        space, offsets = self._spaces[memory], list[int]()
        for band in bands:
            offset = space.take(band.name, band.size_bytes)
            if offset is None:
                for taken in bands[: len(offsets)]:
                    space.give_back(taken.name)
                return None
            offsets.append(offset)
        return offsets

    def _is_soon(self, at: int, next_use: int) -> bool:
        """In the same tile of the same stack, or the next one."""
        steps, numbers = self._network.steps, self._network.tile_numbers
        return steps[at].stack == steps[next_use].stack and numbers[next_use] <= numbers[at] + 1

    def _to_dram(self, tensor: Tensor) -> None:
        if tensor.name not in self._in_dram:
            self.instructions.append(Copy(tensor.name, self._resident[tensor.name][0], DRAM))
            self._in_dram.add(tensor.name)

    def _free(self, tensor: Tensor, memories: Sequence[str]) -> None:
        held = self._resident[tensor.name]
        for memory in memories:
            self.instructions.append(Free(tensor.name, memory))
            self._spaces[memory].give_back(tensor.name)
            held.remove(memory)
        if not held:
            del self._resident[tensor.name]


def movements_of(network: TiledNetwork, levels: Sequence[MemoryLevel], places: Places) -> Movements:
    """What happens when every tensor lies where `places` says, as far as there is room, in its order."""
    walk = _Walk(network, levels, places)
    walk.go()
    return Movements(tuple(walk.instructions), tuple(walk.free_below))


def _from(levels: Sequence[MemoryLevel], operand: Operand) -> tuple[str, ...]:
    """Of a memory and those farther from the MACs the ones that hold such operands."""
    return tuple(level.memory.name for level in levels if operand in level.memory.holds)


def _tile_number(name: str, original: str) -> int:
    """Of `conv1#12` or a view's `slice1#12.1`; an operator that stands as it is runs in the first tile."""
    return 0 if name == original else int(name.removeprefix(f"{original}#").partition(".")[0])


def _base(tensor: Tensor) -> str:
    return tensor.part_of or tensor.name
