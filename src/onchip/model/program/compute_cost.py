"""The cost of Computes and Copies of a schedule, and the rates of memories.

Energies are exact: they use the decimal numbers of the accelerator's file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import FEMTO_PER_PICO
from onchip.answer.schedule import WORKSPACE
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import stated, summed
from onchip.arch.memory import DRAM, Access, Direction, Dma, Memory, Operand, Port
from onchip.errors import AcceleratorError, UsageError
from onchip.ir.graph import Graph
from onchip.model.layer.cost import access_of, layer_cost, stated_access


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
            # the number as written in decimal, not its nearest binary fraction
            energy_fj = Fraction(str(_energy_pj(access, direction))) * FEMTO_PER_PICO
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


_BOTH: Final = (Direction.READ, Direction.WRITE)


@dataclass(frozen=True, slots=True)
class NestCost:
    """The cost of a mapped loop nest at its homes; energies in pJ, `access_pj` by memory and operand.

    `stated_energy_pj` and `mac_pj` are None if they are unknown; unknown parts are omitted from `access_pj`. `cycles`
    are whole numbers; `workspace_bytes` is by addressed memory.
    """

    stated_energy_pj: float | None
    cycles: int
    dram_read_bits: int
    dram_written_bits: int
    workspace_bytes: Mapping[str, int]
    mac_pj: float | None
    access_pj: Mapping[tuple[str, str], float]

    @property
    def energy_pj(self) -> float:
        """Return the energy in pJ; raises AcceleratorError if it is unknown."""
        return stated(self.stated_energy_pj)


@dataclass(frozen=True, slots=True)
class ComputeCost:
    """The cost of one Compute; `stated_energy_fj` is rounded once for the total.

    `mac_pj` and `access_pj`, by memory and operand, are the unrounded parts of the energy. The energy and `mac_pj` are
    None if they are unknown; unknown parts are omitted from `access_pj`. `workspace_bytes` are the sizes of its
    workspaces, by addressed memory.

    Raises UsageError for a negative figure.
    """

    stated_energy_fj: int | None
    cycles: int
    dram_read_bits: int
    dram_written_bits: int
    workspace_bytes: Mapping[str, int]
    mac_pj: float | None = 0.0
    access_pj: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        figures = (self.stated_energy_fj or 0, self.cycles, self.dram_read_bits, self.dram_written_bits)
        if min(*figures, *self.workspace_bytes.values()) < 0:
            raise UsageError(f"a Compute costs {figures}", expected="figures of at least 0")

    @property
    def energy_fj(self) -> int:
        """Return the energy in fJ; raises AcceleratorError if it is unknown."""
        return stated(self.stated_energy_fj)

    @property
    def streams(self) -> bool:
        """Return True if it reads from or writes to DRAM."""
        return self.dram_read_bits + self.dram_written_bits > 0


@dataclass(frozen=True, slots=True)
class OperandAtHome:
    """An operand of an operator without a loop nest: its bits, the bits of a row, and its home (None: streamed)."""

    operand: Operand
    bits: int
    row_bits: int
    home: str | None


@dataclass(frozen=True, slots=True)
class FilledOutputs:
    """The bits of an output that no loop nest computes, such as outputs that no tap reaches, and the output's home.

    The operator writes them once, after its nests. Home None is DRAM. `energy_fj` is None if it is unknown.
    """

    bits: int = 0
    home: str | None = None
    energy_fj: Fraction | None = Fraction(0)
    cycles: int = 0

    @classmethod
    def of(cls, accelerator: Accelerator, bits: int, home: str | None) -> FilledOutputs:
        """Return the cost of writing the bits."""
        if not bits:
            return NOTHING_FILLED
        rates, memory = MemoryRates(accelerator), home or DRAM
        energy_fj = rates.stated_energy_fj(memory, Direction.WRITE, bits)
        return cls(bits, home, energy_fj, rates.cycles(memory, Direction.WRITE, bits))


NOTHING_FILLED: Final = FilledOutputs()


def cost_of_nests(nests: Sequence[NestCost], filled: FilledOutputs = NOTHING_FILLED) -> ComputeCost:
    """Return the cost of nests that run one after the other on the same operands, and of filled outputs.

    The workspace of each memory is the maximum over the nests.
    """
    energy_pj, filled_fj = summed([nest.stated_energy_pj for nest in nests]), filled.energy_fj
    parts: dict[tuple[str, str], float] = defaultdict(float)
    workspaces: dict[str, int] = {}
    for nest in nests:
        for key, part in nest.access_pj.items():
            parts[key] += part
        for memory, size in nest.workspace_bytes.items():
            workspaces[memory] = max(workspaces.get(memory, 0), size)
    if filled.bits and filled_fj is not None:
        parts[filled.home or DRAM, Operand.OUTPUT.value] += float(filled_fj / FEMTO_PER_PICO)
    stated_fj = None
    if energy_pj is not None and filled_fj is not None:
        stated_fj = round(energy_pj * FEMTO_PER_PICO + float(filled_fj))
    return ComputeCost(
        stated_fj,
        sum(nest.cycles for nest in nests) + filled.cycles,
        sum(nest.dram_read_bits for nest in nests),
        sum(nest.dram_written_bits for nest in nests) + (filled.bits if filled.home is None else 0),
        {memory: size for memory, size in workspaces.items() if size},
        summed([nest.mac_pj for nest in nests]),
        dict(parts),
    )


def with_declared(cost: ComputeCost, accelerator: Accelerator, declared_bytes: int) -> ComputeCost:
    """Return the cost with the operator's declared workspace in the addressed memory farthest from the MACs."""
    if not declared_bytes:
        return cost
    memory = accelerator.addressed[-1].memory.name
    sizes = {**cost.workspace_bytes, memory: cost.workspace_bytes.get(memory, 0) + declared_bytes}
    return replace(cost, workspace_bytes=sizes)


