"""Arithmetic in the attributes of Timeloop's files (0.4): numbers, names, + - * / // %, and a few functions."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Final

LONGEST: Final = 200
"""Characters of an expression that is looked at."""
BINARY: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = {
    "max": max,
    "min": min,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": round,
    "int": int,
    "float": float,
    "sqrt": math.sqrt,
    "log2": math.log2,
}


def evaluated(text: str, names: Mapping[str, object]) -> object:
    """Return the number that an expression of these names has, or the text itself if it is no such expression."""
    if len(text) > LONGEST:
        return text
    try:
        value = _value(ast.parse(text, mode="eval").body, names)
    except (SyntaxError, ValueError, ArithmeticError, TypeError, RecursionError):
        return text
    return value if math.isfinite(value) else text


def _value(node: ast.expr, names: Mapping[str, object]) -> float:
    """Raises ValueError for what is no arithmetic of numbers."""
    if isinstance(node, ast.Constant):
        return _number(node.value)
    if isinstance(node, ast.Name) and node.id in names:
        return _number(names[node.id])
    if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        return BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in FUNCTIONS
        and not node.keywords
    ):
        return FUNCTIONS[node.func.id](*(_value(one, names) for one in node.args))
    raise ValueError("it is no arithmetic")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("it is no number")
    return value
