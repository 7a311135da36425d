"""The accelerator as a program sees it: the addressed memories, the operands they may hold, the cost of moving bits."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Dma, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError
from onchip.ir.tensor import Role, Tensor

FEMTOJOULES_PER_PICOJOULE = 1000


class AddressedMachine:
    """An accelerator's addressed memories, nearest the MACs first, and its DRAM."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.dma = accelerator.dma or Dma()

    @cached_property
    def levels(self) -> tuple[MemoryLevel, ...]:
        """Return the memories with a single instance that serves the whole array."""
        dimensions = self.accelerator.array.sizes if self.accelerator.array else {}
        return tuple(
            level
            for level in self.accelerator.levels
            if level.serves is None or all(name in level.serves for name in dimensions)
        )

    @cached_property
    def level(self) -> dict[str, MemoryLevel]:
        """Return the addressed memories by name."""
        return {level.memory.name: level for level in self.levels}

    def may_hold(self, memory: str, tensor: Tensor) -> bool:
        """Return True if a tensor may be allocated there.

        A parameter needs a memory that holds weights, any other tensor one that holds inputs or outputs.
        """
        holds = self.level[memory].memory.holds
        if tensor.role is Role.PARAMETER:
            return Operand.WEIGHT in holds
        return Operand.INPUT in holds or Operand.OUTPUT in holds

    def hops(self, tensor: Tensor, source: str, target: str) -> list[tuple[str, str]]:
        """Return the source and target of each hop of a copy.

        A copy passes through all addressed memories between its ends that may hold the tensor.
        """
        names = [*self.level, DRAM]
        first, last = names.index(source), names.index(target)
        between = names[first + 1 : last] if first < last else names[last + 1 : first][::-1]
        stops = [source, *(name for name in between if self.may_hold(name, tensor)), target]
        return list(pairwise(stops))

    def bits_per_cycle(self, memory: str, direction: Direction) -> int | None:
        """Return the rate of all ports of the direction; None for a memory without ports, where moving takes no time.

        Raises AcceleratorError if the memory has ports, but none of the direction.
        """
        ports = self._ports(memory)
        if not ports:
            return None
        rate = sum(port.bits_per_cycle for port in ports if port.direction in (direction, Direction.READ_WRITE))
        if not rate:
            raise AcceleratorError(f"no port of it can {direction}", place=f"memory {memory!r}", expected="one")
        return rate

    def cycles(self, memory: str, direction: Direction, bits: int) -> int:
        """Return the cycles in which the memory's ports move these bits."""
        rate = self.bits_per_cycle(memory, direction) if bits else None
        return 0 if rate is None else -(-bits // rate)

    def energy_fj(self, memory: str, direction: Direction, bits: int) -> Fraction | None:
        """Return the energy to move these bits at once, in shortest accesses, in fJ.

        None if the file states no energy.
        """
        access = self._access(memory)
        if access is None:
            return None
        shortest = access.shortest_access_bits or access.access_bits
        picojoules = access.read_energy_pj if direction is Direction.READ else access.write_energy_pj
        moved = -(-bits // shortest) * shortest
        return Fraction(str(picojoules)) * FEMTOJOULES_PER_PICOJOULE * moved / access.access_bits

    def _ports(self, memory: str) -> tuple[Port, ...]:
        if memory == DRAM:
            return self.accelerator.dram.ports if self.accelerator.dram else ()
        return self.level[memory].ports

    def _access(self, memory: str) -> Access | None:
        if memory == DRAM:
            return self.accelerator.dram.access if self.accelerator.dram else None
        return self.level[memory].access


def total_energy(energies_fj: Iterable[Fraction | None]) -> Fraction | None:
    """Return the sum of energies, or None if one of them is not stated."""
    total = Fraction(0)
    for energy_fj in energies_fj:
        if energy_fj is None:
            return None
        total += energy_fj
    return total
