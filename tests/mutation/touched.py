"""Lines of the verifier and values of mutants by test: only a test that runs a line can detect a mutant of it.

A probe stands before each statement of the verifier's functions, so that all other code runs at full speed. A probe of
a condition, comparison, sum, `and` or `or` computes the values of its mutants beside the right value, from the same
operands: only a test in which they differ can detect the mutant.
"""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import _lru_cache_wrapper, cache, partial
from typing import Any, TypeAlias

import onchip.verify
from mutation.put_in_place import ModulesFromCode, name_of_module
from support.mutants import OTHER_COMPARISONS, compiled, replaceable_nodes, replacements, source_places, source_tree

NumbersByModule: TypeAlias = dict[str, list[int]]
"""Numbers of lines, or of mutants in the order of `mutants`, by the module's path in `verify`."""

HAS_RUN = "__has_run__"
"""Name of the array of probes of statements in each module."""

MEASURES = "__measures__"
"""Name of the list of probes of expressions in each module."""

Operation: TypeAlias = Callable[[Any, Any], Any]

OPERATIONS: Mapping[type[ast.cmpop | ast.operator], Operation] = {
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.LtE: operator.le,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
}


ONLY_READ = frozenset({"count", "get", "index", "items", "keys", "values"})
"""Methods that change nothing; a mutant without a call of another method may differ by the absence of the call."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A probe of the condition of an `if`, whose mutants are False and True."""

    differs: bytearray
    first: int

    def __call__(self, value: object) -> object:
        self.differs[self.first + (not value)] = 1
        return value


@dataclass(frozen=True, slots=True)
class Pair:
    """A probe of an operation on two values; each mutant is another operation on them."""

    differs: bytearray
    right: Operation
    mutants: Mapping[int, Operation]

    def __call__(self, left: object, right: object) -> object:
        value = self.right(left, right)
        for number, mutant in self.mutants.items():
            if not self.differs[number]:
                self.differs[number] = isinstance(right, Iterator) or _differ(value, partial(mutant, left, right))
        return value


@dataclass(frozen=True, slots=True)
class Chain:
    """A probe of an `and` or `or`, whose mutants are the other of the two, and each part alone."""

    differs: bytearray
    first: int
    is_or: bool
    is_condition: bool

    def __call__(self, *parts: Callable[[], object]) -> object:
        known = [cache(part) for part in parts]
        value = _chained(known, is_or=self.is_or)
        mutants: list[Callable[[], object]] = [partial(_chained, known, is_or=not self.is_or), *known]
        for number, mutant in enumerate(mutants, self.first):
            if not self.differs[number]:
                self.differs[number] = _differ(value, mutant, is_condition=self.is_condition)
        return value


def _chained(parts: Sequence[Callable[[], object]], *, is_or: bool) -> object:
    *others, last = parts
    for part in others:
        if bool(part()) is is_or:
            return part()
    return last()


def _differ(value: object, mutant: Callable[[], object], *, is_condition: bool = False) -> bool:
    try:
        other = mutant()
        if is_condition:
            return bool(value) is not bool(other)
        return type(value) is not type(other) or bool(value != other)
    except Exception:  # a mutant that fails differs
        return True


