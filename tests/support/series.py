"""Mark the slow cases of a parametrised test: `make test` runs the others, `make test-long` runs all."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps

import pytest


def series(cases: Iterable[object], first: int) -> list[object]:
    """Return all cases and mark those after the `first` ones as slow. A tuple is one case of several arguments."""
    listed = list(cases)
    return [*listed[:first], *(_slow(case) for case in listed[first:])]


def with_slow(cases: Iterable[object], is_slow: Callable[..., object]) -> list[object]:
    """Return all cases, in order, and mark those for which `is_slow` holds."""
    return [_slow(case) if is_slow(case) else case for case in cases]


def in_one_test(name: str, cases: Iterable[object]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Run a test for all values of its only argument; an error names the value.

    Parametrisation makes a test of each value, which takes two milliseconds: more than most of these tests themselves.
    """

    def with_cases(test: Callable[..., None]) -> Callable[[], None]:
        @wraps(test)
        def for_all() -> None:
            for case in cases:
                try:
                    test(case)
                except BaseException as error:
                    error.add_note(f"{name} = {case}")
                    raise

        for_all.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return for_all

    return with_cases


def _slow(case: object) -> object:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)


HALVES = pytest.mark.parametrize("half", series(range(2), 1))
"""Parameter for a test with random cases: `make test` draws one half of them, `make test-long` the other half."""
