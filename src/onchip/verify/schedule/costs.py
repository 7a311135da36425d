"""Recompute the energy, the cycles and the timeline of a schedule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.answer.schedule import WORKSPACE
from onchip.arch.memory import DRAM, Direction, Dma, Operand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Tensor
from onchip.verify.latency import UsedBytes
from onchip.verify.schedule.machine import FEMTOJOULES_PER_PICOJOULE, AddressedMachine, PricedNest, total_energy
from onchip.verify.schedule.streaming import HomeOf, TileOperand

BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True)
class Expense:
    """Cost of one Compute or one Copy, in fJ and whole cycles; `dram_cycles` is its turn at DRAM.

    The energy is None if the machine does not state all energies of it. `workspaces` are bytes by addressed memory.
    """

    energy_fj: int | None
    cycles: int
    dram_read_bits: int
    dram_written_bits: int
    dram_cycles: int
    workspaces: Mapping[str, int] = field(default_factory=dict)

    @property
    def traffic_bytes(self) -> int:
        """Return the bytes read from DRAM plus the bytes written there, each rounded up."""
        return in_bytes(self.dram_read_bits) + in_bytes(self.dram_written_bits)


def in_bytes(bits: int) -> int:
    """Return the number of bytes that hold these bits, rounded up."""
    return -(-bits // BITS_PER_BYTE)


def expense_of_nests(
    machine: AddressedMachine, nests: Sequence[PricedNest], left_over_bits: int = 0, output_home: str | None = None
) -> Expense:
    """Return the sums of nests that run one after the other, and in each memory the greatest workspace.

    Bits of the output that no nest computes are written once at the output's home (None: DRAM).
    """
    energies = [nest.price.stated_energy_pj for nest in nests]
    known = [energy_pj for energy_pj in energies if energy_pj is not None]
    rest_fj: Fraction | None
    cycles = sum(nest.price.cycles for nest in nests)
    read = sum(nest.price.dram_read_bits for nest in nests)
    written = sum(nest.price.dram_written_bits for nest in nests)
    greatest: dict[str, int] = defaultdict(int)
    for nest in nests:
        for memory, bits in nest.workspace_bits.items():
            greatest[memory] = max(greatest[memory], in_bytes(bits))
    rest_fj, rest_cycles = Fraction(0), 0
    if left_over_bits:
        rest_fj = machine.energy_fj(output_home or DRAM, Direction.WRITE, left_over_bits)
        rest_cycles = machine.cycles(output_home or DRAM, Direction.WRITE, left_over_bits)
        written += left_over_bits if output_home is None else 0
    energy_fj = None
    if known == energies and rest_fj is not None:
        energy_fj = round(sum(known) * FEMTOJOULES_PER_PICOJOULE + float(rest_fj))
    return Expense(
        energy_fj, ceil(cycles) + rest_cycles, read, written, turn_at_dram(machine, read, written), dict(greatest)
    )


def with_own_workspace(machine: AddressedMachine, expense: Expense, size_bytes: int) -> Expense:
    """Return the expense with the operator's own workspace, in bytes, added in the last addressed memory."""
    if not size_bytes:
        return expense
    last = machine.levels[-1].memory.name
    return replace(expense, workspaces={**expense.workspaces, last: expense.workspaces.get(last, 0) + size_bytes})


