"""From places to what moves when: the program of a tile graph, stack by stack, without workspaces.

Tile operators run in the graph's order. What an operator reads on the chip is brought there before it runs, from the
nearest memory that has it; what nobody reads any more is freed, a network output written to DRAM before. Where a
memory has no room for an operand, the next one farther from the MACs takes it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import DRAM, Memory, MemoryLevel, Operand
from onchip.ir.tensor import Role, Tensor
from onchip.ops.derive.banded_operands import BandedOperand
from onchip.scheduling.program.places import StackPlaces
from onchip.scheduling.program.tiled_network import TiledNetwork, base_of

Resident = tuple[str, bool, tuple[tuple[str, int, int], ...]]
"""A tensor, whether DRAM lacks it, and the memories that have it, in the order of their arrival, with begin and end."""
OnChip = frozenset[Resident]
"""All that is resident when a stack begins, or ends. What is not resident, and still needed, is in DRAM."""


@dataclass(frozen=True, slots=True)
class StackMovements:
    """The instructions of one stack, of each step the bytes below all that is resident and its operands' homes."""

    instructions: tuple[Instruction, ...]
    free_below: tuple[Mapping[str, int], ...]
    homes: tuple[tuple[str | None, ...], ...]
    after: OnChip


def movements_of(
    network: TiledNetwork, levels: Sequence[MemoryLevel], stack: int, places: StackPlaces, before: OnChip
) -> StackMovements:
    """What happens in a stack when every tensor lies where `places` says, as far as there is room, in its order."""
    walk = _Walk(network, levels, places, before)
    walk.go(network.steps_of_stack[stack])
    return StackMovements(tuple(walk.instructions), tuple(walk.free_below), tuple(walk.homes), walk.on_chip())


class _Walk:
    """Goes from step to step; `resident`: for each tensor on the chip, the memories that have it."""

    def __init__(
        self, network: TiledNetwork, levels: Sequence[MemoryLevel], places: StackPlaces, before: OnChip
    ) -> None:
        self.instructions: list[Instruction] = []
        self.free_below: list[Mapping[str, int]] = []
        self.homes: list[tuple[str | None, ...]] = []
        self._network = network
        self._read, self._written, self._waiting = dict(places.read), dict(places.written), dict(places.waiting)
        taken: dict[str, dict[str, tuple[int, int]]] = {level.memory.name: {} for level in levels}
        for tensor, _, places_of in before:
            for memory, begin, end in places_of:
                taken[memory][tensor] = begin, end
        self._spaces = {level.memory.name: AddressSpace.of(level.memory, taken[level.memory.name]) for level in levels}
        self._distance = {name: at for at, name in enumerate(self._spaces)}
        self._holding = {operand: _names(levels, operand) for operand in Operand}
        self._resident = {tensor: [memory for memory, _, _ in held] for tensor, _, held in before}
        self._not_in_dram = {tensor for tensor, is_missing, _ in before if is_missing}

    def on_chip(self) -> OnChip:
        """All that is resident now."""
        taken = {memory: space.taken for memory, space in self._spaces.items()}
        return frozenset(
            (tensor, tensor in self._not_in_dram, tuple((memory, *taken[memory][tensor]) for memory in held))
            for tensor, held in self._resident.items()
        )

    def go(self, steps: range) -> None:
        """Write down what happens before and after each step."""
        for at in steps:
            step = self._network.steps[at]
            for operand in step.operands:
                if operand.operand is not Operand.OUTPUT:
                    self._bring(operand, self._read.get(base_of(operand.bands[0])))
            for operand in step.operands:
                if operand.operand is Operand.OUTPUT:
                    self._make_room(operand, self._written.get(base_of(operand.bands[0])))
            self.free_below.append({name: space.free_below for name, space in self._spaces.items()})
            self.homes.append(tuple(self._home(operand) for operand in step.operands))
            self.instructions.append(Compute(step.operator))
            for tensor, next_read in self._network.in_use[at]:
                if tensor.name in self._resident:
                    self._settle(tensor, at, next_read)

    def _home(self, operand: BandedOperand) -> str | None:
        """The memory nearest the MACs that holds such operands and has all the bands."""
        held = [self._resident.get(band.name, ()) for band in operand.bands]
        return next((name for name in self._holding[operand.operand] if all(name in one for one in held)), None)

    def _from(self, memory: str | None, operand: Operand) -> Sequence[str]:
        """A memory, and those farther from the MACs that hold such operands; none for DRAM."""
        if memory is None:
            return ()
        return [name for name in self._holding[operand] if self._distance[name] >= self._distance[memory]]

    def _bring(self, operand: BandedOperand, memory: str | None) -> None:
        """To the memory in which it is read, or one farther from the MACs; else to DRAM, if it is not there."""
        for name in self._from(memory, operand.operand):
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
        for name in self._from(memory, operand.operand):
            offsets = self._taken(name, operand.bands)
            if offsets is not None:
                for band, offset in zip(operand.bands, offsets, strict=True):
                    self.instructions.append(Allocate(band.name, name, offset))
                    self._resident[band.name] = [name]
                    self._not_in_dram.add(band.name)
                return

    def _settle(self, tensor: Tensor, at: int, next_read: int | None) -> None:
        """After a step that used it, what is resident stays, waits elsewhere, or leaves."""
        held = self._resident[tensor.name]
        if next_read is None:
            if tensor.role is Role.OUTPUT:
                self._to_dram(tensor)
            self._free(tensor, tuple(held))
            return
        base = base_of(tensor)
        if base not in self._waiting or self._network.is_soon(at, next_read):
            return
        memory = self._waiting[base]
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

    def _to_dram(self, tensor: Tensor) -> None:
        if tensor.name in self._not_in_dram:
            self.instructions.append(Copy(tensor.name, self._resident[tensor.name][0], DRAM))
            self._not_in_dram.discard(tensor.name)

    def _free(self, tensor: Tensor, memories: Sequence[str]) -> None:
        held = self._resident[tensor.name]
        for memory in memories:
            self.instructions.append(Free(tensor.name, memory))
            self._spaces[memory].give_back(tensor.name)
            held.remove(memory)
        if not held:
            del self._resident[tensor.name]
            self._not_in_dram.discard(tensor.name)


