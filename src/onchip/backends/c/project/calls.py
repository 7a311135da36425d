"""What an operator is in C: calls of kernels, and what they are handed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError

ELEMENT_OF: Final = {
    "bool": "uint8_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "float16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "float32": "float",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "float64": "double",
}
"""By numpy's name of an element type, C's; a half is moved, never computed with."""
BYTES: Final = "void"
"""The element of an operand whose bytes are moved as they are."""
OVERWRITING: Final = frozenset(
    {"unary_f32", "binary_f32", "softmax_f32", "log_softmax_f32", "batch_norm_f32", "layer_norm_f32", "l2_norm_f32"}
    | {"add_s8", "multiply_s8", "extreme_s8", "look_up_s8", "requantise_s8"}
)
"""Kernels that read an element before they write at its place: the output may lie on an input as large as it."""


@dataclass(frozen=True, slots=True)
class TensorOperand:
    """The elements of a tensor, from `shift_bytes` behind its address on; `element` is a C type."""

    tensor: str
    element: str
    shift_bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A constant array, called after a tensor or what it is for; two of one name may differ."""

    name: str
    values: npt.NDArray[Any]

    @property
    def element(self) -> str:
        """Return the C type of its elements."""
        return ELEMENT_OF[self.values.dtype.name]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that the kernels' header defines."""

    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """A struct of the kernels' header; fields that are left out are 0."""

    struct: str
    fields: tuple[tuple[str, Field], ...]


Field: TypeAlias = "int | float | tuple[int, ...] | tuple[tuple[int, ...], ...] | tuple[Record, ...] | Record | Table"
Argument: TypeAlias = "TensorOperand | Table | Record | Symbol | int | float | tuple[int, ...] | None"


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call of a kernel; of its tensors the last one is written."""

    function: str
    arguments: tuple[Argument, ...]

    @property
    def written(self) -> TensorOperand:
        """Return the operand that the kernel writes."""
        return [one for one in self.arguments if isinstance(one, TensorOperand)][-1]

    @property
    def read(self) -> tuple[TensorOperand, ...]:
        """Return the operands of the graph that the kernel reads."""
        return tuple(one for one in self.arguments if isinstance(one, TensorOperand))[:-1]


def no_kernel(operator: str, kind: str, why: str = "") -> GraphError:
    """Return the error for an operator that no kernel computes; `why` says which part of it has none."""
    what = f"there is no kernel for {kind}{why and f' {why}'}"
    return GraphError(what, place=f"operator {operator!r}", expected="operators that docs/c_project.md lists")


def table(name: str, values: npt.ArrayLike, dtype: str | None = None) -> Table:
    """Return a constant array as one row of elements."""
    return Table(name, np.ascontiguousarray(np.asarray(values, dtype)).reshape(-1))
