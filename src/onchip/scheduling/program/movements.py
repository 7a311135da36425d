"""Data movement from places: the instructions of a tile graph, group by group, without addresses and workspaces.

Tile operators run in the graph's order. An operand that is read on chip is copied before its operator runs, from the
nearest memory that has it. A tensor without a later reader is freed; a network output is written to DRAM before. If a
memory lacks free bytes for an operand, the next memory farther from the MACs takes it. An output takes the bytes of an
input without a later reader if its operator may compute in place.

Capacity is counted in bytes, aligned; `addresses.py` finds the offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.ir.tensor import Role, Tensor
from onchip.ops.nests import BandedOperand
from onchip.scheduling.program.places import StackPlaces
from onchip.scheduling.program.runs import TiledNetwork, base_of

Resident = tuple[str, bool, tuple[str, ...], bool]
"""A tensor, True if DRAM lacks it, the memories that have it, in the order of their arrival, and True for bands.

Bands that the tiles of a group wrote lie apart.
"""
OnChip = frozenset[Resident]
"""All residents at the beginning or the end of a group. A tensor that is needed later and not resident is in DRAM."""


@dataclass(frozen=True, slots=True)
class StackMovements:
    """The instructions of one group; for each step the free bytes by memory, and the homes of its operands."""

    instructions: tuple[Instruction, ...]
    free_bytes: tuple[Mapping[str, int], ...]
    homes: tuple[tuple[str | None, ...], ...]
    after: OnChip


def movements_of(
    network: TiledNetwork, levels: Sequence[MemoryLevel], stack: int, places: StackPlaces, before: OnChip
) -> StackMovements:
    """Return the movements of a group in which every tensor lies where `places` says, if the memory has free bytes."""
    walk = _Walk(network, levels, places, before)
    walk.go(network.steps_of_stack[stack])
    return StackMovements(tuple(walk.instructions), tuple(walk.free_bytes), tuple(walk.homes), walk.on_chip())


class _Walk:
    """Walks from step to step; `_resident` maps each tensor on chip to the memories that have it."""

    def __init__(
        self, network: TiledNetwork, levels: Sequence[MemoryLevel], places: StackPlaces, before: OnChip
    ) -> None:
        self.instructions: list[Instruction] = []
        self.free_bytes: list[Mapping[str, int]] = []
        self.homes: list[tuple[str | None, ...]] = []
        self._network = network
        self._read, self._written, self._waiting = dict(places.read), dict(places.written), dict(places.waiting)
        self._leaving = places.leaving
        self._memories = {level.memory.name: level.memory for level in levels}
        self._free = {name: memory.capacity_bytes for name, memory in self._memories.items()}
        self._distance = {name: at for at, name in enumerate(self._memories)}
        self._holding = {operand: _names(levels, operand) for operand in Operand}
        self._resident = {tensor: list(held) for tensor, _, held, _ in before}
        self._not_in_dram = {tensor for tensor, is_missing, _, _ in before if is_missing}
        self._in_bands = {tensor for tensor, _, _, is_in_bands in before if is_in_bands}
        self._lent = set[tuple[str, str]]()
        """Inputs, with a memory, whose bytes an output takes."""
        for tensor, held in self._resident.items():
            for memory in held:
                self._free[memory] -= self._aligned(network.graph.tensor[tensor], memory)

    def on_chip(self) -> OnChip:
        """Return the residents."""
        return frozenset(
            (name, name in self._not_in_dram, tuple(held), name in self._in_bands)
            for name, held in self._resident.items()
        )

    def go(self, steps: range) -> None:
        """Append the instructions of each step."""
        for at in steps:
            step = self._network.steps[at]
            for operand in step.operands:
                if operand.operand is not Operand.OUTPUT:
                    self._bring(operand, self._read.get(operand.tensor))
            for operand in step.operands:
                if operand.operand is Operand.OUTPUT:
                    self._make_room(operand, self._written.get(operand.tensor), self._lenders(at))
            self.free_bytes.append(dict(self._free))
            self.homes.append(tuple(self._home(operand) for operand in step.operands))
            self.instructions.append(Compute(step.operator))
            for tensor, next_read in self._network.in_use[at]:
                if tensor.name in self._resident:
                    self._settle(tensor, at, next_read)

    def _lenders(self, at: int) -> Sequence[str]:
        """Return the inputs whose bytes the output of a step may take, because no later step reads them.

        An output that is whole cannot take the bytes of bands.
        """
        pairs = self._network.graph.operator[self._network.steps[at].operator].in_place
        if not pairs:
            return ()
        last = {one.name for one, after in self._network.in_use[at] if after is None and one.role is not Role.OUTPUT}
        return [pair.input for pair in pairs if pair.input in last and pair.input not in self._in_bands]

    def _home(self, operand: BandedOperand) -> str | None:
        """Return the memory nearest the MACs that may hold the operand and has all its bands; None for DRAM."""
        held = [self._resident.get(band.name, ()) for band in operand.bands]
        return next((name for name in self._holding[operand.operand] if all(name in one for one in held)), None)

    def _from(self, memory: str | None, operand: Operand) -> Sequence[str]:
        """Return a memory and those farther from the MACs that hold such operands; none for DRAM."""
        if memory is None:
            return ()
        return [name for name in self._holding[operand] if self._distance[name] >= self._distance[memory]]

    def _bring(self, operand: BandedOperand, memory: str | None) -> None:
        """Copy an operand to the memory that serves its reads, or to one farther from the MACs.

        Otherwise ensure that DRAM has the operand.
        """
        if memory is None and self._home(operand) is not None:
            return
        for name in self._from(memory, operand.operand):
            missing = [band for band in operand.bands if name not in self._resident.get(band.name, ())]
            if self._take(name, missing):
                for band in missing:
                    self._load(band, name)
                return
        for band in operand.bands:
            self._to_dram(band)

    def _load(self, band: Tensor, memory: str) -> None:
        """Copy a band from the nearest memory that has it."""
        held = self._resident.setdefault(band.name, [])
        rank = self._distance[memory]
        source = min(held, key=lambda one: abs(self._distance[one] - rank)) if held else DRAM
        self.instructions += (Allocate(band.name, memory, 0), Copy(band.name, source, memory))
        held.append(memory)

    def _make_room(self, operand: BandedOperand, memory: str | None, lenders: Sequence[str]) -> None:
        for name in self._from(memory, operand.operand):
            lender = next((one for one in lenders if name in self._resident.get(one, ())), None)
            if lender is not None:
                self._lent.add((lender, name))
            if lender is not None or self._take(name, operand.bands):
                for band in operand.bands:
                    self.instructions.append(Allocate(band.name, name, 0))
                    self._resident[band.name] = [name]
                    self._not_in_dram.add(band.name)
                return

    def _settle(self, tensor: Tensor, at: int, next_read: int | None) -> None:
        """Keep a tensor after a step that used it, move it to the memory where it waits, or free it."""
        held = self._resident[tensor.name]
        if next_read is None:
            if tensor.role is Role.OUTPUT:
                self._to_dram(tensor)
            self._release(tensor, tuple(held))
            return
        base = base_of(tensor)
        if base in self._leaving and not self._network.is_same_group(at, next_read):
            self._to_dram(tensor)
            self._release(tensor, tuple(held))
            return
        if base not in self._waiting or self._network.is_soon(at, next_read):
            return
        memory = self._waiting[base]
        if memory is None:
            self._to_dram(tensor)
        elif memory not in held:
            if not self._take(memory, (tensor,)):
                return
            self.instructions += (Allocate(tensor.name, memory, 0), Copy(tensor.name, held[0], memory))
            held.append(memory)
        self._release(tensor, tuple(one for one in held if one != memory))

    def _take(self, memory: str, bands: Sequence[Tensor]) -> bool:
        """Reserve the bytes of all bands; return False, and reserve nothing, if they do not fit together."""
        size = sum(self._aligned(band, memory) for band in bands)
        if size > self._free[memory]:
            return False
        self._free[memory] -= size
        return True

    def _aligned(self, tensor: Tensor, memory: str) -> int:
        alignment = self._memories[memory].alignment_bytes
        return -(-tensor.size_bytes // alignment) * alignment

    def _to_dram(self, tensor: Tensor) -> None:
        if tensor.name in self._not_in_dram:
            self.instructions.append(Copy(tensor.name, self._resident[tensor.name][0], DRAM))
            self._not_in_dram.discard(tensor.name)

    def _release(self, tensor: Tensor, memories: Sequence[str]) -> None:
        held = self._resident[tensor.name]
        for memory in memories:
            self.instructions.append(Free(tensor.name, memory))
            if (tensor.name, memory) in self._lent:
                self._lent.discard((tensor.name, memory))
            else:
                self._free[memory] += self._aligned(tensor, memory)
            held.remove(memory)
        if not held:
            del self._resident[tensor.name]
            self._not_in_dram.discard(tensor.name)


def _names(levels: Sequence[MemoryLevel], operand: Operand) -> tuple[str, ...]:
    """Return the memories that hold such operands, from the MACs outwards."""
    return tuple(level.memory.name for level in levels if operand in level.memory.holds)
