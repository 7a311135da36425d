"""Attributes of operators: windows of convolutions and pools, and operand layouts of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod

from onchip.ir.operator import SEEN_PARAMETER_SHAPES, SEEN_PARTS, SEEN_SHAPES, Operator

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window in one dimension: output pixel p reads input p * stride - pad + k * dilation, k in [0, kernel).

    If the input is read with each of its pixels repeated `repeat` times, these are positions in the repeated input.
    """

    kernel: int
    stride: int
    dilation: int
    pad: int
    repeat: int = 1

    @property
    def reach(self) -> int:
        """Return the extent of the window in pixels, from the first to one past the last."""
        return (self.kernel - 1) * self.dilation + 1

    def pixels(self, positions: tuple[int, int], size: int) -> tuple[int, int]:
        """Return the half-open range of pixels, of an input of `size`, at a range of positions that may exceed it."""
        start, stop = (min(max(position, 0), size * self.repeat) for position in positions)
        return start // self.repeat, -(-stop // self.repeat)


def windows_of(operator: Operator, kernel: Shape, before: Shape, after: Shape) -> tuple[Window, ...]:
    """Return a window for each spatial dimension, given the input and output sizes."""
    rank = len(kernel)
    strides = integers(operator, "strides", (1,) * rank)
    dilations = integers(operator, "dilations", (1,) * rank)
    pads = integers(operator, "pads", (0,) * (2 * rank))[:rank]
    padding = operator.attributes.get("auto_pad", "NOTSET")
    if padding in ("SAME_UPPER", "SAME_LOWER"):
        missing = [
            max((pixels - 1) * stride + (size - 1) * dilation + 1 - given, 0)
            for pixels, stride, size, dilation, given in zip(after, strides, kernel, dilations, before, strict=True)
        ]
        pads = tuple((pad + (padding == "SAME_LOWER")) // 2 for pad in missing)
    elif padding == "VALID":
        pads = (0,) * rank
    return tuple(Window(*each) for each in zip(kernel, strides, dilations, pads, strict=True))


def shapes_as_read(operator: Operator, stored: Sequence[Shape]) -> list[Shape]:
    """Return the shapes of all inputs and parameters as the operator sees them, given their stored shapes.

    An attribute that lists shapes of another number of elements is ignored, unless it describes parts of a tensor.
    """
    count = len(operator.inputs)
    inputs = _listed_shapes(operator, SEEN_SHAPES, stored[:count], parts_read(operator))
    return [*inputs, *_listed_shapes(operator, SEEN_PARAMETER_SHAPES, stored[count:])]


def shapes_computed(operator: Operator, stored: Sequence[Shape]) -> Sequence[Shape]:
    """Return the shapes of all inputs and parameters for loop nests.

    These are the shapes that the operator reads. For the factors of a product they are the shapes listed by an export,
    even if a parameter is stored transposed. If the operator reads only a part of an input, all shapes are stored
    shapes.
    """
    if any(parts_read(operator)):
        return stored
    shapes, factors = shapes_as_read(operator, stored), stated_factors(operator)
    if operator.kind != "MatMul" or not factors or len(factors) != len(shapes):
        return shapes
    orders = (factors, factors[::-1])  # a parameter follows the input even if it is the left factor
    fitting = [order for order in orders if [*map(prod, order)] == [*map(prod, shapes)]]
    return next((order for order in fitting if order[0] == shapes[0]), (*fitting, shapes)[0])


def stated_factors(operator: Operator) -> list[Shape]:
    """Return the shapes of a product's left and right factors if an export lists them, else an empty list."""
    listed = operator.attributes.get("input_shapes")
    each = listed if isinstance(listed, list) else []
    shapes = [tuple(size for size in one if isinstance(size, int)) for one in each if isinstance(one, list)]
    return shapes if len(shapes) == 2 else []


def parts_read(operator: Operator) -> list[Shape]:
    """Return for each input the offset of its first read element and the strides; empty if all of it is read."""
    listed = operator.attributes.get(SEEN_PARTS)
    each = listed if isinstance(listed, list) and len(listed) == len(operator.inputs) else []
    return [tuple(place for place in one if isinstance(place, int)) for one in each if isinstance(one, list)]


def _listed_shapes(
    operator: Operator, attribute: str, stored: Sequence[Shape], parts: Sequence[Shape] = ()
) -> Sequence[Shape]:
    listed = operator.attributes.get(attribute)
    each = listed if isinstance(listed, list) else []
    shapes = [tuple(size for size in one if isinstance(size, int)) for one in each if isinstance(one, list)]
    if len(shapes) != len(stored):
        return stored
    known = zip_longest(shapes, stored, parts, fillvalue=())
    agree = all(len(part) == len(seen) + 1 if part else prod(seen) == prod(own) for seen, own, part in known)
    return shapes if agree else stored


def begins_inside(operator: Operator) -> bool:
    """Return True if some padding of the operator is negative, so that it crops its input."""
    pads = operator.attributes.get("pads")
    return isinstance(pads, list) and any(isinstance(pad, int) and pad < 0 for pad in pads)


def integers(operator: Operator, name: str, default: Shape) -> Shape:
    """Return a list attribute of integers; `default` if it is absent or has another form."""
    value = operator.attributes.get(name)
    if not isinstance(value, list):
        return default
    listed = tuple([entry for entry in value if isinstance(entry, int)])
    return listed if len(listed) == len(value) == len(default) else default


def integer(operator: Operator, name: str, default: int) -> int:
    """Return an integer attribute, or the default."""
    value = operator.attributes.get(name, default)
    return value if isinstance(value, int) else default


@dataclass(frozen=True, slots=True)
class Product:
    """The layout of a Gemm: rows of features times a matrix, transposed (columns first) or not.

    A source that `is_flat` has its features in several dimensions after the first, read as one. `unit` is the first of
    these dimensions that can be tiled; each of its elements is `features_per_unit` features long.
    """

    is_source_transposed: bool
    is_weight_transposed: bool
    is_flat: bool
    unit: int
    features_per_unit: int


def product_of(operator: Operator, source: Shape, weight: Shape, written: Shape, *, is_model: bool) -> Product | None:
    """Return the operand layout of a Gemm; None if the shapes do not match.

    Without `transB` the shapes decide. For a square weight, ONNX (`is_model`) defaults to not transposed, networks
    without a model to transposed.
    """
    if len(weight) != 2 or not source or not written:
        return None
    attributes, columns = operator.attributes, written[-1]
    is_source_transposed = bool(attributes.get("transA", 0))
    if is_source_transposed:
        source = source[::-1]
    is_flat = source[:-1] != written[:-1]
    if is_flat and (len(written) != 2 or source[0] != written[0] or is_source_transposed):
        return None
    if is_source_transposed and len(source) != 2:
        return None
    features = prod(source[1:]) if is_flat else source[-1]
    layouts = [
        transposed
        for transposed, shape in ((True, (columns, features)), (False, (features, columns)))
        if shape == weight
    ]
    if "transB" in attributes:
        layouts = [layout for layout in layouts if layout is bool(attributes["transB"])]
    if not layouts:
        return None
    is_weight_transposed = layouts[-1] if is_model else layouts[0]
    if not is_flat:
        return Product(is_source_transposed, is_weight_transposed, False, len(source) - 1, 1)
    unit = next((index for index in range(1, len(source)) if source[index] > 1), 1)
    return Product(False, is_weight_transposed, True, unit, prod(source[unit + 1 :]))
