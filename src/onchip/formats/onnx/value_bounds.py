"""Least and greatest values of small integer tensors that follow from bounded shapes, and the shapes that they state.

Detectors compute shapes from the number of boxes that they found. Each size lies between 0 and its bound. A function
that never falls as its operands grow maps the least values to the least, and the greatest to the greatest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper

from onchip.formats.onnx.bounds import Bound
from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.nodes import kind_of
from onchip.formats.onnx.types import static_shape

Values: TypeAlias = npt.NDArray[Any]
_OF_SEVERAL: Final = frozenset({"Add", "Concat", "Max", "Min", "Mul", "Sum"})
"""Kinds whose output never falls as their operands grow, of which a Mul multiplies no negative number."""
_OF_THE_FIRST: Final = frozenset({"Cast", "Ceil", "Div", "Floor", "Gather", "Identity", "ReduceMax", "ReduceMin"}) | {
    *("ReduceProd", "ReduceSum", "Reshape", "Slice", "Squeeze", "Sub", "Unsqueeze"),
}
"""Kinds of which that holds for the first operand, if the others are constants."""
_WIDE: Final = frozenset({TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT, TensorProto.DOUBLE})
"""Element types to which a size is cast without wrapping."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The least and the greatest values that a tensor can have, element by element."""

    least: Values
    greatest: Values

    @property
    def is_exact(self) -> bool:
        """True if the values are known."""
        return bool(np.array_equal(self.least, self.greatest))

    @property
    def is_ordered(self) -> bool:
        """True if no least value exceeds its greatest one, as it does where numbers wrap."""
        return self.least.shape == self.greatest.shape and bool((self.least <= self.greatest).all())


