"""Slices and loop nests of operators, compared with every multiplication that their kind defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Axis
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range, Region
from onchip.model.timeline.mac_count import MacCount
from onchip.ops.entries import ENTRIES, geometry_of
from onchip.ops.layers_of import layers_of_operator
from onchip.ops.pointwise import JOINED, PLACED
from onchip.ops.sequences import SEQUENCES
from onchip.ops.slicing import AffineDimension, OperatorEntry, Outline, Span
from onchip.ops.windows import WINDOWS, NoLayerError, loop_nests
from support.one_node_models import RULES, one_node
from support.onnx_networks import read

Index = tuple[int, ...]


@dataclass(frozen=True)
class WindowReads:
    """A convolution, transposed convolution or pool, with the padding `pads` before each pixel dimension."""

    kind: str
    source: Index
    output: Index
    kernel: Index
    strides: Index
    dilations: Index
    pads: Index
    groups: int = 1

    def __iter__(self) -> Iterator[tuple[Index, Index, Index]]:
        """Yield the elements of output, input and weight of each multiplication; a pool's weight is all ones."""
        meetings = [self._meetings(at) for at in range(len(self.kernel))]
        for batch in range(self.output[0]):
            for written, seen, weight in self._channels():
                for pixels in product(*meetings):
                    to, source, tap = zip(*pixels, strict=True)
                    yield (batch, written, *to), (batch, seen, *source), (*weight, *tap)

    def _channels(self) -> Iterator[tuple[int, int, Index]]:
        """Yield an output channel, an input channel that it reads, and their position in the weight."""
        written, read = self.output[1] // self.groups, self.source[1] // self.groups
        if "Pool" in self.kind:
            yield from ((channel, channel, (channel, 0)) for channel in range(self.output[1]))
            return
        for group, k, c in product(range(self.groups), range(written), range(read)):
            to, source = group * written + k, group * read + c
            yield to, source, ((source, k) if self.kind == "ConvTranspose" else (to, c))

    def _meetings(self, at: int) -> Sequence[tuple[int, int, int]]:
        """Return the pixels of output and input that meet along one dimension, and the tap that joins them."""
        outside, inside = self.output[2 + at], self.source[2 + at]
        if self.kind.startswith("Global"):
            return [(0, pixel, 0) for pixel in range(inside)]
        moved, still = (inside, outside) if self.kind == "ConvTranspose" else (outside, inside)
        met = []
        for pixel, tap in product(range(moved), range(self.kernel[at])):
            other = pixel * self.strides[at] + tap * self.dilations[at] - self.pads[at]
            if 0 <= other < still:
                met.append((other, pixel, tap) if self.kind == "ConvTranspose" else (pixel, other, tap))
        return met


