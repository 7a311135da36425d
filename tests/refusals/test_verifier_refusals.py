"""The nearest legal plan and the nearest illegal one for every rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.document import Claim
from onchip.answer.problem import Count, Objective, Order, Placement, Problem, Transfers
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.result import Status
from onchip.arch.memory import DRAM, Operand
from onchip.verify.rules import Rule
from onchip.verify.verifier import verify
from support.mutants import reported_by
from support.plan_states import Refusal
from support.plan_tables import LEGAL, MISTAKES, Mistakes
from support.programs import CHAIN, LEFT_AND_RIGHT, SPILLED, TWO_SCRATCHPADS, Case, sram
from support.refusal_table import REFUSALS
from support.strategies import graphs
from support.timed_problems import UNTIMED


def test_every_rule_has_a_refusal() -> None:
    assert {refusal.rule for refusal in REFUSALS} == reported_by("replay", "verifier")


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_the_nearest_legal_plan_is_accepted(refusal: Refusal) -> None:
    verdict = verify(refusal.legal.problem, refusal.legal.plan, refusal.legal.claim)
    assert verdict.violations == ()
    assert verdict.is_legal


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_the_nearest_illegal_plan_is_refused_for_that_rule_alone(refusal: Refusal) -> None:
    verdict = verify(refusal.illegal.problem, refusal.illegal.plan, refusal.illegal.claim)
    assert [violation.rule for violation in verdict.violations] == [refusal.rule], verdict.violations
    assert not verdict.is_legal


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_a_violation_names_its_place(refusal: Refusal) -> None:
    (violation,) = verify(refusal.illegal.problem, refusal.illegal.plan, refusal.illegal.claim).violations
    assert (violation.instruction, violation.step) == (refusal.instruction, refusal.step)
    line = str(violation)
    assert line.startswith(f"{refusal.rule}: ")
    assert repr(violation.subject) in line
    assert refusal.says in line
    assert "\n" not in line


@pytest.mark.parametrize("mistakes", MISTAKES, ids=str)
def test_several_mistakes_are_each_reported_once(mistakes: Mistakes) -> None:
    violations = verify(mistakes.case.problem, mistakes.case.plan).violations
    found = [(each.rule, each.subject, each.instruction, each.step) for each in violations]
    assert found == list(mistakes.violations)


@pytest.mark.parametrize("case", LEGAL.values(), ids=LEGAL)
def test_what_is_legal_is_accepted(case: Case) -> None:
    assert verify(case.problem, case.plan, case.claim).violations == ()


def test_an_overlap_names_both_tensors_and_both_ranges() -> None:
    illegal = CHAIN.edited(2, "allocate a sram 3")
    (violation,) = verify(illegal.problem, illegal.plan).violations
    assert str(violation) == "overlap: step 0, instruction 2, 'a': [3, 6) of 'sram' overlaps 'x' at [0, 4)"


def test_a_violation_of_the_whole_plan_names_no_instruction() -> None:
    illegal = CHAIN.edited(8)
    (violation,) = verify(illegal.problem, illegal.plan).violations
    assert str(violation).startswith("output-never-written: 'y': ")


def test_the_scratchpads_of_the_problem_count_not_those_of_the_plan() -> None:
    plan = CHAIN.plan
    assert verify(CHAIN.problem, replace(plan, memories=sram(1))).is_legal
    smaller = replace(CHAIN.problem, memories=sram(11))
    assert [each.rule for each in verify(smaller, plan).violations] == [Rule.BEYOND_CAPACITY]


def test_all_scratchpads_are_named_when_one_is_unknown() -> None:
    illegal = TWO_SCRATCHPADS.edited(8, "copy y right dram", "free x middle")
    (violation,) = verify(illegal.problem, illegal.plan).violations
    assert "'left', 'right'" in violation.detail


NAMES = st.sampled_from(("x0", "x1", "w0", "t0.0", "t1.0", "t1.1", "op0", "ghost", "", "a\nb"))
OPERATORS = st.sampled_from(("op0", "op1", "op2", "op3", "ghost"))
MEMORIES = st.sampled_from(("left", "right", DRAM, "ghost"))
OFFSETS = st.integers(-3, 20) | st.integers()
INSTRUCTIONS: st.SearchStrategy[Instruction] = st.one_of(
    st.builds(Allocate, NAMES, MEMORIES, OFFSETS),
    st.builds(Copy, NAMES, MEMORIES, MEMORIES),
    st.builds(Compute, OPERATORS),
    st.builds(Free, NAMES, MEMORIES),
)
CLAIMS = st.builds(
    Claim, st.just("any"), st.sampled_from(Status), st.sampled_from(Objective), st.integers(-9, 99), st.integers()
)


HELD_IN_EACH = st.lists(st.sampled_from(Operand), min_size=1, unique=True).map(tuple)
PROBLEMS = st.builds(
    lambda graph, left, right, *rest: Problem(
        graph, (replace(LEFT_AND_RIGHT[0], holds=left), replace(LEFT_AND_RIGHT[1], holds=right)), *rest
    ),
    graphs(max_operators=4),
    HELD_IN_EACH,
    HELD_IN_EACH,
    st.sampled_from(UNTIMED),
    st.sampled_from(Order),
    st.sampled_from(Count),
    st.sampled_from((Transfers(), Transfers((("left", "right"),)))),
    st.sampled_from(Placement),
)


@given(PROBLEMS, st.lists(INSTRUCTIONS, max_size=30), st.none() | CLAIMS)
def test_no_plan_whatever_it_says_makes_the_verifier_fail(
    problem: Problem, program: list[Instruction], claim: Claim | None
) -> None:
    verdict = verify(problem, Plan((), tuple(program)), claim)
    assert verdict == verify(problem, Plan((), tuple(program)), claim)
    for violation in verdict.violations:
        assert "\n" not in str(violation)


@given(st.lists(st.tuples(st.integers(0, 99), INSTRUCTIONS | st.none()), min_size=1, max_size=4))
def test_a_plan_edited_anywhere_is_verified_or_refused(edits: list[tuple[int, Instruction | None]]) -> None:
    program = list(SPILLED.plan.instructions)
    for index, instruction in edits:
        program[index % len(program) : index % len(program) + 1] = [instruction] if instruction else []
    verdict = verify(SPILLED.problem, Plan((), tuple(program)))
    assert verdict.figures.total >= verdict.figures.compulsory or not verdict.is_legal
