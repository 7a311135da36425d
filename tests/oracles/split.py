"""Operators in tiles, coordinate by coordinate: the elements that each output element reads, and the tiles' regions.

Written from docs/tiling.md and the operators' definitions; nothing is shared with the code that splits. All operators
here are separable: the coordinates read of an operand's dimension depend on one axis of the output (or the reduced
axis), or are all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

Shape = tuple[int, ...]
Range = tuple[int, int]
Box = tuple[Range, ...]
"""Half-open ranges."""
Tile = tuple[Range, ...]
"""A range of each axis."""


@dataclass(frozen=True)
class Dimension:
    """A dimension of an operand: all of it is read (`axis` None), or the `taps` of a position on the axis.

    Taps may be outside of the dimension: in the padding, or in another operand of a concatenation.
    """

    size: int
    axis: int | None = None
    taps: Callable[[int], Sequence[int]] = lambda at: (at,)

    def needed(self, places: Range) -> set[int]:
        """Return the coordinates that positions of an axis read."""
        if self.axis is None:
            return set(range(self.size))
        return {tap for at in range(*places) for tap in self.taps(at) if 0 <= tap < self.size}

    def taken(self, places: Range, axis_size: int) -> Range:
        """Return the range of a tile: from its first tap to its last, and at least to the next tile's first tap."""
        if self.axis is None:
            return 0, self.size
        first = min(self.taps(places[0]))
        last = max(self.taps(places[1] - 1))
        following = self.size if places[1] == axis_size else min(self.taps(places[1]))
        start = min(max(first, 0), self.size)
        return start, max(start, min(max(last + 1, following), self.size))


@dataclass(frozen=True)
class Operand:
    """A tensor that an operator reads or writes; its kind is `input`, `weight` or `output`."""

    name: str
    kind: str
    dimensions: tuple[Dimension, ...]

    def box(self, tile: Tile, axes: Shape) -> Box | None:
        """Return the region that a tile takes, or None if it is empty."""
        ranges = tuple(
            (0, one.size) if one.axis is None else one.taken(tile[one.axis], axes[one.axis]) for one in self.dimensions
        )
        return ranges if all(start < stop for start, stop in ranges) else None

    def elements(self, tile: Tile) -> set[Shape]:
        """Return the elements that a tile actually reads."""
        needed = [one.needed((0, 0) if one.axis is None else tile[one.axis]) for one in self.dimensions]
        return set(product(*needed))


@dataclass(frozen=True)
class Separable:
    """An operator: the sizes of its axes, True if the last one is reduced, and its operands."""

    axes: Shape
    is_summed: bool
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]


Facts = dict[str, Any]


def separable(operator: Facts, tensors: dict[str, Facts]) -> Separable | None:
    """Return an operator of a graph file as axes and operands, or None if it cannot be split."""
    shapes = {name: tuple(tensor["shape"]) for name, tensor in tensors.items()}
    reads = [*operator["inputs"], *operator.get("parameters", [])]
    given = [shapes[name] for name in reads]
    written = [shapes[name] for name in operator["outputs"]]
    attributes = operator.get("attributes", {})
    makers = {"Conv": _convolution, "MaxPool": _pool, "AveragePool": _pool, "GlobalAveragePool": _global_pool}
    makers |= {"Gemm": _gemm, "MatMul": _matmul, "Concat": _joined, "Split": _parted, "Transpose": _transposed}
    makers |= {"BatchNormalization": _normalised, "LayerNormalization": _rows, "Hardmax": _rows}
    makers |= dict.fromkeys(("Add", "Mul", "Max", "Sub", "Relu", "Sigmoid", "Identity"), _elementwise)
    if operator["kind"] not in makers or any(tensors[name]["bits"] % 8 for name in (*reads, *operator["outputs"])):
        return None
    if operator["kind"] == "MatMul" and operator.get("parameters") and given[0] == given[1] != (1, 1):
        return None  # two square matrices: either may be the left factor
    axes, read, wrote, is_summed = makers[operator["kind"]](given, written, attributes)
    named = [
        Operand(name, "weight" if tensors[name]["role"] == "parameter" else "input", tuple(dimensions))
        for name, dimensions in zip(reads, read, strict=True)
    ]
    outputs = [
        Operand(name, "output", tuple(dimensions)) for name, dimensions in zip(operator["outputs"], wrote, strict=True)
    ]
    return Separable(tuple(axes), is_summed, tuple(named), tuple(outputs))


Made = tuple[Sequence[int], list[list[Dimension]], list[list[Dimension]], bool]


def _alike(shape: Shape) -> list[Dimension]:
    return [Dimension(size, axis) for axis, size in enumerate(shape)]


def _broadcast(shape: Shape, written: Shape) -> list[Dimension]:
    missing = len(written) - len(shape)
    return [Dimension(size, None if size == 1 < written[at] else at) for at, size in enumerate(shape, start=missing)]


def _elementwise(given: list[Shape], written: list[Shape], attributes: Facts) -> Made:
    return written[0], [_broadcast(shape, written[0]) for shape in given], [_alike(written[0])], False


def _normalised(given: list[Shape], written: list[Shape], attributes: Facts) -> Made:
    channels = [[Dimension(shape[0], 1)] for shape in given[1:]]
    return written[0], [_alike(given[0]), *channels], [_alike(written[0])], False


