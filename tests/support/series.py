"""Long series of cases: the first few are gone through by every run of all tests, the others by `make test-long`."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def series(cases: Iterable[object], first: int) -> list[object]:
    """All of them, as many as is said in every run; a tuple is one case of several arguments."""
    listed = list(cases)
    parts = [case if isinstance(case, tuple) else (case,) for case in listed[first:]]
    return [*listed[:first], *(pytest.param(*part, marks=pytest.mark.slow) for part in parts)]


HALVES = pytest.mark.parametrize("half", series(range(2), 1))
"""Of a test whose cases are drawn anew each time: every run draws one half of them, `make test-long` the other."""
