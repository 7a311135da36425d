"""Every way to make one thing in a module of the verifier wrong: its syntax tree with one node replaced."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType

import onchip.verify

OTHER_COMPARISONS: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.GtE: (ast.Gt, ast.Lt),
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
