"""Cuts from failed packings are valid: brute force shows that they forbid no choice that packs."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from onchip.answer.packing import Buffer, PackingProblem, StaticMemory, StaticPackingProblem
from onchip.memory.allocate.exact import Attempt, Knowledge
from onchip.memory.allocate.pools import MemoryModel, conflict_in
from onchip.search.budget.limits import Run
from oracles.packing import fits


def crowded(seed: int) -> PackingProblem:
    """Return seven buffers and a capacity near the peak of live bytes."""
    chance = random.Random(seed)
    starts = [chance.randint(0, 5) for _ in range(7)]
    buffers = tuple(Buffer(start, start + chance.randint(1, 4), chance.randint(1, 5)) for start in starts)
    live = max(sum(b.size_bytes for b in buffers if b.start <= step < b.stop) for step in range(10))
    return PackingProblem(buffers, max(1, live + chance.randint(-2, 1)), chance.choice((1, 1, 2)))


@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(0, 300, 50)], ids=str)
def test_a_conflict_forbids_no_choice_that_packs(seeds: range) -> None:
    learnt = 0
    for seed in seeds:
        problem = crowded(seed)
        attempt, indices = Attempt(problem, Run()), range(len(problem.buffers))
        if attempt.go_on(2_000) is not Knowledge.UNPACKABLE:
            continue
        memories = (StaticMemory(problem.capacity_bytes, problem.alignment_bytes), StaticMemory())
        model = MemoryModel(StaticPackingProblem(problem.buffers, memories, ({0: 0, 1: 1},) * len(indices)), Run())
        for stretch in {attempt.hard_stretch, problem.steps}:
            shapes = list(model.shapes(conflict_in(problem, stretch, Run())))
            learnt += 1
            for kept in (set(some) for count in range(len(indices) + 1) for some in combinations(indices, count)):
                if all(count <= len(kept.intersection(alike)) for count, alike in shapes):
                    lives = [(b.start, b.stop, b.size_bytes) for b in (problem.buffers[index] for index in kept)]
                    assert not fits(lives, problem.capacity_bytes, problem.alignment_bytes), f"seed {seed}"
    assert learnt
