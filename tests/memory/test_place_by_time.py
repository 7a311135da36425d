"""Allocation in order of time, against a simple version that scans all live buffers."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from onchip.answer.packing import Buffer
from onchip.answer.problem import Order, Problem
from onchip.arch.memory import Memory
from onchip.memory.allocate import sections
from onchip.memory.allocate.repair import FreeRanges, place_or_cut_by_time
from onchip.memory.allocate.residencies import packing_problem
from onchip.memory.allocate.sections import has_too_many_pairs
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions import schedule_of_moves
from onchip.memory.effort import StepParams
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from oracles.one_scratchpad import random_graph
from support.series import in_one_test


def smallest_by_looking(taken: list[tuple[int, int]], size: int, capacity: int, alignment: int) -> int | None:
    best: tuple[int, int] | None = None
    top = 0
    for start, end in (*sorted(taken), (capacity, 0)):
        if start - top >= size and (best is None or start - top < best[0]):
            best = (start - top, top)
        top = max(top, -(-end // alignment) * alignment)
    return None if best is None else best[1]


@in_one_test("seed", range(40))
def test_the_smallest_free_range_is_found(seed: int) -> None:
    chance = random.Random(seed)
    alignment = chance.choice((1, 4, 16))
    capacity = chance.randrange(50, 400)
    free, taken = FreeRanges(capacity, alignment), list[tuple[int, int]]()
    for _ in range(300):
        size = chance.randrange(1, 40)
        start = smallest_by_looking(taken, size, capacity, alignment)
        assert free.smallest_for(size) == start
        if start is not None and chance.random() < 0.6:
            taken.append((start, start + size))
            free.take(*taken[-1])
        elif taken:
            free.give_back(*taken.pop(chance.randrange(len(taken))))


@in_one_test("seed", range(60))
def test_what_is_placed_in_order_of_time_never_overlaps_at_any_capacity(seed: int) -> None:
    alignment = (1, 4)[seed % 2]
    graph = random_graph(seed, 12)
    need = greatest_need(Problem(graph, (Memory("sram", 1, alignment),))).need_bytes
    problem = Problem(graph, (Memory("sram", need + seed % 5, alignment),), order=Order.GIVEN)
    indexed = IndexedProblem.of(problem)
    schedule = schedule_of_moves(indexed, belady_moves(indexed, range(indexed.operator_count)))
    placed, offsets = place_or_cut_by_time(indexed, schedule)
    buffers = packing_problem(indexed, placed).buffers

    assert all(
        at % alignment == 0 and at + b.size_bytes <= need + seed % 5 for at, b in zip(offsets, buffers, strict=True)
    )
    for at, one in zip(offsets, buffers, strict=True):
        for other_at, other in zip(offsets, buffers, strict=True):
            if one is not other and one.start < other.stop and other.start < one.stop:
                assert at + one.size_bytes <= other_at or other_at + other.size_bytes <= at


# Counts of buffers with overlapping live ranges, against their lists


@pytest.mark.parametrize("seed", range(30))
def test_pairs_are_counted_as_they_are_listed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    starts = [chance.randrange(30) for _ in range(chance.randrange(1, 40))]
    buffers = [Buffer(start, start + chance.randrange(1, 12), 1) for start in starts]
    pairs = sum(one.overlaps(other) for one, other in combinations(buffers, 2))

    monkeypatch.setattr(sections, "STEP", StepParams(listed_pairs=pairs))
    assert not has_too_many_pairs(buffers)
    monkeypatch.setattr(sections, "STEP", StepParams(listed_pairs=pairs - 1))
    assert has_too_many_pairs(buffers)
