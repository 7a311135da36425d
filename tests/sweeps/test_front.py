"""Pareto fronts: the points shown are those of all-pairs comparison."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.errors import UsageError
from onchip.sweeps.point import Value
from onchip.sweeps.sweep import front_of, names_of_front

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20)


def pairs_of_front(pairs: list[tuple[int, int]]) -> set[tuple[int, int]]:
    return {
        one for one in pairs if not any(other != one and other[0] <= one[0] and other[1] <= one[1] for other in pairs)
    }


@given(PAIRS)
def test_the_front_is_what_no_other_is_at_most_as_much_as(pairs: list[tuple[int, int]]) -> None:
    records: list[dict[str, Value]] = [{"network": "n", "area": area, "value": value} for area, value in pairs]

    found = front_of(pairs, records, ("area", "value"))

    assert set(found) == pairs_of_front(pairs)
    assert len(set(found)) == len(found)


def test_each_network_has_its_own_front() -> None:
    records: list[dict[str, Value]] = [
        {"network": "a", "area": 1, "value": 1},
        {"network": "b", "area": 2, "value": 2},
        {"network": "a", "area": 2, "value": 2},
        {"network": "a", "area": 0, "value": None},
    ]
    assert front_of("abcd", records, ("area", "value")) == ("a", "b")


def test_a_front_has_two_columns() -> None:
    assert names_of_front("area, value") == ("area", "value")
    with pytest.raises(UsageError):
        names_of_front("area")
