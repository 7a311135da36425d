"""Integer arithmetic modulo 2^bits for operators: any region of their outputs, and partial sums.

Sums modulo a power of two are independent of their order, so a tiled network gives the values of the network, bit for
bit. A nonlinear operator is some function of an element, or the maximum of several.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError
from onchip.ir.operator import VIEWS, Operator
from onchip.ir.tensor import Tensor
from onchip.ir.tile import Range, Region, Tile, whole_region
from onchip.ir.window import Shape, integer, integers, product_of, windows_of
from onchip.ops.entries import ELEMENTWISE
from onchip.ops.slicing import Geometry, Span
from onchip.simulate.kernel_protocol import Bytes
from onchip.transform.slices.bands import place_of, slices

Integers: TypeAlias = npt.NDArray[np.uint64]

ELEMENTS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
"""The type of an element by its bits; other widths have no arithmetic."""


@dataclass(frozen=True, slots=True)
class RegionValues:
    """The values of a region of the tensor `name` of whole shape `shape`, with `bits` per element."""

    name: str
    shape: tuple[int, ...]
    bits: int
    region: Region
    values: Integers

    @classmethod
    def of_bands(cls, name: str, shape: tuple[int, ...], bands: Sequence[tuple[Tensor, Bytes]]) -> RegionValues:
        """Return the smallest region around all tiles, zero between them."""
        regions = [place_of(tensor)[1] for tensor, _ in bands]
        region = tuple((min(r[0] for r in ranges), max(r[1] for r in ranges)) for ranges in zip(*regions, strict=True))
        values = np.zeros([stop - start for start, stop in region], np.uint64)
        for (tensor, content), each in zip(bands, regions, strict=True):
            values[slices(each, region)] = elements(tensor, content)
        return cls(name, shape, bands[0][0].bits or 0, region, values)

    def window(self, wanted: Sequence[Range]) -> Integers:
        """Return the values of a region, which are zero outside the tensor.

        Raises GraphError if the region includes an unavailable part of the tensor.
        """
        inside = tuple(
            (min(max(start, 0), size), max(0, min(stop, size)))
            for (start, stop), size in zip(wanted, self.shape, strict=True)
        )
        found = np.zeros([stop - start for start, stop in wanted], np.uint64)
        if any(start >= stop for start, stop in inside):
            return found
        if any(start < first or stop > last for (start, stop), (first, last) in zip(inside, self.region, strict=True)):
            raise GraphError(
                f"{list(inside)} is read, and only {list(self.region)} is there",
                place=f"tensor {self.name!r}",
                expected="bands of all that is read",
            )
        found[slices(inside, tuple(wanted))] = self.values[slices(inside, self.region)]
        return found


def elements(tensor: Tensor, content: Bytes) -> npt.NDArray[np.unsignedinteger]:
    """Return a tensor's bytes as elements, in its shape."""
    return content.view(ELEMENTS[tensor.bits or 0]).reshape(tensor.shape or ())


