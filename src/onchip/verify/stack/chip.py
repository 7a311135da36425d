"""The accelerator of a strategy, the mappings of its tiles, and the copies between memories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import inf
from typing import Protocol, TypeAlias

from onchip.answer.fused_network import StreamedOperator
from onchip.answer.layer_mapping import LayerMapping, MappingError, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.strategy import EnergyCause, FusionStrategy, TileMapping
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError
from onchip.verify.mapping import tile_bits, verify_mapping
from onchip.verify.rules import Rule, Violation
from onchip.verify.schedule.machine import FEMTOJOULES_PER_PICOJOULE, AddressedMachine, total_energy


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


@dataclass(frozen=True, slots=True)
class MovedPart:
    """A copy of `bits` from a memory where they are one operand to a memory where they are another operand."""

    bits: int
    source: str
    source_operand: Operand
    target: str
    target_operand: Operand


@dataclass(frozen=True, slots=True)
class MovedTogether:
    """The cost of copies that begin together: pJ by memory, cycles until the last port is idle, bits at DRAM.

    The energy of a memory is None if the machine does not state it.
    """

    energies_pj: tuple[tuple[str, float | None], ...]
    cycles: int
    dram_bits: int


def moved_together(parts: Sequence[MovedPart], chip: ChipInUse) -> MovedTogether:
    """Return the cost of copies that begin together.

    Each hop of a copy follows the hop before it and occupies a port at both ends for the cycles of the slower end. A
    port is done when its last hop is, and not before the sum of its hops' cycles has passed since its first hop. A copy
    to the memory that the data are in has no hop and costs nothing.
    """
    energies: list[tuple[str, float | None]] = []
    hops_of_port: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    dram_bits = 0
    for part in parts:
        begin = 0
        for source, target, is_upwards in _hops(part, chip):
            ends = ((source, Direction.READ, not is_upwards), (target, Direction.WRITE, is_upwards))
            ports = [(memory, chip.port(memory, way, towards_macs=near)) for memory, way, near in ends]
            cycles = max((-(-part.bits // found[1].bits_per_cycle) for _, found in ports if found), default=0)
            for memory, way, _ in ends:
                energies.append((memory, _energy_pj(part.bits, memory, way, chip)))
                dram_bits += part.bits * (memory == DRAM)
            for memory, found in ports:
                if found:
                    hops_of_port[memory, found[0]].append((begin, begin + cycles))
            begin += cycles
    done = 0
    for hops in hops_of_port.values():
        first, lasting = min(begin for begin, _ in hops), sum(end - begin for begin, end in hops)
        done = max(done, first + lasting, *(end for _, end in hops))
    return MovedTogether(tuple(energies), done, dram_bits)


def _hops(part: MovedPart, chip: ChipInUse) -> Iterator[tuple[str, str, bool]]:
    """Yield each hop of a copy as source, target, and True if it leads away from the MACs.

    The hops go up through memories that hold the source operand, to the lowest memory that holds both operands, and
    down through memories that hold the target operand.
    """
    begin, end = chip.rank(part.source), chip.rank(part.target)
    top = next(
        rank
        for rank, name in enumerate(chip.names)
        if rank >= max(begin, end)
        and chip.may_hold(name, part.source_operand)
        and chip.may_hold(name, part.target_operand)
    )
    up = [name for name in chip.names[begin : top + 1] if chip.may_hold(name, part.source_operand)]
    down = [name for name in chip.names[end:top] if chip.may_hold(name, part.target_operand)]
    yield from ((*hop, True) for hop in pairwise(up))
    yield from ((*hop, False) for hop in pairwise([chip.names[top], *reversed(down)]))


def _energy_pj(bits: int, memory: str, direction: Direction, chip: ChipInUse) -> float | None:
    """Return the energy in pJ, in accesses of the memory's shortest length; None if the machine does not state it."""
    access = chip.access(memory)
    if access is None:
        return None
    shortest = access.shortest_access_bits or access.access_bits
    each_pj = access.read_energy_pj if direction is Direction.READ else access.write_energy_pj
    return -(-bits // shortest) * shortest / access.access_bits * each_pj


class TilePrice(Protocol):
    """The cost of a tile's loop nest under its mapping: energies in pJ, cycles, and bits read or written at DRAM."""

    @property
    def memory_energy_pj(self) -> Mapping[tuple[str, str], float | None]:
        """Return the energy in pJ by memory and operand, None where the machine does not state it."""

    @property
    def mac_energy_pj(self) -> float | None:
        """Return the energy of all multiply-accumulates in pJ, or None if the machine does not state it."""

    @property
    def cycles(self) -> float:
        """Return the cycles from start to end, including preloading and offloading."""

    @property
    def dram_bits(self) -> int:
        """Return the bits that DRAM reads and writes."""


TilePrices: TypeAlias = Callable[[LayerProblem, LayerMapping], TilePrice]
"""A cost model, called once for each legal mapping; raises MappingError if tiles exceed a capacity."""


@dataclass(frozen=True, slots=True)
class PricedTile:
    """The price of a layer in a tile, and the bytes that its tiles and other data take of one instance per memory."""

    price: TilePrice
    taken_bytes: Mapping[str, int]


class MappingsOfStrategy:
    """The mappings of a strategy by stack, layer, loop nest, homes and capacity; each is checked at its first use.

    With `counts_parts` units work in parts, as in DeFiNES: every dimension of the array may unroll groups, loops may
    iterate beyond the layer's bounds, and the cost model alone checks capacities.
    """

    def __init__(self, strategy: FusionStrategy, prices: TilePrices, *, counts_parts: bool) -> None:
        self.violations: list[Violation] = []
        self._mappings = strategy.mappings
        self._prices = prices
        self._counts_parts = counts_parts
        self._numbers: dict[object, int] = {}
        for number, one in enumerate(strategy.mappings):
            for name in one.names:
                key = _key(one, name)
                if key in self._numbers:
                    detail = f"mapping {self._numbers[key]} is of the same loop nest of {name!r}, homes and room"
                    self.violations.append(Violation(Rule.MAPPING_UNUSED, f"mapping {number}", detail))
                self._numbers.setdefault(key, number)
        self._used: set[tuple[int, str]] = set()
        self._priced: dict[tuple[int, bool], PricedTile | None] = {}

    @property
    def priced(self) -> int:
        """Return the number of mappings that have been priced."""
        return len({number for (number, _), one in self._priced.items() if one is not None})

    def has(self, stack: int, name: str, problem: LayerProblem) -> bool:
        """Return True if there is a mapping for a layer of a tile."""
        return _key_of(stack, name, problem) in self._numbers

    def run(self, stack: int, name: str, problem: LayerProblem) -> PricedTile | None:
        """Return the price of a layer under its mapping; None, after a violation, if the mapping is illegal."""
        number = self._numbers[_key_of(stack, name, problem)]
        self._used.add((number, name))
        key = number, problem.weight_is_an_input
        if key not in self._priced:
            self._priced[key] = self._price(number, problem)
        return self._priced[key]

    def unused(self) -> Iterator[Violation]:
        """Yield a violation for each mapping, and each layer that it names, that no tile has used."""
        for number, one in enumerate(self._mappings):
            for name in one.names:
                if (number, name) not in self._used:
                    detail = f"no tile of stack {one.stack} runs {name!r} by it"
                    yield Violation(Rule.MAPPING_UNUSED, f"mapping {number}", detail)

    def _price(self, number: int, problem: LayerProblem) -> PricedTile | None:
        if self._counts_parts:
            problem = replace(problem, accelerator=with_groups_along_all(problem.accelerator))
        mapping = self._mappings[number].mapping
        wrong = list(verify_mapping(problem, mapping, may_pad=self._counts_parts))
        if self._counts_parts:
            wrong = [each for each in wrong if each.rule is not Rule.CAPACITY_EXCEEDED]
        self.violations += [replace(each, subject=f"mapping {number}, {each.subject}") for each in wrong]
        if wrong:
            return None
        try:
            price = self._prices(problem, mapping)
        except MappingError as error:
            self.violations.append(Violation(Rule.CAPACITY_EXCEEDED, f"mapping {number}", str(error)))
            return None
        return PricedTile(price, taken_bytes(problem, mapping))


def taken_bytes(problem: LayerProblem, mapping: LayerMapping) -> Mapping[str, int]:
    """Return, for one instance of each memory, the bytes reserved for other data plus those of the tiles."""
    needs = tile_bits(problem, mapping)
    found: dict[str, int] = {}
    for level in problem.accelerator.levels:
        name, capacity_bytes = level.memory.name, level.memory.capacity_bytes
        tiles_bytes = -(-sum(needs[name].values()) // 8)
        found[name] = capacity_bytes - problem.room_bytes.get(name, capacity_bytes) + tiles_bytes
    return found


def _key(one: TileMapping, name: str) -> object:
    return one.stack, name, one.layer, one.homes, tuple(sorted(one.room_bytes.items()))


def _key_of(stack: int, name: str, problem: LayerProblem) -> object:
    return stack, name, problem.layer, problem.homes, tuple(sorted(problem.room_bytes.items()))


@dataclass(frozen=True, slots=True)
class MovedExpense:
    """The cost of one data-movement operator: pJ by cause (None if not stated), whole cycles, and bits at DRAM."""

    energies_pj: Mapping[EnergyCause, float] | None
    cycles: int
    dram_bits: int


def expense_of_moving(operator: StreamedOperator, accelerator: Accelerator) -> MovedExpense:
    """Return the cost of an operator whose operands each pass DRAM's ports once, reads before writes.

    Raises AcceleratorError for a DRAM that cannot read or write.
    """
    machine = AddressedMachine(accelerator)
    energies_fj: dict[EnergyCause, list[Fraction | None]] = defaultdict(list)
    bits = {Direction.READ: 0, Direction.WRITE: 0}
    for operand, size_bits in operator.operands:
        direction = Direction.WRITE if operand is Operand.OUTPUT else Direction.READ
        cause = EnergyCause.WEIGHT if operand is Operand.WEIGHT else EnergyCause.ACTIVATION
        energies_fj[cause].append(machine.energy_fj(DRAM, direction, size_bits))
        bits[direction] += size_bits
    sums_fj = {cause: total_energy(energies) for cause, energies in energies_fj.items()}
    known_fj = {cause: energy for cause, energy in sums_fj.items() if energy is not None}
    return MovedExpense(
        {cause: float(energy / FEMTOJOULES_PER_PICOJOULE) for cause, energy in known_fj.items()}
        if known_fj == sums_fj
        else None,
        sum(machine.cycles(DRAM, direction, count) for direction, count in bits.items()),
        sum(bits.values()),
    )
