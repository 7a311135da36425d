"""The verifier names the faults of any schedule, or declares it legal; it never fails."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.schedule import Homes, Schedule, ScheduledMapping, ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ir.layer import LOOPS
from onchip.verify.schedule.machine import ScheduleSetting, ScheduleVerdict
from onchip.verify.schedule.verifier import verify_schedule
from support.programs import instructions
from support.schedule_cases import CONV1, CONV2, HALF, NEAR_AND_FAR, PAIR, RESIDENT, TILED, ScheduleCase, price

OPERATORS = st.sampled_from(("conv1", "conv2", "conv1#0", "conv2#1", "ghost"))
NAMES = st.sampled_from(("x", "a", "y", "w1", "w2", "x[:,:,0:1,:]", "conv1@workspace", "conv2@workspace", "@workspace"))
MEMORIES = st.sampled_from(("near", "far", "dram", "register", "ghost"))
INSTRUCTIONS: st.SearchStrategy[Instruction] = st.one_of(
    st.builds(Allocate, NAMES, MEMORIES, st.integers(-3, 130)),
    st.builds(Copy, NAMES, MEMORIES, MEMORIES),
    st.builds(Compute, OPERATORS),
    st.builds(Free, NAMES, MEMORIES),
)
EDITS = st.lists(st.tuples(st.integers(0, 99), st.none() | INSTRUCTIONS), max_size=3)
HOMES = st.builds(Homes, *(st.sampled_from((None, "near", "far", "register", "ghost")) for _ in range(3)))
KEPT = st.lists(st.builds(Kept, st.sampled_from(("near", "far", "register", "ghost")), st.just(1)), max_size=2).map(
    tuple
)
NESTS = st.lists(
    st.builds(Loop, st.sampled_from(LOOPS), st.sampled_from((2, 3, 4)), st.sampled_from((None, "lane", "ghost"))),
    min_size=1,
    max_size=6,
).map(tuple)
MAPPINGS = st.builds(LayerMapping, NESTS, KEPT, KEPT, KEPT)
SCHEDULED = st.builds(ScheduledMapping, st.integers(0, 3), st.sampled_from((CONV1, CONV2)), HOMES, MAPPINGS)
STACKS = st.sampled_from(
    (
        *(case.stacks for case in (RESIDENT, TILED)),
        (ScheduledStack(("conv2",)), ScheduledStack(("conv1",))),
        (ScheduledStack(("conv1", "conv2"), Tiling(9, 9, OverlapMode.H_CACHED)),),
        (ScheduledStack(("conv1", "ghost"), Tiling(1, 1, OverlapMode.FULLY_CACHED)),),
    )
)
CASES = st.sampled_from((RESIDENT, HALF, TILED))


def verdict(case: ScheduleCase, program: list[Instruction], extra: list[ScheduledMapping]) -> ScheduleVerdict:
    keys = {(one.stack, one.layer, one.homes): one for one in (*extra, *case.mappings)}
    setting = ScheduleSetting(PAIR, NEAR_AND_FAR, case.lowered(), 24)
    schedule = Schedule(case.stacks, tuple(keys.values()), Plan((), tuple(program)))
    return verify_schedule(setting, schedule, case.claim, price)


def edited(case: ScheduleCase, edits: list[tuple[int, Instruction | None]]) -> list[Instruction]:
    program = list(instructions(case.program))
    for index, instruction in edits:
        program[index % len(program) : index % len(program) + 1] = [instruction] if instruction else []
        program = program or [Compute("conv1")]
    return program


@given(CASES, STACKS, EDITS, st.lists(SCHEDULED, max_size=2))
def test_no_schedule_whatever_it_says_makes_the_verifier_fail(
    case: ScheduleCase,
    stacks: tuple[ScheduledStack, ...],
    edits: list[tuple[int, Instruction | None]],
    extra: list[ScheduledMapping],
) -> None:
    other = replace(case, stacks=stacks, tiles=None)
    found = verdict(other, edited(case, edits), extra)
    assert found == verdict(other, edited(case, edits), extra)
    assert (found.figures is None) <= bool(found.violations)
    assert all("\n" not in str(violation) for violation in found.violations)


@pytest.mark.slow
@given(EDITS, st.lists(SCHEDULED, max_size=1))
def test_a_schedule_that_is_edited_is_refused_or_has_figures(
    edits: list[tuple[int, Instruction | None]], extra: list[ScheduledMapping]
) -> None:
    found = verdict(replace(RESIDENT, claim=None), edited(RESIDENT, edits), extra)
    assert found.is_legal is (found.figures is not None)


@pytest.mark.parametrize("case", [RESIDENT, HALF, TILED])
def test_without_any_edit_the_schedule_is_legal(case: ScheduleCase) -> None:
    assert verdict(case, edited(case, []), []).is_legal
