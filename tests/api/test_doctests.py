"""The examples in the docstrings of the Python API."""

from __future__ import annotations

import doctest

import pytest

import onchip

NAMES = [name for name in onchip.__all__ if ">>>" in (getattr(onchip, name).__doc__ or "")]


@pytest.mark.parametrize("name", NAMES)
def test_examples_print_what_they_show(name: str) -> None:
    shown = getattr(onchip, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(shown, name, module=False, globs={name: shown})
    found = doctest.DocTestRunner().run(example)
    assert found.attempted > 0
    assert found.failed == 0


def test_the_example_of_the_package_prints_what_it_shows() -> None:
    assert doctest.testmod(onchip).failed == 0
