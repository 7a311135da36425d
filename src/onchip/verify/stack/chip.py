"""The accelerator while a stack runs: the memories for whole operands, and the capacity that whole maps leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

from onchip.answer.layer_mapping import loops_along
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError


class ChipInUse:
    """The memories on the chip, nearest the MACs first, then DRAM.

    `taken_bits` maps each memory to the bits of whole maps in it. Only memories that serve the whole array hold whole
    data.
    """

    def __init__(self, accelerator: Accelerator, taken_bits: Mapping[str, int]) -> None:
        self.accelerator = accelerator
        self.taken_bits = taken_bits
        self.names = (*(level.memory.name for level in accelerator.levels), DRAM)
        self._levels = {level.memory.name: level for level in accelerator.levels}
        dimensions = set(accelerator.array.sizes if accelerator.array else ())
        self._single = [one for one in accelerator.levels if one.serves is None or set(one.serves) == dimensions]

    @property
    def levels(self) -> tuple[MemoryLevel, ...]:
        """Return all memories on the chip, nearest the MACs first."""
        return self.accelerator.levels

    def places(self, *operands: Operand) -> tuple[str, ...]:
        """Return the memories that may hold all of these operands whole: unshared memories, then DRAM."""
        holding = (one for one in self._single if all(operand in one.memory.holds for operand in operands))
        return (*(one.memory.name for one in holding), DRAM)

    def rank(self, memory: str) -> int:
        """Return the distance of a memory from the MACs; 0 is the nearest."""
        return self.names.index(memory)

    def farther(self, memories: Iterable[str]) -> str:
        """Return the memory that is farthest from the MACs."""
        return max(memories, key=self.rank)

    def nearer(self, memories: Iterable[str]) -> str:
        """Return the memory that is nearest to the MACs."""
        return min(memories, key=self.rank)

    def room_bits(self, memory: str) -> float:
        """Return the bits of a memory that maps between stacks leave free; infinity for DRAM."""
        if memory == DRAM:
            return inf
        return self._levels[memory].memory.capacity_bytes * 8 - self.taken_bits.get(memory, 0)

    def lowest(self, operand: Operand, bits: int) -> str:
        """Return the memory nearest the MACs that may hold the operand and has `bits` free."""
        return next(place for place in self.places(operand) if self.room_bits(place) >= bits)

    def may_hold(self, memory: str, operand: Operand) -> bool:
        """Return True if data of this operand may pass through the memory."""
        return memory == DRAM or operand in self._levels[memory].memory.holds

    def access(self, memory: str) -> Access | None:
        """Return an access to the memory, or None if its energies are not stated."""
        dram = self.accelerator.dram
        return (dram.access if dram else None) if memory == DRAM else self._levels[memory].access

    def port(self, memory: str, direction: Direction, *, towards_macs: bool) -> tuple[int, Port] | None:
        """Return the number and the port that a copy uses: the first port towards the MACs, the last one towards DRAM.

        Returns None if the memory has no ports. Raises AcceleratorError if none of its ports has that direction.
        """
        dram = self.accelerator.dram
        ports = (dram.ports if dram else ()) if memory == DRAM else self._levels[memory].ports
        fitting = [one for one in enumerate(ports) if one[1].direction in (direction, Direction.READ_WRITE)]
        if ports and not fitting:
            raise AcceleratorError(f"no port can {direction}", place=f"memory {memory!r}", expected="one that does")
        return (fitting[0] if towards_macs else fitting[-1]) if fitting else None


def with_groups_along_all(accelerator: Accelerator) -> Accelerator:
    """Return the accelerator with an array whose dimensions may all unroll groups too, as in DeFiNES."""
    if accelerator.array is None:
        return accelerator
    array = accelerator.array
    wider = {name: tuple(dict.fromkeys((*loops_along(array, name), "G"))) for name in array.dimensions}
    return replace(accelerator, array=replace(array, unrolls=wider))
