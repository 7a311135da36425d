"""Mutants of the verifier have distinct keys, and all explained mutants exist."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import product
from types import CodeType

import pytest

from mutation.equivalent import EQUIVALENT, explanation
from mutation.run import MODULES
from mutation.touched import MEASURES, MeasuredExpressions
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


JUDGED = """
def judged(a, b, c):
    known = [one - 1 for one in (a, b) if one != 2 or c is None]
    if a < b and not (c == 3 or b in known):
        return (a + b if c else a - 1), known
    while known and a and known.pop() > 1 + a:
        b += 2
    return (b >= 4) or c, max(known, default=0)
"""


def judge(code: CodeType, **names: object) -> Callable[[int, int, int], object]:
    """Return the function of the source; an error is its answer."""
    exec(code, names)

    def judged(*numbers: int) -> object:
        try:
            return names["judged"](*numbers)  # type: ignore[operator]
        except Exception as error:
            return type(error)

    return judged


def test_a_mutant_whose_values_do_not_differ_gives_the_same_answer() -> None:
    measured = MeasuredExpressions(ast.parse(JUDGED))
    measured.put_probes()
    right = judge(compiled("judged", ast.parse(JUDGED)))
    probed = judge(compiled("judged", ast.fix_missing_locations(measured.tree)), **{MEASURES: measured.probes})
    wrong = {at: judge(one.compiled()) for at, one in enumerate(mutants("judged", ast.parse(JUDGED)))}
    assert len(measured.numbers) > len(wrong) / 2
    killed = set()
    for numbers in product(range(5), repeat=3):
        measured.differs[:] = bytes(len(measured.differs))
        assert probed(*numbers) == right(*numbers)
        for number in measured.numbers:
            if wrong[number](*numbers) != right(*numbers):
                killed.add(number)
                assert measured.differs[number]
    assert len(killed) > len(measured.numbers) / 2
