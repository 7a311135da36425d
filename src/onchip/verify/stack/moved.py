"""The cost of data-movement operators outside of all stacks, from DRAM to DRAM (docs/fusion.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from onchip.answer.fused_network import StreamedOperator
from onchip.answer.strategy import EnergyCause
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Direction, Operand
from onchip.verify.schedule.machine import FEMTOJOULES_PER_PICOJOULE, AddressedMachine, total_energy


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
