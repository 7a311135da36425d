"""Static placement in one of several memories: legal, bounded, and equal to brute force over choices and packings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, StaticMemory, StaticPacking, StaticPackingProblem, StaticPlace
from onchip.answer.result import Status
from onchip.errors import InputError
from onchip.memory.allocate.pools import least_cost, least_static_arena
from onchip.search.budget.limits import Limits, Run
from onchip.verify.packing import verify_static_packing
from onchip.verify.rules import Rule
from oracles.packing import Pools, items_of, least_capacity
from oracles.packing import least_cost as least_cost_of_items
from support.packable import drawn_buffers


@st.composite
def problems(draw: st.DrawFn) -> StaticPackingProblem:
    """Draw a few buffers, one or two memories with random capacity and reserved bytes, and some pins."""
    memories = [
        StaticMemory(draw(st.integers(1, 12)), 1, draw(st.integers(0, 3))) for _ in range(draw(st.integers(1, 2)))
    ]
    found = tuple(draw(drawn_buffers(6, 5, last_start=4, greatest_life=4)))
    rest = len(memories)
    pins = [draw(st.sampled_from([None, None, None, *range(rest + 1)])) for _ in found]
    return problem_of(found, (*memories, StaticMemory()), tuple(pins), rest)


def problem_of(
    buffers: tuple[Buffer, ...], memories: tuple[StaticMemory, ...], pins: tuple[int | None, ...], rest: int | None
) -> StaticPackingProblem:
    """Return a problem in which a byte costs 1 in memories without a capacity, and 0 in others."""
    allowed = [one for one, memory in enumerate(memories) if memory.capacity_bytes is not None or one == rest]
    costs = tuple(
        {one: int(memories[one].capacity_bytes is None) for one in (allowed if pin is None else (pin,))} for pin in pins
    )
    return StaticPackingProblem(buffers, memories, costs)


def pins_of(problem: StaticPackingProblem) -> list[int | None]:
    return [next(iter(costs)) if len(costs) == 1 else None for costs in problem.costs]


def least_of_all_choices(problem: StaticPackingProblem) -> int | None:
    """Return the least cost over all choices and packings; the last memory has no limit."""
    *limited, _ = problem.memories
    memories = [((one.capacity_bytes or 0) - one.first_free_byte, 1) for one in limited]
    costs = [
        {None if memory == len(limited) else memory: each * one.size_bytes for memory, each in own.items()}
        for one, own in zip(problem.buffers, problem.costs, strict=True)
    ]
    return least_cost_of_items(
        items_of([(b.start, b.stop, b.size_bytes) for b in problem.buffers]), Pools(memories, costs)
    )


@settings(max_examples=60, deadline=None)
@given(problems())
def test_it_is_legal_and_bounded_by_trying_every_choice(problem: StaticPackingProblem) -> None:
    least, result = least_of_all_choices(problem), least_cost(problem, Run())
    if least is None:
        assert result.status is Status.INFEASIBLE
        return
    assert result.answer is not None
    assert result.objective_value is not None
    assert not verify_static_packing(problem, result.answer)
    assert (result.status, result.lower_bound, result.objective_value) == (Status.OPTIMAL, least, least)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_the_least_arena_is_that_of_each_memory_alone(problem: StaticPackingProblem) -> None:
    roomy = replace(problem, memories=tuple(replace(memory, capacity_bytes=None) for memory in problem.memories))
    result = least_static_arena(roomy, Run())
    assert result.answer is not None
    assert not verify_static_packing(roomy, result.answer)
    expected = 0
    for memory, one in enumerate(roomy.memories):
        inside = [b for b, pin in zip(roomy.buffers, pins_of(roomy), strict=True) if (pin or 0) == memory]
        expected += one.reserved_bytes + least_capacity([(b.start, b.stop, b.size_bytes) for b in inside], 1)
    assert (result.status, result.objective_value, result.lower_bound) == (Status.OPTIMAL, expected, expected)


def test_two_memories_keep_what_one_after_another_would_not() -> None:
    """The first alone is best filled by 3 + 3; then 4 stays outside of the second, which has room for 3."""
    buffers = tuple(Buffer(0, 1, size) for size in (4, 3, 3))
    problem = problem_of(buffers, (StaticMemory(6), StaticMemory(4), StaticMemory()), (None,) * 3, 2)
    result = least_cost(problem, Run())
    assert (result.status, result.objective_value) == (Status.OPTIMAL, 0)


def test_what_is_pinned_and_does_not_fit_is_infeasible() -> None:
    problem = problem_of((Buffer(0, 1, 5),), (StaticMemory(4), StaticMemory()), (0,), 1)
    assert least_cost(problem, Run()).status is Status.INFEASIBLE


def test_nothing_takes_the_rest() -> None:
    problem = problem_of((Buffer(0, 1, 5),), (StaticMemory(4),), (None,), None)
    result = least_cost(problem, Run())
    assert result.status is Status.INFEASIBLE


def test_without_time_there_is_still_an_answer() -> None:
    buffers = tuple(Buffer(0, 2, size) for size in (4, 3, 3))
    problem = problem_of(buffers, (StaticMemory(6), StaticMemory()), (None,) * 3, 1)
    result = least_cost(problem, Run(Limits(time_limit_seconds=0.0)))
    assert result.answer is not None
    assert not verify_static_packing(problem, result.answer)


def test_no_buffers_need_what_is_reserved() -> None:
    problem = problem_of((), (StaticMemory(None, 4, 6),), (), None)
    assert least_static_arena(problem, Run()).objective_value == 6


@pytest.mark.parametrize(
    ("places", "rule"),
    [
        ([(0, 0)], Rule.OFFSETS_MISCOUNTED),
        ([(0, 4), (2, 0)], Rule.NO_SUCH_MEMORY),
        ([(1, 4), (1, 0)], Rule.NOT_HELD),
        ([(0, 0), (1, 0)], Rule.OVERLAP),
        ([(0, 4), (0, 4)], Rule.OVERLAP),
        ([(0, 5), (1, 0)], Rule.MISALIGNED),
        ([(0, 8), (1, 0)], Rule.BEYOND_CAPACITY),
        ([(0, 4), (1, -4)], Rule.NEGATIVE_OFFSET),
    ],
)
def test_each_illegal_place_is_found(places: list[tuple[int, int]], rule: Rule) -> None:
    problem = problem_of((Buffer(0, 2, 4), Buffer(1, 2, 4)), (StaticMemory(11, 4, 3), StaticMemory()), (0, None), 1)
    legal = StaticPacking((StaticPlace(0, 4), StaticPlace(1, 0)))
    assert not verify_static_packing(problem, legal)
    violations = verify_static_packing(problem, StaticPacking(tuple(StaticPlace(*place) for place in places)))
    assert {violation.rule for violation in violations} == {rule}


@pytest.mark.parametrize(
    ("costs", "together", "message"),
    [
        (({0: 0}, {0: 0}), (), "2 costs stand for 1 buffers"),
        (({2: 0},), (), "there is no memory 2"),
        (({0: -1},), (), "a byte in memory 0 costs -1"),
        (({0: 0},), ((0, 1),), "there is no buffer 1"),
    ],
)
def test_what_names_no_memory_is_refused(
    costs: tuple[dict[int, int], ...], together: tuple[tuple[int, ...], ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        StaticPackingProblem((Buffer(0, 1, 1),), (StaticMemory(4), StaticMemory()), costs, together)


def test_groups_are_verified() -> None:
    buffers, memories = (Buffer(0, 2, 4), Buffer(1, 2, 4)), (StaticMemory(8), StaticMemory(8))
    both, places = ({0: 0, 1: 0},) * 2, StaticPacking((StaticPlace(0, 0), StaticPlace(1, 0)))
    assert verify_static_packing(StaticPackingProblem(buffers, memories, both, apart=((0, 1),)), places, 0) == ()
    (violation,) = verify_static_packing(StaticPackingProblem(buffers, memories, both, ((0, 1),)), places)
    assert violation.rule is Rule.NOT_HELD
    close = StaticPacking((StaticPlace(0, 0), StaticPlace(0, 4)))
    (violation,) = verify_static_packing(StaticPackingProblem(buffers, memories, both, apart=((0, 1),)), close)
    assert violation.rule is Rule.NOT_HELD
    (violation,) = verify_static_packing(StaticPackingProblem(buffers, memories, both), close, 4)
    assert violation.rule is Rule.OUTSIDE_MISCOUNTED
