"""Products of matrices and operators element by element as loop nests (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from onchip.ir.layer import Layer
from onchip.ir.region import Region
from onchip.verify.schedule.windows import Shape


class NoNest(Exception):  # noqa: N818 (no error: it says why an operator is no loop nest)
    """Why an operator is no loop nest."""


OF_TWO_OPERANDS: Final = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "PRelu"})
Derived = tuple[tuple[Layer, ...], int, int | None]
"""The nests, and where the input and the weight stand among the operands, the output at place 0."""


def matrix(shapes: Sequence[Shape]) -> Derived:
    """A Gemm: rows N, columns K, features C, which the weight says. Raises NoNest where shapes do not fit."""
    output = shapes[0]
    weight = next((place for place in range(2, len(shapes)) if len(shapes[place]) > 1), None)
    if weight is None or not output or prod(shapes[weight]) % output[-1]:
        raise NoNest("weight")
    layer = Layer(n=prod(output[:-1]), k=output[-1], c=prod(shapes[weight]) // output[-1])
    if layer.n * layer.c > prod(shapes[1]):
        raise NoNest("view")
    return (layer,), 1, weight


def matrix_product(shapes: Sequence[Shape]) -> Derived:
    """Matrices that a batch shares are the weight, a batch of both is groups. Raises NoNest."""
    first = shapes[1]
    second = next((at for at in range(2, len(shapes)) if len(shapes[at]) > 1 or shapes[at] == first[-1:]), None)
    if second is None or not first:
        raise NoNest("matrices")
    left = (1, *first)
    right = (*shapes[second], 1) if len(shapes[second]) == 1 else shapes[second]
    if left[-1] != right[-2]:
        raise NoNest("features")
    batch, others = prod(left[:-2]), prod(right[:-2])
    rows, depth, columns = left[-2], left[-1], right[-1]
    if others == 1:
        return (Layer(n=batch * rows, c=depth, k=columns),), 1, second
    if batch == 1:
        return (Layer(n=others * columns, c=depth, k=rows),), second, 1
    alike = [size for size in left[:-2] if size > 1] == [size for size in right[:-2] if size > 1]
    if alike and batch * rows * columns == prod(shapes[0]):
        return (Layer(n=rows, c=depth, k=columns, g=batch),), 1, second
    of_first, of_second, shared = _spread(left[:-2], right[:-2])
    return (Layer(n=of_first * rows, c=depth, k=of_second * columns, g=shared),), 1, second


def element_by_element(kind: str, shapes: Sequence[Shape], region: Region) -> Derived:
    """Of two operands all loops are groups; the smaller is weight, or a constant if one element. Raises NoNest.

    Of more, those of one element are constants (scales and zero points); a kind of two operands does not meet what an
    activation fused into it reads, and a normalisation meets its input and its scale. Of two that spread over each
    other the larger has N, the smaller K.
    """
    output, extents = shapes[0], tuple(stop - start for start, stop in region)
    largest, *others = _met(kind, shapes)
    if len(others) > 1:
        raise NoNest("operands")
    smaller = prod(shapes[others[0]]) if others else 0
    if prod(shapes[largest]) != prod(output):
        if not others:
            raise NoNest("operands")
        whole = _spread(shapes[largest], shapes[others[0]])
        if prod(whole) != prod(output) or extents != output:
            raise NoNest("operands")
        return (Layer(n=whole[0], k=whole[1], g=whole[2]),), largest, others[0]
    if smaller == prod(output):
        return (Layer(g=prod(extents)),), largest, others[0]
    if smaller <= 1:
        batch, channels, *pixels = (*extents, 1, 1)[: max(len(extents), 2)]
        columns = pixels[-1] if pixels else 1
        return (Layer(n=batch, g=channels, p=prod(pixels[:-1]), q=columns, has_weight=False),), largest, None
    if prod(output) % smaller:
        raise NoNest("spread")
    met = _met_by(shapes[others[0]], output, extents)
    return (Layer(n=prod(extents) // met, g=met),), largest, others[0]


def _met_by(smaller: Shape, output: Shape, extents: Shape) -> int:
    """How many elements of the smaller operand a part of the output meets; all of a list, one for each channel."""
    along = len(output) - len(smaller)
    if len(smaller) == 1 or along < 0:
        return prod(smaller)
    sizes = zip(smaller, output[along:], extents[along:], strict=True)
    return prod(each if size == whole else size for size, whole, each in sizes)


def _met(kind: str, shapes: Sequence[Shape]) -> list[int]:
    """Where the operands stand that meet, the larger first."""
    if kind == "BatchNormalization":
        return [1, 2]
    larger = [place for place in range(1, len(shapes)) if prod(shapes[place]) != 1]
    if kind in OF_TWO_OPERANDS:
        larger = larger[:2]
    if len(larger) > 1:
        return sorted(larger, key=lambda place: -prod(shapes[place]))
    return sorted(range(1, len(shapes)), key=lambda place: -prod(shapes[place]))[: 1 + (len(shapes) == 3)]


def _spread(first: Shape, second: Shape) -> tuple[int, int, int]:
    """How many elements of axes the first shape has alone, the second alone, and both. Raises NoNest."""
    rank = max(len(first), len(second))
    alone, others, shared = 1, 1, 1
    for at in range(1, rank + 1):
        one = first[-at] if at <= len(first) else 1
        other = second[-at] if at <= len(second) else 1
        if one == other:
            shared *= one
        elif other == 1:
            alone *= one
        elif one == 1:
            others *= other
        else:
            raise NoNest("spread")
    return alone, others, shared


def einsum(equation: object, shapes: Sequence[Shape]) -> Derived:
    """A letter of both operands and the output is a group; of both alone it is added up. Raises NoNest."""
    text = equation.replace(" ", "") if isinstance(equation, str) else ""
    terms, _, written = text.partition("->")
    letters = terms.split(",")
    lengths = [len(set(term)) for term in letters]
    if "->" not in text or "." in text or lengths != [len(shape) for shape in shapes[1:]] or len(letters) > 2:
        raise NoNest("equation")
    if any(len(term) != length for term, length in zip(letters, lengths, strict=True)):
        raise NoNest("equation")
    sizes: dict[str, int] = {}
    for term, shape in zip(letters, shapes[1:], strict=True):
        sizes |= zip(term, shape, strict=True)
    if len(letters) == 1:
        added = prod(size for letter, size in sizes.items() if letter not in written)
        if added == 1:
            raise NoNest("moves")
        return (Layer(g=prod(shapes[0]), c=added, has_weight=False),), 1, None
    first, second, output = set(letters[0]), set(letters[1]), set(written)
    if any(sizes[letter] > 1 for letter in (first ^ second) - output):
        raise NoNest("adds up")
    n, k, c, g = (
        prod(sizes[letter] for letter in group)
        for group in (first - second, second - first, (first & second) - output, first & second & output)
    )
    return (Layer(n=n, k=k, c=c, g=g),), 1, 2
