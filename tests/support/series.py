"""Mark the slow cases of a parametrised test: `make test` runs the others, `make test-long` runs all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest


def series(cases: Iterable[object], first: int) -> list[object]:
    """Return all cases and mark those after the `first` ones as slow. A tuple is one case of several arguments."""
    listed = list(cases)
    return [*listed[:first], *(_slow(case) for case in listed[first:])]


def with_slow(cases: Iterable[object], is_slow: Callable[..., object]) -> list[object]:
    """Return all cases, in order, and mark those for which `is_slow` holds."""
    return [_slow(case) if is_slow(case) else case for case in cases]


def _slow(case: object) -> object:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)


HALVES = pytest.mark.parametrize("half", series(range(2), 1))
"""Parameter for a test with random cases: `make test` draws one half of them, `make test-long` the other half."""
