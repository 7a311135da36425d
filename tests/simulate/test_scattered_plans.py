"""Verifier, machine and history agree on plans over several scratchpads, good and corrupted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings

from onchip.answer.problem import Placement, Problem
from onchip.answer.program import Began, Copy, Plan, TransferKind, residencies_of, transfers_of
from onchip.arch.memory import DRAM
from onchip.simulate.machine import MachineError
from onchip.verify.rules import Rule
from onchip.verify.verifier import verify
from support.programs import HELD, MOVED
from support.runs import run_seeded
from support.several import corrupted_plans, scattered_plans

NO_MATTER_OF_BYTES = {
    Rule.OVERLAP,  # overlap of a tensor that is not read any more
    Rule.SOURCE_UNDEFINED,  # the copy is not read
    Rule.OUTPUT_WRITTEN_AGAIN,
    Rule.OPERATOR_RUN_TWICE,
    Rule.OPERATOR_NEVER_RUN,  # its output is not read
}
"""Rules that a machine may break without a wrong byte."""


@settings(max_examples=60, deadline=None)
@given(scattered_plans())
def test_a_good_plan_over_several_scratchpads_is_legal_and_moves_what_the_verifier_says(
    case: tuple[Problem, Plan],
) -> None:
    problem, plan = case
    verdict = verify(problem, plan)
    assert verdict.violations == ()
    run = run_seeded(problem, plan)
    assert run.difference is None
    figures = verdict.figures
    assert (run.loads, run.write_backs, run.moved) == (figures.loads, figures.write_backs, figures.moved)
    size = {tensor.name: tensor.size_bytes for tensor in problem.graph.tensors}
    copies = [each for each in plan.instructions if isinstance(each, Copy)]
    assert figures.moved == sum(size[copy.tensor] for copy in copies if DRAM not in (copy.source, copy.target))
    assert figures.transfer_cost == sum(size[copy.tensor] for copy in copies)


@pytest.mark.slow
@settings(max_examples=160, deadline=None)
@given(corrupted_plans())
def test_what_the_verifier_passes_the_machine_carries_out_and_what_it_refuses_the_machine_feels(
    case: tuple[Problem, Plan],
) -> None:
    problem, plan = case
    verdict = verify(problem, plan)
    rules = {violation.rule for violation in verdict.violations}
    try:
        run = run_seeded(problem, plan)
    except MachineError:
        assert rules
        return
    if run.difference is not None:
        assert rules
        return
    assert rules <= NO_MATTER_OF_BYTES or Rule.OVERLAP in rules  # bytes of one tensor may equal another's by chance
    if not rules:
        figures = verdict.figures
        assert (run.loads, run.write_backs, run.moved) == (figures.loads, figures.write_backs, figures.moved)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(scattered_plans())
def test_placement_is_static_where_every_tensor_stays_or_comes_for_one_operator(case: tuple[Problem, Plan]) -> None:
    problem, plan = case
    stays: dict[str, list[int]] = defaultdict(list)
    for residency in residencies_of(plan, problem.graph):
        stays[residency.tensor].append(residency.stop_step - residency.start_step)
    moving = {tensor for tensor, steps in stays.items() if len(steps) > 1 and any(operators > 1 for operators in steps)}
    violations = verify(replace(problem, placement=Placement.STATIC), plan).violations
    assert {violation.rule for violation in violations} <= {Rule.PLACEMENT_NOT_STATIC}
    assert sorted(violation.subject for violation in violations) == sorted(moving)


@settings(max_examples=40, deadline=None)
@given(scattered_plans())
def test_moves_are_the_transfers_that_dram_has_no_part_in(case: tuple[Problem, Plan]) -> None:
    problem, plan = case
    for transfer in transfers_of(plan, problem.graph):
        assert (transfer.kind is TransferKind.MOVE) is (DRAM not in (transfer.source, transfer.target))


def test_a_residency_that_begins_with_a_move_says_so() -> None:
    began = {(one.tensor, one.memory): one.began for one in residencies_of(MOVED.plan, MOVED.problem.graph)}
    assert began["x", "left"] is Began.LOADED
    assert began["x", "right"] is Began.MOVED
    began = {(one.tensor, one.memory): one.began for one in residencies_of(HELD.plan, HELD.problem.graph)}
    assert began["a", "outputs"] is Began.COMPUTED
    assert began["a", "inputs"] is Began.MOVED
    assert [str(transfer.kind) for transfer in transfers_of(HELD.plan, HELD.problem.graph)] == [
        "load",
        "load",
        "move",
        "write",
    ]
