"""The second prover of packings compared with a search over all offsets."""

from __future__ import annotations

import random

from onchip.answer.packing import Buffer, Overflow, Packing, PackingProblem
from onchip.audits.finding import Finding, Ruling
from onchip.audits.packing import audit_arena, audit_overflow
from onchip.verify.packing import verify_overflow, verify_packing
from oracles.packing import least_capacity, least_outside_bytes
from support.series import in_one_test

SECONDS = 30.0


def buffers_of(chance: random.Random) -> list[tuple[int, int, int]]:
    greatest = chance.choice((3, 6, 13))
    starts = [chance.randint(0, 6) for _ in range(chance.randint(1, 6))]
    return [(start, start + chance.randint(1, 5), chance.randint(1, greatest)) for start in starts]


@in_one_test("seed", range(60))
def test_the_least_arena_is_confirmed_and_one_more_refuted(seed: int) -> None:
    chance = random.Random(seed)
    buffers, alignment = buffers_of(chance), chance.choice((1, 1, 2, 3))
    truth = least_capacity(buffers, alignment)
    problem = PackingProblem(tuple(Buffer(*one) for one in buffers), 10**6, alignment)

    assert audit_arena(problem, truth, SECONDS).ruling is Ruling.CONFIRMED
    finding = audit_arena(problem, truth + 1, SECONDS)

    assert is_refuted_with(finding, truth)
    assert isinstance(finding.better, Packing)
    assert verify_packing(PackingProblem(problem.buffers, truth, alignment), finding.better) == ()


@in_one_test("seed", range(60))
def test_the_least_outside_is_confirmed_and_one_more_refuted(seed: int) -> None:
    chance = random.Random(seed)
    buffers, alignment = buffers_of(chance), chance.choice((1, 1, 2, 3))
    capacity = chance.randint(1, 20)
    truth = least_outside_bytes(buffers, capacity, alignment)
    problem = PackingProblem(tuple(Buffer(*one) for one in buffers), capacity, alignment)

    assert audit_overflow(problem, truth, SECONDS).ruling is Ruling.CONFIRMED
    finding = audit_overflow(problem, truth + 1, SECONDS)

    assert is_refuted_with(finding, truth)
    assert isinstance(finding.better, Overflow)
    assert verify_overflow(problem, finding.better, truth) == ()


def is_refuted_with(finding: Finding, value: int) -> bool:
    return finding.ruling is Ruling.REFUTED and finding.better_value == value
