"""Products of matrices and operators element by element as loop nests (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from onchip.ir.layer import Layer
from onchip.ir.region import Region
from onchip.verify.schedule.windows import Shape


class NoNest(Exception):  # noqa: N818 (no error: it says why an operator is no loop nest)
    """Why an operator is no loop nest."""


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
    if [size for size in left[:-2] if size > 1] != [size for size in right[:-2] if size > 1]:
        raise NoNest("batch")
    return (Layer(n=rows, c=depth, k=columns, g=batch),), 1, second


def element_by_element(shapes: Sequence[Shape], region: Region) -> Derived:
    """Of two operands all loops are groups; the smaller is weight, or a constant if one element. Raises NoNest.

    Of more, those of one element are constants (scales and zero points).
    """
    output, extents = shapes[0], tuple(stop - start for start, stop in region)
    largest, *others = sorted(range(1, len(shapes)), key=lambda place: -prod(shapes[place]))
    if len(others) > 1:
        others = [place for place in others if prod(shapes[place]) != 1]
    if prod(shapes[largest]) != prod(output) or len(others) > 1:
        raise NoNest("operands")
    smaller = prod(shapes[others[0]]) if others else 0
    if smaller == prod(output):
        return (Layer(g=prod(extents)),), largest, others[0]
    if smaller <= 1:
        batch, channels, *pixels = (*extents, 1, 1)[: max(len(extents), 2)]
        columns = pixels[-1] if pixels else 1
        return (Layer(n=batch, g=channels, p=prod(pixels[:-1]), q=columns, has_weight=False),), largest, None
    if prod(output) % smaller:
        raise NoNest("spread")
    return (Layer(n=prod(extents) // smaller, g=smaller),), largest, others[0]