class ProbedModules:
    """The verifier's modules with probes; they must be made before any import of a module."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._has_run = bytearray()
        self._places: list[tuple[str, range]] = []
        self._differs: dict[str, bytearray] = {}
        for module in modules:
            expressions = MeasuredExpressions(source_tree(module))
            self._differs[module] = expressions.differs
            code = compiled(module, self._probed(module, expressions))
            given = {HAS_RUN: self._has_run, MEASURES: expressions.probes}
            ModulesFromCode({name_of_module(module): code}, given).install()
        self._has_run.extend(bytes(len(self._places)))

    def forget(self) -> None:
        """Reset all probes, and drop the values that the verifier has cached, which would spare it lines."""
        for module in [one for name, one in sys.modules.items() if name.startswith(onchip.verify.__name__)]:
            for cached in [one for one in vars(module).values() if isinstance(one, _lru_cache_wrapper)]:
                cached.cache_clear()
        for probes in (self._has_run, *self._differs.values()):
            probes[:] = bytes(len(probes))

    def lines(self) -> NumbersByModule:
        """Return the lines of the statements that have run since the last reset."""
        found: dict[str, set[int]] = {}
        for (module, lines), has_run in zip(self._places, self._has_run, strict=True):
            if has_run:
                found.setdefault(module, set()).update(lines)
        return {module: sorted(lines) for module, lines in found.items()}

    def differing(self) -> NumbersByModule:
        """Return the measured mutants whose value has differed since the last reset."""
        return {module: [at for at, one in enumerate(found) if one] for module, found in self._differs.items()}

    def _probed(self, module: str, expressions: MeasuredExpressions) -> ast.Module:
        tree = expressions.tree
        places = source_places(tree)
        expressions.put_probes()
        for block in tuple(_blocks_of_functions(tree)):
            before = tuple(block)
            block.clear()
            for statement in before:
                probe = ast.parse(f"{HAS_RUN}[{len(self._places)}] = 1").body[0]
                self._places.append((module, _with_cases(statement, places[id(statement)].lines)))
                block += [ast.copy_location(probe, statement), statement]
        return ast.fix_missing_locations(tree)


class MeasuredExpressions(ast.NodeTransformer):
    """The expressions of a module's functions that have probes, and their mutants.

    `numbers` are those of the mutants that are measured, `differs` has a byte for each mutant.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        places, count = source_places(tree), 0
        self._first: dict[int, int] = {}
        for node, _ in replaceable_nodes(tree):
            if places[id(node)].function is not None:
                self._first[id(node)] = count
            count += len(tuple(replacements(node)))
        self._conditions = {id(part) for node in ast.walk(tree) for part in _conditions_of(node)}
        self.differs = bytearray(count)
        self.probes: list[Callable[..., object]] = []
        self.numbers: set[int] = set()

    def put_probes(self) -> None:
        """Put the probes into the tree."""
        self.visit(self.tree)

    def visit(self, node: ast.AST) -> Any:  # noqa: ANN401 (as the base class)
        node = self.generic_visit(node)
        first = self._first.get(id(node))
        if first is None:
            return node
        match node:
            case ast.If() | ast.IfExp() if not _may_change_more(node.test):
                node.test = self._call(Condition(self.differs, first), {first, first + 1}, node.test)
            case ast.Compare(left=left, ops=[operation], comparators=[right]):
                return self._pair(first, (type(operation), *OTHER_COMPARISONS[type(operation)]), left, right)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._pair(first, (ast.Add, ast.Sub), left, right)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return self._pair(first, (ast.Sub, ast.Add), left, right)
            case ast.BoolOp(op=operation, values=parts) if not _may_change_more(node):
                probe = Chain(self.differs, first, isinstance(operation, ast.Or), id(node) in self._conditions)
                nothing = ast.arguments([], [], None, [], [], None, [])
                lambdas = [ast.Lambda(args=nothing, body=part) for part in parts]
                return self._call(probe, range(first, first + len(parts) + 1), *lambdas)
        return node

    def _pair(self, first: int, operations: Sequence[type], left: ast.expr, right: ast.expr) -> ast.expr:
        """Measure an operation with its other operations, and its operands that are numbers with the next numbers."""
        right_one, *others = (OPERATIONS[one] for one in operations)
        mutants = dict(enumerate(others, first))
        if (number := self._number_of_constant(left)) is not None:
            mutants[number] = lambda one, other: right_one(one + 1, other)
        if (number := self._number_of_constant(right)) is not None:
            mutants[number] = lambda one, other: right_one(one, other + 1)
        return self._call(Pair(self.differs, right_one, mutants), mutants, left, right)

    def _number_of_constant(self, node: ast.expr) -> int | None:
        is_number = isinstance(node, ast.Constant) and type(node.value) is int
        return self._first.get(id(node)) if is_number else None

    def _call(self, probe: Callable[..., object], numbers: Iterable[int], *arguments: ast.expr) -> ast.expr:
        self.numbers.update(numbers)
        self.probes.append(probe)
        called = ast.parse(f"{MEASURES}[{len(self.probes) - 1}]", mode="eval").body
        return ast.copy_location(ast.Call(func=called, args=[*arguments], keywords=[]), arguments[0])


def _may_change_more(expression: ast.AST) -> bool:
    """Return True if the expression changes more than its value, or means something else inside a lambda."""
    for node in ast.walk(expression):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name not in ONLY_READ:
                return True
            case ast.Name(id="super") | ast.NamedExpr() | ast.Yield() | ast.YieldFrom() | ast.Await():
                return True
    return False


def _conditions_of(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of which the node uses only whether they are true, with their parts."""
    match node:
        case ast.If() | ast.IfExp() | ast.While() | ast.Assert():
            yield from _parts(node.test)
        case ast.UnaryOp(op=ast.Not()):
            yield from _parts(node.operand)
        case ast.comprehension():
            for condition in node.ifs:
                yield from _parts(condition)


def _parts(condition: ast.expr) -> Iterator[ast.expr]:
    yield condition
    if isinstance(condition, ast.BoolOp):
        for part in condition.values:
            yield from _parts(part)


def measured(module: str) -> set[int]:
    """Return the numbers of the module's mutants that probes measure."""
    expressions = MeasuredExpressions(source_tree(module))
    expressions.put_probes()
    return expressions.numbers


def _blocks_of_functions(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    functions = {id(one): one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
    inner = {id(one): one for function in functions.values() for one in ast.walk(function)}
    for node in inner.values():
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value


def _with_cases(statement: ast.stmt, lines: range) -> range:
    """Return the lines of the statement; those of a `match` include all of its cases."""
    return range(lines.start, (statement.end_lineno or 0) + 1) if isinstance(statement, ast.Match) else lines
