"""A verifier with any one thing wrong in it is found out by the tables of plans."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, ModuleType
from unittest.mock import patch

from onchip.answer.document import Claim
from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.verify.verifier import Verdict
from support.figure_table import WORKED
from support.mutants import compiled, mutants, source_tree
from support.programs import Case
from support.refusal_table import REFUSALS
from support.reported_rules import reported_by
from support.verdict_table import LEGAL, MISTAKES

Verify = Callable[[Problem, Plan, Claim | None], Verdict]

PACKAGE = "onchip.verify"
MODULES = (
    "figures",
    "reporting",
    "names",
    "order",
    "placement",
    "addresses",
    "on_chip",
    "states",
    "in_place",
    "replay",
    "verifier",
)
"""In the order in which they import each other."""


def verifier_made_of(codes: Mapping[str, CodeType]) -> Verify:
    """A `verify` of its own, of these modules; the rest of the package is the real one."""
    modules = {f"{PACKAGE}.{name}": ModuleType(f"{PACKAGE}.{name}") for name in codes}
    with patch.dict(sys.modules, modules):
        for name, code in codes.items():
            exec(code, modules[f"{PACKAGE}.{name}"].__dict__)
    verify: Verify = modules[f"{PACKAGE}.verifier"].verify
    return verify


def failures(verify: Verify) -> Iterator[str]:
    """The rows of the tables that `verify` gets wrong."""

    def found(case: Case) -> list[tuple[object, ...]]:
        violations = verify(case.problem, case.plan, case.claim).violations
        return [(each.rule, each.subject, each.instruction, each.step, each.detail) for each in violations]

    for name, case in LEGAL.items():
        if found(case):
            yield name
    for row in REFUSALS:
        illegal = found(row.illegal)
        places = [(rule, instruction, step) for rule, _, instruction, step, _ in illegal]
        if found(row.legal) or places != [(row.rule, row.instruction, row.step)] or row.says not in str(illegal[0][-1]):
            yield str(row)
    for mistakes in MISTAKES:
        if [each[:-1] for each in found(mistakes.case)] != list(mistakes.violations):
            yield str(mistakes)
    for worked in WORKED:
        verdict = verify(worked.case.problem, worked.case.plan, None)
        if not worked.agrees_with(verdict.figures, is_legal=verdict.is_legal):
            yield str(worked)


def is_killed(verify: Verify) -> bool:
    try:
        return next(failures(verify), None) is not None
    except Exception:  # a verifier that fails is found out
        return True


def test_every_mutant_is_killed() -> None:
    codes = {module: compiled(module, source_tree(module)) for module in MODULES}
    assert list(failures(verifier_made_of(codes))) == []
    survivors = [
        str(mutant)
        for module in MODULES
        for mutant in mutants(module)
        if not is_killed(verifier_made_of({**codes, module: mutant.compiled()}))
    ]
    assert not survivors, "\n".join(survivors)


def test_every_rule_is_reported_under_a_condition_and_so_is_switched_off_above() -> None:
    nodes = (node for module in MODULES for node in ast.walk(source_tree(module)) if isinstance(node, ast.If | ast.For))
    reported = {part.attr for node in nodes for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    assert {rule.name for rule in reported_by(*MODULES)} <= reported