def _names(levels: Sequence[MemoryLevel], operand: Operand) -> tuple[str, ...]:
    """Of the memories that hold such operands, the nearest to the MACs first."""
    return tuple(level.memory.name for level in levels if operand in level.memory.holds)


@dataclass(slots=True)
class AddressSpace:
    """Who lies where in one memory: half-open ranges of bytes, and the gaps between them.

    Gaps are kept by length and begin, by begin and by end; below `free_below` nothing is resident.
    """

    memory: Memory
    free_below: int = field(init=False)
    _taken: dict[str, tuple[int, int]] = field(default_factory=dict)
    _gaps: list[tuple[int, int]] = field(default_factory=list)
    _gap_ends: dict[int, int] = field(default_factory=dict)
    _gap_begins: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free_below = self.memory.capacity_bytes

    @classmethod
    def of(cls, memory: Memory, taken: Mapping[str, tuple[int, int]]) -> AddressSpace:
        """A memory in which tensors have these ranges of bytes."""
        space = cls(memory)
        for name, (begin, end) in sorted(taken.items(), key=lambda one: one[1], reverse=True):
            space._open(end, space.free_below)
            space.free_below = begin
            space._taken[name] = begin, end
        return space

    @property
    def taken(self) -> Mapping[str, tuple[int, int]]:
        """Return the range of bytes of each tensor that is resident."""
        return self._taken

    def take(self, tensor: str, size_bytes: int) -> int | None:
        """The address of the tightest gap between residents, at its upper end; else the highest below them all.

        None where there is no such place.
        """
        for at in range(bisect_left(self._gaps, (size_bytes, -1)), len(self._gaps)):
            length, begin = self._gaps[at]
            offset = self._aligned(begin + length - size_bytes)
            if offset >= begin:
                self._fill(begin)
                self._open(begin, offset)
                self._open(offset + size_bytes, begin + length)
                break
        else:
            offset = self._aligned(self.free_below - size_bytes)
            if offset < 0:
                return None
            self._open(offset + size_bytes, self.free_below)
            self.free_below = offset
        self._taken[tensor] = offset, offset + size_bytes
        return offset

    def give_back(self, tensor: str) -> None:
        """End the residency of a tensor."""
        begin, end = self._taken.pop(tensor)
        if end in self._gap_ends:
            end = self._fill(end)
        if begin in self._gap_begins:
            begin = self._gap_begins[begin]
            self._fill(begin)
        if begin == self.free_below:
            self.free_below = end
        else:
            self._open(begin, end)

    def _aligned(self, offset: int) -> int:
        return offset // self.memory.alignment_bytes * self.memory.alignment_bytes

    def _open(self, begin: int, end: int) -> None:
        if begin < end:
            insort(self._gaps, (end - begin, begin))
            self._gap_ends[begin], self._gap_begins[end] = end, begin

    def _fill(self, begin: int) -> int:
        """Forget a gap; return its end."""
        end = self._gap_ends.pop(begin)
        del self._gap_begins[end]
        del self._gaps[bisect_left(self._gaps, (end - begin, begin))]
        return end
