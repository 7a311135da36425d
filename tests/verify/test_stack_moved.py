"""Costs of operators outside of all stacks: the model and the verifier, which share no code, agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.fused_network import StreamedOperator
from onchip.answer.strategy import EnergyCause
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Dram, Memory, Operand, Port
from onchip.errors import AcceleratorError
from onchip.model.group.sums import moved_sums
from onchip.verify.stack.chip import expense_of_moving


def machine(access: Access | None, *ports: Port) -> Accelerator:
    return Accelerator("chip", (Memory("buffer", 64),), (), dram=Dram(access=access, ports=ports))


OPERANDS = st.lists(st.tuples(st.sampled_from(Operand), st.integers(1, 400)), min_size=1, max_size=5)
RATES = st.integers(1, 70)


@given(OPERANDS, st.sampled_from((8, 32, 64)), st.none() | st.just(8), RATES, RATES, st.booleans())
def test_each_operand_passes_dram_once(
    operands: list[tuple[Operand, int]], wide: int, shortest: int | None, read: int, write: int, has_ports: bool
) -> None:
    ports = Port(Direction.READ, read), Port(Direction.READ_WRITE, write)
    access = Access(wide, 0.3, 0.7, shortest)
    chip = machine(access, *(ports if has_ports else ()))
    moved = StreamedOperator("s", tuple(operands))
    expense, (sums,) = expense_of_moving(moved, chip), moved_sums((moved,), chip)
    unit = shortest or wide
    units = {operand: sum(-(-bits // unit) for one, bits in operands if one is operand) for operand in Operand}
    own = {
        EnergyCause.ACTIVATION: (0.3 * units[Operand.INPUT] + 0.7 * units[Operand.OUTPUT]) * unit / wide,
        EnergyCause.WEIGHT: 0.3 * units[Operand.WEIGHT] * unit / wide,
    }
    there = {cause: energy_pj for cause, energy_pj in own.items() if energy_pj}
    assert expense.energies_pj == pytest.approx(there)
    assert {cause: energy_pj for (_, cause), energy_pj in sums.energies_pj.items()} == pytest.approx(there)
    written = sum(bits for one, bits in operands if one is Operand.OUTPUT)
    total = sum(bits for _, bits in operands)
    cycles = -(-(total - written) // (read + write)) - (-written // write) if has_ports else 0
    assert (expense.cycles, expense.dram_bits) == (sums.cycles, sums.moved_bits[DRAM]) == (cycles, total)
    assert sums.macs == 0


def test_a_dram_that_cannot_write_is_refused() -> None:
    moved = StreamedOperator("s", ((Operand.INPUT, 8), (Operand.OUTPUT, 8)))
    chip = machine(Access(8, 1, 1), Port(Direction.READ, 8))
    with pytest.raises(AcceleratorError):
        moved_sums((moved,), chip)
    with pytest.raises(AcceleratorError):
        expense_of_moving(moved, chip)


def test_the_energy_at_a_dram_that_states_none_is_unknown() -> None:
    moved = StreamedOperator("s", ((Operand.INPUT, 8), (Operand.OUTPUT, 8)))
    chip = machine(None, Port(Direction.READ_WRITE, 8))
    (sums,), expense = moved_sums((moved,), chip), expense_of_moving(moved, chip)
    assert sums.stated_energy_pj is None
    assert expense.energies_pj is None
    assert (sums.cycles, sums.moved_bits[DRAM]) == (expense.cycles, expense.dram_bits) == (2, 16)
