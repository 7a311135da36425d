"""Answers of every compiled search equal the stored ones; `support.native_answers` says how to write them again."""

from __future__ import annotations

import sys

import pytest

from support.native_answers import UNITS, answers_of, differences, stored_answers


@pytest.mark.skipif(sys.platform != "linux", reason="shuffles and logarithms of other libraries differ")
@pytest.mark.parametrize("unit", UNITS)
def test_answers_of_a_unit_are_the_stored_ones(unit: str) -> None:
    assert differences(stored_answers()[unit], answers_of(unit)) == []
