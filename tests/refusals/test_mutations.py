"""A verifier with any one thing wrong in it is found out by the tables of plans."""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from unittest.mock import patch

import onchip.verify
from onchip.answer.document import Claim
from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.verify.verifier import Verdict
from support.figure_table import WORKED
from support.programs import Case
from support.refusal_table import REFUSALS
from support.reported_rules import reported_by
from support.verdict_table import LEGAL, MISTAKES

Verify = Callable[[Problem, Plan, Claim | None], Verdict]

PACKAGE = "onchip.verify"
MODULES = ("figures", "reporting", "names", "placement", "addresses", "replay", "verifier")
"""In the order in which they import each other."""

OTHER_COMPARISONS: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}


def source_tree(module: str) -> ast.Module:
    return ast.parse((Path(onchip.verify.__path__[0]) / f"{module}.py").read_text(encoding="utf-8"))


def mutants(module: str) -> Iterator[tuple[str, CodeType]]:
    """The module with one node of its syntax tree replaced at a time, and what was replaced."""
    tree = source_tree(module)
    decorators = {id(part) for node in ast.walk(tree) for part in parts_of_decorators(node)}
    for node, put_in_place in tuple(places(tree)):
        if id(node) in decorators:
            continue
        for replacement in replacements(node):
            put_in_place(ast.fix_missing_locations(ast.copy_location(replacement, node)))
            yield (
                f"{module} line {getattr(node, 'lineno', 0)}: {shown(node)} -> {shown(replacement)}",
                compiled(module, tree),
            )
            put_in_place(node)


def places(tree: ast.Module) -> Iterator[tuple[ast.AST, Callable[[ast.AST], None]]]:
    """Each node with what puts another in its place."""
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, ast.AST):
                yield value, partial(setattr, parent, field)
            elif isinstance(value, list):
                yield from ((node, partial(value.__setitem__, index)) for index, node in enumerate(value))


def parts_of_decorators(node: ast.AST) -> Iterator[ast.AST]:
    """Whether a dataclass is frozen is no matter of what it verifies."""
    for decorator in getattr(node, "decorator_list", ()):
        yield from ast.walk(decorator)


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand instead of `node`, each wrong."""
    match node:
        case ast.If() | ast.IfExp():
            for outcome in (False, True):
                yield with_fields(node, test=ast.Constant(outcome))
        case ast.Compare(ops=[operation]):
            for other in OTHER_COMPARISONS[type(operation)]:
                yield with_fields(node, ops=[other()])
        case ast.BoolOp():
            yield with_fields(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
            yield from node.values
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield with_fields(node, op=ast.Sub() if isinstance(node.op, ast.Add) else ast.Add())
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int(number)):
            yield ast.Constant(number + 1)
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            yield with_fields(node, func=ast.Name("max" if name == "min" else "min", ast.Load()))
        case ast.Call(func=ast.Name(id="any")):
            yield with_fields(node, func=ast.Name("all", ast.Load()))
        case ast.Expr(value=ast.Call() | ast.Yield()) | ast.AugAssign() | ast.Return(value=None):
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


def with_fields(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:100]


def compiled(module: str, tree: ast.Module) -> CodeType:
    return compile(tree, f"<{module}>", "exec")


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
        what
        for module in MODULES
        for what, code in mutants(module)
        if not is_killed(verifier_made_of({**codes, module: code}))
    ]
    assert not survivors, "\n".join(survivors)


def test_every_rule_is_reported_under_a_condition_and_so_is_switched_off_above() -> None:
    nodes = (node for module in MODULES for node in ast.walk(source_tree(module)) if isinstance(node, ast.If | ast.For))
    reported = {part.attr for node in nodes for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    assert {rule.name for rule in reported_by(*MODULES)} <= reported
