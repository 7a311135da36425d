"""Costs of each Compute and Copy of a schedule: energy, cycles, bits from and to DRAM, workspaces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from onchip.answer.program import Copy
from onchip.arch.memory import DRAM, Direction, Operand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Tensor
from onchip.verify.schedule.machine import FEMTOJOULES_PER_PICOJOULE, AddressedMachine, total_energy
from onchip.verify.schedule.mappings import PricedNest
from onchip.verify.schedule.operands import TileOperand
from onchip.verify.schedule.streaming import HomeOf

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
