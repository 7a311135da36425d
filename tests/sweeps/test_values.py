"""Values of parameters: sizes and numbers, ranges in steps and doubling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.errors import InputError
from onchip.sweeps.point import Scalar, doubling, number_of, range_of_text, stepped


@pytest.mark.parametrize(
    ("value", "number"), [("64KiB", 65536), ("12", 12), ("0.5", 0.5), (7, 7), ("1.5MB", 1500000), (2.5, 2.5)]
)
def test_a_value_is_a_number(value: Scalar, number: float) -> None:
    assert number_of(value) == number


@pytest.mark.parametrize("value", ["", "x", "64KiX", "-", ".", True, "1e400"])
def test_what_is_no_number_is_refused(value: Scalar) -> None:
    with pytest.raises(InputError):
        number_of(value)


def test_a_range_has_two_ends() -> None:
    assert range_of_text("256KiB..8MiB") == ("256KiB", "8MiB")
    assert [range_of_text(text) for text in ("256KiB", "..8MiB", "1..", "")] == [None] * 4


def test_steps_are_evenly_apart() -> None:
    assert stepped("1KiB", "2KiB", 5) == (1024, 1280, 1536, 1792, 2048)
    assert stepped(1, 3, 20) == (1, 2, 3)
    assert stepped(5, 5, 1) == (5,)
    assert stepped(0.0, 1.0, 3) == (0.0, 0.5, 1.0)


def test_doubling_ends_within_the_range() -> None:
    assert doubling("256KiB", "1.5MiB") == (262144, 524288, 1048576)
    assert doubling(3, 3) == (3,)


@pytest.mark.parametrize(
    ("first", "last", "steps"), [(2, 1, 5), ("2MiB", "1MiB", 5), (1, 2, 1), (1, 2, 0), (1, 2, 10**6)]
)
def test_an_empty_range_is_refused(first: Scalar, last: Scalar, steps: int) -> None:
    with pytest.raises(InputError):
        stepped(first, last, steps)


def test_doubling_begins_above_0() -> None:
    with pytest.raises(InputError):
        doubling(0, 4)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(2, 200))
def test_steps_ascend_from_end_to_end(low: int, width: int, steps: int) -> None:
    values = stepped(low, low + width, steps)

    assert (values[0], values[-1]) == (low, low + width)
    assert list(values) == sorted(set(values))
    assert len(values) <= steps
