"""Text of C, CUDA and OpenCL, and calls of C kernels with their arguments: tensors, arrays, structs, walks."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import accumulate, chain, count
from math import isinf, isnan
from operator import mul
from string import Template
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError, PlanError

GREATEST_C_NUMBER = 2**64 - 1
_GREATEST_SHORT_NUMBER = 2**32 - 1
_LONGEST_STRING_BYTES = 4095
"""Limit that every C99 compiler supports (5.2.4.1)."""


def identifier(name: str) -> str:
    """Return the name with `_` for all characters but ASCII letters and digits."""
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def unique_identifiers(prefix: str, names: Iterable[str]) -> list[str]:
    """Return an identifier for each name, in upper case behind the prefix; duplicates are numbered from 2."""
    found: dict[str, None] = {}
    for name in names:
        found[unused_name(f"{prefix}{identifier(name).upper()}", found)] = None
    return list(found)


def unused_name(wanted: str, used: Container[str]) -> str:
    """Return the name, with the lowest number from 2 on that makes it an unused one if it is used."""
    numbered = (f"{wanted}_{number}" for number in count(2))
    return next(name for name in chain((wanted,), numbered) if name not in used)


def template(name: str, **values: object) -> str:
    """Return the text of a template of this package with these values."""
    text = files("onchip.backends.c").joinpath("templates", f"{name}.template").read_text(encoding="utf-8")
    return Template(text).substitute(values)


def string(text: str) -> str:
    """Return a string literal with octal escapes outside ASCII and without trigraphs; raises PlanError if too long."""
    encoded = text.encode(errors="surrogatepass")
    if len(encoded) >= _LONGEST_STRING_BYTES:
        raise PlanError(f"a name has {len(encoded)} bytes", place=text[:20], expected="names that fit a C string")
    return f'"{"".join(_character(byte) for byte in encoded)}"'


def comment(text: str) -> str:
    """Return text that can stand in a `/* */` comment without ending it, opening another or leaving its line.

    Every name from a file that a backend writes into a comment passes through here. It also breaks up trigraphs.
    """
    shown = "".join(letter if letter.isprintable() and letter != "\\" else "_" for letter in text)
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", shown)


def _character(byte: int) -> str:
    character = chr(byte)
    if character in '"\\?':
        return f"\\{character}"
    return character if " " <= character <= "~" else f"\\{byte:03o}"


def number(value: int, what: str) -> str:
    """Return an unsigned literal; raises PlanError for a value of more than 64 bits."""
    if value > GREATEST_C_NUMBER:
        raise PlanError(f"{what} is {value}", expected=f"at most {GREATEST_C_NUMBER}, to be written in C")
    return f"{value}u" if value <= _GREATEST_SHORT_NUMBER else f"{value}ull"


def fits_in_32_bits(values: Iterable[int]) -> bool:
    """Return True if all values fit in 32 bits."""
    return all(value <= _GREATEST_SHORT_NUMBER for value in values)


_A_LINE: Final = 16
_LEAST_32, _LEAST_64 = -(2**31), -(2**63)


def integer(value: int) -> str:
    """Return an integer literal; the least of a type is a difference, as C has no negative literals."""
    if value in (_LEAST_32, _LEAST_64):
        return f"({integer(value + 1)} - 1)"
    return str(value) if _LEAST_32 < value < -_LEAST_32 else f"{value}ll" if value < 2**63 else f"{value}ull"


def real(value: float) -> str:
    """Return the literal of a float that reads back as the same one."""
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    digits = f"{value:.9g}"
    return f"{digits}f" if {".", "e"} & set(digits) else f"{digits}.0f"


def rows(values: npt.NDArray[Any]) -> Iterator[str]:
    """Yield the lines between an array's braces."""
    flat = values.reshape(-1)
    if flat.dtype == np.float16:
        flat = flat.view(np.uint16)
    if flat.dtype == np.float32:
        numbers = list(map(real, flat.tolist()))
    elif flat.dtype == np.float64:
        numbers = list(map(repr, flat.tolist()))
    else:
        numbers = list(map(integer, flat.astype(object if flat.dtype == np.uint64 else np.int64).tolist()))
    for at in range(0, len(numbers), _A_LINE):
        yield f"    {', '.join(numbers[at : at + _A_LINE])},"


