"""Gaps, alignments, fixed offsets, memories and groups, held equal to trying every place.

5,000 cases: PYTHONPATH=src:tests python -m support.packing_features
"""

from __future__ import annotations

import pytest

import onchip as oc
from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.result import Status
from onchip.audits.finding import Ruling
from onchip.audits.packing import audit_arena
from onchip.errors import OnchipError
from onchip.verify.packing import verify_packing
from onchip.verify.rules import Rule
from support.packing_features import faults
from support.series import series


@pytest.mark.parametrize("seed", series(range(1, 11), 1))
def test_random_cases_agree_with_trying_every_place(seed: int) -> None:
    assert [fault for _, fault in faults(60, seed) if fault] == []


def test_another_buffer_uses_the_bytes_of_a_gap() -> None:
    buffers = {"a": Buffer(0, 9, 8, gaps=((3, 5),)), "b": Buffer(3, 5, 8), "c": Buffer(0, 9, 4)}
    found = oc.pack(buffers)
    assert (found.status, found.arena_bytes) == (Status.OPTIMAL, 12)
    assert found.offsets["a"] == found.offsets["b"]


def test_the_verifier_counts_gaps_and_alignments() -> None:
    problem = PackingProblem((Buffer(0, 9, 8, gaps=((3, 5),)), Buffer(2, 5, 8, alignment_bytes=4)), 16, 2)
    assert verify_packing(problem, Packing((0, 8))) == ()
    assert {one.rule for one in verify_packing(problem, Packing((0, 0)))} == {Rule.OVERLAP}
    assert {one.rule for one in verify_packing(problem, Packing((8, 2)))} == {Rule.MISALIGNED, Rule.OVERLAP}
    inside = PackingProblem((Buffer(0, 9, 8, gaps=((3, 5),)), Buffer(3, 5, 8)), 8)
    assert verify_packing(inside, Packing((0, 0)), 8) == ()


def test_the_audit_counts_gaps_and_alignments() -> None:
    buffers = (Buffer(0, 9, 8, None, 4, ((3, 5),)), Buffer(3, 6, 3), Buffer(0, 4, 3, None, 4))
    least = int(oc.pack(buffers).arena_bytes or 0)
    assert audit_arena(PackingProblem(buffers, 64), least, 20).ruling is Ruling.CONFIRMED
    assert audit_arena(PackingProblem(buffers, 64), least + 1, 20).ruling is Ruling.REFUTED


def test_each_allocation_may_end_with_a_buffer_that_is_not_padded() -> None:
    options = oc.PackOptions(splits=True, alignment_bytes=2)
    found = oc.pack({"a": Buffer(0, 1, 5), "b": Buffer(0, 1, 5)}, 5, options=options)
    assert (found.status, found.objective) == (Status.OPTIMAL, 2)


def test_a_conflict_is_named() -> None:
    found = oc.pack({"a": Buffer(0, 2, 6), "b": Buffer(1, 3, 5), "c": Buffer(4, 5, 9)}, 10)
    assert (found.status, found.conflict) == (Status.INFEASIBLE, ("a", "b"))


def test_memories_are_filled_by_preference() -> None:
    buffers = {"a": Buffer(0, 2, 6), "b": Buffer(0, 2, 5, memories=("slow",)), "c": Buffer(0, 2, 4)}
    found = oc.pack(buffers, memories=[oc.Memory("fast", 8), oc.Memory("slow", 16)])
    assert (found.status, found.objective) == (Status.OPTIMAL, 4)
    assert found.memories == {"a": "fast", "b": "slow", "c": "slow"}


@pytest.mark.parametrize(
    ("gaps", "alignment"), [(((0, 9),), 1), (((3, 2),), 1), (((2, 4), (3, 5)), 1), (((5, 10),), 1), ((), 0)]
)
def test_an_invalid_buffer_is_refused(gaps: tuple[tuple[int, int], ...], alignment: int) -> None:
    with pytest.raises(OnchipError):
        Buffer(0, 9, 8, None, alignment, gaps)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(OnchipError, match="no buffer 'z'"):
        oc.pack({"a": Buffer(0, 1, 1)}, 4, options=oc.PackOptions(together=(("a", "z"),)))
    with pytest.raises(OnchipError, match="may lie in 'dram'"):
        oc.pack({"a": Buffer(0, 1, 1, memories=("dram",))}, memories=[oc.Memory("sram", 4)])
