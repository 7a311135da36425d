"""Packings of many buffers: legal, never below the load, never above the arenas of plain greedy allocators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, Overflow, Packing, PackingProblem
from onchip.answer.result import Status, Stop
from onchip.memory.allocate.exact import least_arena_bytes, requests_of
from onchip.memory.allocate.pack import least_capacity, pack
from onchip.memory.allocate.sections import lives_of
from onchip.native import StopToken, place_in_order
from onchip.search.budget.limits import Limits, Run
from onchip.verify.packing import verify_overflow, verify_packing
from oracles.packing import most_bytes_alive
from support.perfect_packings import cut_rectangle, drawn_windows
from support.series import series

PlainBuffer = tuple[int, int, int]
"""Start, stop and bytes."""


def arena_of_order(
    buffers: Sequence[PlainBuffer], order: Sequence[int], alignment: int, *, in_smallest_gap: bool
) -> int:
    """Return the highest end of a buffer, each in the lowest or the smallest gap that fits it, else on top."""
    offsets: dict[int, int] = {}
    for index in order:
        start, stop, size = buffers[index]
        taken = sorted(
            (offset, offset + buffers[other][2])
            for other, offset in offsets.items()
            if buffers[other][0] < stop and start < buffers[other][1]
        )
        gaps, top = [], 0
        for low, high in taken:
            if low - top >= size:
                gaps.append((low - top, top))
            top = max(top, -(-high // alignment) * alignment)
        offsets[index] = (min(gaps) if in_smallest_gap else gaps[0])[1] if gaps else top
    return max(offset + buffers[index][2] for index, offset in offsets.items())


def arenas_of_baselines(buffers: Sequence[PlainBuffer], alignment: int) -> dict[str, int]:
    """Return the arena by name: best fit by size and by lifetime, TFLite's and TFLite Micro's."""
    last = max(stop for _, stop, _ in buffers)
    throughout = {index for index, (start, stop, _) in enumerate(buffers) if start == 0 and stop == last}

    def arena(key: object, *, in_smallest_gap: bool = True) -> int:
        order = sorted(range(len(buffers)), key=key)  # type: ignore[call-overload]
        return arena_of_order(buffers, order, alignment, in_smallest_gap=in_smallest_gap)

    return {
        "best fit by size": arena(lambda i: (-buffers[i][2], buffers[i][0])),
        "best fit by life": arena(lambda i: (buffers[i][0] - buffers[i][1], -buffers[i][2])),
        "TFLite": arena(lambda i: (i not in throughout, 0 if i in throughout else -buffers[i][2], buffers[i][0], i)),
        "TFLite Micro": arena(lambda i: (-buffers[i][2], -i), in_smallest_gap=False),
    }


@st.composite
def problems(draw: st.DrawFn) -> PackingProblem:
    """Generate problems of a few to a few dozen buffers, with capacity for the sum of their sizes."""
    chance = Random(draw(st.integers(0, 1 << 30)))
    buffers = []
    for _ in range(draw(st.integers(1, 40))):
        start = chance.randrange(20)
        buffers.append(Buffer(start, start + chance.randint(1, 12), chance.randint(1, 30)))
    alignment = draw(st.sampled_from((1, 1, 4, 7)))
    return PackingProblem(tuple(buffers), 40 * 35, alignment)


def plain(problem: PackingProblem) -> list[tuple[int, int, int]]:
    return [(one.start, one.stop, one.size_bytes) for one in problem.buffers]


@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_a_short_search_is_legal_and_between_the_load_and_every_baseline(problem: PackingProblem) -> None:
    result = least_capacity(problem, Run(), 1)

    assert result.answer is not None
    arena = result.objective_value or 0
    assert verify_packing(problem, result.answer, arena) == ()
    assert most_bytes_alive(plain(problem)) <= least_arena_bytes(problem) <= result.lower_bound <= arena
    baselines = arenas_of_baselines(plain(problem), problem.alignment_bytes)
    assert all(arena <= baseline for baseline in baselines.values()), baselines


@settings(max_examples=150, deadline=None)
@given(problem=problems(), seed=st.integers(0, 1000), in_smallest_gap=st.booleans())
def test_an_order_is_placed_as_the_plain_allocator_does(
    problem: PackingProblem, seed: int, in_smallest_gap: bool
) -> None:
    order = Random(seed).sample(range(len(problem.buffers)), len(problem.buffers))

    offsets = place_in_order(requests_of(problem), order, in_smallest_gap=in_smallest_gap)

    expected = arena_of_order(plain(problem), order, problem.alignment_bytes, in_smallest_gap=in_smallest_gap)
    assert verify_packing(problem, Packing(tuple(offsets)), expected) == ()


@settings(max_examples=100, deadline=None)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_the_first_packing_lies_above_fixed_buffers_and_takes_no_more_than_there_is_room_for(
    problem: PackingProblem, seed: int
) -> None:
    chance, buffers, top = Random(seed), list(problem.buffers), 0
    for index in chance.sample(range(len(buffers)), chance.randrange(len(buffers))):
        buffers[index] = replace(buffers[index], offset_bytes=top)
        top += problem.aligned(buffers[index].size_bytes)
    mixed = replace(problem, buffers=tuple(buffers))
    mixed = replace(mixed, capacity_bytes=mixed.roomy_bytes)

    result = least_capacity(mixed, Run(Limits(time_limit_seconds=0)))

    assert result.answer is not None
    assert verify_packing(mixed, result.answer, result.objective_value) == ()


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_the_bound_is_the_greatest_load_with_the_most_padding_left_out(problem: PackingProblem) -> None:
    loads = []
    for step in problem.steps:
        living = [(problem.aligned(b.size_bytes), b.size_bytes) for b in problem.buffers if b.start <= step < b.stop]
        loads.append(sum(size for size, _ in living) - max((size - used for size, used in living), default=0))

    assert least_arena_bytes(problem) == max(loads)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30), rounds=st.integers(1, 30), percent=st.integers(100, 130))
def test_repairs_are_legal_and_the_same_for_a_seed(seed: int, rounds: int, percent: int) -> None:
    roomy = PackingProblem(drawn_windows(90, 20, seed), 1 << 40, 4)
    problem = replace(roomy, capacity_bytes=least_arena_bytes(roomy) * percent // 100)

    found = [pack(problem, Run(Limits(node_limit=1)), 1, rounds).answer for _ in range(2)]

    assert found[0] == found[1]
    assert found[0] is None or verify_packing(problem, found[0]) == ()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 20), count=st.integers(2, 12))
def test_cut_rectangles_are_proven_to_need_no_more(seed: int, count: int) -> None:
    buffers = cut_rectangle(count, 12, 40, seed)

    result = least_capacity(PackingProblem(buffers, 1000), Run())

    assert (result.status, result.objective_value, result.lower_bound) == (Status.OPTIMAL, 40, 40)


@pytest.mark.parametrize(("most_life", "times_the_load"), series([(40, 1.01), (400, 1.03)], 1))
def test_many_windows_are_packed_near_the_load(most_life: int, times_the_load: float) -> None:
    """The longer ones are more pairs than the exact search takes."""
    problem = PackingProblem(drawn_windows(6_000, most_life, 1), 1 << 40, 64)

    result = least_capacity(problem, Run(Limits(node_limit=100 * 6_000)))

    assert result.answer is not None
    assert result.objective_value is not None
    assert verify_packing(problem, result.answer, result.objective_value) == ()
    assert result.lower_bound <= result.objective_value <= times_the_load * result.lower_bound


def test_a_large_problem_is_packed_at_its_capacity() -> None:
    buffers = drawn_windows(8_000, 400, 2)
    roomy = PackingProblem(buffers, 1 << 40)
    problem = replace(roomy, capacity_bytes=least_arena_bytes(roomy) * 102 // 100)

    result = pack(problem, Run(Limits(time_limit_seconds=60)))

    assert result.answer is not None
    assert verify_packing(problem, result.answer, result.objective_value) == ()


def test_a_capacity_that_is_not_met_in_time_stays_open() -> None:
    buffers = drawn_windows(8_000, 400, 5)
    roomy = PackingProblem(buffers, 1 << 40)

    result = pack(replace(roomy, capacity_bytes=least_arena_bytes(roomy)), Run(Limits(time_limit_seconds=0)))

    assert (result.status, result.stopped_by) == (Status.UNKNOWN, Stop.TIME_LIMIT)


def overflow_of(offsets: list[int]) -> Overflow:
    return Overflow(tuple(None if offset < 0 else offset for offset in offsets))


@settings(max_examples=60, deadline=None)
@given(problem=problems(), seed=st.integers(0, 99), capacity=st.integers(1, 150))
def test_filling_is_legal_and_leaves_out_only_what_finds_no_gap(
    problem: PackingProblem, seed: int, capacity: int
) -> None:
    small = replace(problem, capacity_bytes=capacity)
    order = Random(seed).sample(range(len(problem.buffers)), len(problem.buffers))
    lives, stopped = lives_of(small), StopToken()
    stopped.ask()

    swept = lives.sweep(capacity)
    kept = lives.fill(order, swept, capacity, stopped)
    filled = lives.fill(order, swept, capacity, StopToken())

    assert kept == swept
    assert lives.fill(order, filled, capacity, StopToken()) == filled
    for one in (overflow_of(swept), overflow_of(filled)):
        outside = sum(small.buffers[index].size_bytes for index in one.outside)
        assert verify_overflow(small, one, outside) == ()


@pytest.mark.parametrize(("order", "offsets"), [([0], []), ([1], [-1]), ([-1], [-1])])
def test_offsets_and_orders_that_name_no_block_are_refused(order: list[int], offsets: list[int]) -> None:
    lives = lives_of(PackingProblem((Buffer(0, 1, 1),), 1))

    with pytest.raises(ValueError, match=r"offset for every block|a block that does not exist"):
        lives.fill(order, offsets, 1, StopToken())


def test_an_order_names_every_buffer_once() -> None:
    requests = requests_of(PackingProblem((Buffer(0, 1, 1), Buffer(0, 1, 1)), 2))
    for order in ([0], [0, 0], [0, 2], [0, 1, 1]):
        with pytest.raises(ValueError, match="every buffer once"):
            place_in_order(requests, order, in_smallest_gap=True)