ELEMENT_OF: Final = {
    **{name: f"{name}_t" for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
    "bool": "uint8_t",
    "float16": "uint16_t",
    "float32": "float",
    "float64": "double",
}
"""Map from numpy's name of an element type to C's; kernels move halves and never compute with them."""
ELEMENT_BYTES: Final = {element: np.dtype(name).itemsize for name, element in ELEMENT_OF.items()}
BYTES: Final = "void"
"""Element of an operand whose bytes are moved unchanged."""
OVERWRITING: Final = frozenset(
    {"unary_f32", "binary_f32", "softmax_f32", "log_softmax_f32", "batch_norm_f32", "layer_norm_f32", "l2_norm_f32"}
    | {"add_s8", "multiply_s8", "extreme_s8", "look_up_s8", "requantise_s8"}
)
"""Kernels that read an element before they write at its address: the output may lie on an input of the same size."""
GREATEST_RANK: Final = 8
GREATEST_STEP: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TensorOperand:
    """The elements of a tensor from `shift_bytes` behind its address; `element` is a C type."""

    tensor: str
    element: str
    shift_bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A constant array from element `first` on, named after a tensor or its purpose; arrays of one name may differ."""

    name: str
    values: npt.NDArray[Any]
    first: int = 0

    @property
    def element(self) -> str:
        """Return the C type of its elements."""
        return ELEMENT_OF[self.values.dtype.name]


Operand = TypeVar("Operand", TensorOperand, Table, "TensorOperand | Table")


@dataclass(frozen=True, slots=True)
class BandPart:
    """A cell of a tensor in parts: index i lies at `offset` + the sum of i * step bytes in an array of C."""

    array: str
    offset: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BandGrid:
    """A tensor in the cells of a grid, the last axis fastest, from byte `first` of the whole tensor on.

    Each axis has the bytes between neighbours in the whole tensor, and the indices at which cells begin and end.
    """

    first: int
    axes: tuple[tuple[int, tuple[int, ...]], ...]
    parts: tuple[BandPart, ...]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that the kernels' header defines."""

    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """A struct of the kernels' header; omitted fields are 0."""

    struct: str
    fields: tuple[tuple[str, Field], ...]

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 (fields have different types)
        return dict(self.fields)[name]

    def replaced(self, **changed: Field) -> Record:
        """Return the struct with other values of some fields."""
        return Record(self.struct, tuple((name, changed.get(name, value)) for name, value in self.fields))


Field: TypeAlias = "int | float | tuple[int, ...] | tuple[tuple[int, ...], ...] | tuple[Record, ...] | Record | Table"
Argument: TypeAlias = "TensorOperand | Table | BandGrid | Record | Symbol | int | float | tuple[int, ...] | None"


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call of a kernel, which writes the last of its tensors."""

    function: str
    arguments: tuple[Argument, ...]

    def place_of(self, struct: str) -> int | None:
        """Return the position of the argument that is this struct; None if there is none."""
        found = (at for at, one in enumerate(self.arguments) if isinstance(one, Record) and one.struct == struct)
        return next(found, None)

    @property
    def written(self) -> TensorOperand:
        """Return the operand that the kernel writes."""
        return [one for one in self.arguments if isinstance(one, TensorOperand)][-1]

    @property
    def read(self) -> tuple[TensorOperand, ...]:
        """Return the tensors that the kernel reads."""
        return tuple(one for one in self.arguments if isinstance(one, TensorOperand))[:-1]


def no_kernel(operator: str, kind: str, why: str = "") -> GraphError:
    """Return the error for an operator without a kernel; `why` names the unsupported part of the operator."""
    what = f"there is no kernel for {kind}{why and f' {why}'}"
    return GraphError(what, place=f"operator {operator!r}", expected="operators that docs/c_project.md lists")


def table(name: str, values: npt.ArrayLike, dtype: str | None = None) -> Table:
    """Return a constant array as one row of elements."""
    return Table(name, np.ascontiguousarray(np.asarray(values, dtype)).reshape(-1))


def record(struct: str, **fields: Field) -> Record:
    """Return a struct with these fields, in the order given."""
    return Record(struct, tuple(fields.items()))


def dense_steps(shape: Sequence[int], unit: int = 1) -> tuple[int, ...]:
    """Return the distance between neighbours along each axis of a dense array; an element takes `unit`."""
    return tuple(accumulate(shape[:0:-1], mul, initial=unit))[::-1] if shape else ()


def broadcast_steps(shape: Sequence[int], onto: Sequence[int]) -> tuple[int, ...]:
    """Return the steps of an array along the axes of the shape it is broadcast onto, 0 along repeated axes."""
    steps = [step if size > 1 else 0 for size, step in zip(shape, dense_steps(shape), strict=True)]
    return (0,) * (len(onto) - len(shape)) + tuple(steps)


def walk(sizes: Sequence[int], *steps: Sequence[int]) -> Record:
    """Return a walk with the fewest axes; raises GraphError for more axes or larger steps than kernels support."""
    merged = _merged(sizes, steps)
    if len(merged) > GREATEST_RANK:
        raise GraphError(f"its elements lie along {len(merged)} axes", expected=f"at most {GREATEST_RANK}")
    for size, each in merged:
        if max((abs(step) * size for step in each), default=0) > GREATEST_STEP:
            raise GraphError("it is too large for a kernel's 32 bits", expected=f"at most {GREATEST_STEP} bytes")
    if not merged:
        return record("walk", rank=0)
    columns = tuple(tuple(each[operand] for _, each in merged) for operand in range(len(steps)))
    return record("walk", rank=len(merged), sizes=tuple(size for size, _ in merged), steps=columns)


def _merged(sizes: Sequence[int], steps: Sequence[Sequence[int]]) -> list[tuple[int, tuple[int, ...]]]:
    """Return the axes, outermost first, without axes of size 1; contiguous neighbouring axes become one axis."""
    merged: list[tuple[int, tuple[int, ...]]] = []
    for size, *each in zip(sizes, *steps, strict=True):
        if size == 1:
            continue
        if merged and all(outer == inner * size for outer, inner in zip(merged[-1][1], each, strict=True)):
            merged[-1] = (merged[-1][0] * size, tuple(each))
        else:
            merged.append((size, tuple(each)))
    return merged


def move_call(
    sizes: Sequence[int],
    written: tuple[TensorOperand, Sequence[int]],
    read: tuple[Argument, Sequence[int]],
    element_bytes: int,
) -> KernelCall:
    """Return the call that moves elements of `element_bytes` bytes; steps are in elements. Raises GraphError."""
    merged = _merged(sizes, (written[1], read[1]))
    run = element_bytes
    if merged and merged[-1][1] == (1, 1):
        run *= merged.pop()[0]
    in_bytes = [tuple(step * element_bytes for step in each) for _, each in merged]
    sizes_left = [size for size, _ in merged]
    over = walk(sizes_left, [each[0] for each in in_bytes], [each[1] for each in in_bytes])
    return KernelCall("move", (over, run, read[0], written[0]))


def copy_call(size_bytes: int, read: Argument, written: str) -> KernelCall:
    """Return the call that copies `size_bytes` contiguous bytes to a tensor."""
    return KernelCall("move", (walk(()), size_bytes, read, TensorOperand(written, BYTES)))


def shifted(operand: Operand, elements: int, element_bytes: int = 0) -> Operand:
    """Return an operand without its first elements; `element_bytes` are those of moved bytes."""
    if isinstance(operand, Table):
        return replace(operand, first=operand.first + elements)
    unit = element_bytes or ELEMENT_BYTES.get(operand.element, 1)
    return replace(operand, shift_bytes=operand.shift_bytes + elements * unit)
