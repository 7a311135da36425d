"""Cost of a Copy: the memories on its path, its energy, its cycles, and its DRAM traffic in bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import stated
from onchip.arch.memory import DRAM, Direction, Dma, Memory, Operand
from onchip.errors import AcceleratorError
from onchip.model.program.rates import FEMTOJOULES_PER_PICOJOULE, MemoryRates


@dataclass(frozen=True, slots=True)
class CopyCost:
    """The cost of moving a tensor along `memories`, from its source to its target.

    `stated_energy_fj` is rounded once for the whole copy, and None if it is unknown; `access_pj` are its known parts by
    memory, unrounded. `cycles` are the set-up plus the slowest hop; `dram_cycles` is the time at DRAM.
    """

    memories: tuple[str, ...]
    stated_energy_fj: int | None
    access_pj: Mapping[str, float]
    cycles: int
    dram_cycles: int
    dram_read_bits: int
    dram_written_bits: int

    @property
    def energy_fj(self) -> int:
        """Return the energy in fJ; raises AcceleratorError if it is unknown."""
        return stated(self.stated_energy_fj)


class CopyPrices:
    """The costs of copies between an accelerator's addressed memories and DRAM, cached."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._rates = MemoryRates(accelerator)
        self._setup_cycles = (accelerator.dma or Dma()).setup_cycles
        self._names = [*(level.memory.name for level in self._rates.addressed), DRAM]
        self._place = f"accelerator {accelerator.name!r}"
        self._known: dict[tuple[int, str, str, bool], CopyCost] = {}

    def of(self, size_bytes: int, source: str, target: str, *, is_parameter: bool) -> CopyCost:
        """Return the cost of copying a tensor of `size_bytes`.

        Raises AcceleratorError if a memory is not addressed, or has no port.
        """
        key = size_bytes, source, target, is_parameter
        if key not in self._known:
            self._known[key] = self._price(self.way(source, target, is_parameter=is_parameter), size_bytes * 8)
        return self._known[key]

    def way(self, source: str, target: str, *, is_parameter: bool) -> tuple[str, ...]:
        """Return the memories on a copy's path: both ends, and each memory between them that may hold the tensor.

        Raises AcceleratorError for a memory that is not addressed.
        """
        low, high = self._rank(source), self._rank(target)
        between = range(low + 1, high) if low < high else range(low - 1, high, -1)
        levels = self._rates.addressed
        passed = [self._names[at] for at in between if may_hold(levels[at].memory, is_parameter=is_parameter)]
        return (source, *passed, target)

    def _rank(self, memory: str) -> int:
        if memory not in self._names:
            expected = f"one of {', '.join(self._names)}"
            raise AcceleratorError(f"a program cannot address memory {memory!r}", place=self._place, expected=expected)
        return self._names.index(memory)

    def _price(self, way: tuple[str, ...], bits: int) -> CopyCost:
        rates, slowest = self._rates, 0
        ends = [end for hop in pairwise(way) for end in zip(hop, (Direction.READ, Direction.WRITE), strict=True)]
        energies_fj = [(memory, rates.stated_energy_fj(memory, direction, bits)) for memory, direction in ends]
        known_fj = [(memory, energy_fj) for memory, energy_fj in energies_fj if energy_fj is not None]
        parts = {memory: sum((fj for name, fj in known_fj if name == memory), Fraction(0)) for memory, _ in known_fj}
        for source, target in pairwise(way):
            reading = rates.cycles(source, Direction.READ, bits)
            slowest = max(slowest, reading, rates.cycles(target, Direction.WRITE, bits))
        read_bits, written_bits = (bits if end == DRAM else 0 for end in (way[0], way[-1]))
        return CopyCost(
            way,
            round(sum(parts.values())) if len(known_fj) == len(energies_fj) else None,
            {memory: float(part / FEMTOJOULES_PER_PICOJOULE) for memory, part in parts.items()},
            self._setup_cycles + slowest,
            dram_cycles(rates, read_bits, written_bits),
            read_bits,
            written_bits,
        )


def may_hold(memory: Memory, *, is_parameter: bool) -> bool:
    """Return True if a program may place a parameter, or any other tensor, in the memory."""
    kinds = (Operand.WEIGHT,) if is_parameter else (Operand.INPUT, Operand.OUTPUT)
    return any(kind in memory.holds for kind in kinds)


def dram_cycles(rates: MemoryRates, read_bits: int, written_bits: int) -> int:
    """Return the cycles that DRAM is busy with these reads and writes."""
    reading = rates.cycles(DRAM, Direction.READ, read_bits)
    return reading + rates.cycles(DRAM, Direction.WRITE, written_bits)
