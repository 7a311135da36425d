"""The accelerator, the mappings and the setting against which a schedule is checked, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Final, Protocol, TypeAlias

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes, Schedule, ScheduledMapping
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Dma, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.tensor import Role, Tensor
from onchip.plugins import PluginGroup
from onchip.verify.mapping import tile_bits, verify_mapping
from onchip.verify.rules import Rule, Violation

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


@dataclass(frozen=True, slots=True)
class VerifiedFigures:
    """The figures of a legal schedule: fJ, bytes, cycles; `arenas` gives each memory its highest end address.

    The energy is None if the machine does not state all energies of it.
    """

    energy_fj: int | None
    latency_cycles: int
    traffic_bytes: int
    peak_bytes: int
    arenas: tuple[tuple[str, int], ...]

    @property
    def energy_pj(self) -> float | None:
        """Return the energy in picojoules, or None if it is unknown."""
        return None if self.energy_fj is None else self.energy_fj / FEMTOJOULES_PER_PICOJOULE

    @property
    def edp(self) -> int | None:
        """Return energy times latency, in fJ x cycles, or None if the energy is unknown."""
        return None if self.energy_fj is None else self.energy_fj * self.latency_cycles

    def objective_value(self, objective: str) -> int | None:
        """Return the value of `energy`, `latency`, `edp` or `traffic`; raises LookupError for another objective."""
        values = {
            "energy": self.energy_fj,
            "latency": self.latency_cycles,
            "edp": self.edp,
            "traffic": self.traffic_bytes,
        }
        return values[objective]


@dataclass(frozen=True, slots=True)
class ScheduleVerdict:
    """The verdict on a schedule, which is legal, with true claims, exactly if there are no violations.

    `figures` is None for an illegal schedule. `not_checked` lists the claims taken on trust.
    """

    violations: tuple[Violation, ...]
    figures: VerifiedFigures | None
    not_checked: tuple[str, ...]

    @property
    def is_legal(self) -> bool:
        """Return True if there are no violations."""
        return not self.violations


@dataclass(frozen=True, slots=True)
class ScheduleSetting:
    """The network as read, the accelerator, and the tile graph derived from a schedule's stacks.

    Partial sums have `partial_bits`.
    """

    network: Graph
    accelerator: Accelerator
    tiles: Graph
    partial_bits: int


class NestPrice(Protocol):
    """Cost of one loop nest with its mapping at its homes, in pJ, cycles, and bits that DRAM reads and writes."""

    @property
    def stated_energy_pj(self) -> float | None:
        """Return the energy of all accesses and MACs in pJ, or None if the machine does not state them."""

    @property
    def cycles(self) -> float:
        """Return the cycles from begin to end, with the nest's own preloading and offloading."""

    @property
    def dram_read_bits(self) -> int:
        """Return the bits that streamed operands read from DRAM, with repeated reads."""

    @property
    def dram_written_bits(self) -> int:
        """Return the bits that streamed operands write to DRAM, with partial sums."""


NestPrices: TypeAlias = Callable[[LayerProblem, LayerMapping], NestPrice]
"""The cost model of mappings; it is called once for each legal mapping."""


OUTSIDE_CHECKS: Final = PluginGroup[[ScheduleSetting, Schedule], Mapping[str, str]]("onchip.checks", Mapping)
"""Checks by name: functions that return a map from each faulty subject to a description of the fault."""


def outside_violations(setting: ScheduleSetting, schedule: Schedule) -> tuple[Violation, ...]:
    """Return the faults that the installed checks find in a legal schedule; raises PluginError for a broken check."""
    found: list[Violation] = []
    for name in OUTSIDE_CHECKS.names:
        check = OUTSIDE_CHECKS.find(name)
        wrong = check(setting, schedule) if check is not None else {}
        found += [
            Violation(Rule.OUTSIDE_CHECK_FAILED, subject, f"{name}: {detail}") for subject, detail in wrong.items()
        ]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class NestAtHomes:
    """A loop nest of a tile operator: its stack, and the homes of its operands while it runs.

    `is_input` is True if the weight is no parameter. The whole weight is then held where inputs may be held
    (`verify/mapping` judges its tiles).
    """

    stack: int
    layer: Layer
    homes: Homes
    is_input: bool

    def __str__(self) -> str:
        where = ", ".join(
            f"{operand} in {self.homes.of(Operand(operand)) or 'dram'}" for operand in self.layer.operands
        )
        return f"a loop nest of {self.layer.macs} multiply-accumulates with {where}"


@dataclass(frozen=True, slots=True)
class PricedNest:
    """The cost of a loop nest under its mapping, and the bits of workspace by addressed memory."""

    price: NestPrice
    workspace_bits: Mapping[str, int]


class MappingsInUse:
    """The mappings of a schedule by stack, loop nest and homes; each is looked at when an operator first runs by it.

    Those of several stacks that are the same are legal, and cost the same, wherever one is.
    """

    def __init__(self, mappings: Sequence[ScheduledMapping], accelerator: Accelerator, nest_prices: NestPrices) -> None:
        self._mappings = mappings
        self._accelerator = accelerator
        self._nest_prices = nest_prices
        self._number = {(one.stack, one.layer, one.homes): number for number, one in enumerate(mappings)}
        self._priced: dict[tuple[int, bool], PricedNest | None] = {}
        self._legal: dict[tuple[Layer, Homes, LayerMapping, bool], PricedNest] = {}
        self.violations: list[Violation] = []

    @property
    def priced(self) -> int:
        """Return the number of priced mappings."""
        return sum(one is not None for one in self._priced.values())

    def run(self, operator: str, nest: NestAtHomes) -> PricedNest | None:
        """Return the cost of a loop nest of the operator; None, and add a violation, without a legal mapping."""
        number = self._number.get((nest.stack, nest.layer, nest.homes))
        if number is None:
            detail = f"stack {nest.stack} has no mapping of {nest}"
            self.violations.append(Violation(Rule.MAPPING_MISSING, operator, detail))
            return None
        if (number, nest.is_input) not in self._priced:
            self._priced[number, nest.is_input] = self._price(number, nest)
        return self._priced[number, nest.is_input]

    def unused(self) -> Iterator[Violation]:
        """Mappings by which nothing has run."""
        used = {number for number, _ in self._priced}
        for number, one in enumerate(self._mappings):
            if number not in used:
                nest = NestAtHomes(one.stack, one.layer, one.homes, is_input=False)
                yield Violation(
                    Rule.MAPPING_UNUSED, f"mapping {number}", f"no Compute of stack {one.stack} runs {nest}"
                )

    def _price(self, number: int, nest: NestAtHomes) -> PricedNest | None:
        one = self._mappings[number]
        key = one.layer, one.homes, one.mapping, nest.is_input
        if key in self._legal:
            return self._legal[key]
        try:
            problem = LayerProblem(one.layer, self._accelerator, one.homes, weight_is_an_input=nest.is_input)
        except AcceleratorError as error:
            self.violations.append(Violation(Rule.NOT_HELD, f"mapping {number}", str(error)))
            return None
        if wrong := verify_mapping(problem, one.mapping):
            self.violations += [replace(each, subject=f"mapping {number}, {each.subject}") for each in wrong]
            return None
        needs = {memory: sum(bits.values()) for memory, bits in tile_bits(problem, one.mapping).items() if bits}
        addressed = {name: needs[name] for name in AddressedMachine(self._accelerator).level if name in needs}
        self._legal[key] = PricedNest(self._nest_prices(problem, one.mapping), addressed)
        return self._legal[key]