def band_of(tensor: Tensor, region: Region, values: Integers) -> Bytes:
    """Return the bytes of a tile, extracted from the values of a region."""
    cut = values[slices(place_of(tensor)[1], region)]
    return np.ascontiguousarray(cut.astype(ELEMENTS[tensor.bits or 0])).reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class Call:
    """A region of an operator's output: the operator, the tile, and the available part of each operand.

    `parts` has an entry for each operand in the operator's order, None for an operand that is not read.
    """

    operator: Operator
    tile: Tile
    parts: tuple[RegionValues | None, ...]
    bits: int
    geometry: Geometry | None = None

    @property
    def region(self) -> Region:
        """Return the region of the first output that the call computes."""
        return self.tile.regions[0]

    @cached_property
    def written(self) -> tuple[int, ...]:
        """Return the whole shape of the first output."""
        return self.tile.shape[self.tile.outputs[0]]

    @property
    def has_views(self) -> bool:
        """Return True if an operand is read in another shape than its stored shape."""
        return not VIEWS.isdisjoint(self.operator.attributes)

    @property
    def is_broadcast(self) -> bool:
        """Return True if every operand broadcasts to the output by ONNX's rule."""
        shapes = self.tile.shapes[: len(self.parts)]
        aligned = (zip(shape[::-1], self.written[::-1], strict=False) for shape in shapes)
        is_short = all(len(shape) <= len(self.written) for shape in shapes)
        return not self.has_views and is_short and all(size in (1, of) for one in aligned for size, of in one)

    def part(self, index: int) -> RegionValues:
        """Return the values of an operand; an empty region, zero everywhere, if it is not read."""
        found = self.parts[index]
        if found is None:
            shape = self.tile.shapes[index]
            return RegionValues(
                "", shape, self.bits, tuple((0, 0) for _ in shape), np.zeros([0] * len(shape), np.uint64)
            )
        return found

    def along_output(self, index: int, *, channels: bool = False) -> Integers:
        """Return an operand's values for the region, broadcast by ONNX's rule, or one element per channel."""
        part = self.part(index)
        if channels and len(self.written) > 1 and part.shape == (self.written[1],):
            values = part.window(self.region[1:2])
            return values.reshape(-1, *(1,) * (len(self.written) - 2))
        missing = len(self.written) - len(part.shape)
        ranges = [
            self.region[at] if size == self.written[at] else (0, 1) for at, size in enumerate(part.shape, start=missing)
        ]
        return part.window(ranges)

    def with_further_operands(self, values: Integers, first: int) -> Integers:
        """Add a bias, or the operand of a fused activation; only to the first part of a sum."""
        if self.tile.part.adds_to_a_sum:
            return values
        for index in range(first, len(self.parts)):
            values = values + self.along_output(index, channels=True)
        return values


_ODD = np.uint64(0x9E37)


def ranges_of_axes(axes: int, regions: Sequence[Region], writes: Sequence[Sequence[Span]]) -> Region:
    """Return the range of each axis from the written regions; axes without a written dimension have one element."""
    ranges = {
        span.axis: each
        for region, spans in zip(regions, writes, strict=True)
        for each, span in zip(region, spans, strict=True)
        if span.axis is not None
    }
    return tuple(ranges.get(axis, (0, 1)) for axis in range(axes))


def spread(values: Integers, region: Region, spans: Sequence[Span]) -> Integers:
    """Return the values of axes as a tensor, repeated along its dimensions without an axis."""
    along = [span.axis for span in spans if span.axis is not None]
    others = tuple(axis for axis in range(values.ndim) if axis not in along)
    moved = values.squeeze(others).transpose([sorted(along).index(axis) for axis in along])
    sizes = iter(moved.shape)
    shaped = moved.reshape([1 if span.axis is None else next(sizes) for span in spans])
    return np.broadcast_to(shaped, [stop - start for start, stop in region]).copy()


def placed_sum(region: Region, operands: Sequence[tuple[RegionValues, Sequence[Span]]]) -> Integers:
    """Return for each element of the region a sum of its inputs in every operand, located by the spans.

    An element's sum does not depend on the region, because it uses only its own ranges.
    """
    total = np.zeros([stop - start for start, stop in region], np.uint64)
    for part, spans in operands:
        total = total * _ODD + _along_axes(_needed(region, part, spans), spans, len(region))
    return total


def _needed(region: Region, part: RegionValues, spans: Sequence[Span]) -> Integers:
    """Return per dimension the sum of the inputs of each position along its axis; one element without an axis."""
    ranges = [_span_ranges(span, region) for span in spans]
    lows = [min(low for low, _ in each) for each in ranges]
    values = part.window([(low, max(high for _, high in each)) for low, each in zip(lows, ranges, strict=True)])
    for dimension, (first, each) in enumerate(zip(lows, ranges, strict=True)):
        taken = [values.take(range(low - first, high - first), dimension) for low, high in each]
        sums = [one.sum(axis=dimension, keepdims=True, dtype=np.uint64) for one in taken]
        values = np.concatenate(sums, dimension)
    return values


