"""Random programs over tiles, with streamed operands and workspaces: legal, and with the figures of the cost model."""

from __future__ import annotations

from random import Random

import pytest

from onchip.answer.program import Allocate, Compute, Copy
from onchip.answer.schedule import WORKSPACE
from onchip.arch.energies import stated
from onchip.ir.tensor import Role
from onchip.model.program.figures import schedule_figures
from onchip.verify.rules import Rule
from onchip.verify.schedule.costs import Clock, Expense, expense_of_copy, turn_at_dram
from onchip.verify.schedule.machine import AddressedMachine
from support.schedule_programs import ProgramCase, operands_of, random_program, replayed


def expenses_of(case: ProgramCase) -> dict[int, Expense]:
    machine = AddressedMachine(case.accelerator)
    found = {}
    for number, instruction in enumerate(case.program.instructions):
        if isinstance(instruction, Copy):
            found[number] = expense_of_copy(machine, case.graph.tensor[instruction.tensor], instruction)
        elif isinstance(instruction, Compute):
            cost = case.costs[instruction.operator]
            read, written = cost.dram_read_bits, cost.dram_written_bits
            turn = turn_at_dram(machine, read, written)
            found[number] = Expense(cost.energy_fj, cost.cycles, read, written, turn, cost.workspace_bytes)
    return found


def sizes_of(case: ProgramCase) -> dict[tuple[str, str], int]:
    names = AddressedMachine(case.accelerator).level
    sizes = {(tensor.name, memory): tensor.size_bytes for tensor in case.graph.tensors for memory in names}
    for name, cost in case.costs.items():
        sizes |= {(name + WORKSPACE, memory): size for memory, size in cost.workspace_bytes.items()}
    return sizes


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_figures_are_those_that_the_cost_model_counts(first: int) -> None:
    for seed in range(first, first + 100):
        case = random_program(seed)
        program = case.program.instructions
        replay = replayed(case, program)
        assert replay.report.violations == [], seed
        expenses = expenses_of(case)
        figures = schedule_figures(case.graph, case.accelerator, case.program, case.costs)
        assert sum(stated(one.energy_fj) for one in expenses.values()) == figures.energy_fj, seed
        assert sum(one.traffic_bytes for one in expenses.values()) == figures.traffic_bytes, seed
        dma = AddressedMachine(case.accelerator).dma
        clock = Clock(sizes_of(case), expenses, operands_of(case.graph), replay.homes, dma)
        assert clock.run(program) == figures.latency_cycles, seed
        arenas = {name: one.arena_bytes for name, one in figures.memories.items()}
        assert dict(replay.meter.arenas) == arenas, seed
        peaks = [one.peak_bytes for one in figures.memories.values()]
        assert max(peaks, default=0) <= replay.meter.peak_bytes <= sum(peaks), seed


@pytest.mark.parametrize("seed", range(100))
def test_a_program_without_one_of_its_allocations_or_computes_is_refused(seed: int) -> None:
    """An operand without an allocation streams from another home; no other omission is tolerated."""
    case, random = random_program(seed), Random(seed)
    program = list(case.program.instructions)
    kinds = (Allocate, Compute)
    at = random.choice([at for at, one in enumerate(program) if isinstance(one, kinds)])
    left_out = program.pop(at)
    replay = replayed(case, program)
    rules = {violation.rule for violation in replay.report.violations}
    if isinstance(left_out, Compute):
        assert Rule.OPERATOR_NEVER_RUN in rules
    else:
        assert rules or replay.homes != replayed(case, case.program.instructions).homes


def test_every_network_output_goes_to_dram_once() -> None:
    for case in map(random_program, range(50)):
        for at, one in enumerate(case.program.instructions):
            program = list(case.program.instructions)
            if isinstance(one, Copy) and one.target == "dram" and case.graph.tensor[one.tensor].role is Role.OUTPUT:
                assert [each.rule for each in replayed(case, [*program, one]).report.violations][-1:] in (
                    [Rule.OUTPUT_WRITTEN_AGAIN],
                    [Rule.SOURCE_NOT_RESIDENT],
                )
                del program[at]
                assert Rule.OUTPUT_NEVER_WRITTEN in {each.rule for each in replayed(case, program).report.violations}


def test_a_copied_workspace_and_one_that_stays_are_refused() -> None:
    case = next(one for one in map(random_program, range(99)) if _first_workspace(one) is not None)
    at = _first_workspace(case)
    assert at is not None
    program = list(case.program.instructions)
    allocate = program[at]
    assert isinstance(allocate, Allocate)
    moved = [*program[: at + 1], Copy(allocate.tensor, allocate.memory, "dram"), *program[at + 1 :]]
    assert [one.rule for one in replayed(case, moved).report.violations] == [Rule.WORKSPACE_COPIED]
    without = program[:at] + program[at + 1 :]
    rules = [one.rule for one in replayed(case, without).report.violations]
    assert rules == [Rule.WORKSPACE_MISSING, Rule.FREED_NOT_RESIDENT]


def _first_workspace(case: ProgramCase) -> int | None:
    instructions = enumerate(case.program.instructions)
    return next((at for at, one in instructions if isinstance(one, Allocate) and WORKSPACE in one.tensor), None)
