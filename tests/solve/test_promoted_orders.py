"""Best fit of any number of buffers, against best fit as it is told, and the least arena against both."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.native import PackingBestFit, StopToken
from onchip.solve.allocation.attempt import arena_bytes, least_arena_bytes
from onchip.solve.allocation.pack import MOST_TO_SEARCH, least_capacity
from onchip.solve.allocation.promoted import PromotedOrders, are_countable
from onchip.solve.run.limits import Limits, Run
from onchip.verify.packing import verify_packing
from oracles.plain_best_fit import best_fit


def random_buffers(random: Random, count: int, steps: int = 12, greatest: int = 9) -> tuple[Buffer, ...]:
    starts = [random.randrange(steps) for _ in range(count)]
    return tuple(Buffer(start, random.randint(start + 1, steps), random.randint(1, greatest)) for start in starts)


def usual_orders(buffers: tuple[Buffer, ...]) -> list[list[int]]:
    numbers = range(len(buffers))
    return [
        sorted(numbers, key=lambda at: (-buffers[at].size_bytes, buffers[at].start)),
        sorted(numbers, key=lambda at: (buffers[at].start - buffers[at].stop, buffers[at].start)),
    ]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 90), st.sampled_from([1, 2, 8]))
def test_each_buffer_goes_where_best_fit_puts_it(seed: int, count: int, alignment: int) -> None:
    random = Random(seed)
    buffers = random_buffers(random, count)
    order = random.sample(range(count), count)
    packer = PackingBestFit([(one.start, one.stop, one.size_bytes) for one in buffers], alignment)

    assert packer.place(order, StopToken()) == best_fit(buffers, order, alignment)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 60), st.sampled_from([1, 4]))
def test_the_least_arena_is_never_above_best_fit_by_size_or_by_life(seed: int, count: int, alignment: int) -> None:
    buffers = random_buffers(Random(seed), count)
    problem = PackingProblem(buffers, 10**6, alignment)
    result = least_capacity(problem, Run(Limits(2.0)))

    assert result.answer is not None
    assert not verify_packing(problem, result.answer, result.objective_value)
    for order in usual_orders(buffers):
        offsets = best_fit(buffers, order, alignment)
        assert arena_bytes(problem, result.answer.offsets_bytes) <= arena_bytes(problem, tuple(offsets))


@pytest.mark.parametrize("seed", range(4))
def test_promoting_what_ends_too_high_is_legal_and_no_worse(seed: int) -> None:
    buffers = random_buffers(Random(seed), 300, steps=60, greatest=50)
    problem = PackingProblem(buffers, 10**6)
    orders = PromotedOrders(problem, Run(), least_arena_bytes(problem))
    orders.try_usual()
    before = orders.arena_bytes
    orders.promote()

    assert orders.offsets_bytes is not None
    assert orders.arena_bytes == arena_bytes(problem, orders.offsets_bytes) <= before
    assert not verify_packing(problem, Packing(orders.offsets_bytes), orders.arena_bytes)


def test_many_buffers_are_packed_close_to_what_lives_at_once() -> None:
    buffers = random_buffers(Random(0), MOST_TO_SEARCH + 1_000, steps=2_000, greatest=1_000)
    problem = PackingProblem(buffers, 10**12)
    result = least_capacity(problem, Run(Limits(node_limit=1)))

    assert result.answer is not None
    assert result.objective_value is not None
    assert not verify_packing(problem, result.answer, result.objective_value)
    assert result.lower_bound <= result.objective_value < 1.1 * result.lower_bound


def test_without_time_many_buffers_are_still_packed_or_left() -> None:
    buffers = random_buffers(Random(1), MOST_TO_SEARCH + 1, steps=2_000)
    result = least_capacity(PackingProblem(buffers, 10**9), Run(Limits(0.0)))
    assert result.answer is None or result.objective_value is not None


def test_sizes_that_cannot_be_added_up_are_not_counted() -> None:
    assert not are_countable(PackingProblem((Buffer(0, 1, 1 << 60),), 1 << 61))


@pytest.mark.parametrize("life", [(1, 1, 4), (0, 1, 0), (0, 1, 1 << 62)])
def test_what_is_no_buffer_is_refused(life: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="life"):
        PackingBestFit([life], 1)
