"""Arithmetic expressions of a study: constraints between parameters, costs, and row queries.

An expression is Python's arithmetic over names, numbers, sizes (`64KiB`) and strings, and nothing else of Python.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from onchip.arch.sizes import parse_size
from onchip.errors import InputError

Value: TypeAlias = "int | float | str | bool | None"

GREATEST_LENGTH: Final = 1000
GREATEST_DEPTH: Final = 50
GREATEST_EXPONENT: Final = 64
GREATEST_INTEGER: Final = 2**128
"""Limit of an operation's result, in absolute value: a formula of areas or bytes stays far below."""
_SIZE: Final = re.compile(r"(?<![\w.'\"])([0-9]+(?:\.[0-9]+)?(?:[KMG]i?B|B))(?![\w'\"])")
_TEXT: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_BINARY: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARED: Final[Mapping[type, Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "max": max,
    "min": min,
    "sqrt": math.sqrt,
}
EXPECTED: Final = f"numbers, sizes, names, + - * / // % **, comparisons, and, or, not, and {', '.join(_FUNCTIONS)}(...)"


@dataclass(frozen=True, slots=True)
class Expression:
    """A formula; `names` are the names that it uses, with dotted ones whole (`memories.sram.capacity`).

    Raises InputError if the text is not an arithmetic expression.
    """

    text: str
    tree: ast.expr = field(init=False, repr=False, compare=False)
    names: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tree = _parsed(self.text)
        object.__setattr__(self, "tree", tree)
        object.__setattr__(self, "names", frozenset(_names(tree, self.text, 0)))

    def value(self, values: Mapping[str, Value]) -> Value:
        """Return the value; None as soon as a part of it is None. Raises InputError for an undefined value."""
        try:
            found: Value = _value(self.tree, values)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise InputError(f"{self.text!r} has no value: {error}", expected="an expression that has one") from None
        if isinstance(found, float) and not math.isfinite(found):
            raise InputError(f"{self.text!r} is {found}", expected="a finite number")
        return found

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Return True if the expression is true; an order comparison with None is false.

        Raises InputError for an undefined value.
        """
        return bool(self.value(values))

    def ensure_names_are(self, known: frozenset[str]) -> None:
        """Raise InputError for an unknown name."""
        if unknown := sorted(self.names - known):
            expected = f"one of {', '.join(sorted(known))}" if known else "no name: nothing has one here"
            raise InputError(f"{self.text!r} names {unknown[0]!r}, which is nothing", expected=expected)


def _parsed(text: str) -> ast.expr:
    if len(text) > GREATEST_LENGTH:
        raise InputError("the expression is too long", expected=f"at most {GREATEST_LENGTH} characters")
    try:
        return ast.parse(_without_units(text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{text!r} is no expression", expected=EXPECTED) from None


def _without_units(text: str) -> str:
    """Return the text with sizes as numbers of bytes; quoted strings are unchanged."""
    parts, at = [], 0
    for quoted in _TEXT.finditer(text):
        parts += [_SIZE.sub(lambda size: str(parse_size(size[1])), text[at : quoted.start()]), quoted[0]]
        at = quoted.end()
    return "".join([*parts, _SIZE.sub(lambda size: str(parse_size(size[1])), text[at:])])


def _names(node: ast.expr, text: str, depth: int) -> list[str]:
    """Return the names of an expression; raises InputError for any other Python syntax."""
    if depth > GREATEST_DEPTH:
        raise InputError(f"{text!r} is nested too deeply", expected=f"at most {GREATEST_DEPTH} levels")
    if (name := _dotted(node)) is not None:
        return [name]
    parts = _parts(node)
    if parts is None:
        raise InputError(f"{text!r} is no expression of a study", expected=EXPECTED)
    return [name for part in parts for name in _names(part, text, depth + 1)]


def _parts(node: ast.expr) -> list[ast.expr] | None:
    """Return the subexpressions of an expression; None for disallowed syntax."""
    match node:
        case ast.Constant(value=value) if value is None or type(value) in (int, float, str, bool):
            return []
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return [left, right]
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.UAdd(), operand=operand):
            return [operand]
        case ast.BoolOp(values=values):
            return values
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARED for op in ops):
            return [left, *others]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS and arguments:
            return arguments
    return None


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)) is not None:
        return f"{before}.{node.attr}"
    return None


def _value(node: ast.expr, values: Mapping[str, Value]) -> Any:  # noqa: ANN401 - arithmetic of both kinds of numbers
    if (name := _dotted(node)) is not None:
        return values[name]
    match node:
        case ast.Constant(value=value):
            return value
        case ast.BinOp(left=left, op=op, right=right):
            return _of_two(op, _value(left, values), _value(right, values))
        case ast.UnaryOp(op=op, operand=operand):
            inner = _value(operand, values)
            if isinstance(op, ast.Not):
                return not inner
            return None if inner is None else (-inner if isinstance(op, ast.USub) else inner)
        case ast.BoolOp(op=op, values=parts):
            results = (_value(part, values) for part in parts)
            return all(results) if isinstance(op, ast.And) else any(results)
        case ast.Compare(left=left, ops=ops, comparators=others):
            ends = [_value(one, values) for one in (left, *others)]
            return all(_compared(op, *pair) for op, *pair in zip(ops, ends, ends[1:], strict=False))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            given = [_value(argument, values) for argument in arguments]
            return None if None in given else _FUNCTIONS[name](*given)
    raise AssertionError(ast.dump(node))


def _of_two(op: ast.operator, left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    if isinstance(left, str) or isinstance(right, str):
        raise ValueError("a text is no number")
    if isinstance(op, ast.Pow) and abs(right) > GREATEST_EXPONENT:
        raise ValueError(f"its exponent is beyond {GREATEST_EXPONENT}")
    found: Value = _BINARY[type(op)](left, right)
    if isinstance(found, complex) or (isinstance(found, int) and abs(found) > GREATEST_INTEGER):
        raise ValueError("it is out of range")
    return found


def _compared(op: ast.cmpop, left: Value, right: Value) -> bool:
    """Return the comparison of two values; None equals only None, and is neither more nor less than any value."""
    if isinstance(op, ast.Eq | ast.NotEq) or (left is not None and right is not None):
        return _COMPARED[type(op)](left, right)
    return False
