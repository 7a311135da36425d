"""One call in an exported program: its arguments by name, the name to show it by, and what is no operator."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import torch

from onchip.errors import GraphError
from onchip.formats.torch.sliding import Arguments

Value: TypeAlias = Any
"""What a program hands about: tensors, numbers, and lists of these."""
_OF_NUMBERS: Final = frozenset(
    {
        *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.truediv, operator.mod, operator.neg),
        *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.and_, operator.or_),
        *(operator.not_, operator.xor, operator.abs, operator.pos, torch.sym_max, torch.sym_min, torch.sym_not),
        *(torch.sym_int, torch.sym_float, torch.sym_ite, math.ceil, math.floor, math.trunc),
    }
)
"""What a program computes of its sizes, beside its operators."""


def readable_name(node: torch.fx.Node, operation: str) -> str:
    """The path of the module the node runs in, then the operation unless the module is named for it."""
    stack: Mapping[str, tuple[str, object]] = node.meta.get("nn_module_stack") or {}
    path, module_type = list(stack.values())[-1] if stack else ("", "")
    path = path.removeprefix("L['self']").removeprefix(".")
    type_name = module_type.__name__ if isinstance(module_type, type) else str(module_type).rpartition(".")[2]
    if path and type_name.lower().startswith(operation.replace("_", "")):
        return path
    return f"{path}.{operation}" if path else operation


def by_name(schema: torch.FunctionSchema, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Value]:
    """Return what a call hands over by the schema's names, defaults included."""
    given = dict(zip((each.name for each in schema.arguments), args, strict=False)) | dict(kwargs)
    return {each.name: given.get(each.name, each.default_value) for each in schema.arguments}


def is_one_tensor(values: list[object]) -> bool:
    """Return whether there is one value, and it is a tensor."""
    return len(values) == 1 and isinstance(values[0], torch.Tensor)


def is_dropout_at_inference(target: torch._ops.OpOverload, arguments: Arguments) -> bool:
    """Return whether the operator passes its input on."""
    return "dropout" in target._schema.name and arguments.get("train") is False


def of_numbers(function: Value, args: Sequence[Value], place: str) -> Value:
    """What a function makes of sizes, or takes of a list; raises GraphError for any other."""
    if function is operator.getitem and len(args) == 2 and isinstance(args[0], Sequence) and isinstance(args[1], int):
        return args[0][args[1]]
    if function not in _OF_NUMBERS or not all(isinstance(each, int | float) for each in args):
        raise GraphError(f"it runs {function}", place=place, expected="operators, and sums of sizes")
    return function(*args)


def is_map(leaf: object) -> bool:
    """Return whether it is a tensor with elements."""
    return isinstance(leaf, torch.Tensor) and leaf.numel() > 0


def shadow_of(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same shape and strides, without values."""
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def on_meta(leaf: object) -> object:
    """Return the meta device in place of any other."""
    return torch.device("meta") if isinstance(leaf, torch.device) else leaf


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, or its class."""
    return next(iter(str(error).splitlines()), type(error).__name__)
