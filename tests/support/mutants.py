"""Mutants of a module of the verifier, the places of its syntax tree, and the rules that it reports."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import CodeType

import onchip.verify
from onchip.verify.rules import Rule


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """The lines of the statement, or of the head of a compound statement; `function` is None for code run at import.

    `function` is the outermost function, prefixed with its class. `shown` is the node itself or, for a number or name,
    the surrounding expression, which is enough to recognise it.
    """

    lines: range
    function: str | None
    shown: ast.AST


def source_places(tree: ast.Module) -> dict[int, SourcePlace]:
    """Return each node's position by the node's identity."""
    found: dict[int, SourcePlace] = {}
    _place_children(tree, SourcePlace(range(0), None, tree), (), found)
    return found


def _place_children(parent: ast.AST, at: SourcePlace, names: tuple[str, ...], found: dict[int, SourcePlace]) -> None:
    for node, is_in_body in _children(parent):
        own = replace(at, lines=_lines(node) or at.lines, shown=_recognizable(node, parent, at.shown))
        inner = names
        if isinstance(parent, ast.FunctionDef | ast.ClassDef) and is_in_body and at.function is None:
            inner = (*names, parent.name)
            own = replace(own, function=".".join(inner) if isinstance(parent, ast.FunctionDef) else None)
        found[id(node)] = own
        _place_children(node, own, inner, found)


def _children(parent: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Yield the children, with True if the parent runs them in its body instead of at its definition."""
    for field, value in ast.iter_fields(parent):
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield node, field == "body"


def _lines(node: ast.AST) -> range | None:
    """Return the lines of a statement, or None for a part of a statement."""
    if isinstance(node, ast.match_case):
        last = node.guard or node.pattern
        return range(node.pattern.lineno, (last.end_lineno or last.lineno) + 1)
    if not isinstance(node, ast.stmt):
        return None
    body = getattr(node, "body", None)
    if isinstance(body, list) and not isinstance(node, ast.Match):
        return range(node.lineno, max(body[0].lineno, node.lineno + 1))
    last_line = node.subject.end_lineno if isinstance(node, ast.Match) else node.end_lineno
    return range(node.lineno, (last_line or node.lineno) + 1)


def _recognizable(node: ast.AST, parent: ast.AST, shown: ast.AST) -> ast.AST:
    """Return the node, or for a constant the surrounding expression, since a number alone is ambiguous."""
    if not isinstance(node, ast.Constant):
        return node
    return shown if isinstance(parent, ast.expr | ast.Return | ast.Assign | ast.AnnAssign | ast.keyword) else parent


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


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one fault; `change` is a line with the old and the new text.

    `place` gives the lines and the function that run the change; `compiled` compiles the module.
    """

    module: str
    change: str
    place: SourcePlace
    compiled: Callable[[], CodeType]

    @property
    def key(self) -> str:
        """Return the change and its function, without a line number, so that it survives unrelated edits."""
        return f"{self.place.function or 'module'}: {self.change}"

    def __str__(self) -> str:
        return f"{self.module} line {self.place.lines.start}: {self.key}"


def source_tree(module: str) -> ast.Module:
    return ast.parse(source_file(module).read_text(encoding="utf-8"))


def source_file(module: str) -> Path:
    return Path(onchip.verify.__path__[0]) / f"{module}.py"


def mutants(module: str, tree: ast.Module | None = None) -> Iterator[Mutant]:
    """Yield the module with one node of its syntax tree replaced at a time."""
    tree = tree or source_tree(module)
    places, known = source_places(tree), Counter[str]()
    for node, put_in_place in tuple(replaceable_nodes(tree)):
        place = places[id(node)]
        before = shown(place.shown)
        for replacement in replacements(node):
            put_in_place(ast.fix_missing_locations(ast.copy_location(replacement, node)))
            change = f"{before} -> {shown(replacement if place.shown is node else place.shown)}"
            known[f"{place.function}: {change}"] += 1
            count = known[f"{place.function}: {change}"]
            put_in_place(node)
            wrong = partial(_compiled_with, module, tree, put_in_place, (replacement, node))
            yield Mutant(module, change if count == 1 else f"{change} ({count})", place, wrong)


def replaceable_nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, Callable[[ast.AST], None]]]:
    """Yield each node outside decorators with a function that puts another in its place."""
    decorators = {id(part) for node in ast.walk(tree) for part in parts_of_decorators(node)}
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            children = enumerate(value) if isinstance(value, list) else [(None, value)]
            for index, node in children:
                if isinstance(node, ast.AST) and id(node) not in decorators:
                    yield node, partial(setattr, parent, field) if index is None else partial(value.__setitem__, index)


def parts_of_decorators(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of decorators; a frozen dataclass, for instance, does not change the verification."""
    for decorator in getattr(node, "decorator_list", ()):
        yield from ast.walk(decorator)


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield faulty replacements of `node`."""
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
    """Return the node's text in one line; for a statement with a body, only its head."""
    head = with_fields(node, body=[ast.Pass()], orelse=[]) if isinstance(node, ast.If | ast.For) else node
    return " ".join(ast.unparse(head).split()).removesuffix(" pass")


def compiled(module: str, tree: ast.Module) -> CodeType:
    return compile(tree, f"<{module}>", "exec")


def _compiled_with(
    module: str, tree: ast.Module, put_in_place: Callable[[ast.AST], None], nodes: tuple[ast.AST, ast.AST]
) -> CodeType:
    """Compile the module with the first node in place of the second, then restore it."""
    replacement, node = nodes
    put_in_place(replacement)
    code = compiled(module, tree)
    put_in_place(node)
    return code


def reported_by(*modules: str) -> set[Rule]:
    """Return the rules that the modules name; `schedule/costs` is such a module."""
    folder = Path(onchip.verify.__path__[0])
    return {rule for module in modules for rule in _named_in(folder / f"{module}.py")}


def reported_anywhere() -> set[Rule]:
    """Return the rules that any file of the program names."""
    files = Path(onchip.__path__[0]).rglob("*.py")
    return {rule for file in files for rule in _named_in(file)}


def _named_in(file: Path) -> Iterator[Rule]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Rule":
            yield Rule[node.attr]
