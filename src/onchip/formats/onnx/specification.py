"""Output shapes by the operator specification, for kinds that ONNX's own inference gets wrong or does not infer.

The rules hold for all versions of a kind: a later version defines what an earlier version left open. The module also
has the pads that onnxruntime chooses for SAME padding, and the checks that the operands of a node agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper
from onnx.helper import get_attribute_value, make_tensor_type_proto

from onchip.errors import GraphError
from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.nodes import Types, kind_of, static_shape

Shape: TypeAlias = tuple[int, ...]
_Outputs: TypeAlias = Sequence[tuple[int, Shape]]
"""Element type and shape of each output."""
_OPERANDS: Final = ("starts", "ends", "axes", "steps")


@dataclass(frozen=True, slots=True)
class AxisRange:
    """A range of one axis: places from `start` until `end`, counted from the axis's end if negative."""

    axis: int
    start: int
    end: int
    step: int

    def length(self, size: int) -> int:
        """Return the number of elements that the range has of an axis of this size."""
        start, end = (place + size if place < 0 else place for place in (self.start, self.end))
        if not size:
            return 0
        if self.step > 0:
            start, end = min(max(start, 0), size), min(max(end, 0), size)
        else:
            start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
        return max(0, -((start - end) // self.step))

    def greatest_length(self, size: int) -> int:
        """Return the greatest length over all axes of at most this size.

        Between the sizes at which a place enters the axis, the length grows with the size or falls with it.
        """
        turns = (abs(self.start), abs(self.end), abs(self.end) - 1)
        return max(self.length(each) for each in (size, *turns) if 0 <= each <= size)


def ranges_of(node: onnx.NodeProto, rank: int, constants: Constants) -> list[AxisRange] | None:
    """Return the ranges of a Slice; None if they are not constants, or malformed."""
    given: dict[str, list[int]] = {}
    if len(node.input) == 1:
        given = {one.name: list(get_attribute_value(one)) for one in node.attribute if one.name in _OPERANDS}
    for place, name in enumerate(_OPERANDS, start=1):
        values = constants.integers(node, place)
        if values is None and place < len(node.input) and node.input[place]:
            return None
        given |= {} if values is None else {name: values}
    if not given.keys() >= {"starts", "ends"}:
        return None
    starts, ends = given["starts"], given["ends"]
    axes, steps = given.get("axes", list(range(len(starts)))), given.get("steps", [1] * len(starts))
    if not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    if 0 in steps or any(not -rank <= axis < rank for axis in axes):
        return None
    return [AxisRange(axis % rank, *each) for axis, *each in zip(axes, starts, ends, steps, strict=True)]


class MissingFactError(Exception):
    """A shape rule lacks an operand, an attribute or a value, or they contradict each other; the text names it."""


def _missing_if(condition: object) -> None:
    """Raise MissingFactError if the condition holds."""
    if condition:
        raise MissingFactError


@dataclass(frozen=True, slots=True)
class TypedNode:
    """A node with the types and the constant values of its operands; methods raise MissingFactError."""

    node: onnx.NodeProto
    types: Types
    constants: Constants
    opset: int = 0

    def has(self, place: int) -> bool:
        """Return True if the operand is present."""
        return place < len(self.node.input) and bool(self.node.input[place])

    def name(self, place: int) -> str:
        """Return the name of an operand; raises MissingFactError if it is absent."""
        if not self.has(place):
            raise MissingFactError(f"its input {place} is omitted")
        return str(self.node.input[place])

    def shape(self, place: int, *ranks: int) -> Shape:
        """Return the static shape of an operand; raises MissingFactError, also if its rank is none of `ranks`."""
        name = self.name(place)
        shape = static_shape(self.types[name])
        if shape is None:
            raise MissingFactError(f"the shape of its input {name!r} is unknown")
        if ranks and len(shape) not in ranks:
            either = " or ".join(map(str, ranks))
            raise MissingFactError(f"its input {name!r} has {len(shape)} dimensions, not {either}")
        return shape

    def shapes(self) -> list[Shape]:
        """Return the static shapes of all operands; raises MissingFactError if one is unknown."""
        return [self.shape(place) for place in range(len(self.node.input))]

    def rows(self, place: int) -> Shape:
        """Return the shape of an operand; raises MissingFactError if it has no dimensions."""
        shape = self.shape(place)
        if not shape:
            raise MissingFactError(f"its input {self.name(place)!r} has no dimensions")
        return shape

    def element_type(self, place: int) -> int:
        """Return the element type of an operand; raises MissingFactError if it is absent."""
        return int(self.types[self.name(place)].tensor_type.elem_type)

    def value(self, place: int) -> npt.NDArray[Any]:
        """Return the constant value of an operand; raises MissingFactError if it has none."""
        name = self.name(place)
        value = self.constants.value(name)
        if value is None:
            raise MissingFactError(f"the value of its input {name!r} is unknown")
        return numpy_helper.to_array(value)

    def integers(self, place: int, count: int) -> tuple[int, ...]:
        """Return the values of an integer constant; raises MissingFactError unless it has `count` elements."""
        values = self.value(place).reshape(-1)
        if values.size != count:
            raise MissingFactError(f"its input {self.name(place)!r} has {values.size} elements, not {count}")
        return tuple(int(number) for number in values)

    def attribute(self, name: str, default: Any) -> Any:  # noqa: ANN401 (of any type)
        """Return an attribute, strings as text."""
        found = next((get_attribute_value(one) for one in self.node.attribute if one.name == name), default)
        return found.decode(errors="replace") if isinstance(found, bytes) else found

    def list_attribute(self, name: str, default: Shape) -> Shape:
        """Return a list attribute; raises MissingFactError if its length differs from that of `default`."""
        found = tuple(self.attribute(name, default))
        if len(found) != len(default):
            raise MissingFactError(f"its attribute {name!r} has {len(found)} numbers, not {len(default)}")
        return found

    def number(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute; raises MissingFactError if it is absent and has no default."""
        for one in self.node.attribute:
            if one.name == name and one.type == onnx.AttributeProto.INT:
                return int(one.i)
        if default is None:
            raise MissingFactError(f"its attribute {name!r} is missing")
        return default


def specified_types(node: onnx.NodeProto, types: Types, constants: Constants, opset: int) -> dict[str, onnx.TypeProto]:
    """Return the types of the outputs that the specification determines; empty for a kind without a rule.

    `types` are those of all operands, `opset` is the version of ONNX's own operators.
    """
    rule = _RULES.get(kind_of(node))
    if rule is None:
        return {}
    try:
        found = rule(TypedNode(node, types, constants, opset))
    except MissingFactError:
        return {}
    return {name: make_tensor_type_proto(*output) for name, output in zip(node.output, found, strict=False) if name}


# Windows


def _pool(node: TypedNode) -> _Outputs:
    given = node.shape(0)
    pads_and_windows = _windows(node, len(given) - 2)
    padding = node.attribute("auto_pad", "NOTSET")
    is_ceil = bool(node.attribute("ceil_mode", 0))
    sizes = tuple(
        _pooled_size(size, window, padding, is_ceil=is_ceil)
        for size, window in zip(given[2:], pads_and_windows, strict=True)
    )
    return [(node.element_type(0), (*given[:2], *sizes)), (TensorProto.INT64, (*given[:2], *sizes))]


@dataclass(frozen=True, slots=True)
class _Window:
    """A window along one axis: its reach, dilation included, its stride and the pads at both ends."""

    reach: int
    stride: int
    begin: int
    end: int


def _pooled_size(size: int, window: _Window, padding: str, *, is_ceil: bool) -> int:
    """Return the number of windows of a pool along one axis; none starts in the padding at the end.

    Two details are those of ONNX's inference and of onnxruntime, which agree, and not of the specification's text:
    `ceil_mode` counts with `auto_pad=VALID` too, and a window that is a little larger than the padded input fits once.
    """
    if padding in ("SAME_UPPER", "SAME_LOWER"):
        return -(-size // window.stride)
    begin, end = (0, 0) if padding == "VALID" else (window.begin, window.end)
    span = size + begin + end - window.reach
    if not is_ceil:
        return (span // window.stride if span >= 0 else -(-span // window.stride)) + 1
    count = -(-span // window.stride) + 1
    return count - 1 if (count - 1) * window.stride >= size + begin else count


def _windows(node: TypedNode, rank: int, default_kernel: Shape = ()) -> list[_Window]:
    kernel = node.list_attribute("kernel_shape", default_kernel or (0,) * rank)
    strides = node.list_attribute("strides", (1,) * rank)
    dilations = node.list_attribute("dilations", (1,) * rank)
    pads = node.list_attribute("pads", (0,) * (2 * rank))
    _missing_if(rank < 1 or min(*kernel, *strides, *dilations) < 1)
    reaches = [(taps - 1) * dilation + 1 for taps, dilation in zip(kernel, dilations, strict=True)]
    return [_Window(*each) for each in zip(reaches, strides, pads[:rank], pads[rank:], strict=True)]


def _transposed_convolution(node: TypedNode) -> _Outputs:
    given, filters = node.shape(0), node.shape(1)
    rank = len(given) - 2
    _missing_if(len(filters) != len(given))
    windows = _windows(node, rank, filters[2:])
    more = node.list_attribute("output_padding", (0,) * rank)
    padding = node.attribute("auto_pad", "NOTSET")
    stated = tuple(node.attribute("output_shape", ()))
    full = [
        window.stride * (size - 1) + extra + window.reach
        for size, window, extra in zip(given[2:], windows, more, strict=True)
    ]
    if stated:
        sizes = stated[-rank:]
    elif padding in ("SAME_UPPER", "SAME_LOWER"):  # pads are never negative: no output is larger than without any
        sizes = tuple(
            min(size * window.stride, most) for size, window, most in zip(given[2:], windows, full, strict=True)
        )
    elif padding == "VALID":
        sizes = tuple(full)
    else:
        sizes = tuple(most - window.begin - window.end for window, most in zip(windows, full, strict=True))
    _missing_if(len(sizes) != rank)
    return [(node.element_type(0), (given[0], filters[1] * node.attribute("group", 1), *sizes))]


def _unpooled(node: TypedNode) -> _Outputs:
    given = node.shape(0)
    if node.has(2):
        stated = tuple(int(size) for size in node.value(2).reshape(-1))
        _missing_if(len(stated) != len(given))
        return [(node.element_type(0), stated)]
    windows = _windows(node, len(given) - 2)
    sizes = tuple(
        (size - 1) * window.stride + window.reach - window.begin - window.end
        for size, window in zip(given[2:], windows, strict=True)
    )
    return [(node.element_type(0), (*given[:2], *sizes))]


# Products


def einsum_shape(equation: str, shapes: Sequence[Shape]) -> Shape:
    """Return the shape of an Einsum's output; a letter of size 1 in one operand is broadcast to the others' size.

    Raises MissingFactError if the equation does not fit the shapes.
    """
    left, arrow, written = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    _missing_if(len(terms) != len(shapes))
    sizes: dict[str, int] = {}
    spread: Shape = ()
    for term, shape in zip(terms, shapes, strict=True):
        before, dots, after = term.partition("...")
        several = len(shape) - len(before) - len(after)
        _missing_if(several < 0 or (several and not dots))
        spread = broadcast(spread, shape[len(before) : len(before) + several])
        for letter, size in zip(before + after, shape[: len(before)] + shape[len(before) + several :], strict=True):
            sizes[letter] = _met(sizes.get(letter, 1), size)
    if not arrow:
        once = sorted(letter for letter in sizes if left.count(letter) == 1)
        written = "..." * ("..." in left) + "".join(once)
    before, dots, after = written.partition("...")
    _missing_if(not sizes.keys() >= {*before, *after})
    return (*(sizes[one] for one in before), *(spread if dots else ()), *(sizes[one] for one in after))


def broadcast(first: Shape, second: Shape) -> Shape:
    """Return the shape of two operands that are broadcast together; raises MissingFactError if they do not fit."""
    rank = max(len(first), len(second))
    padded = ((1,) * (rank - len(one)) + one for one in (first, second))
    return tuple(_met(*sizes) for sizes in zip(*padded, strict=True))


def _met(first: int, second: int) -> int:
    _missing_if(first != second and 1 not in (first, second))
    return second if first == 1 else first


# Values that are constant


def _compressed(node: TypedNode) -> _Outputs:
    """Count the elements, or the slices along an axis, for which the condition is true."""
    given, condition = node.shape(0), node.value(1).astype(bool).reshape(-1)
    axis = node.attribute("axis", None)
    if axis is None:
        return [(node.element_type(0), (int(condition[: int(np.prod(given))].sum()),))]
    _missing_if(not -len(given) <= axis < len(given))
    axis %= len(given)
    return [(node.element_type(0), (*given[:axis], int(condition[: given[axis]].sum()), *given[axis + 1 :]))]


def _sliced(node: TypedNode) -> _Outputs:
    """Clamp bounds to the ends of their axis, which ONNX's inference does not do for every opset."""
    given = node.shape(0)
    ranges = ranges_of(node.node, len(given), node.constants)
    if ranges is None:
        raise MissingFactError
    sizes = list(given)
    for each in ranges:
        sizes[each.axis] = each.length(sizes[each.axis])
    return [(node.element_type(0), tuple(sizes))]


def _resized_in_proportion(node: TypedNode) -> _Outputs:
    """Resize to sizes within which, or around which, the output keeps the aspect ratio of the input."""
    given = node.shape(0)
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    _missing_if(policy not in ("not_larger", "not_smaller") or not node.has(3))
    sizes = [int(size) for size in node.value(3)]
    axes = [axis % len(given) for axis in node.attribute("axes", range(len(given)))]
    _missing_if(len(axes) != len(sizes) or any(given[axis] < 1 for axis in axes))
    scales = [np.float32(size) / np.float32(given[axis]) for size, axis in zip(sizes, axes, strict=True)]
    scale = min(scales) if policy == "not_larger" else max(scales)
    written = list(given)
    for axis in axes:
        written[axis] = floor(scale * np.float32(given[axis]) + np.float32(0.5))
    return [(node.element_type(0), tuple(written))]


def _range(node: TypedNode) -> _Outputs:
    """Count the numbers in double precision; ONNX's inference rounds the difference of two floats first."""
    start, limit, delta = (node.value(place).reshape(-1)[0].item() for place in range(3))
    _missing_if(not delta or not all(isfinite(number) for number in (start, limit, delta)))
    count = -((start - limit) // delta) if isinstance(delta, int) else ceil((limit - start) / delta)
    return [(node.element_type(0), (max(count, 0),))]


def _dropout(node: TypedNode) -> _Outputs:
    """Return the input's type; a mask before opset 10 has it, too."""
    given = node.element_type(0), node.shape(0)
    return [given, given if node.opset < 10 else (TensorProto.BOOL, given[1])]


_RULES: Final[Mapping[str, Callable[[TypedNode], _Outputs]]] = {
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    "Compress": _compressed,
    "ConvTranspose": _transposed_convolution,
    "Dropout": _dropout,
    "Einsum": lambda node: [(node.element_type(0), einsum_shape(node.attribute("equation", ""), node.shapes()))],
    **dict.fromkeys(
        ("GroupNormalization", "MeanVarianceNormalization"), lambda node: [(node.element_type(0), node.shape(0))]
    ),
    "MaxUnpool": _unpooled,
    "Range": _range,
    "Resize": _resized_in_proportion,
    "Slice": _sliced,
}


_FILTERS_OF_SAME_PADDING: Final[Mapping[str, int]] = {"Conv": 1, "ConvInteger": 1, "FusedConv": 1, "QLinearConv": 3}
_POOLS: Final = frozenset({"AveragePool", "LpPool", "MaxPool", "NhwcMaxPool", "QLinearAveragePool"})


def same_pads(size: int, stride: int, taps: int, padding: str, *, is_convolution: bool) -> tuple[int, int]:
    """Return the pads before and after one axis that onnxruntime chooses for windows without dilation.

    The specification leaves the pads open if the windows need none. onnxruntime then starts inside the input: the pads
    are negative, and convolutions and pools start at different elements. Pools use the pads of windows without
    dilation.
    """
    total = (-(-size // stride) - 1) * stride + taps - size
    doubled = total + (padding == "SAME_LOWER") + (is_convolution and total < 0)
    before = doubled // 2 if doubled >= 0 else -(-doubled // 2)
    return before, total - before


def unusual_pads(node: TypedNode) -> list[int] | None:
    """Return the `pads` of a node with SAME padding; None if they are not negative and respect the dilation."""
    padding, kind = node.attribute("auto_pad", "NOTSET"), node.node.op_type
    if padding not in ("SAME_UPPER", "SAME_LOWER") or kind not in {*_FILTERS_OF_SAME_PADDING, *_POOLS}:
        return None
    try:
        shape, is_convolution = node.shape(0), kind in _FILTERS_OF_SAME_PADDING
        is_channels_last = kind == "NhwcMaxPool" or bool(node.attribute("channels_last", 0))
        sizes = shape[1:-1] if is_channels_last else shape[2:]
        taps = (
            node.shape(_FILTERS_OF_SAME_PADDING[kind])[2:]
            if is_convolution
            else node.list_attribute("kernel_shape", (0,) * len(sizes))
        )
        strides, dilations = (node.list_attribute(name, (1,) * len(sizes)) for name in ("strides", "dilations"))
    except MissingFactError:
        return None
    if not len(taps) == len(sizes) > 0 or min(*strides, *dilations, *taps) < 1:
        return None
    each = zip(sizes, strides, taps, strict=True)
    pads = [same_pads(*axis, padding, is_convolution=is_convolution) for axis in each]
    is_dilated, is_cut = max(dilations) > 1, min(map(sum, pads)) < 0
    is_unusual = is_cut and not is_dilated if is_convolution else is_cut or is_dilated
    return [before for before, _ in pads] + [behind for _, behind in pads] if is_unusual else None


_FILTERS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
"""Map from kind of convolution to the operand with its filters."""

_AUTO_PADS = (b"NOTSET", b"SAME_UPPER", b"SAME_LOWER", b"VALID")


def ensure_operands_agree(node: onnx.NodeProto, name: str, types: Types) -> None:
    """Raise GraphError for operands that no runtime accepts together.

    Checks filters whose channels differ from the input's, operands that do not fit the equation of an Einsum, and a
    reshaping that changes the number of elements. A shape that is not in `types`, or is not static, is not checked.
    """
    kind, said = kind_of(node), None
    if kind in _FILTERS and len(node.input) > _FILTERS[kind]:
        said = _fault_of_convolution(node, types)
    elif kind == "Reshape":
        given, made = _shape(node.input[0], types), _shape(node.output[0], types)
        if given is not None and made is not None and prod(given) != prod(made):
            said = f"it makes {list(made)} of {list(given)}", "as many elements"
    elif kind == "Einsum":
        said = _fault_of_einsum(node, types)
    if said is not None:
        raise GraphError(said[0], f"node {name!r}", said[1])


def _fault_of_convolution(node: onnx.NodeProto, types: Types) -> tuple[str, str] | None:
    """Return the fault and the expectation; filters are [outputs, inputs of a group, rows, columns] or transposed."""
    given, filters = _shape(node.input[0], types), _shape(node.input[_FILTERS[kind_of(node)]], types)
    if given is None or filters is None or len(given) < 3 or len(given) != len(filters):
        return None
    attributes = {one.name: get_attribute_value(one) for one in node.attribute if not one.ref_attr_name}
    groups, window = attributes.get("group", 1), tuple(attributes.get("kernel_shape", filters[2:]))
    is_transposed, padding = kind_of(node) == "ConvTranspose", attributes.get("auto_pad", b"NOTSET")
    if groups < 1:
        return f"it has {groups} groups", "at least 1"
    if padding not in _AUTO_PADS:
        return f"its auto_pad is {padding.decode(errors='replace')!r}", "a padding that ONNX knows"
    if window != filters[2:]:
        return f"its kernel_shape is {list(window)}, its filters have the shape {list(filters)}", "one size"
    if not is_transposed and filters[0] % groups:
        return f"it has {filters[0]} outputs in {groups} groups", "as many in each"
    read = filters[0] if is_transposed else filters[1] * groups
    if read != given[1]:
        what = f"its input has {given[1]} channels, its filters {list(filters)} with group {groups} read {read}"
        return what, "as many"
    return None


def _fault_of_einsum(node: onnx.NodeProto, types: Types) -> tuple[str, str] | None:
    given = [shape for name in node.input if (shape := _shape(name, types)) is not None]
    equation = next((one.s.decode(errors="replace") for one in node.attribute if one.name == "equation"), "")
    try:
        if len(given) == len(node.input):
            einsum_shape(equation, given)
    except MissingFactError:
        listed = ", ".join(str(list(shape)) for shape in given)
        return f"its operands {listed} do not fit its equation {equation!r}", "a term for each, and one size a letter"
    return None


def _shape(name: str, types: Types) -> tuple[int, ...] | None:
    return static_shape(types[name]) if name in types else None