def expense_without_nest(
    machine: AddressedMachine, tiles: Graph, operands: Sequence[TileOperand], homes: HomeOf, own_bytes: int = 0
) -> Expense:
    """Return the expense of an operator without a loop nest: each input is read once, each output is written once.

    A streamed operand needs workspace for one row in the memory farthest from the MACs that may hold it. A row larger
    than the memory passes through it in pieces. The operator's own workspace reduces the bytes for rows in the last
    memory.
    """
    moved: dict[str, dict[Direction, int]] = defaultdict(lambda: defaultdict(int))
    energies_fj, rows = list[Fraction | None](), defaultdict[str, int](int)
    for operand in operands:
        direction = Direction.WRITE if operand.held_as is Operand.OUTPUT else Direction.READ
        bands = [tiles.tensor[name] for name in operand.bands]
        bits, home = _bits_moved(operand, bands), homes[operand.base]
        energies_fj.append(machine.energy_fj(home or DRAM, direction, bits))
        moved[home or DRAM][direction] += bits
        if home is None:
            for level in [one for one in machine.levels if operand.held_as in one.memory.holds][-1:]:
                rows[level.memory.name] += _row_bits(bands[0])
    cycles = max(sum(machine.cycles(memory, *each) for each in bits.items()) for memory, bits in moved.items())
    read, written = moved[DRAM][Direction.READ], moved[DRAM][Direction.WRITE]
    sizes = {level.memory.name: level.memory.capacity_bytes for level in machine.levels}
    last = machine.levels[-1].memory
    sizes[last.name] = max(last.capacity_bytes - own_bytes, 1)
    workspaces = {memory: min(in_bytes(bits), sizes[memory]) for memory, bits in rows.items()}
    turn = turn_at_dram(machine, read, written)
    return Expense(_in_whole(total_energy(energies_fj)), cycles, read, written, turn, workspaces)


def _bits_moved(operand: TileOperand, bands: Sequence[Tensor]) -> int:
    """Return the bits of all bands, in whole bytes, or of the elements that are looked up if these are fewer."""
    whole, bits = sum(band.size_bytes for band in bands) * BITS_PER_BYTE, bands[0].bits
    if operand.most_read is None or bits is None:
        return whole
    return min(whole, in_bytes(operand.most_read * bits) * BITS_PER_BYTE)


def expense_of_copy(machine: AddressedMachine, tensor: Tensor, copy: Copy) -> Expense:
    """Return the expense of a Copy: each hop reads its source and writes its target.

    A Copy takes the set-up cycles and the cycles of its slowest hop.
    """
    bits = tensor.size_bytes * BITS_PER_BYTE
    energies_fj, slowest = list[Fraction | None](), 0
    for source, target in machine.hops(tensor, copy.source, copy.target):
        for memory, direction in ((source, Direction.READ), (target, Direction.WRITE)):
            energies_fj.append(machine.energy_fj(memory, direction, bits))
            slowest = max(slowest, machine.cycles(memory, direction, bits))
    read, written = bits * (copy.source == DRAM), bits * (copy.target == DRAM)
    cycles = machine.dma.setup_cycles + slowest
    energy_fj = _in_whole(total_energy(energies_fj))
    return Expense(energy_fj, cycles, read, written, turn_at_dram(machine, read, written))


def _in_whole(energy_fj: Fraction | None) -> int | None:
    return None if energy_fj is None else round(energy_fj)


def turn_at_dram(machine: AddressedMachine, read: int, written: int) -> int:
    """Return the cycles for which an instruction occupies DRAM to read and write these bits."""
    return machine.cycles(DRAM, Direction.READ, read) + machine.cycles(DRAM, Direction.WRITE, written)


def _row_bits(band: Tensor) -> int:
    """Return the bits of the last axis of a band, or of all of a band without a shape."""
    if not band.shape or band.bits is None:
        return band.size_bytes * BITS_PER_BYTE
    return band.shape[-1] * band.bits


@dataclass(slots=True)
class _TimedPlace:
    """A residency: when its bytes are free, when its content is written, and when its last use ends, in cycles."""

    start: int
    stop: int
    free_at: int
    written_at: int = 0
    used_until: int | None = None

    def use(self, cycle: int) -> None:
        self.used_until = max(cycle, self.used_until or 0)