def _rows(given: list[Shape], written: list[Shape], attributes: Facts) -> Made:
    """Return a normalisation, never cut from `axis` on; scale and shift have the normalised dimensions."""
    axis = attributes.get("axis", -1) % len(written[0])
    axes = [size if at < axis else 1 for at, size in enumerate(written[0])]

    def uncut(shape: Shape) -> list[Dimension]:
        return [Dimension(size, at if at < axis else None) for at, size in enumerate(shape)]

    return axes, [uncut(given[0]), *(list(map(Dimension, shape)) for shape in given[1:])], [uncut(written[0])], False


def _window(size: int, axis: int, kernel: int, stride: int, dilation: int, pad: int) -> Dimension:
    return Dimension(size, axis, lambda at: [at * stride - pad + tap * dilation for tap in range(kernel)])


def _pixels(kernel: Sequence[int], sizes: Shape, attributes: Facts) -> list[Dimension]:
    strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    each = zip(sizes, (2, 3), kernel, strides, dilations, attributes.get("pads", [0] * 4)[:2], strict=True)
    return [_window(*one) for one in each]


def _convolution(given: list[Shape], written: list[Shape], attributes: Facts) -> Made:
    source, weight = given[:2]
    groups, depth = attributes.get("group", 1), weight[1]
    is_summed = groups == 1 and depth > 1
    axes = (*written[0], *([depth] if is_summed else []))
    summed = 4 if is_summed else None
    channels = Dimension(source[1], summed)
    if groups > 1:
        members = weight[0] // groups
        channels = Dimension(source[1], 1, lambda at: range(at // members * depth, (at // members + 1) * depth))
    read = [[Dimension(source[0], 0), channels, *_pixels(weight[2:], source[2:], attributes)]]
    read.append([Dimension(weight[0], 1), Dimension(depth, summed), *map(Dimension, weight[2:])])
    read += [[Dimension(shape[0], 1)] for shape in given[2:]]
    return axes, read, [_alike(written[0])], is_summed


def _pool(given: list[Shape], written: list[Shape], attributes: Facts) -> Made:
    source = given[0]
    pixels = _pixels(attributes["kernel_shape"], source[2:], attributes)
    return written[0], [[*_alike(source[:2]), *pixels]], [_alike(written[0])], False


def _global_pool(given: list[Shape], written: list[Shape], attributes: Facts) -> Made:
    """Return a global pool, whose rows are reduced in parts."""
    source = given[0]
    summed = 4 if source[2] > 1 else None
    read = [[*_alike(source[:2]), Dimension(source[2], summed), *map(Dimension, source[3:])]]
    return (*written[0], *([source[2]] if summed else [])), read, [_alike(written[0])], summed is not None


def _gemm(given: list[Shape], written: list[Shape], attributes: Facts) -> Made:
    """Return a Gemm, reduced in parts along the first dimension after the rows that is longer than 1."""
    source = given[0]
    unit = next((at for at in range(1, len(source)) if source[at] > 1), 1)
    is_summed, deep = source[unit] > 1, prod(source[unit + 1 :])
    summed = 2 if is_summed else None
    features = Dimension(prod(source[1:]), summed, lambda at: range(at * deep, (at + 1) * deep))
    matrix = [features, Dimension(written[0][1], 1)]
    read = [
        [Dimension(source[0], 0), *(Dimension(n, summed if at == unit else None) for at, n in enumerate(source) if at)]
    ]
    is_transposed = attributes.get("transB", given[1] == (written[0][1], prod(source[1:])))
    read += [matrix[::-1] if is_transposed else matrix]
    read += [_broadcast(shape, written[0]) for shape in given[2:]]
    return (*written[0], *([source[unit]] if is_summed else [])), read, [_alike(written[0])], is_summed


def _matmul(given: list[Shape], written: list[Shape], attributes: Facts) -> Made:
    (rows, features), (_, columns) = given
    summed = 2 if features > 1 else None
    read = [[Dimension(rows, 0), Dimension(features, summed)], [Dimension(features, summed), Dimension(columns, 1)]]
    return (rows, columns, *([features] if summed else [])), read, [_alike(written[0])], summed is not None


def _shifted(before: int) -> Callable[[int], Sequence[int]]:
    return lambda at: (at - before,)


def _joined(given: list[Shape], written: list[Shape], attributes: Facts) -> Made:
    axis, offset, read = attributes["axis"], 0, []
    for shape in given:
        dimensions = _alike(shape)
        dimensions[axis] = Dimension(shape[axis], axis, _shifted(offset))
        read.append(dimensions)
        offset += shape[axis]
    return written[0], read, [_alike(written[0])], False


def _parted(given: list[Shape], written: list[Shape], attributes: Facts) -> Made:
    axis = attributes["axis"]

    def uncut(shape: Shape) -> list[Dimension]:
        return [Dimension(size, None if at == axis else at) for at, size in enumerate(shape)]

    axes = [1 if at == axis else size for at, size in enumerate(given[0])]
    return axes, [uncut(given[0])], [uncut(shape) for shape in written], False


def _transposed(given: list[Shape], written: list[Shape], attributes: Facts) -> Made:
    order = attributes["perm"]
    return (
        written[0],
        [[Dimension(size, order.index(at)) for at, size in enumerate(given[0])]],
        [_alike(written[0])],
        False,
    )


def tile_sizes(size: int) -> list[int]:
    """Return ceil(size / count) for every count."""
    return sorted({-(-size // count) for count in range(1, size + 1)})


def tiles_of(axes: Shape, sizes: Shape) -> Iterator[Tile]:
    """Yield every tile."""
    pieces = [
        [(start, min(start + step, size)) for start in range(0, size, step)]
        for size, step in zip(axes, sizes, strict=True)
    ]
    yield from product(*pieces)
