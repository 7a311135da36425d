"""Mutants of the verifier have distinct keys, and all explained mutants exist."""

from __future__ import annotations

import ast

import pytest

from mutation.equivalent import EQUIVALENT, explanation
from mutation.run import MODULES
from support.mutants import compiled, mutants, source_file, source_tree

SMALL = "schedule/streaming"


@pytest.mark.parametrize("module", MODULES)
def test_mutants_have_keys_of_their_own_and_stand_on_lines_of_the_module(module: str) -> None:
    found = list(mutants(module))
    assert len({one.key for one in found}) == len(found)
    last_line = len(source_file(module).read_text(encoding="utf-8").splitlines())
    assert all(one.place.lines and 1 <= one.place.lines[0] <= one.place.lines[-1] <= last_line for one in found)
    assert EQUIVALENT.get(module, {}).keys() <= {one.key for one in found}


def test_only_modules_that_there_are_have_explanations() -> None:
    assert EQUIVALENT.keys() <= set(MODULES)
    assert all(reason for reasons in EQUIVALENT.values() for reason in reasons.values())


def test_a_mutant_is_the_module_with_one_thing_changed() -> None:
    tree = source_tree(SMALL)
    before = ast.dump(tree)
    original = compiled(SMALL, tree)
    assert all(one.compiled() != original for one in mutants(SMALL, tree))
    assert ast.dump(tree) == before


def test_what_has_no_reason_is_not_explained() -> None:
    explained = {one.change for one in mutants(SMALL) if explanation(one)}
    assert "strict=True -> strict=False" in explained
    assert len(explained) < len(list(mutants(SMALL))) / 2
