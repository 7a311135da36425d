"""Read and write rates and energies of memories and DRAM, for a program that moves whole tensors.

Energies are exact: they use the decimal numbers of the accelerator's file.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Port
from onchip.errors import AcceleratorError
from onchip.model.layer.cost import access_of, stated_access

FEMTOJOULES_PER_PICOJOULE = 1000


class MemoryRates:
    """The cycles and energies of an accelerator's addressed memories and DRAM, by name."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.addressed = accelerator.addressed
        self._accelerator = accelerator
        self._ports: dict[str, Sequence[Port]] = {level.memory.name: level.ports for level in self.addressed}
        self._ports[DRAM] = accelerator.dram.ports if accelerator.dram else ()
        self._rates: dict[tuple[str, Direction], int | None] = {}
        self._shortest: dict[tuple[str, Direction], tuple[int, Fraction]] = {}

    def cycles(self, memory: str, direction: Direction, bits: int) -> int:
        """Return the cycles of a transfer, 0 without ports; raises AcceleratorError if no port has the direction."""
        if not bits:
            return 0
        rate = self.bits_per_cycle(memory, direction)
        return 0 if rate is None else -(-bits // rate)

    def bits_per_cycle(self, memory: str, direction: Direction) -> int | None:
        """Return the bits per cycle of a direction, or None without ports, which means no limit.

        Raises AcceleratorError if there are ports, but none of the direction.
        """
        key = memory, direction
        if key not in self._rates:
            self._rates[key] = self._sum_of_ports(memory, direction)
        return self._rates[key]

    def energy_fj(self, memory: str, direction: Direction, bits: int) -> Fraction:
        """Return the energy in fJ of reading or writing the bits at once, in whole shortest accesses.

        Raises AcceleratorError if the accelerator does not state the access energy.
        """
        shortest_bits, shortest_fj = self.shortest_access(memory, direction)
        return -(-bits // shortest_bits) * shortest_fj

    def stated_energy_fj(self, memory: str, direction: Direction, bits: int) -> Fraction | None:
        """Return the energy in fJ of reading or writing the bits at once, or None if it is not stated."""
        return None if stated_access(self._accelerator, memory) is None else self.energy_fj(memory, direction, bits)

    def shortest_access(self, memory: str, direction: Direction) -> tuple[int, Fraction]:
        """Return the bits and the energy in fJ of the shortest access; raises AcceleratorError if it is not stated."""
        key = memory, direction
        if key not in self._shortest:
            access = access_of(self._accelerator, memory)
            bits = access.shortest_access_bits or access.access_bits
            energy_fj = _decimal(_energy_pj(access, direction)) * FEMTOJOULES_PER_PICOJOULE
            self._shortest[key] = bits, energy_fj * bits / access.access_bits
        return self._shortest[key]

    def _sum_of_ports(self, memory: str, direction: Direction) -> int | None:
        ports = self._ports[memory]
        found = sum(port.bits_per_cycle for port in ports if port.direction in (direction, Direction.READ_WRITE))
        if ports and not found:
            place = "dram" if memory == DRAM else f"memory {memory!r}"
            raise AcceleratorError(f"no port can {direction}", place=place, expected="one that does, or no ports")
        return found or None


def _energy_pj(access: Access, direction: Direction) -> float:
    return access.read_energy_pj if direction is Direction.READ else access.write_energy_pj


def _decimal(number: float) -> Fraction:
    """Return the number as written in decimal, not its nearest binary fraction."""
    return Fraction(str(number))
