"""Cuts from failed packings are valid: brute force shows that they forbid no choice that packs."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from onchip.answer.packing import Buffer, PackingProblem
from onchip.memory.allocate.exact import Knowledge, finding_of, unpackable_stretch
from onchip.memory.allocate.overflow import Conflict, conflict_in, in_sections
from onchip.search.budget.limits import Run
from oracles.packing import fits


def crowded(seed: int) -> PackingProblem:
    """Few buffers and a little more than there is room for."""
    chance = random.Random(seed)
    starts = [chance.randint(0, 5) for _ in range(7)]
    buffers = tuple(Buffer(start, start + chance.randint(1, 4), chance.randint(1, 5)) for start in starts)
    live = max(sum(b.size_bytes for b in buffers if b.start <= step < b.stop) for step in range(10))
    return in_sections(PackingProblem(buffers, max(1, live + chance.randint(-2, 1)), chance.choice((1, 1, 2))))


def is_forbidden(problem: PackingProblem, conflict: Conflict, kept: tuple[Buffer, ...]) -> bool:
    """Whether the kept cover every part: for each life and size at least as many of that life are as large."""
    stretch = conflict.stretch
    return all(
        count
        <= sum(
            one.size_bytes >= size_bytes
            and (max(one.start, stretch.start), min(one.stop, stretch.stop)) == (life.start, life.stop)
            for one in kept
        )
        for life, size_bytes, count in conflict.shapes()
    )


@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(0, 300, 50)], ids=str)
def test_a_conflict_forbids_no_choice_that_packs(seeds: range) -> None:
    learnt = 0
    for seed in seeds:
        problem = crowded(seed)
        if finding_of(problem, Run()) is not Knowledge.UNPACKABLE:
            continue
        stretch = unpackable_stretch(problem, Run(), problem.buffers[0].start) or problem.steps
        conflict = conflict_in(problem, stretch, Run())
        learnt += 1
        for count in range(len(problem.buffers) + 1):
            for kept in combinations(problem.buffers, count):
                if is_forbidden(problem, conflict, kept):
                    lives = [(b.start, b.stop, b.size_bytes) for b in kept]
                    assert not fits(lives, problem.capacity_bytes, problem.alignment_bytes), f"seed {seed}"
    assert learnt