def _span_ranges(span: Span, region: Region) -> list[Range]:
    if span.axis is None:
        return [(0, span.size)]
    firsts = (at // span.per * span.step + span.offset for at in range(*region[span.axis]))
    return [(first, first + span.extent) for first in firsts]


def _along_axes(values: Integers, spans: Sequence[Span], axes: int) -> Integers:
    """Return an operand with its dimensions in the order of the output's axes, without dimensions that have no axis."""
    place = {span.axis: at for at, span in enumerate(spans) if span.axis is not None}
    without = [at for at, span in enumerate(spans) if span.axis is None]
    moved = values.transpose([*(place[axis] for axis in sorted(place)), *without])
    return moved.reshape([values.shape[place[axis]] if axis in place else 1 for axis in range(axes)])


Limbs: TypeAlias = Sequence[npt.NDArray[np.float64]]
_LIMB_BITS = 16
_MOST_IN_A_BLOCK = 2**18
_MOST_ROWS = 64
_MOST_TERMS = 1024  # far below the 2^21 products of limbs that double precision sums without rounding
_FACTOR = 0x9E3779B97F4A7C15

CONTRACTIONS: Final = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


def computed(call: Call) -> tuple[Integers, ...]:
    """Return the values of each output's region, or a partial sum, before any fused activation."""
    kind = call.operator.kind
    if kind in CONTRACTIONS and not call.has_views and not has_factors_in_front(kind, call.tile.shapes, call.written):
        return (masked(_contraction(call), call.bits),)
    is_reshaped = call.operator.kind == "BatchNormalization" and call.tile.shapes[0] != call.written
    if call.operator.kind in _COMPUTE and not call.has_views and not is_reshaped:
        return (masked(_COMPUTE[call.operator.kind](call), call.bits),)
    if call.operator.kind == "Split" and not call.has_views:
        return _split(call)
    if call.geometry is not None and call.geometry.reduction is not None:
        return (masked(_reduction(call, call.geometry), call.bits),)
    if call.operator.kind in ELEMENTWISE and call.is_broadcast:
        return (masked(_elementwise(call), call.bits),)
    return _placed(call)


def has_factors_in_front(kind: str, shapes: Sequence[Shape], written: Shape) -> bool:
    """Return True if the first two operands are the factors of the contraction, in multiplication order.

    Scales, zero points or a shape may be between them, and a constant left factor follows the right one.
    """
    if len(shapes) < 2:
        return False
    source, weight = shapes[:2]
    match kind:
        case "Gemm":
            return len(weight) == 2
        case "MatMul":
            matrices = min(len(source), len(weight), len(written)) >= 2
            return matrices and (source[-2], weight[-1], source[-1]) == (*written[-2:], weight[-2])
    return len(source) == len(weight) == len(written)


def _convolution(call: Call) -> Integers:
    source, weight = call.part(0), call.part(1)
    groups = integer(call.operator, "group", 1)
    batch, channels, *pixels = call.region
    columns, depth = weight.shape[0] // groups, weight.shape[1]
    first, last = channels[0] // columns, (channels[1] - 1) // columns + 1
    read = (call.tile.reduction or (0, depth)) if groups == 1 else (first * depth, last * depth)
    within = read if groups == 1 else (0, depth)
    windows = windows_of(call.operator, weight.shape[2:], source.shape[2:], call.written[2:])
    seen: list[Range] = [
        (start * window.stride - window.pad, (stop - 1) * window.stride - window.pad + window.reach)
        for (start, stop), window in zip(pixels, windows, strict=True)
    ]
    image = source.window((batch, read, *seen))
    kernel = np.zeros(((last - first) * columns, within[1] - within[0], *weight.shape[2:]), np.uint64)
    kernel[channels[0] - first * columns : channels[1] - first * columns] = weight.window(
        (channels, within, *whole_region(weight.shape[2:]))
    )
    image_limbs = limbs(image, source.bits)
    by_offset = np.moveaxis(kernel.reshape(last - first, columns, *kernel.shape[1:]), (0, 1, 2), (-3, -2, -1))
    kernel_limbs = limbs(np.ascontiguousarray(by_offset), weight.bits)
    sizes = [stop - start for start, stop in pixels]
    total = np.zeros((image.shape[0], last - first, columns, int(np.prod(sizes))), np.uint64)
    for offsets in product(*(range(window.kernel) for window in windows)):
        taken = tuple(
            slice(offset * window.dilation, offset * window.dilation + (size - 1) * window.stride + 1, window.stride)
            for offset, window, size in zip(offsets, windows, sizes, strict=True)
        )
        shape = (image.shape[0], last - first, within[1] - within[0], -1)
        total += product_of_limbs(
            [each[offsets] for each in kernel_limbs],
            [each[(slice(None), slice(None), *taken)].reshape(shape) for each in image_limbs],
        )
    values = total.reshape(image.shape[0], -1, *sizes)
    chosen = values[:, channels[0] - first * columns : channels[1] - first * columns]
    return call.with_further_operands(chosen, 2)


def _pool(call: Call) -> Integers:
    """Return the maximum of each window, with minimum padding, or a multiple of its sum for an average."""
    source = call.part(0)
    batch, channels, *pixels = call.region
    kernel = integers(call.operator, "kernel_shape", (1,) * len(pixels))
    windows = windows_of(call.operator, kernel, source.shape[2:], call.written[2:])
    seen: list[Range] = [
        (start * window.stride - window.pad, (stop - 1) * window.stride - window.pad + window.reach)
        for (start, stop), window in zip(pixels, windows, strict=True)
    ]
    image = source.window((batch, channels, *seen))
    total = np.zeros([stop - start for start, stop in call.region], np.uint64)
    for offsets in product(*map(range, kernel)):
        taken = tuple(
            slice(
                offset * window.dilation,
                offset * window.dilation + (stop - start - 1) * window.stride + 1,
                window.stride,
            )
            for offset, window, (start, stop) in zip(offsets, windows, pixels, strict=True)
        )
        here = image[(slice(None), slice(None), *taken)]
        total = np.maximum(total, here) if call.operator.kind == "MaxPool" else total + here
    return total if call.operator.kind == "MaxPool" else total * _ODD


def _global_pool(call: Call) -> Integers:
    source = call.part(0)
    rows = call.tile.reduction or (0, source.shape[2])
    image = source.window((*call.region[:2], rows, *whole_region(source.shape[3:])))
    axes = tuple(range(2, image.ndim))
    if call.operator.kind == "GlobalMaxPool":
        return np.asarray(image.max(axis=axes, keepdims=True), np.uint64)
    return np.asarray(image.sum(axis=axes, keepdims=True, dtype=np.uint64) * _ODD, np.uint64)


def _reduction(call: Call, geometry: Geometry) -> Integers:
    """Return the sum for any kind of reduction, so that parts add up."""
    source, spans = call.part(0), geometry.reads[0].spans
    ranges = list(call.region)
    if geometry.reduction is not None:
        ranges.append(call.tile.reduction or (0, geometry.axes[geometry.reduction].size))
    image = source.window([(0, span.size) if span.axis is None else ranges[span.axis] for span in spans])
    reduced = tuple(at for at, span in enumerate(spans) if span.axis in (None, geometry.reduction))
    return np.asarray(
        image.sum(axis=reduced, dtype=np.uint64).reshape([stop - start for start, stop in call.region]), np.uint64
    )


def _contraction(call: Call) -> Integers:
    """Return the sum over the reduction of a mixture of all operands at each position."""
    geometry = call.geometry or Geometry((), (), ())
    reduction = geometry.reduction
    if reduction is None:
        values = placed_sum(_ranges(call, geometry), _operands(call, geometry))
    else:
        summed = call.tile.reduction or (0, geometry.axes[reduction].size)
        ranges = tuple(summed if axis == reduction else one for axis, one in enumerate(_ranges(call, geometry)))
        each = placed_sum(ranges, _operands(call, geometry))
        values = np.asarray(each.sum(axis=reduction, keepdims=True, dtype=np.uint64), np.uint64)
    return spread(values, call.region, geometry.writes[0].spans)


def _ranges(call: Call, geometry: Geometry) -> Region:
    return ranges_of_axes(len(geometry.axes), call.tile.regions, [one.spans for one in geometry.writes])


def _operands(call: Call, geometry: Geometry) -> list[tuple[RegionValues, Sequence[Span]]]:
    """Return the values of each operand, and its layout along the axes."""
    spans = {one.tensor: one.spans for one in geometry.reads}
    read = enumerate((*call.operator.inputs, *call.operator.parameters))
    return [(call.part(index), spans[name]) for index, name in read]


def _gemm(call: Call) -> Integers:
    source, weight = call.part(0), call.part(1)
    layout = product_of(call.operator, source.shape, weight.shape, call.written, is_model=False)
    if layout is None:
        return np.zeros([stop - start for start, stop in call.region], np.uint64)
    *rows, columns = call.region
    features = weight.shape[int(layout.is_weight_transposed)]
    units = call.tile.reduction or (0, features // layout.features_per_unit)
    read = (units[0] * layout.features_per_unit, units[1] * layout.features_per_unit)
    if layout.is_flat:
        cut = [units if at == layout.unit else (0, size) for at, size in enumerate(source.shape)]
        matrix = source.window((*rows, *cut[1:])).reshape(rows[0][1] - rows[0][0], -1)
    elif layout.is_source_transposed:
        matrix = source.window((read, *rows)).T
    else:
        matrix = source.window((*rows, read))
    window = weight.window((columns, read)).T if layout.is_weight_transposed else weight.window((read, columns))
    flat = matrix.reshape(-1, matrix.shape[-1])
    values = product_of_limbs(limbs(flat, source.bits), limbs(window, weight.bits))
    return call.with_further_operands(values.reshape([stop - start for start, stop in call.region]), 2)


def _matmul(call: Call) -> Integers:
    one, other = call.part(0), call.part(1)
    features = call.tile.reduction or (0, one.shape[-1])
    *batch, rows, columns = call.region

    def batches(part: RegionValues) -> list[Range]:
        missing = len(call.written) - len(part.shape)
        sizes = enumerate(part.shape[:-2], start=missing)
        return [batch[at] if size == call.written[at] else (0, 1) for at, size in sizes]

    left = one.window((*batches(one), rows, features))
    right = other.window((*batches(other), features, columns))
    return product_of_limbs(limbs(left, one.bits), limbs(right, other.bits))


def _elementwise(call: Call) -> Integers:
    """Return sums, products, maxima and minima, or a mixture that depends on the kind for all other kinds."""
    kind = call.operator.kind
    shape = [stop - start for start, stop in call.region]
    values = np.broadcast_to(call.along_output(0), shape)
    for index in range(1, len(call.parts)):
        combine = _COMBINE.get(kind, _combine_otherwise)
        values = combine(values, call.along_output(index))
    return values if kind in {*_COMBINE, "Identity"} else mixed(values, call.bits, kind)


def _combine_otherwise(values: Integers, further: Integers) -> Integers:
    return (values * _ODD) ^ further


_COMBINE: Mapping[str, Callable[[Integers, Integers], Integers]] = {
    "Add": np.add,
    "Sum": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
}


def _batch_normalization(call: Call) -> Integers:
    """Multiply by, and then add, each parameter in turn; the scale is odd, so that no value is lost."""
    values = call.along_output(0)
    for index in range(1, len(call.parts)):
        parameter = call.along_output(index, channels=True)
        values = values * (parameter | np.uint64(1)) + parameter
    return values


def _concat(call: Call) -> Integers:
    axis = integer(call.operator, "axis", 0) % len(call.written)
    start, stop = call.region[axis]
    offset, found = 0, []
    for index, shape in enumerate(call.tile.shapes[: len(call.parts)]):
        low, high = max(start - offset, 0), min(stop - offset, shape[axis])
        if low < high:
            ranges = (*call.region[:axis], (low, high), *call.region[axis + 1 :])
            found.append(call.part(index).window(ranges))
        offset += shape[axis]
    return np.concatenate(found, axis)


def _split(call: Call) -> tuple[Integers, ...]:
    source = call.part(0)
    axis = integer(call.operator, "axis", 0) % len(source.shape)
    offset, found = 0, []
    for region, name in zip(call.tile.regions, call.tile.outputs, strict=True):
        start, stop = region[axis]
        found.append(source.window((*region[:axis], (start + offset, stop + offset), *region[axis + 1 :])))
        offset += call.tile.shape[name][axis]
    return tuple(found)


def _transpose(call: Call) -> Integers:
    source = call.part(0)
    order = integers(call.operator, "perm", tuple(range(len(source.shape)))[::-1])
    return source.window([call.region[order.index(at)] for at in range(len(order))]).transpose(order)


def _placed(call: Call) -> tuple[Integers, ...]:
    """Return, for a kind known only by its geometry, a mixture of all inputs of each element."""
    geometry = call.geometry or Geometry((), (), ())
    written = [one.spans for one in geometry.writes]
    values = placed_sum(_ranges(call, geometry), _operands(call, geometry))
    found = zip(call.tile.regions, written, ("", *map(str, range(1, len(written)))), strict=True)
    return tuple(
        mixed(spread(values, region, along), call.bits, f"{call.operator.kind}{number}")
        for region, along, number in found
    )


_COMPUTE: Mapping[str, Callable[[Call], Integers]] = {
    "Conv": _convolution,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalMaxPool": _global_pool,
    "GlobalAveragePool": _global_pool,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "BatchNormalization": _batch_normalization,
    "Concat": _concat,
    "Transpose": _transpose,
}


def limbs(values: Integers, bits: int) -> Limbs:
    """Return the digits in base 2^16, lowest first."""
    count = -(-bits // _LIMB_BITS)
    mask = np.uint64(2**_LIMB_BITS - 1)
    return [((values >> np.uint64(_LIMB_BITS * place)) & mask).astype(np.float64) for place in range(count)]


def product_of_limbs(one: Limbs, other: Limbs) -> Integers:
    """Return the matrix product modulo 2^64, computed by floating-point products, which are fast and exact here."""
    shape = np.broadcast_shapes(one[0].shape[:-2], other[0].shape[:-2])
    total = np.zeros((*shape, one[0].shape[-2], other[0].shape[-1]), np.uint64)
    for rows, terms, columns in _blocks(one[0].shape[-2], one[0].shape[-1], other[0].shape[-1]):
        block = total[..., rows, columns]
        for low, a in enumerate(one):
            for high, b in enumerate(other):
                if low + high < 64 // _LIMB_BITS:
                    part = np.matmul(a[..., rows, terms], b[..., terms, columns]).astype(np.uint64)
                    block += part << np.uint64(_LIMB_BITS * (low + high))
    return total


def _blocks(rows: int, terms: int, columns: int) -> Iterator[tuple[slice, slice, slice]]:
    """Yield blocks of a matrix product with about `_MOST_IN_A_BLOCK` multiplications at most.

    BLAS computes these on one thread. While other work keeps the cores busy, threads that wait for each other take ten
    times as long.
    """
    most_rows, most_terms = min(rows, _MOST_ROWS), min(terms, _MOST_TERMS)
    most_columns = max(1, _MOST_IN_A_BLOCK // max(1, most_rows * most_terms))
    return product(_pieces(rows, most_rows), _pieces(terms, most_terms), _pieces(columns, most_columns))


def _pieces(size: int, most: int) -> list[slice]:
    return [slice(start, min(start + most, size)) for start in range(0, size, max(most, 1))]


def masked(values: Integers, bits: int) -> Integers:
    """Return the values modulo 2^bits, element by element."""
    return values & np.uint64(2**bits - 1)


def mixed(values: Integers, bits: int, salt: str) -> Integers:
    """Return a bijection of the integers of `bits` bits, which depends on the salt."""
    half = np.uint64(bits // 2)
    number = zlib.crc32(salt.encode()) * _FACTOR % 2**64
    values = masked(values + np.uint64(number), bits)
    for factor in (_FACTOR, number):
        values = masked((values ^ (values >> half)) * np.uint64(factor | 1), bits)
    return values ^ (values >> half)
