"""Curves of cost against capacity: claims hold for any plans found, and in the end every capacity is known."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from onchip.sweeps.capacity import Curve

FIRST = 10
LEAST = st.lists(st.integers(0, 5), min_size=1, max_size=80).map(lambda values: [*sorted(values, reverse=True), 0])
"""Least cost at each capacity from FIRST on; the last is free."""


def follow(least: list[int], data: st.DataObject, unit: int = 1, unproven: float = 0.0) -> tuple[Curve, int]:
    """Ask until no question is left; plans have any capacity from which on their value is the minimum."""
    last = FIRST + len(least) * unit - 1
    curve = Curve(FIRST, last, unit)
    curve.add(last, None, None, 0)
    asked = 0
    while (capacity := curve.next_capacity()) is not None:
        asked += 1
        assert asked < 10_000
        assert FIRST <= capacity <= last
        at = (capacity - FIRST) // unit
        if unproven and data.draw(st.floats(0, 1)) < unproven:
            curve.add(capacity, least[at] + 1, capacity, max(0, least[at] - 1))
            curve.give_up(capacity)
            continue
        earliest = least.index(least[at])
        end = FIRST + data.draw(st.integers(earliest, at)) * unit
        curve.add(capacity, least[at], end, least[at])
    return curve, asked


@given(LEAST, st.data(), st.sampled_from([1, 3]))
def test_every_step_is_found_exactly_where_it_begins(least: list[int], data: st.DataObject, unit: int) -> None:
    curve, asked = follow(least, data, unit)
    steps = list(curve.steps())

    assert all(step.is_proven for step in steps)
    assert (steps[0].first, steps[-1].last) == (FIRST, None)
    assert all(low.last is not None and low.last + 1 == high.first for low, high in pairwise(steps))
    assert all(low.value != high.value for low, high in pairwise(steps))
    for step in steps:
        ends = [at for at, value in enumerate(least) if value == step.value]
        assert step.first == FIRST + ends[0] * unit
    assert len(steps) == len(set(least))
    assert asked <= len(steps) * (2 * len(least).bit_length() + 2)


@given(LEAST, st.data())
def test_what_is_not_proven_is_between_its_bounds(least: list[int], data: st.DataObject) -> None:
    curve, _ = follow(least, data, unproven=0.4)
    for step in curve.steps():
        last = FIRST + len(least) - 1 if step.last is None else step.last
        for value in least[step.first - FIRST : last - FIRST + 1]:
            assert step.lower_bound <= value
            assert step.value is None or value <= step.value