NEVER_CUT = {"Einsum", "MatMulInteger", "QLinearMatMul", "ConvInteger", "QLinearConv", "LpPool", "GlobalLpPool"}
"""Kinds for which no slice is known to run."""
KINDS = ("Conv", "Conv", "ConvTranspose", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool")
Case = tuple[Graph, list[WindowReads]]
"""A network of one operator and its multiplications: two alternatives if its padding is not fixed."""


def random_case(random: Random, kind: str, rank: int) -> Case | None:
    batch, groups = random.choice((1, 2)), random.choice((1, 1, 2, 3))
    inputs, outputs = groups * random.choice((1, 1, 2)), groups * random.choice((1, 2))
    pixels, kernel = (tuple(random.randint(1, most) for _ in range(rank)) for most in (7, 3))
    strides, dilations = (tuple(random.choice((1, 1, 2, 3)) for _ in range(rank)) for _ in range(2))
    before, after = (tuple(random.choice((0, 0, 1, 2)) for _ in range(rank)) for _ in range(2))
    padding, more = random.choice(("NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")), (0,) * rank
    reaches = [(taps - 1) * dilation + 1 for taps, dilation in zip(kernel, dilations, strict=True)]
    if padding != "NOTSET":
        before = after = (0,) * rank
    added = [sum(both) for both in zip(before, after, strict=True)]
    if kind == "ConvTranspose":
        more = tuple(random.randrange(stride) for stride in strides)
        sizes = zip(pixels, strides, reaches, more, added, strict=True)
        written = [(size - 1) * stride + reach + extra - pad for size, stride, reach, extra, pad in sizes]
        if padding.startswith("SAME"):
            written = [size * stride for size, stride in zip(pixels, strides, strict=True)]
    elif kind.startswith("Global"):
        written = [1] * rank
    else:
        is_ceil = random.random() < 0.3 and "Pool" in kind
        sizes_of_input = zip(pixels, strides, reaches, added, strict=True)
        written = [
            (size + pad - reach + is_ceil * (stride - 1)) // stride + 1 for size, stride, reach, pad in sizes_of_input
        ]
        if padding.startswith("SAME"):
            written = [-(-size // stride) for size, stride in zip(pixels, strides, strict=True)]
    if min(written) < 1:
        return None
    if "Pool" in kind:
        groups, outputs = 1, inputs
    output = (batch, outputs, *written)
    reads = [WindowReads(kind, (batch, inputs, *pixels), output, kernel, strides, dilations, before, groups)]
    if padding.startswith("SAME") and not kind.startswith("Global"):
        reads = [replace(reads[0], pads=pads) for pads in open_pads(padding, reads[0], more)]
    attributes: dict[str, AttributeValue] = {"strides": [*strides], "dilations": [*dilations], "auto_pad": padding}
    attributes |= {"pads": [*before, *after], "kernel_shape": [*kernel], "output_padding": [*more], "group": groups}
    weight = (inputs, outputs // groups, *kernel) if kind == "ConvTranspose" else (outputs, inputs // groups, *kernel)
    tensors = [Tensor.of_shape("x", reads[0].source, 8, Role.INPUT), Tensor.of_shape("y", output, 32, Role.OUTPUT)]
    parameters = () if "Pool" in kind else ("w",)
    tensors += [Tensor.of_shape(name, weight, 8, Role.PARAMETER) for name in parameters]
    operator = Operator("op", kind, ("x",), ("y",), parameters, attributes)
    return Graph("network", tuple(tensors), (operator,)), reads


def open_pads(padding: str, reads: WindowReads, more: Index) -> list[Index]:
    """Return the possible leading pads that follow from the sizes; a transposed convolution may have either half."""
    totals = []
    for at, (taps, stride, dilation) in enumerate(zip(reads.kernel, reads.strides, reads.dilations, strict=True)):
        large, small = reads.source[2 + at], reads.output[2 + at]
        if reads.kind == "ConvTranspose":
            large, small = small - more[at], large
        totals.append(max((small - 1) * stride + (taps - 1) * dilation + 1 - large, 0))
    halves = tuple(total // 2 for total in totals), tuple(-(-total // 2) for total in totals)
    return [*halves] if reads.kind == "ConvTranspose" else [halves[padding == "SAME_LOWER"]]


def cases(seed: int, count: int) -> list[Case]:
    random = Random(seed)
    found = [random_case(random, random.choice(KINDS), random.choice((1, 2, 2, 3))) for _ in range(count)]
    return [case for case in found if case is not None]


def holds(region: Region, element: Index) -> bool:
    return all(start <= place < stop for (start, stop), place in zip(region, element, strict=True))


def multiplications_read(graph: Graph, products: Iterable[tuple[Index, ...]], random: Random) -> int:
    """Count the multiplications of a random slice; exactly one of two halves of a sum reads both factors of each."""
    operator = graph.operators[0]
    geometry = geometry_of(operator, graph, is_model=True)
    assert geometry is not None
    tile: list[list[Range]] = []
    for axis in geometry.axes:
        middle = random.randint(1, max(axis.size - 1, 1))
        halves = [(0, middle), (middle, axis.size)] if axis.size > 1 else [(0, 1)]
        tile.append(halves if axis.is_reduction else [random.choice(halves)])
    written = geometry.writes[0].region([ranges[0] for ranges in tile], geometry.axes)
    parts = [[one.region(part, geometry.axes) for one in geometry.reads] for part in product(*tile)]
    seen = 0
    for output, *factors in products:
        if written and holds(written, output):
            seen += 1
            read = [all(one and holds(one, at) for one, at in zip(part, factors, strict=False)) for part in parts]
            assert sum(read) == 1, (operator, tile, output, factors)
    return seen


@pytest.mark.parametrize("seed", range(3))
def test_a_slice_reads_what_its_outputs_multiply(seed: int) -> None:
    random = Random(seed)
    made = [multiplications_read(graph, reads, random) for graph, every in cases(seed, 400) for reads in every]
    assert sum(made) > 2000


@pytest.mark.parametrize("seed", range(3))
def test_a_slice_reads_little_more_than_its_outputs_multiply(seed: int) -> None:
    """The slice reads at most one stride or dilation extra at each end; the last slice takes all that is left."""
    random = Random(seed)
    for graph, every in cases(seed, 400):
        geometry = geometry_of(graph.operators[0], graph, is_model=True)
        assert geometry is not None
        places = [random.randrange(axis.size) for axis in geometry.axes]
        tile = [(at, at + 1) for at in places]
        for dimension in range(2, len(every[0].source)):
            reads = every[0]
            met = [read[dimension] for output, read, _ in reads if output[dimension] == places[dimension]]
            region = geometry.reads[0].region(tile, geometry.axes)
            is_last = places[dimension] == geometry.axes[dimension].size - 1
            if met and region and not is_last and geometry.reduction is None:
                start, stop = region[dimension]
                slack = reads.strides[dimension - 2] + reads.dilations[dimension - 2] + 1
                assert stop - start <= max(met) - min(met) + 1 + 2 * slack


def useful(axis: Axis, outputs: int, taps: int) -> int:
    """Count the pairs of output and tap along an axis that read a stored pixel."""
    positions = (
        output * axis.stride + tap * axis.dilation - axis.padding
        for output, tap in product(range(outputs), range(taps))
    )
    return sum(0 <= position < axis.size for position in positions)


@pytest.mark.parametrize("seed", range(3))
def test_loop_nests_over_a_range_of_pixels_multiply_as_often_as_the_definition(seed: int) -> None:
    random, made = Random(seed), 0
    for graph, every in cases(seed, 400):
        operator, output = graph.operators[0], every[0].output
        shapes = [output, *(graph.tensor[name].shape or () for name in (*operator.inputs, *operator.parameters))]
        starts = [random.randrange(size) for size in output[2:]]
        pixels = [(start, random.randint(start + 1, size)) for start, size in zip(starts, output[2:], strict=True)]
        try:
            layers = loop_nests(WINDOWS[operator.kind](operator, shapes), pixels)
        except (NoLayerError, InputError):
            continue
        made += 1
        found = 0
        for layer in layers.values():
            bounds = ((layer.p, layer.r), (layer.q, layer.s))
            pairs = prod(useful(axis, *both) for axis, both in zip(layer.axes, bounds, strict=True))
            found += layer.n * layer.k * layer.c * layer.g * pairs
        assert found == sum(holds(tuple(pixels), output[2:]) for output, _, _ in every[0]), (operator, pixels)
    assert made > 100


def matrix_product(random: Random) -> tuple[Graph, list[tuple[Index, Index, Index]]]:
    """Return a MatMul of matrices in broadcast batches, and the elements that it multiplies."""
    rows, depth, columns = (random.randint(1, 4) for _ in range(3))
    batch = [random.randint(1, 3) for _ in range(random.randint(0, 2))]
    lefts, rights = ([random.choice((1, size)) for size in batch][random.randint(0, len(batch)) :] for _ in range(2))
    left, right = (*lefts, rows, depth), (*rights, depth, columns)
    output = (*np.broadcast_shapes(tuple(lefts), tuple(rights)), rows, columns)
    role = random.choice((Role.INPUT, Role.PARAMETER))
    tensors = (("x", left, Role.INPUT), ("w", right, role), ("y", output, Role.OUTPUT))
    reads, parameters = (("x",), ("w",)) if role is Role.PARAMETER else (("x", "w"), ())
    operator = Operator("op", "MatMul", reads, ("y",), parameters)
    made = [Tensor.of_shape(name, shape, 32, of) for name, shape, of in tensors]
    found = []
    for place in product(*map(range, output)):
        for met in range(depth):
            one, other = (
                tuple(0 if size == 1 else at for size, at in zip(shape, place[len(output) - len(shape) :], strict=True))
                for shape in (left, right)
            )
            found.append((place, (*one[:-1], met), (*other[:-2], met, other[-1])))
    return Graph("network", tuple(made), (operator,)), found


@pytest.mark.parametrize("seed", range(3))
def test_matrix_products_are_cut_and_counted_as_they_multiply(seed: int) -> None:
    """The loop nest visits each element of the operands and of the output once, in any loop order."""
    random = Random(seed)
    for _ in range(200):
        graph, found = matrix_product(random)
        multiplications_read(graph, found, random) if max(graph.tensors[2].shape or ()) > 1 else None
        (layer,) = layers_of_operator(graph, graph.operators[0]).values()
        assert layer.macs == MacCount(graph).macs(graph.operators[0]) == len(found)
        sizes = sorted(prod(graph.tensor[name].shape or ()) for name in ("x", "w"))
        assert sorted(layer.elements(operand) for operand in (INPUT, WEIGHT)) == sizes
        assert layer.elements(OUTPUT) == prod(graph.tensor["y"].shape or ())


STATED = sorted(
    kind
    for kind in (ENTRIES.keys() | PLACED.keys() | JOINED.keys() | {"STFT", "TopK", "GatherElements"}) & RULES.keys()
    if "::" in kind or onnx.defs.has(kind)
)
"""Kinds that ONNX does not define, or that the installed version does."""


def stated(graph: Graph) -> OperatorEntry | None:
    operator, outline = graph.operators[0], Outline(graph.operators[0], graph, is_model=True)
    if operator.kind in ENTRIES:
        return ENTRIES[operator.kind](operator, [outline.written, *outline.shapes()])
    found = {**PLACED, **JOINED, **SEQUENCES}[operator.kind](outline)
    return found if isinstance(found, OperatorEntry) else None


def element(dimensions: tuple[AffineDimension, ...], iteration: dict[str, int]) -> tuple[int | None, ...]:
    """Return the element that an iteration visits, with None along dimensions that are not fixed."""
    return tuple(
        one.offset + sum(iteration[loop] * times for loop, times in one.terms.items()) if one.terms else None
        for one in dimensions
    )


@pytest.mark.parametrize("kind", STATED)
def test_a_slice_reads_the_elements_that_the_iterations_of_its_entry_meet(kind: str, tmp_path: Path) -> None:
    """The slice reads a part of each operand along the cut dimensions, and all of a dimension that is not fixed."""
    met = 0
    for seed in range(25):
        random = Random(f"{kind} {seed}")
        try:
            graph = read(one_node(kind, random).model(), tmp_path)
            entry = stated(graph) if len(graph.operators) == 1 else None
        except (InputError, NoLayerError):
            continue
        operator = graph.operators[0]
        names = (*operator.inputs, *operator.parameters)
        geometry = geometry_of(operator, graph, is_model=True)
        if not entry or not geometry or not entry.operands or prod(entry.loops.values()) > 2000:
            continue
        tile = []
        for axis in geometry.axes:
            start = random.randrange(axis.size)
            tile.append((start, random.randint(start + 1, axis.size)))
        regions = {one.tensor: one.region(tile, geometry.axes) for one in (*geometry.writes, *geometry.reads)}
        summed = geometry.reduction
        for each in product(*map(range, entry.loops.values())):
            iteration = dict(zip(entry.loops, each, strict=True))
            written = element(entry.operands[0], iteration)
            outside = summed is not None and not tile[summed][0] <= iteration[entry.summed] < tile[summed][1]
            if outside or not is_in(written, regions[operator.outputs[0]]):
                continue
            for place, dimensions in entry.operands.items():
                if place < 1 or names.count(names[place - 1]) > 1:
                    continue
                at, region = element(dimensions, iteration), regions[names[place - 1]]
                if all(one is None or 0 <= one < of.size for one, of in zip(at, dimensions, strict=True)):
                    met += 1
                    assert is_in(at, region), (operator, tile, iteration, place)
                    whole = ((0, of.size) for of in dimensions)
                    assert region is not None
                    assert all(one is not None or a == b for one, a, b in zip(at, region, whole, strict=True))
    assert met > 0 or kind in NEVER_CUT or "Fused" in kind


def is_in(at: tuple[int | None, ...], region: Region | None) -> bool:
    return region is not None and all(
        one is None or start <= one < stop for one, (start, stop) in zip(at, region, strict=True)
    )


def test_tiles_together_read_all_elements_also_those_that_no_window_sees() -> None:
    """Three windows of 2 elements at a stride of 3 leave out one element each, the last one two."""
    windows = Span(10, axis=0, step=3, extent=2)
    assert [windows.range(at, at + 1, 3) for at in range(3)] == [(0, 3), (3, 6), (6, 10)]