@dataclass(slots=True)
class Clock:
    """Goes through a legal program once; `sizes` are bytes by tensor and memory, `expenses` by instruction's number."""

    sizes: Mapping[tuple[str, str], int]
    expenses: Mapping[int, Expense]
    operands: Mapping[str, Sequence[TileOperand]]
    homes: Mapping[str, HomeOf]
    dma: Dma
    in_place: Mapping[str, Sequence[str]]
    """Map each output to the inputs whose bytes it may take."""
    latency_cycles: int = 0
    _places: dict[tuple[str, str], _TimedPlace] = field(default_factory=dict)
    _used: dict[str, UsedBytes] = field(default_factory=lambda: defaultdict(UsedBytes))
    _in_dram_at: dict[str, int] = field(default_factory=dict)
    _computed_until: int = 0
    _dram_until: int = 0
    _queues_until: dict[int, int] = field(default_factory=dict)
    _copies: int = 0

    def run(self, program: Sequence[Instruction]) -> int:
        """Return the cycle in which the last instruction and the last DRAM transfer have ended."""
        for number, instruction in enumerate(program):
            match instruction:
                case Allocate(tensor, memory, start):
                    stop = start + self.sizes[tensor, memory]
                    free_at = max(self._used[memory].latest(start, stop), self._lent_at(tensor, memory, start, stop))
                    self._places[tensor, memory] = _TimedPlace(start, stop, free_at)
                case Free(tensor, memory):
                    place = self._places.pop((tensor, memory))
                    if place.used_until is not None:
                        self._used[memory].use(place.start, place.stop, place.used_until)
                case Copy():
                    self._copy(instruction, self.expenses[number])
                case Compute(operator):
                    self._compute(operator, self.expenses[number])
        return self.latency_cycles

    def _lent_at(self, tensor: str, memory: str, start: int, stop: int) -> int:
        """Return the end of the last use of a resident input whose bytes an output takes, or 0."""
        inputs = (self._places.get((name, memory)) for name in self.in_place.get(tensor, ()))
        return max((one.used_until or 0 for one in inputs if one and one.start < stop and start < one.stop), default=0)

    def _copy(self, copy: Copy, expense: Expense) -> None:
        """Copy k takes its turn in queue k mod queues."""
        queue = self._copies % self.dma.queues
        self._copies += 1
        moments = [self._queues_until.get(queue, 0), self._written_at(copy.tensor, copy.source)]
        if copy.target != DRAM:
            moments.append(self._places[copy.tensor, copy.target].free_at)
        end = self._begin(moments, expense) + expense.cycles
        self._queues_until[queue] = end
        if copy.source != DRAM:
            self._places[copy.tensor, copy.source].use(end)
        self._write(copy.tensor, copy.target, end)

    def _compute(self, operator: str, expense: Expense) -> None:
        """Computes take their turns, each where its operands have their homes."""
        read: list[tuple[str, str]] = []
        written: list[tuple[str, str]] = []
        for operand in self.operands[operator]:
            home = self.homes[operator][operand.base] or DRAM
            (written if operand.held_as is Operand.OUTPUT else read).extend([(band, home) for band in operand.bands])
        used = [self._places[operator + WORKSPACE, memory] for memory in expense.workspaces]
        moments = [self._computed_until, *[place.free_at for place in used]]
        moments += [self._places[each].free_at for each in written if each[1] != DRAM]
        moments += [self._written_at(*each) for each in read]
        used += [self._places[each] for each in read if each[1] != DRAM]
        end = self._begin(moments, expense) + expense.cycles
        self._computed_until = end
        for place in used:
            place.use(end)
        for band, home in written:
            self._write(band, home, end)

    def _begin(self, moments: Sequence[int], expense: Expense) -> int:
        """Return the cycle in which an instruction begins.

        It begins when its dependencies have ended and, if it moves bits from or to DRAM, when DRAM is free.
        """
        start = max(*moments, self._dram_until if expense.dram_cycles else 0)
        if expense.dram_cycles:
            self._dram_until = start + expense.dram_cycles
        self.latency_cycles = max(self.latency_cycles, start + expense.cycles, self._dram_until)
        return start

    def _written_at(self, tensor: str, memory: str) -> int:
        return self._in_dram_at.get(tensor, 0) if memory == DRAM else self._places[tensor, memory].written_at

    def _write(self, tensor: str, memory: str, end: int) -> None:
        """Record the end of a write of a tensor; the last writer determines when the tensor is available."""
        if memory == DRAM:
            self._in_dram_at[tensor] = end
        else:
            place = self._places[tensor, memory]
            place.written_at = end
            place.use(end)
