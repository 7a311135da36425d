"""For every rule of packings, the nearest legal one and the nearest illegal one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from onchip.plan.packing import Buffer, Packing, PackingProblem
from onchip.verify.packing import PackingRule, verify_packing


def problem(size_of_the_last: int = 4) -> PackingProblem:
    """The first lives with the second, the second with the third, the first never with the third."""
    buffers = (Buffer(0, 2, 4), Buffer(1, 3, 4), Buffer(2, 4, size_of_the_last))
    return PackingProblem(buffers, capacity_bytes=8, alignment_bytes=2)


@dataclass(frozen=True)
class Refusal:
    rule: PackingRule
    legal: tuple[int, ...]
    illegal: tuple[int, ...]
    buffer: int | None
    size_of_the_last: int = 4

    def __str__(self) -> str:
        return f"{self.rule}-{self.illegal}"


REFUSALS = (
    Refusal(PackingRule.OFFSETS_MISCOUNTED, (0, 4, 0), (0, 4), None),
    Refusal(PackingRule.OFFSETS_MISCOUNTED, (0, 4, 0), (0, 4, 0, 0), None),
    Refusal(PackingRule.NEGATIVE_OFFSET, (0, 4, 0), (-2, 4, 0), 0),
    Refusal(PackingRule.MISALIGNED, (4, 0, 4), (4, 0, 5), 2, size_of_the_last=3),
    Refusal(PackingRule.BEYOND_CAPACITY, (4, 0, 4), (6, 0, 4), 0),
    Refusal(PackingRule.BEYOND_CAPACITY, (4, 0, 4), (4, 0, 6), 2, size_of_the_last=3),
    Refusal(PackingRule.OVERLAP, (0, 4, 0), (2, 4, 0), 1),
    Refusal(PackingRule.OVERLAP, (4, 0, 4), (4, 0, 2), 2),
    Refusal(PackingRule.OVERLAP, (4, 0, 4), (4, 0, 0), 2, size_of_the_last=1),
)


def test_every_rule_has_a_refusal() -> None:
    assert {refusal.rule for refusal in REFUSALS} == set(PackingRule)


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_the_nearest_legal_packing_is_accepted(refusal: Refusal) -> None:
    assert verify_packing(problem(refusal.size_of_the_last), Packing(refusal.legal)) == ()


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_the_nearest_illegal_packing_is_refused_for_that_rule_alone(refusal: Refusal) -> None:
    (violation,) = verify_packing(problem(refusal.size_of_the_last), Packing(refusal.illegal))

    assert (violation.rule, violation.buffer) == (refusal.rule, refusal.buffer)
    assert str(violation).startswith(f"{refusal.rule}: ")
    assert "\n" not in str(violation)


def test_an_overlap_names_both_buffers_their_addresses_and_their_steps() -> None:
    (violation,) = verify_packing(problem(), Packing((2, 4, 0)))

    assert str(violation) == "overlap: buffer 1: it is at [4, 8) over steps [1, 3), buffer 0 at [2, 6) over [0, 2)"


def test_buffers_that_meet_in_no_step_may_share_their_bytes() -> None:
    assert verify_packing(problem(), Packing((0, 4, 0))) == ()


def test_a_packing_may_be_full_to_the_last_byte() -> None:
    assert verify_packing(PackingProblem((Buffer(0, 1, 3), Buffer(0, 1, 5)), 8), Packing((5, 0))) == ()
