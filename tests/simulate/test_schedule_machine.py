"""Schedules on real bytes: legal ones give the right values, and wrong bytes reveal the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from onchip.answer.problem import Count, Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.schedule import WORKSPACE
from onchip.api.check_schedule import check_schedule_document
from onchip.api.kernels import RunValues, kernels_of_schedule, network_inputs
from onchip.api.run_schedule import execution_of
from onchip.api.schedule_figures import priced_schedule
from onchip.simulate.machine import (
    MachineError,
    MachineRun,
    ScheduledProgram,
    WrongBytes,
    run_in_given_order,
    run_schedule_on_machine,
)
from onchip.transform.groups.tile_graph import with_all_parameters
from support.small_schedules import document, three

ENOUGH = 4
BOTH = pytest.mark.parametrize("in_tiles", [False, True])


def on_machine(in_tiles: bool, change: Callable[[list[Instruction]], list[Instruction]]) -> MachineRun:
    """Run the program after `change`, which the verifier has not seen."""
    own = document(in_tiles=in_tiles)
    check = check_schedule_document(own, three())
    assert check.tiles is not None
    costs = priced_schedule(own, check.tiles).costs
    executed = with_all_parameters(check.tiles, check.network)
    program = own.answer.program
    changed = Plan(program.memories, tuple(change(list(program.instructions))))
    workspaces = {name: cost.workspace_bytes for name, cost in costs.items()}
    scheduled = ScheduledProgram(changed, check.tiles.graph, executed, workspaces)
    kernels = kernels_of_schedule(three(), own.reading, executed, check.network, RunValues())
    inputs = network_inputs(executed, kernels, {})
    reference = run_in_given_order(Problem(executed, program.memories, count=Count.ALL), kernels, inputs)
    return run_schedule_on_machine(scheduled, kernels, inputs, reference)


@BOTH
def test_a_legal_schedule_gives_the_networks_values_and_moves_what_is_planned(in_tiles: bool) -> None:
    found = execution_of(check_schedule_document(document(in_tiles=in_tiles), three()), three(), RunValues(7))
    assert found.is_right
    assert found.run is not None
    assert found.planned is not None
    assert found.relative_difference == 0
    assert (found.run.loads, found.run.write_backs) == (found.planned.loads, found.planned.write_backs)
    assert found.check.verdict.figures is not None
    assert found.planned.total == found.check.verdict.figures.traffic_bytes


@BOTH
def test_every_tensor_of_the_tile_graph_that_an_operator_touches_is_compared(in_tiles: bool) -> None:
    check = check_schedule_document(document(in_tiles=in_tiles), three())
    assert check.tiles is not None
    graph = check.tiles.graph
    touched = {name for operator in graph.operators for name in (*operator.reads, *operator.outputs)}
    assert on_machine(in_tiles, lambda program: program).compared == len(touched)


@BOTH
def test_bytes_of_others_in_a_workspace_are_found_out(in_tiles: bool) -> None:
    program = document(in_tiles=in_tiles).answer.program.instructions
    found: list[MachineRun] = []
    for scratch, beside in _beside_workspaces(list(program)):
        if len(found) == ENOUGH:
            break
        moved = replace(scratch, offset_bytes=beside.offset_bytes)
        with suppress(MachineError):  # the tensor does not fit there
            found.append(on_machine(in_tiles, partial(_replaced, scratch, moved)))
    assert found
    for run in found:
        assert run.difference is not None
        assert run.difference.found in (WrongBytes.READ, WrongBytes.WRITTEN)


def _replaced(old: Instruction, new: Instruction, program: list[Instruction]) -> list[Instruction]:
    return [new if one == old else one for one in program]


def _beside_workspaces(program: list[Instruction]) -> list[tuple[Allocate, Allocate]]:
    """Return each workspace with each operand of its operator that is resident in the same memory at that time.

    Operands that have a copy in another memory are left out: the operator may read the copy.
    """
    allocated = [one for one in program if isinstance(one, Allocate)]
    graph = check_schedule_document(document(in_tiles=any("#" in one.tensor for one in allocated)), three()).tiles
    assert graph is not None
    found = []
    for scratch in (one for one in allocated if one.tensor.endswith(WORKSPACE)):
        operator = graph.graph.operator[scratch.tensor.removesuffix(WORKSPACE)]
        start = program.index(scratch)
        resident = [one for one in allocated if program.index(one) < start < _end(program, one)]
        times = Counter(one.tensor for one in resident)
        for one in resident:
            is_operand = one.tensor in (*operator.reads, *operator.outputs) and one.memory == scratch.memory
            if is_operand and times[one.tensor] == 1:
                found.append((scratch, one))
    return found


def _end(program: list[Instruction], allocated: Allocate) -> int:
    ends = (at for at, one in enumerate(program) if one == Free(allocated.tensor, allocated.memory))
    return next((at for at in ends if at > program.index(allocated)), len(program))


def test_an_operator_without_its_workspace_does_not_run() -> None:
    def without(program: list[Instruction]) -> list[Instruction]:
        first = next(one.tensor for one in program if isinstance(one, Allocate) and one.tensor.endswith(WORKSPACE))
        return [one for one in program if not isinstance(one, Allocate | Free) or one.tensor != first]

    with pytest.raises(MachineError, match="has no workspace in"):
        on_machine(False, without)


def test_a_workspace_that_no_mapping_needs_has_no_size() -> None:
    with pytest.raises(MachineError, match="no mapping needs 'add@workspace' in 'register'"):
        on_machine(False, lambda program: [Allocate("add@workspace", "register", 0), *program])


def test_what_is_not_in_dram_cannot_stream() -> None:
    """The last operator reads the second one's output, made on the chip: after its free no copy exists."""

    def freed(program: list[Instruction]) -> list[Instruction]:
        at = next(index for index, one in enumerate(program) if one == Compute("add"))
        resident = [one for one in program[:at] if isinstance(one, Allocate) and one.tensor == "m1"]
        frees: list[Instruction] = [Free(one.tensor, one.memory) for one in resident]
        return [*program[:at], *frees, *(one for one in program[at:] if one not in frees)]

    with pytest.raises(MachineError, match="DRAM has no 'm1'"):
        on_machine(False, freed)


def test_a_load_that_is_left_out_is_found_in_what_is_read() -> None:
    """An allocated but unfilled tensor is no home: the operator streams it, and the values are right."""

    def without_loads(program: list[Instruction]) -> list[Instruction]:
        return [one for one in program if not isinstance(one, Copy) or one.source != "dram"]

    run = on_machine(False, without_loads)
    assert run.loads == 0
    assert run.difference is None
