"""Lossless coalescing of blocks: no load changes, and a packing of the coalesced blocks packs all."""

from __future__ import annotations

from itertools import accumulate, combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.packing import Packing, PackingProblem
from onchip.answer.result import Status
from onchip.memory.allocate.pack import blocks_of, least_capacity
from onchip.native import ArenaBlock, ArenaBlocks, ArenaSearch, JoinedBlocks, StopToken
from onchip.search.budget.limits import Limits, Run
from onchip.verify.packing import verify_packing
from support.perfect_packings import cut_rectangle, drawn_windows


@st.composite
def problems(draw: st.DrawFn) -> PackingProblem:
    """Rectangles in pieces, some of them lost, and buffers of few sizes, padded or not."""
    chance = Random(draw(st.integers(0, 1 << 30)))
    pieces = cut_rectangle(chance.randint(2, 40), 12, 40, chance.randrange(1 << 20))
    lost = chance.choice((0, 0, 3))
    buffers = (*pieces[lost:], *drawn_windows(chance.choice((1, 20)), 6, chance.randrange(1 << 20)))
    return PackingProblem(buffers, 1 << 40, draw(st.sampled_from((1, 1, 4, 4096))))


def loads(blocks: ArenaBlocks) -> list[int]:
    stop = max(one.stop for one in blocks)
    return [sum(one.size for one in blocks if one.first <= section < one.stop) for section in range(stop)]


@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_what_is_left_has_the_same_loads_and_places_all(problem: PackingProblem) -> None:
    blocks = blocks_of(problem)
    joined = JoinedBlocks(blocks, StopToken())
    left = joined.left()

    assert loads(left) == loads(blocks)
    upon_each_other = [0, *accumulate(one.size for one in left)]
    offsets = joined.offsets(upon_each_other[:-1])
    arena = max(offset + one.used for offset, one in zip(upon_each_other[:-1], left, strict=True))
    assert verify_packing(problem, Packing(tuple(offsets)), arena) == ()


@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_nothing_that_could_be_joined_is_left(problem: PackingProblem) -> None:
    for one, other in combinations(JoinedBlocks(blocks_of(problem), StopToken()).left(), 2):
        assert (one.first, one.stop) != (other.first, other.stop)
        assert one.size != other.size or (one.stop != other.first and other.stop != one.first)


def test_the_upper_one_is_that_with_the_most_padding() -> None:
    """The arena ends where used bytes do."""
    blocks = [
        ArenaBlock(first=0, stop=1, size=8, used=5, steps=1),
        ArenaBlock(first=0, stop=1, size=4, used=4, steps=1),
    ]
    for given_order in (blocks, blocks[::-1]):
        (whole,) = JoinedBlocks(ArenaBlocks(given_order), StopToken()).left()
        assert (whole.size, whole.used) == (12, 9)


@pytest.mark.parametrize(("count", "seed"), [(300, 1), (3_000, 2)])
def test_a_rectangle_in_pieces_is_put_together_again(count: int, seed: int) -> None:
    """Skylines alone end some 20 % above."""
    problem = PackingProblem(cut_rectangle(count, 100 * count, 1 << 30, seed), 1 << 40)

    result = least_capacity(problem, Run(Limits(node_limit=count)))

    assert (result.status, result.objective_value) == (Status.OPTIMAL, 1 << 30)
    assert result.answer is not None
    assert verify_packing(problem, result.answer, 1 << 30) == ()


def test_asked_to_stop_it_has_joined_nothing_wrong() -> None:
    blocks = blocks_of(PackingProblem(cut_rectangle(200, 2_000, 1 << 20, 3), 1 << 40))
    token = StopToken()
    token.ask()

    left = JoinedBlocks(blocks, token).left()

    assert len(left) == len(blocks)


def test_offsets_are_as_many_as_blocks() -> None:
    blocks = ArenaBlocks([ArenaBlock(first=0, stop=1, size=2, used=2, steps=1)] * 2)
    joined, search = JoinedBlocks(blocks, StopToken()), ArenaSearch(blocks, 0)
    assert joined.offsets([4]) == [4, 6]
    for offsets in ([], [0, 2]):
        with pytest.raises(ValueError, match="offsets than blocks left"):
            joined.offsets(offsets)
    with pytest.raises(ValueError, match="one offset for every block"):
        search.offer([0])
    with pytest.raises(ValueError, match="size is below 1"):
        JoinedBlocks(ArenaBlocks([ArenaBlock(first=0, stop=1, size=0, used=0, steps=1)]), StopToken())


def test_a_packing_is_kept_only_if_it_is_lower() -> None:
    search = ArenaSearch(ArenaBlocks([ArenaBlock(first=0, stop=1, size=4, used=3, steps=1)] * 2), 0)
    search.offer([8, 0])
    search.offer([0, 4])
    search.offer([4, 8])
    assert (search.arena, search.offsets) == (7, [0, 4])
