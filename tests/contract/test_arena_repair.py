"""A packing lowered by putting blocks in again: legal, never higher, down to the load where that packs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.result import Status
from onchip.memory.allocate.exact import arena_bytes, least_arena_bytes
from onchip.memory.allocate.pack import LowPacking, blocks_of, pack
from onchip.native import ArenaBlock, ArenaBlocks, ArenaRepair, StopToken
from onchip.search.budget.limits import Run
from onchip.verify.packing import verify_packing
from support.packable import full_at_every_step
from support.perfect_packings import cut_rectangle, drawn_windows

MANY_LOOKS = 40_000


def stacked(problem: PackingProblem, order: Sequence[int]) -> list[int]:
    """Offsets of buffers that lie upon each other, whether they meet or not."""
    blocks, offsets, top = blocks_of(problem), [0] * len(order), 0
    for at in order:
        offsets[at] = top
        top += blocks[at].size
    return offsets


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    count=st.integers(1, 90),
    most_life=st.integers(1, 30),
    alignment=st.sampled_from((1, 4, 7)),
    looks=st.integers(1, 3_000),
    target=st.floats(0, 1.5),
)
def test_it_is_legal_at_any_time_and_never_higher(
    seed: int, count: int, most_life: int, alignment: int, looks: int, target: float
) -> None:
    chance = Random(seed)
    starts = [chance.randrange(count) for _ in range(count)]
    buffers = tuple(Buffer(at, at + chance.randint(1, most_life), chance.randint(1, 30)) for at in starts)
    problem = PackingProblem(buffers, 1 << 20, alignment)
    offsets = stacked(problem, chance.sample(range(count), count))
    repair, arena = ArenaRepair(blocks_of(problem), offsets, seed), arena_bytes(problem, tuple(offsets))
    for _ in range(3):
        repair.lower(looks, int(target * least_arena_bytes(problem)), StopToken())

        assert verify_packing(problem, Packing(tuple(repair.offsets)), repair.arena) == ()
        assert least_arena_bytes(problem) <= repair.arena <= arena
        arena = repair.arena


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 20), count=st.integers(2, 10))
def test_few_blocks_that_fill_a_rectangle_come_down_to_it(seed: int, count: int) -> None:
    problem = PackingProblem(cut_rectangle(count, 12, 40, seed), 1000)
    repair = ArenaRepair(blocks_of(problem), stacked(problem, range(count)), seed)

    repair.lower(MANY_LOOKS, 40, StopToken())

    assert repair.arena == 40


def test_windows_that_skylines_leave_above_the_load_are_lowered() -> None:
    problem = PackingProblem(drawn_windows(3_000, 60, 1), 1 << 40, 64)
    low, low_packing = least_arena_bytes(problem), LowPacking(problem, Run())
    low_packing.fill(10, low)
    before = low_packing.arena_bytes

    low_packing.repair(100, low)

    assert low_packing.arena_bytes < before
    assert verify_packing(problem, Packing(low_packing.offsets_bytes), low_packing.arena_bytes) == ()


def test_what_is_low_stays_low_where_another_stretch_has_no_packing() -> None:
    in_units = full_at_every_step(Random(199), 10, 20, 10, 0.3)
    assert pack(PackingProblem(tuple(in_units), 20), Run()).status is Status.INFEASIBLE
    others = [Buffer(11 + one.start, 11 + one.stop, one.size_bytes) for one in drawn_windows(400, 40, 1)]
    load = least_arena_bytes(PackingProblem(tuple(others), 1 << 40))
    hopeless = [replace(one, size_bytes=load // 20 * one.size_bytes) for one in in_units]
    problem = PackingProblem((*hopeless, *others), 1 << 40)
    repair = ArenaRepair(blocks_of(problem), stacked(problem, range(len(problem.buffers))), 1)

    repair.lower(50 * MANY_LOOKS, 0, StopToken())

    ends = [offset + one.size_bytes for offset, one in zip(repair.offsets, problem.buffers, strict=True)]
    assert max(ends[: len(hopeless)]) > max(ends[len(hopeless) :])
    assert verify_packing(problem, Packing(tuple(repair.offsets)), repair.arena) == ()


def test_it_is_the_same_for_a_seed_and_goes_on_from_what_is_offered_if_that_is_lower() -> None:
    problem = PackingProblem(drawn_windows(300, 40, 1), 1 << 40)
    given_offsets = stacked(problem, range(300))
    found = []
    for _ in range(2):
        repair = ArenaRepair(blocks_of(problem), given_offsets, 1)
        repair.lower(MANY_LOOKS, 0, StopToken())
        found.append(repair.offsets)
    other = ArenaRepair(blocks_of(problem), given_offsets, 2)

    other.offer(found[0])
    arena = other.arena
    other.offer(given_offsets)

    assert found[0] == found[1] == other.offsets
    assert arena == other.arena == arena_bytes(problem, tuple(found[0]))


def test_nothing_is_done_once_it_is_asked_to_stop() -> None:
    problem, token = PackingProblem(drawn_windows(300, 40, 1), 1 << 40), StopToken()
    repair = ArenaRepair(blocks_of(problem), stacked(problem, range(300)), 1)
    token.ask()

    repair.lower(MANY_LOOKS, 0, token)

    assert repair.offsets == stacked(problem, range(300))


def test_there_is_an_offset_for_every_block() -> None:
    blocks = ArenaBlocks([ArenaBlock(first=0, stop=1, size=4, used=3, steps=1)] * 2)
    with pytest.raises(ValueError, match="one offset for every block"):
        ArenaRepair(blocks, [0], 0)
    with pytest.raises(ValueError, match="one offset for every block"):
        ArenaRepair(blocks, [0, 4], 0).offer([0])
    with pytest.raises(ValueError, match="lives in no section"):
        ArenaRepair(ArenaBlocks([ArenaBlock(first=1, stop=1, size=4, used=3, steps=1)]), [0], 0)
