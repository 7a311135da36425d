"""Cost of a data-movement operator outside all fused groups: each operand is in DRAM and moves once."""

from __future__ import annotations

from collections.abc import Sequence

from onchip.answer.fused_network import StreamedOperator
from onchip.answer.strategy import EnergyCause
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.model.group.sums import FusedLatency, FusedSums
from onchip.model.program.compute_cost import OperandAtHome, cost_without_nest


def moved_sums(moved: Sequence[StreamedOperator], accelerator: Accelerator) -> tuple[FusedSums, ...]:
    """Return the cost of each operator, as `schedule` costs an operator without a loop nest whose operands all stream.

    Its cycles are those of copies; element accesses are not counted. Raises AcceleratorError if DRAM lacks a port of a
    direction.
    """
    return tuple(_sums(one, accelerator) for one in moved)


def _sums(one: StreamedOperator, accelerator: Accelerator) -> FusedSums:
    cost = cost_without_nest((OperandAtHome(operand, bits, 0, None) for operand, bits in one.operands), accelerator)
    energies = dict[tuple[str, EnergyCause], float]()
    for (memory, operand), energy_pj in cost.access_pj.items():
        cause = EnergyCause.WEIGHT if operand == Operand.WEIGHT else EnergyCause.ACTIVATION
        energies[memory, cause] = energies.get((memory, cause), 0.0) + energy_pj
    moved_bits = {DRAM: cost.dram_read_bits + cost.dram_written_bits}
    return FusedSums(energies, {}, FusedLatency(copies=cost.cycles), 0, moved_bits)