def cost_without_nest(
    operands: Iterable[OperandAtHome], accelerator: Accelerator, declared_bytes: int = 0
) -> ComputeCost:
    """Return the cost of reading every input and writing every output once, each at its home or at DRAM.

    Rows of streamed operands that exceed their memory pass through it in pieces. The pieces take the whole memory
    except the operator's declared workspace, which is not counted here (see `with_declared`). Raises AcceleratorError
    if a memory has no port of the direction.
    """
    rates, energies_fj = MemoryRates(accelerator), list[Fraction | None]()
    parts: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    moved: dict[tuple[str, Direction], int] = defaultdict(int)
    rows: dict[str, int] = defaultdict(int)
    for one in operands:
        memory = one.home or DRAM
        direction = Direction.WRITE if one.operand is Operand.OUTPUT else Direction.READ
        energies_fj.append(rates.stated_energy_fj(memory, direction, one.bits))
        if (energy_fj := energies_fj[-1]) is not None:
            parts[memory, one.operand.value] += energy_fj
        moved[memory, direction] += one.bits
        if one.home is None and (farthest := _farthest(rates, one.operand)) is not None:
            rows[farthest] += one.row_bits
    room_bytes = {level.memory.name: level.memory.capacity_bytes for level in rates.addressed}
    if declared_bytes:
        last = rates.addressed[-1].memory.name
        room_bytes[last] = max(room_bytes[last] - declared_bytes, 1)
    cycles = {
        memory: sum(rates.cycles(memory, each, moved.get((memory, each), 0)) for each in _BOTH)
        for memory in {memory for memory, _ in moved}
    }
    return ComputeCost(
        None if None in energies_fj else round(sum(parts.values())),
        max(cycles.values(), default=0),
        moved.get((DRAM, Direction.READ), 0),
        moved.get((DRAM, Direction.WRITE), 0),
        {memory: min(-(-bits // 8), room_bytes[memory]) for memory, bits in rows.items()},
        0.0,
        {key: float(part / FEMTO_PER_PICO) for key, part in parts.items()},
    )


def _farthest(rates: MemoryRates, operand: Operand) -> str | None:
    """Return the addressed memory farthest from the MACs that holds the operand, or None."""
    return next((level.memory.name for level in reversed(rates.addressed) if operand in level.memory.holds), None)


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
            {memory: float(part / FEMTO_PER_PICO) for memory, part in parts.items()},
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


_READS: Final = (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)
_DIGITS: Final = 6


recent_layer_cost = lru_cache(maxsize=8)(layer_cost)
"""`layer_cost`, for callers that ask for a mapping that was just costed as a part of a schedule."""


def nest_cost(problem: LayerProblem, mapping: LayerMapping) -> NestCost:
    """Return the cost of a nest at its homes; DRAM bits are those of operands without a home.

    Raises MappingError if the mapping does not fit, AcceleratorError if the accelerator's description is incomplete.
    """
    cost = recent_layer_cost(problem, mapping)
    at_dram = [one for one in cost.accesses if one.memory == DRAM]
    return NestCost(
        cost.stated_energy_pj,
        # The model's cycles are a whole number, computed as a sum of fractions.
        ceil(round(cost.cycles, _DIGITS)),
        sum(one.elements * one.bits for one in at_dram if one.move in _READS),
        sum(one.elements * one.bits for one in at_dram if one.move not in _READS),
        workspace_bytes(problem, cost.needed_bits),
        cost.mac_energy_pj,
        cost.memory_energy_pj,
    )


def workspace_bytes(problem: LayerProblem, needs: Mapping[tuple[str, str], int]) -> Mapping[str, int]:
    """Return the workspace by addressed memory, for tiles and for partial sums wider than the output at their home.

    `needs` are the `needed_bits` of a legal mapping. Memories without a need are omitted.
    """
    found: dict[str, int] = {}
    for level in problem.accelerator.addressed:
        name = level.memory.name
        bits = sum(need for (memory, _), need in needs.items() if memory == name) - problem.resident_bits(name)
        if bits:
            found[name] = -(-bits // 8)
    return found


def resident_bytes(graph: Graph, costs: Mapping[str, ComputeCost], name: str, memory: str) -> int:
    """Return the bytes of a tensor, or of an operator's workspace, in a memory; raises KeyError for another name."""
    tensor = graph.tensor.get(name)
    return costs[name.removesuffix(WORKSPACE)].workspace_bytes[memory] if tensor is None else tensor.size_bytes
