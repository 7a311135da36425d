"""The nearest legal and the nearest illegal packing for every rule of packings."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from onchip.answer.packing import Buffer, Overflow, Packing, PackingProblem
from onchip.verify.packing import ALL_BUFFERS, verify_overflow, verify_packing
from onchip.verify.rules import Rule
from support.mutants import reported_by


def problem(size_of_the_last: int = 4) -> PackingProblem:
    """Return three buffers: the first overlaps the second in time, the second the third, the first never the third."""
    buffers = (Buffer(0, 2, 4), Buffer(1, 3, 4), Buffer(2, 4, size_of_the_last))
    return PackingProblem(buffers, capacity_bytes=8, alignment_bytes=2)


@dataclass(frozen=True)
class Refusal:
    rule: Rule
    legal: tuple[int, ...]
    illegal: tuple[int, ...]
    buffer: int | None
    size_of_the_last: int = 4

    def __str__(self) -> str:
        return f"{self.rule}-{self.illegal}"

    @property
    def subject(self) -> str:
        return ALL_BUFFERS if self.buffer is None else f"buffer {self.buffer}"


REFUSALS = (
    Refusal(Rule.OFFSETS_MISCOUNTED, (0, 4, 0), (0, 4), None),
    Refusal(Rule.OFFSETS_MISCOUNTED, (0, 4, 0), (0, 4, 0, 0), None),
    Refusal(Rule.NEGATIVE_OFFSET, (0, 4, 0), (-2, 4, 0), 0),
    Refusal(Rule.MISALIGNED, (4, 0, 4), (4, 0, 5), 2, size_of_the_last=3),
    Refusal(Rule.BEYOND_CAPACITY, (4, 0, 4), (6, 0, 4), 0),
    Refusal(Rule.BEYOND_CAPACITY, (4, 0, 4), (4, 0, 6), 2, size_of_the_last=3),
    Refusal(Rule.OVERLAP, (0, 4, 0), (2, 4, 0), 1),
    Refusal(Rule.OVERLAP, (4, 0, 4), (4, 0, 2), 2),
    Refusal(Rule.OVERLAP, (4, 0, 4), (4, 0, 0), 2, size_of_the_last=1),
)


@dataclass(frozen=True)
class OverflowRefusal:
    """`legal` and `illegal` are offsets (None: outside) with the claimed bytes outside."""

    rule: Rule
    legal: tuple[tuple[int | None, ...], int]
    illegal: tuple[tuple[int | None, ...], int]
    buffer: int | None
    size_of_the_last: int = 4

    def __str__(self) -> str:
        return f"{self.rule}-{self.illegal}"

    @property
    def subject(self) -> str:
        return ALL_BUFFERS if self.buffer is None else f"buffer {self.buffer}"


OVERFLOW_REFUSALS = (
    OverflowRefusal(Rule.OFFSETS_MISCOUNTED, ((0, None, 0), 4), ((0, None), 4), None),
    OverflowRefusal(Rule.OFFSETS_MISCOUNTED, ((0, None, 0), 4), ((0, None, 0, None), 4), None),
    OverflowRefusal(Rule.NEGATIVE_OFFSET, ((0, None, 0), 4), ((-2, None, 0), 4), 0),
    OverflowRefusal(Rule.MISALIGNED, ((None, 0, 4), 4), ((None, 0, 5), 4), 2, size_of_the_last=3),
    OverflowRefusal(Rule.BEYOND_CAPACITY, ((None, 0, 4), 4), ((None, 0, 6), 4), 2),
    OverflowRefusal(Rule.OVERLAP, ((None, 4, 0), 4), ((None, 4, 2), 4), 2),
    OverflowRefusal(Rule.OUTSIDE_MISCOUNTED, ((0, None, 0), 4), ((0, None, 0), 3), None),
    OverflowRefusal(Rule.OUTSIDE_MISCOUNTED, ((None, 0, None), 7), ((None, 0, None), 8), None, size_of_the_last=3),
    OverflowRefusal(Rule.OUTSIDE_MISCOUNTED, ((0, 4, 0), 0), ((0, 4, 0), 4), None),
)


def test_every_rule_has_a_refusal() -> None:
    counts = {Rule.ARENA_MISCOUNTED, Rule.OUTSIDE_MISCOUNTED}
    # Refusals of these are in tests/contract: test_packing.py and test_static_packing.py.
    reported = reported_by("packing") - {Rule.FIXED_MOVED, Rule.NO_SUCH_MEMORY, Rule.NOT_HELD}
    assert {refusal.rule for refusal in OVERFLOW_REFUSALS} == reported - {Rule.ARENA_MISCOUNTED}
    assert {refusal.rule for refusal in REFUSALS} == reported - counts


@pytest.mark.parametrize("refusal", OVERFLOW_REFUSALS, ids=str)
def test_the_nearest_legal_overflow_is_accepted(refusal: OverflowRefusal) -> None:
    offsets, outside_bytes = refusal.legal

    assert verify_overflow(problem(refusal.size_of_the_last), Overflow(offsets), outside_bytes) == ()


@pytest.mark.parametrize("refusal", OVERFLOW_REFUSALS, ids=str)
def test_the_nearest_illegal_overflow_is_refused_for_that_rule_alone(refusal: OverflowRefusal) -> None:
    offsets, outside_bytes = refusal.illegal

    (violation,) = verify_overflow(problem(refusal.size_of_the_last), Overflow(offsets), outside_bytes)

    assert (violation.rule, violation.subject) == (refusal.rule, refusal.subject)


def test_what_is_outside_overlaps_nothing() -> None:
    assert verify_overflow(problem(), Overflow((None, None, 0)), 8) == ()
    assert verify_overflow(problem(), Overflow((None, None, None)), 12) == ()


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_the_nearest_legal_packing_is_accepted(refusal: Refusal) -> None:
    assert verify_packing(problem(refusal.size_of_the_last), Packing(refusal.legal)) == ()


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_the_nearest_illegal_packing_is_refused_for_that_rule_alone(refusal: Refusal) -> None:
    (violation,) = verify_packing(problem(refusal.size_of_the_last), Packing(refusal.illegal))

    assert (violation.rule, violation.subject) == (refusal.rule, refusal.subject)
    assert str(violation).startswith(f"{refusal.rule}: ")
    assert "\n" not in str(violation)


def test_an_overlap_names_both_buffers_their_addresses_and_their_steps() -> None:
    (violation,) = verify_packing(problem(), Packing((2, 4, 0)))

    assert str(violation) == "overlap: 'buffer 1': it is at [4, 8) over steps [1, 3), buffer 0 at [2, 6) over [0, 2)"


def test_buffers_that_meet_in_no_step_may_share_their_bytes() -> None:
    assert verify_packing(problem(), Packing((0, 4, 0))) == ()


def test_an_arena_that_is_not_the_highest_end_is_refused() -> None:
    whole = PackingProblem((Buffer(0, 1, 3), Buffer(0, 1, 5)), 8)

    assert verify_packing(whole, Packing((5, 0)), 8) == ()
    (violation,) = verify_packing(whole, Packing((5, 0)), 7)

    assert violation.rule is Rule.ARENA_MISCOUNTED


def test_a_packing_may_be_full_to_the_last_byte() -> None:
    assert verify_packing(PackingProblem((Buffer(0, 1, 3), Buffer(0, 1, 5)), 8), Packing((5, 0))) == ()


def test_without_buffers_the_arena_is_empty() -> None:
    nothing = PackingProblem((), 8)
    assert verify_packing(nothing, Packing(()), 0) == ()
    (violation,) = verify_packing(nothing, Packing(()), 1)
    assert violation.detail == "the arena is said to be 1 bytes, it is 0"


def test_of_offsets_that_are_miscounted_nothing_else_is_said() -> None:
    (violation,) = verify_packing(problem(), Packing((0, 4)), 8)
    assert (violation.rule, violation.detail) == (Rule.OFFSETS_MISCOUNTED, "2 offsets for 3 buffers")


def test_a_buffer_may_take_the_bytes_of_one_that_is_listed_before_and_lives_after() -> None:
    later_first = PackingProblem((Buffer(2, 4, 8), Buffer(0, 2, 8)), 8)
    assert verify_packing(later_first, Packing((0, 0))) == ()
    (violation,) = verify_packing(PackingProblem((Buffer(2, 4, 8), Buffer(0, 3, 8)), 8), Packing((0, 0)))
    assert violation.rule is Rule.OVERLAP


def test_what_ends_above_the_capacity_says_where() -> None:
    (violation,) = verify_packing(problem(), Packing((6, 0, 4)))
    assert violation.detail == "it ends at 10, above 8"
    (violation,) = verify_packing(problem(3), Packing((4, 0, 5)))
    assert violation.detail == "it is at 5, no multiple of 2"
