"""Greedy orders and skylines: legal, never below the load, never above what plain greedy allocators reach."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.result import Status, Stop
from onchip.memory.allocate import pack as pack_module
from onchip.memory.allocate.exact import least_arena_bytes
from onchip.memory.allocate.pack import LowPacking, blocks_of, least_capacity, pack
from onchip.memory.allocate.sections import sections_of
from onchip.native import ArenaBlock, ArenaBlocks, ArenaSearch, StopToken
from onchip.search.budget.limits import Limits, Run
from onchip.verify.packing import verify_packing
from oracles.greedy_packing import arena_of_order, arenas_of_baselines
from oracles.packing import most_bytes_alive
from support.perfect_packings import cut_rectangle, drawn_windows
from support.series import series


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


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_it_is_legal_and_between_the_load_and_every_baseline(problem: PackingProblem) -> None:
    low_packing = LowPacking(problem, Run())

    low_packing.place_quickly(0)

    arena = low_packing.arena_bytes
    assert verify_packing(problem, Packing(low_packing.offsets_bytes), arena) == ()
    assert most_bytes_alive(plain(problem)) <= least_arena_bytes(problem) <= arena
    baselines = arenas_of_baselines(plain(problem), problem.alignment_bytes)
    assert all(arena <= baseline for baseline in baselines.values()), baselines


@settings(max_examples=150, deadline=None)
@given(problem=problems(), seed=st.integers(0, 1000), in_smallest_gap=st.booleans())
def test_an_order_is_placed_as_the_plain_allocator_does(
    problem: PackingProblem, seed: int, in_smallest_gap: bool
) -> None:
    unaligned = replace(problem, alignment_bytes=1)
    blocks = [
        ArenaBlock(first=b.start, stop=b.stop, size=b.size_bytes, used=b.size_bytes, steps=1) for b in problem.buffers
    ]
    order = Random(seed).sample(range(len(blocks)), len(blocks))
    # Steps are sections enough for the search, if there are not too many of them.
    blocks += [ArenaBlock(first=99, stop=100, size=1, used=1, steps=1)] * 60
    search = ArenaSearch(ArenaBlocks(blocks), 0)

    assert search.place([*order, *range(len(order), len(blocks))], in_smallest_gap=in_smallest_gap, stop=StopToken())

    expected = arena_of_order(plain(unaligned), order, 1, in_smallest_gap=in_smallest_gap)
    assert search.arena == max(expected, 60)


@settings(max_examples=150, deadline=None)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_a_sweep_packs_without_overlap_above_fixed_buffers(problem: PackingProblem, seed: int) -> None:
    chance, buffers, top = Random(seed), list(problem.buffers), 0
    for index in chance.sample(range(len(buffers)), chance.randrange(len(buffers))):
        buffers[index] = replace(buffers[index], offset_bytes=top)
        top += problem.aligned(buffers[index].size_bytes)
    mixed = replace(problem, buffers=tuple(buffers))
    search = ArenaSearch(blocks_of(mixed), 0)

    search.sweep()

    assert verify_packing(mixed, Packing(tuple(search.offsets)), search.arena) == ()
    assert search.arena <= mixed.roomy_bytes


@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_blocks_live_in_the_sections_of_their_buffers(problem: PackingProblem) -> None:
    blocks = blocks_of(problem)

    assert [(one.first, one.stop) for one in blocks] == sections_of(problem.buffers)[0]
    assert [one.size for one in blocks] == [problem.aligned(one.size_bytes) for one in problem.buffers]


@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_the_bound_is_the_greatest_load_with_the_most_padding_left_out(problem: PackingProblem) -> None:
    loads = []
    for step in problem.steps:
        living = [(problem.aligned(b.size_bytes), b.size_bytes) for b in problem.buffers if b.start <= step < b.stop]
        loads.append(sum(size for size, _ in living) - max((size - used for size, used in living), default=0))

    assert least_arena_bytes(problem) == max(loads)


@settings(max_examples=60, deadline=None)
@given(problem=problems(), rounds=st.integers(1, 80))
def test_skylines_are_legal_and_the_same_for_a_seed(problem: PackingProblem, rounds: int) -> None:
    found = []
    for _ in range(2):
        low_packing = LowPacking(problem, Run())
        low_packing.fill(rounds, 0)
        assert verify_packing(problem, Packing(low_packing.offsets_bytes), low_packing.arena_bytes) == ()
        found.append(low_packing.offsets_bytes)

    assert found[0] == found[1]


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


def test_there_is_a_packing_though_no_time_is_left() -> None:
    problem = PackingProblem(drawn_windows(500, 30, 3), 1 << 40)

    result = least_capacity(problem, Run(Limits(time_limit_seconds=0)))

    assert result.answer is not None
    assert verify_packing(problem, result.answer, result.objective_value) == ()


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"first": -1}, "lives in no section"),
        ({"stop": 0}, "lives in no section"),
        ({"stop": 9}, "more sections than starts"),
        ({"size": 0}, "size is below 1"),
        ({"size": 1 << 60}, "size is below 1"),
        ({"used": 3}, "more is used"),
        ({"steps": 0}, "no step"),
    ],
)
def test_a_block_that_there_cannot_be_is_refused(changed: dict[str, int], what: str) -> None:
    fields = {"first": 0, "stop": 1, "size": 2, "used": 2, "steps": 1}
    with pytest.raises(ValueError, match=what):
        ArenaSearch(ArenaBlocks([ArenaBlock(**{**fields, **changed})]), 0)


def test_an_order_names_every_block_once() -> None:
    search = ArenaSearch(ArenaBlocks([ArenaBlock(first=0, stop=1, size=2, used=2, steps=1)] * 2), 0)
    for order in ([0], [0, 0], [0, 2], [0, 1, 1]):
        with pytest.raises(ValueError, match="every block once"):
            search.place(order, in_smallest_gap=True, stop=StopToken())


@pytest.mark.parametrize("is_fixed", [False, True])
def test_only_a_sweep_is_done_when_no_time_is_left(is_fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skylines, joins, orders, and the count of pairs all begin before the limit or not at all."""
    first, *others = drawn_windows(3_000, 400, 5)
    problem = PackingProblem((replace(first, offset_bytes=0 if is_fixed else None), *others), 1 << 40)
    done: list[str] = []

    class CountedSearch(ArenaSearch):
        def sweep(self) -> None:
            done.append("sweep")
            super().sweep()

        def place(self, *_: object, **__: object) -> bool:
            done.append("place")
            return False

        def fill_skylines(self, *_: object) -> None:
            done.append("skylines")

    monkeypatch.setattr(pack_module, "ArenaSearch", CountedSearch)
    monkeypatch.setattr(pack_module, "has_too_many_pairs", lambda *_: done.append("pairs"))
    result = least_capacity(problem, Run(Limits(time_limit_seconds=0)))

    assert done == ["sweep"]
    assert result.answer is not None
    assert verify_packing(problem, result.answer, result.objective_value) == ()


def test_a_capacity_that_is_not_met_in_time_stays_open_without_an_exact_search(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = drawn_windows(8_000, 400, 5)
    monkeypatch.setattr(pack_module, "Attempt", None)
    roomy = PackingProblem(buffers, 1 << 40)

    result = pack(replace(roomy, capacity_bytes=least_arena_bytes(roomy)), Run(Limits(time_limit_seconds=0)))

    assert (result.status, result.stopped_by) == (Status.UNKNOWN, Stop.TIME_LIMIT)
