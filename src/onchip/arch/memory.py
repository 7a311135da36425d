"""Memories: on-chip scratchpads and registers, and off-chip DRAM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from onchip.arch.energy_laws import EnergyLaw, ensure_energy
from onchip.arch.sizes import bytes_of
from onchip.errors import AcceleratorError

DRAM = "dram"


class Operand(StrEnum):
    """The operand types of an operator."""

    INPUT = "input"
    WEIGHT = "weight"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, init=False)
class Memory:
    """An on-chip memory; software addresses it if it is a scratchpad.

    Every offset in the memory is a multiple of `alignment_bytes`. The array reads from and writes to it only the
    operands in `holds`; tensors of any type may be stored in it. The capacity is a number of bytes or a size such as
    `64KiB`.

    Examples
    --------
    >>> Memory("sram", "64KiB").capacity_bytes
    65536

    """

    name: str
    capacity_bytes: int
    alignment_bytes: int = 1
    holds: tuple[Operand, ...] = tuple(Operand)

    def __init__(
        self, name: str, capacity_bytes: int | str, alignment_bytes: int = 1, holds: Sequence[Operand] = tuple(Operand)
    ) -> None:
        capacity = bytes_of(capacity_bytes, f"memory {name!r}")
        values = {"name": name, "capacity_bytes": capacity, "alignment_bytes": alignment_bytes, "holds": tuple(holds)}
        for field, value in values.items():
            object.__setattr__(self, field, value)
        self._ensure_valid()

    def _ensure_valid(self) -> None:
        if not self.name:
            raise AcceleratorError("a memory has no name", expected="a name")
        place = f"memory {self.name!r}"
        if self.name == DRAM:
            raise AcceleratorError("the name is reserved for the memory off chip", place=place, expected="another name")
        if self.capacity_bytes <= 0:
            raise AcceleratorError(f"capacity_bytes is {self.capacity_bytes}", place=place, expected="at least 1")
        if self.alignment_bytes <= 0:
            raise AcceleratorError(f"alignment_bytes is {self.alignment_bytes}", place=place, expected="at least 1")
        if not self.holds:
            raise AcceleratorError("it holds nothing", place=place, expected="at least one of input, weight, output")
        _each_once(self.holds, "holds", place)


class Direction(StrEnum):
    """The accesses that a port can make in one cycle; READ_WRITE allows one of either type."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"


@dataclass(frozen=True, slots=True)
class Port:
    """A memory port of `bits_per_cycle` in its direction."""

    direction: Direction
    bits_per_cycle: int

    def __post_init__(self) -> None:
        if self.bits_per_cycle <= 0:
            raise AcceleratorError(f"bits_per_cycle of a port is {self.bits_per_cycle}", expected="at least 1")


@dataclass(frozen=True, slots=True)
class Access:
    """The energies of one access of `access_bits`.

    An access may be as short as `shortest_access_bits` (None: always `access_bits`), at a proportional energy. `laws`,
    for reads and for writes, give the energies at other capacities; None: the energies do not depend on the capacity.
    """

    access_bits: int
    read_energy_pj: float
    write_energy_pj: float
    shortest_access_bits: int | None = None
    laws: tuple[EnergyLaw, EnergyLaw] | None = None

    def __post_init__(self) -> None:
        if self.access_bits <= 0:
            raise AcceleratorError(f"access_bits is {self.access_bits}", expected="at least 1")
        for name, energy in (("read_energy_pj", self.read_energy_pj), ("write_energy_pj", self.write_energy_pj)):
            ensure_energy(name, energy)
        shortest = self.shortest_access_bits
        if shortest is not None and (shortest <= 0 or self.access_bits % shortest):
            raise AcceleratorError(
                f"shortest_access_bits is {shortest}", expected=f"a divisor of access_bits ({self.access_bits})"
            )

    def at(self, capacity_bytes: int) -> Access:
        """Return the access at another capacity; raises AcceleratorError if an energy table does not cover it."""
        if self.laws is None:
            return self
        read_pj, write_pj = (law.energy_pj(capacity_bytes) for law in self.laws)
        return replace(self, read_energy_pj=read_pj, write_energy_pj=write_pj)


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """A level of the hierarchy between the MACs and DRAM: a memory, the array dimensions it serves, and its cost.

    One instance serves the array along the dimensions `serves` (None: along all, so there is a single instance). Along
    the other dimensions every position has its own instance, each of the memory's capacity.
    """

    memory: Memory
    serves: tuple[str, ...] | None = None
    is_scratchpad: bool = False
    double_buffered: bool = False
    access: Access | None = None
    ports: tuple[Port, ...] = ()

    def __post_init__(self) -> None:
        _each_once(self.serves or (), "serves", f"memory {self.memory.name!r}")

    def resized(self, capacity_bytes: int) -> MemoryLevel:
        """Return the level with another capacity, and with the access energies that its laws give for that capacity.

        Raises AcceleratorError for an invalid capacity, or one that an energy table does not cover.
        """
        memory = replace(self.memory, capacity_bytes=capacity_bytes)
        try:
            return replace(self, memory=memory, access=self.access and self.access.at(capacity_bytes))
        except AcceleratorError as error:
            error.place = f"memory {memory.name!r}: {error.place}"
            raise


def with_scratchpad(levels: Sequence[MemoryLevel]) -> tuple[MemoryLevel, ...]:
    """Return the levels with the scratchpad marked: the outermost that holds inputs, else the outermost."""
    of_inputs = [at for at, level in enumerate(levels) if Operand.INPUT in level.memory.holds]
    chosen = of_inputs[-1] if of_inputs else len(levels) - 1
    return tuple(replace(level, is_scratchpad=at == chosen) for at, level in enumerate(levels))


@dataclass(frozen=True, slots=True)
class Dram:
    """The off-chip memory, of unlimited capacity."""

    access: Access | None = None
    ports: tuple[Port, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A direct connection for tensors from scratchpad `source` to scratchpad `target` (names), without DRAM."""

    source: str
    target: str
    bits_per_cycle: int | None = None

    def __post_init__(self) -> None:
        place = f"link from {self.source!r} to {self.target!r}"
        if self.source == self.target:
            raise AcceleratorError("it leads nowhere", place=place, expected="two scratchpads")
        if self.bits_per_cycle is not None and self.bits_per_cycle <= 0:
            raise AcceleratorError(f"bits_per_cycle is {self.bits_per_cycle}", place=place, expected="at least 1")


MOST_QUEUES: Final = 65_536
MOST_SETUP_CYCLES: Final = 2**40


@dataclass(frozen=True, slots=True)
class Dma:
    """The DMA engine: up to `queues` transfers at once, in parallel with compute, each after `setup_cycles`."""

    queues: int = 1
    setup_cycles: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.queues <= MOST_QUEUES:
            raise AcceleratorError(f"queues is {self.queues}", place="dma", expected=f"1 to {MOST_QUEUES:,}")
        if not 0 <= self.setup_cycles <= MOST_SETUP_CYCLES:
            detail = f"setup_cycles is {self.setup_cycles}"
            raise AcceleratorError(detail, place="dma", expected=f"0 to {MOST_SETUP_CYCLES:,}")


def _each_once(names: tuple[str, ...], what: str, place: str) -> None:
    name, times = Counter[str](names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise AcceleratorError(f"{what} lists {str(name)!r} {times} times", place=place, expected="each once")
