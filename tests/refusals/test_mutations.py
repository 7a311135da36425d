"""The tables of plans detect a verifier with any single mistake."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType, ModuleType
from unittest.mock import patch

import pytest

from mutation.equivalent import explanation
from onchip.answer.document import Claim
from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.verify.verifier import Verdict
from support.mutants import compiled, mutants, reported_by, source_tree
from support.plan_states import Refusal
from support.plan_tables import LEGAL, MISTAKES, WORKED, Mistakes, Worked
from support.programs import Case
from support.refusal_table import REFUSALS

Verify = Callable[[Problem, Plan, Claim | None], Verdict]

PACKAGE = "onchip.verify"
MODULES = ("figures", "replay", "verifier")
"""The modules in the order in which they import each other."""


def verifier_made_of(codes: Mapping[str, CodeType]) -> Verify:
    """Return a separate `verify` built from these modules; the rest of the package is the real one."""
    modules = {f"{PACKAGE}.{name}": ModuleType(f"{PACKAGE}.{name}") for name in codes}
    with patch.dict(sys.modules, modules):
        for name, code in codes.items():
            exec(code, modules[f"{PACKAGE}.{name}"].__dict__)
    verify: Verify = modules[f"{PACKAGE}.verifier"].verify
    return verify


def found(verify: Verify, case: Case) -> list[tuple[object, ...]]:
    violations = verify(case.problem, case.plan, case.claim).violations
    return [(each.rule, each.subject, each.instruction, each.step, each.detail) for each in violations]


def refuses(case: Case, verify: Verify) -> bool:
    return bool(found(verify, case))


def misjudges(row: Refusal, verify: Verify) -> bool:
    illegal = found(verify, row.illegal)
    places = [(rule, instruction, step) for rule, _, instruction, step, _ in illegal]
    right = [(row.rule, row.instruction, row.step)]
    return refuses(row.legal, verify) or places != right or row.says not in str(illegal[0][-1])


def finds_other(mistakes: Mistakes, verify: Verify) -> bool:
    return [each[:-1] for each in found(verify, mistakes.case)] != list(mistakes.violations)


def counts_wrong(worked: Worked, verify: Verify) -> bool:
    verdict = verify(worked.case.problem, worked.case.plan, None)
    return not worked.agrees_with(verdict.figures, is_legal=verdict.is_legal)


def rows_of_the_tables() -> list[tuple[str, Callable[[Verify], bool]]]:
    """Return the name of each row, with a function that returns True if a verifier gets the row wrong."""
    return [
        *((name, partial(refuses, case)) for name, case in LEGAL.items()),
        *((str(row), partial(misjudges, row)) for row in REFUSALS),
        *((str(mistakes), partial(finds_other, mistakes)) for mistakes in MISTAKES),
        *((str(worked), partial(counts_wrong, worked)) for worked in WORKED),
    ]


class Killer:
    """The rows of all tables, recent detectors first: they often detect neighbouring mutants too."""

    def __init__(self) -> None:
        self._rows = [is_wrong for _, is_wrong in rows_of_the_tables()]

    def kills(self, verify: Verify) -> bool:
        for at, is_wrong in enumerate(self._rows):
            if self._fails(is_wrong, verify):
                self._rows.insert(0, self._rows.pop(at))
                return True
        return False

    @staticmethod
    def _fails(is_wrong: Callable[[Verify], bool], verify: Verify) -> bool:
        try:
            return is_wrong(verify)
        except Exception:  # a verifier that fails is detected
            return True


@pytest.mark.slow
def test_every_mutant_is_killed() -> None:
    codes = {module: compiled(module, source_tree(module)) for module in MODULES}
    right, killer = verifier_made_of(codes), Killer()
    assert [name for name, is_wrong in rows_of_the_tables() if is_wrong(right)] == []
    survivors = [
        str(mutant)
        for module in MODULES
        for mutant in mutants(module)
        if explanation(mutant) is None and not killer.kills(verifier_made_of({**codes, module: mutant.compiled()}))
    ]
    assert not survivors, "\n".join(survivors)


def test_every_rule_is_reported_under_a_condition_and_so_is_switched_off_above() -> None:
    nodes = (node for module in MODULES for node in ast.walk(source_tree(module)) if isinstance(node, ast.If | ast.For))
    reported = {part.attr for node in nodes for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    assert {rule.name for rule in reported_by(*MODULES)} <= reported
