"""Operators whose axes are told one by one, as loop nests: products of any axes, and what spreads over each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from typing import Final

from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ops.registry.entry import OperatorEntry
from onchip.ops.windows.sliding_windows import NoLayerError, Shape

ELEMENT_BY_ELEMENT: Final = frozenset(
    {"Abs", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg"}
    | {"Reciprocal", "Relu", "Selu", "Sigmoid", "Silu", "Softplus", "Sqrt", "Swish", "Tanh"}
    | {"Add", "Div", "Max", "Mean", "Min", "Mul", "Pow", "Sub", "Sum"}
    | {"QuantizeLinear", "DequantizeLinear", "PRelu", "BatchNormalization"}
)
_OF_TWO: Final = frozenset({"Add", "Div", "Mul", "Pow", "PRelu", "Sub"})
"""What they read beyond two operands an activation that was fused into them reads."""


@dataclass(frozen=True, slots=True)
class MetAxis:
    """One axis of a product, and which of the first operand, the second and the output have it."""

    size: int
    in_first: bool
    in_second: bool
    in_output: bool


def contraction(axes: Iterable[MetAxis]) -> Layer:
    """Axes of all three are groups, those added up C, those of the first operand N, of the second K.

    Raises NoLayerError where an axis of one operand alone is added up.
    """
    n = k = c = g = 1
    for axis in axes:
        match axis.in_first, axis.in_second, axis.in_output:
            case True, True, True:
                g *= axis.size
            case True, True, False:
                c *= axis.size
            case True, False, True:
                n *= axis.size
            case False, True, True:
                k *= axis.size
            case _ if axis.size > 1:
                raise NoLayerError("it adds up an axis of one operand alone")
    return Layer(n=n, k=k, c=c, g=g)


def nests_of(entry: OperatorEntry) -> Mapping[str, Layer]:
    """Return the loop nests of an entry of two factors; raises NoLayerError if an axis of one factor is added up."""
    if entry.stated:
        return entry.stated
    having = [{loop for one in entry.operands[place] for loop in one.terms} for place in (*entry.factors, 0)]
    axes = (MetAxis(size, *(loop in loops for loops in having)) for loop, size in entry.loops.items())
    return {"": contraction(axes)}


def _spread(first: Shape, second: Shape) -> list[MetAxis]:
    """The axes of two shapes that spread over each other, as ONNX does; raises NoLayerError where they do not."""
    axes = []
    for one, other in zip_longest(reversed(first), reversed(second), fillvalue=1):
        if one != other and 1 not in (one, other):
            raise NoLayerError("its operands do not spread over each other")
        if max(one, other) > 1:
            axes.append(MetAxis(max(one, other), one > 1, other > 1, in_output=True))
    return axes


def element_places(operator: Operator, shapes: Sequence[Shape]) -> list[int]:
    """Return where the operands that meet element by element stand, the larger first, the output at place 0.

    Single elements beside two operands are constants (the scales of quantised ones); of a normalisation by the
    statistics of a training the scale is met, to which all else has been reckoned. Raises NoLayerError where there is
    none, as of random numbers.
    """
    if len(shapes) < (3 if operator.kind == "BatchNormalization" else 2):
        raise NoLayerError("it reads less than its kind does")
    places = list(range(1, 3 if operator.kind == "BatchNormalization" else len(shapes)))
    several = [place for place in places if prod(shapes[place]) > 1]
    if operator.kind in _OF_TWO and len(several) > 2:
        places = several[:2]
    first, *others = sorted(places, key=lambda place: -prod(shapes[place]))
    if len(others) > 1:
        others = [place for place in others if prod(shapes[place]) > 1]
    return [first, *others]


def element_by_element(operator: Operator, shapes: Sequence[Shape]) -> Mapping[str, Layer]:
    """Each element of two operands meets one of the other: all loops are groups, so that no operand is used again.

    Of a smaller one each meets as many as there are rows, wherever they stand; a single element is a constant. Of two
    that spread over each other each element of the one meets those of the other's axes. Raises NoLayerError.
    """
    output = shapes[0]
    first, *others = (shapes[place] for place in element_places(operator, shapes))
    if len(others) > 1:
        raise NoLayerError("its operands are not one or two of the output's size")
    if prod(first) != prod(output):
        layer = contraction(_spread(first, others[0] if others else ()))
        if layer.macs != prod(output):
            raise NoLayerError("its operands are not one or two of the output's size")
        return {"": layer}
    if others and prod(others[0]) == prod(output):
        return {"": Layer(g=prod(output))}
    if not others or prod(others[0]) == 1:
        return {"": _of_one_operand(output)}
    if prod(output) % prod(others[0]):
        raise NoLayerError("its second operand does not spread over the output")
    return {"": Layer(n=prod(output) // prod(others[0]), g=prod(others[0]))}


def _of_one_operand(shape: Shape) -> Layer:
    """Channels as groups, and the last two of more than two dimensions as height and width."""
    batch, channels, *pixels = (*shape, 1, 1)[: max(len(shape), 2)]
    return Layer(n=batch, g=channels, p=prod(pixels[:-1]), q=pixels[-1] if pixels else 1, has_weight=False)


def _sized_terms(
    terms: Sequence[str], written: str, shapes: Sequence[Shape]
) -> tuple[Sequence[str], Mapping[str, int]]:
    """Return the terms in the order of the operands, and the size of each axis; raises NoLayerError if none fits.

    Parameters stand behind inputs, so operands may be listed in another order than terms.
    """
    output, *operands = shapes
    for listed in (terms, terms[::-1]):
        if [*map(len, listed)] == [*map(len, operands)]:
            axes = [pair for each in zip(listed, operands, strict=True) for pair in zip(*each, strict=True)]
            sizes = dict(axes)
            is_one_size = all(sizes[axis] == size for axis, size in axes)
            if is_one_size and set(written) <= set(sizes) and tuple(sizes[axis] for axis in written) == output:
                return listed, sizes
    raise NoLayerError("its operands are views of other shapes")


def einsum(operator: Operator, shapes: Sequence[Shape]) -> Mapping[str, Layer]:
    """Return the nest of one that is a product of two operands, or adds up one; raises NoLayerError for another."""
    equation = operator.attributes.get("equation")
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        raise NoLayerError("its equation does not name all axes")
    left, _, written = equation.replace(" ", "").partition("->")
    terms: Sequence[str] = left.split(",")
    if len(terms) > 2 or any(len(set(term)) < len(term) for term in terms):
        raise NoLayerError("it is no product of two operands")
    terms, sizes = _sized_terms(terms, written, shapes)
    if len(terms) == 1:
        kept = prod(sizes[axis] for axis in written)
        if kept == prod(shapes[1]):
            raise NoLayerError("it moves elements and multiplies none")
        return {"": Layer(g=kept, c=prod(shapes[1]) // kept, has_weight=False)}
    axes = (MetAxis(size, axis in terms[0], axis in terms[1], axis in written) for axis, size in sizes.items())
    return {"": contraction(axes)}