class ValueBounds:
    """Ranges of the tensors that follow from bounded shapes."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._ranges: dict[str, ValueRange] = {}

    def follow(self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], axes: frozenset[int]) -> None:
        """Note the range of what a node writes, and that it is a constant if it is exact.

        `axes` are those of the first operand that may be smaller than its type says.
        """
        found = self._of_shape(node, types, axes) if kind_of(node) in ("Shape", "Size") else self._of_values(node)
        if found is None:
            return
        (output,) = node.output
        if found.is_exact:
            self._constants.add_tensor(output, numpy_helper.from_array(found.greatest, output))
        else:
            self._ranges[output] = found

    def shape_stated(
        self,
        node: onnx.NodeProto,
        types: Mapping[str, onnx.TypeProto],
        axes: frozenset[int],
        written: Mapping[str, onnx.TypeProto],
    ) -> dict[str, Bound]:
        """Return the largest types of the outputs of a node whose shape an operand of a known range states.

        `axes` are those of the first operand that may be smaller, `written` has the outputs' element types.
        """
        shape = static_shape(types[node.input[0]]) if any(node.input[:1]) else None
        found: tuple[tuple[int, ...], frozenset[int]] | None = None
        match kind_of(node):
            case "ConstantOfShape" if (stated := self._range(node, 0)) is not None:
                found = _sizes(stated.greatest), _variable(stated)
            case "Expand" if shape is not None and (stated := self._range(node, 1)) is not None:
                found = _expanded(shape, axes, stated)
            case "Reshape" if shape is not None and (stated := self._range(node, 1)) is not None:
                found = _reshaped(shape, stated)
            case "Tile" if shape and (stated := self._range(node, 1)) and stated.greatest.shape == (len(shape),):
                found = tuple(np.multiply(shape, stated.greatest).tolist()), _variable(stated) | axes
            case "TopK" if shape and (stated := self._range(node, 1)) is not None and stated.greatest.size == 1:
                axis = next((one.i for one in node.attribute if one.name == "axis"), -1) % len(shape)
                sizes = list(shape)
                sizes[axis] = min(shape[axis], max(0, *_sizes(stated.greatest)))
                found = tuple(sizes), axes | {axis}
            case "Range" if len(node.input) == 3:
                found = self._counted(node)
        if found is None or min(found[0], default=0) < 0:
            return {}
        exact = frozenset(range(len(found[0]))) - found[1]
        elements = {name: kind.tensor_type.elem_type for name, kind in written.items()}
        return {name: Bound.of(element, found[0], exact) for name, element in elements.items() if element}

    def _of_shape(
        self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], axes: frozenset[int]
    ) -> ValueRange | None:
        if not axes:
            return None
        shape = static_shape(types[node.input[0]]) or ()
        least = [0 if axis in axes else size for axis, size in enumerate(shape)]
        if kind_of(node) == "Size":
            return ValueRange(np.array(np.prod(least), np.int64), np.array(np.prod(shape), np.int64))
        ends = {one.name: one.i for one in node.attribute}
        part = slice(ends.get("start", 0), ends.get("end", len(shape)))
        return ValueRange(np.array(least[part], np.int64), np.array(shape[part], np.int64))

    def _of_values(self, node: onnx.NodeProto) -> ValueRange | None:
        named = {at: name for at, name in enumerate(node.input) if name}
        if self._ranges.keys().isdisjoint(named.values()) or len(node.output) != 1:
            return None
        found = {at: self._range(node, at) for at in named}
        ranges = {at: each for at, each in found.items() if each is not None}
        if len(ranges) < len(found):
            return None
        if kind_of(node) == "Equal":
            return _equal(*ranges.values())
        if not _never_falls(node, ranges):
            return None
        least, greatest = (
            self._constants.evaluated(
                node, {name: numpy_helper.from_array(getattr(ranges[at], end), name) for at, name in named.items()}
            )
            for end in ("least", "greatest")
        )
        if not least or not greatest:
            return None
        found_range = ValueRange(numpy_helper.to_array(least[0]), numpy_helper.to_array(greatest[0]))
        return found_range if found_range.is_ordered else None

    def _range(self, node: onnx.NodeProto, place: int) -> ValueRange | None:
        """The range of an operand; that of a constant is its value."""
        name = node.input[place] if place < len(node.input) else ""
        if name in self._ranges:
            return self._ranges[name]
        value = self._constants.value(name) if name else None
        if value is None or value.data_type == TensorProto.STRING:
            return None
        array = numpy_helper.to_array(value)
        return ValueRange(array, array)

    def _counted(self, node: onnx.NodeProto) -> tuple[tuple[int, ...], frozenset[int]] | None:
        """As many numbers as lie between the least start and the greatest limit."""
        ranges = [self._range(node, place) for place in range(3)]
        if any(each is None or each.greatest.size != 1 for each in ranges):
            return None
        start, limit, step = (each for each in ranges if each is not None)
        if not step.is_exact or step.least.item() <= 0 or step.least.dtype.kind not in "iu":
            return None
        count = -((start.least.item() - limit.greatest.item()) // step.least.item())
        return (max(0, count),), frozenset({0})


def _never_falls(node: onnx.NodeProto, ranges: Mapping[int, ValueRange]) -> bool:
    """True if the output does not fall as the operands grow from their least to their greatest values."""
    kind = kind_of(node)
    if kind == "Where":
        return ranges[0].is_exact
    if kind in ("Mul", "ReduceProd") and any((each.least < 0).any() for each in ranges.values()):
        return False
    if kind in _OF_SEVERAL:
        return True
    if kind not in _OF_THE_FIRST or not all(each.is_exact for at, each in ranges.items() if at):
        return False
    if kind == "Cast":
        return any(one.name == "to" and one.i in _WIDE for one in node.attribute)
    return kind != "Div" or bool((ranges[1].least > 0).all())


def _equal(one: ValueRange, other: ValueRange) -> ValueRange | None:
    """Known where the values are constants, or their ranges have nothing in common; of one shape, or of one element."""
    if one.least.shape != other.least.shape and 1 not in (one.least.size, other.least.size):
        return None
    is_apart = (one.greatest < other.least) | (one.least > other.greatest)
    is_same = (one.least == one.greatest) & (other.least == other.greatest) & (one.least == other.least)
    found = np.asarray(is_same)
    return ValueRange(found, found) if bool(np.all(is_apart | is_same)) else None


def _sizes(values: Values) -> tuple[int, ...]:
    return tuple(int(size) for size in values.reshape(-1))


def _variable(stated: ValueRange) -> frozenset[int]:
    pairs = zip(_sizes(stated.least), _sizes(stated.greatest), strict=True)
    return frozenset(axis for axis, (least, greatest) in enumerate(pairs) if least != greatest)


def _expanded(
    shape: tuple[int, ...], axes: frozenset[int], stated: ValueRange
) -> tuple[tuple[int, ...], frozenset[int]]:
    """A size above 1 that is exact on either side is that of the output."""
    wanted, rank = _sizes(stated.greatest), max(len(shape), stated.greatest.size)
    more, missing = rank - len(shape), rank - len(wanted)
    smaller, open_ = {axis + more for axis in axes}, {axis + missing for axis in _variable(stated)}
    sizes, variable = [], set()
    for axis, (own, target) in enumerate(zip((1,) * more + shape, (1,) * missing + wanted, strict=True)):
        exact = [size for size, free in ((own, smaller), (target, open_)) if axis not in free and size > 1]
        sizes.append(exact[0] if exact else max(own, target))
        if not exact and axis in smaller | open_:
            variable.add(axis)
    return tuple(sizes), frozenset(variable)


def _reshaped(shape: tuple[int, ...], stated: ValueRange) -> tuple[tuple[int, ...], frozenset[int]] | None:
    """The stated sizes; none if one is left open, or a size of 0 might copy a larger one from the input."""
    sizes, variable = _sizes(stated.greatest), _variable(stated)
    if min((*sizes, *_sizes(stated.least)), default=0) < 0:
        return None
    for axis, least in enumerate(_sizes(stated.least)):
        if least == 0 and len(shape) > 1 and axis < len(shape) and shape[axis] > sizes[axis]:
            return None
    return sizes, variable
