"""The loop nests of operators, and the operators that have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from types import MappingProxyType
from typing import Final, TypeAlias

from onchip.answer.fused_network import StreamedOperator
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Axis, Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range, Region, whole_region
from onchip.ops.channel_slices import layer_of_channels
from onchip.ops.contractions import ATTENTION, ELEMENT_BY_ELEMENT, MATRIX_KINDS, PACKED_PRODUCT
from onchip.ops.fusable import MATRIX_RANKS, Layout, pixels_of
from onchip.ops.layers_of import (
    PLAIN_BITS,
    NestOperands,
    Precision,
    layers_of,
    layers_of_operator,
    nest_operands,
    precise,
    shapes_of,
    with_elements_of,
)
from onchip.ops.sequences import RECURRENT
from onchip.ops.slicing import REDUCTIONS
from onchip.ops.windows import NoLayerError, loop_nests, transposed_convolution

Pixels: TypeAlias = tuple[int, int]
"""Rows and columns."""
Sides: TypeAlias = tuple[int, int, int, int]
"""Top, left, bottom, right."""


def layer_of_tile(
    layer: Layer, whole: Pixels, tile: Pixels, padding: Sides, *, pixels_are_groups: bool = True
) -> Layer:
    """Return the loop nest over `tile` pixels of the output; `layer` is the nest over the `whole` output.

    `padding` are the zeros that its windows see on each side. In element-wise nests, pixels are not rows and columns:
    they are groups, or a batch that meets one parameter or gate, and their number is reduced.
    """
    if (layer.p, layer.q) == whole:
        return replace(layer, p=tile[0], q=tile[1], padding=padding)
    pixels, fewer = whole[0] * whole[1], tile[0] * tile[1]
    if pixels_are_groups:
        return replace(layer, g=layer.g // pixels * fewer)
    return replace(layer, n=layer.n // pixels * fewer)


_POOLS: Final = frozenset({"MaxPool", "AveragePool", "LpPool"})
_OF_ALL_THAT_IS_READ: Final = frozenset(
    {"GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceSum", "ReduceMax", "LayerNormalization"}
)


def elements_visited(graph: Graph, operator: Operator) -> int:
    """Return the elements of all windows for a pool, those read for a reduction, else those written; at least 1."""
    written = sum(_elements(graph, name) for name in operator.outputs)
    if operator.kind in _POOLS:
        kernel = operator.attributes.get("kernel_shape")
        return written * prod(size for size in kernel if isinstance(size, int)) if isinstance(kernel, list) else written
    if operator.kind in _OF_ALL_THAT_IS_READ:
        return max((written, *_elements_read(graph, operator).values()))
    return written


def _elements(graph: Graph, name: str) -> int:
    tensor = graph.tensor[name]
    return tensor.size_bytes if tensor.shape is None else prod(tensor.shape)


def _elements_read(graph: Graph, operator: Operator) -> Mapping[str, int]:
    """Return the number of elements of each input; bands of one tensor count together."""
    read: dict[str, int] = {}
    for name in dict.fromkeys(operator.inputs):
        whole = graph.tensor[name].part_of or name
        read[whole] = read.get(whole, 0) + _elements(graph, name)
    return read


_WITHOUT_NEST: Final = RECURRENT | ATTENTION | {PACKED_PRODUCT}
"""Kinds whose products pass on scores or gates that are not tensors of the network, or have packed weights."""
_PIXEL_AXES: Final = 2


@dataclass
class NestsOfNetwork:
    """The loop nests of a network's operators, with elements of `precision`."""

    graph: Graph
    precision: Precision
    _whole: dict[str, tuple[Layer, ...]] = field(default_factory=dict)
    _tiles: dict[tuple[str, Pixels, Sides], tuple[Layer, ...]] = field(default_factory=dict)
    _operands: dict[str, NestOperands | None] = field(default_factory=dict)

    def whole(self, operator: Operator) -> tuple[Layer, ...]:
        """Return the operator's loop nests in execution order; empty if no loop nest describes it."""
        if operator.name not in self._whole:
            found = tuple(self._found(operator))
            if found:
                try:
                    nest_operands(self.graph, operator)
                except NoLayerError:  # the operands of the nest are unknown
                    found = ()
            self._whole[operator.name] = tuple(self._precise(operator, layer) for layer in found)
        return self._whole[operator.name]

    def of_region(self, operator: Operator, region: Region) -> tuple[Layer, ...]:
        """Return the loop nests over some rows and columns of the output; raises InputError or NoLayerError."""
        shape = self.graph.tensor[operator.outputs[0]].shape or ()
        whole = self.whole(operator)
        if not whole or region == whole_region(shape):
            return whole
        has_whole_rows = region[-1] == (0, shape[-1]) and operator.kind in ELEMENT_BY_ELEMENT | MATRIX_KINDS
        if len(region) in MATRIX_RANKS or has_whole_rows:
            return self._of_part(operator, region)
        rows, columns = region[2:]
        if operator.kind == "ConvTranspose":
            shapes = shapes_of(self.graph, operator)
            phases = loop_nests(transposed_convolution(operator, shapes), (rows, columns))
            return tuple(self._precise(operator, layer) for layer in phases.values())
        (layer,) = whole
        down, across = (_zeros(*each) for each in zip(layer.axes, (layer.r, layer.s), (rows, columns), strict=True))
        pixels = rows[1] - rows[0], columns[1] - columns[0]
        key = operator.name, pixels, (down[0], across[0], down[1], across[1])
        if key not in self._tiles:
            are_groups = layer.n == 1 or self._weight_has_pixels(operator)
            sizes = shape[2], shape[3]
            self._tiles[key] = (layer_of_tile(layer, sizes, *key[1:], pixels_are_groups=are_groups),)
        return self._tiles[key]

    def of_channels(self, operator: Operator, channels: Range) -> tuple[Layer, ...]:
        """Return the operator's nests over all pixels of some channels of its output. Raises InputError."""
        return tuple(layer_of_channels(self.graph, operator, layer, channels) for layer in self.whole(operator))

    def _of_part(self, operator: Operator, region: Region) -> tuple[Layer, ...]:
        """Return the nest over some rows of some heads of a matrix.

        Of a product, rows are in N, and heads in G if both factors have them; of a reduction both are in G. Element by
        element, both are in N with an operand that all rows share, in G with one that has the output's rows, and else
        as in the whole nest.
        """
        shape = self.graph.tensor[operator.outputs[0]].shape or ()
        extents = tuple([stop - start for start, stop in region])
        part, whole = pixels_of(extents, Layout.MATRIX), pixels_of(shape, Layout.MATRIX)
        key = operator.name, part, (0, 0, 0, 0)
        if key not in self._tiles:
            (layer,) = self.whole(operator)
            rows, heads = Fraction(part[0], whole[0]), Fraction(part[1], whole[1])
            if operator.kind in REDUCTIONS:
                found = replace(layer, g=_whole(layer.g * rows * heads))
            elif operator.kind not in ELEMENT_BY_ELEMENT:
                has_heads = layer.g > 1
                found = replace(layer, n=_whole(layer.n * rows * (1 if has_heads else heads)))
                found = replace(found, g=_whole(layer.g * heads)) if has_heads else found
            elif layer.has_weight and layer.n > 1:
                has_rows, has_heads = self._weight_has(operator, shape)
                n = layer.n * (1 if has_rows else rows) * (Fraction(1) if has_heads else heads)
                g = layer.g * (rows if has_rows else 1) * (heads if has_heads else Fraction(1))
                found = replace(layer, n=_whole(n), g=_whole(g))
            elif layer.has_weight or len(shape) == max(MATRIX_RANKS):
                found = replace(layer, g=_whole(layer.g * rows * heads))
            elif len(shape) < max(MATRIX_RANKS):
                found = replace(layer, n=_whole(layer.n * rows))
            else:
                found = replace(layer, p=part[0], g=_whole(layer.g * heads))
            self._tiles[key] = (found,)
        return self._tiles[key]

    def _weight_has(self, operator: Operator, written: tuple[int, ...]) -> tuple[bool, bool]:
        """Return True for rows, and for heads, if the second operand of an element-wise operator has the output's."""
        operands = self.operands(operator)
        weight = operands.weight if operands else None
        shape = self.graph.tensor[weight].shape or () if weight is not None else ()
        alike = (*((1,) * (len(written) - len(shape))), *shape)
        own, pixels = pixels_of(alike, Layout.MATRIX), pixels_of(written, Layout.MATRIX)
        return own[0] == pixels[0] > 1, own[1] == pixels[1] > 1

    def operands(self, operator: Operator) -> NestOperands | None:
        """Return the operands of the operator's loop nests, or None without loop nests."""
        if operator.name not in self._operands:
            found = nest_operands(self.graph, operator) if self.whole(operator) else None
            self._operands[operator.name] = found
        return self._operands[operator.name]

    def _weight_has_pixels(self, operator: Operator) -> bool:
        """Return True if the smaller of two operands has rows or columns, as a gate shared by all channels has."""
        operands = self.operands(operator)
        weight = operands.weight if operands else None
        shape = self.graph.tensor[weight].shape or () if weight is not None else ()
        return len(shape) >= _PIXEL_AXES and max(shape[-2:]) > 1

    def _precise(self, operator: Operator, layer: Layer) -> Layer:
        return precise(self.graph, operator, layer, self.precision)

    def _found(self, operator: Operator) -> tuple[Layer, ...]:
        if operator.kind in _WITHOUT_NEST:
            return ()
        try:
            return tuple(layers_of_operator(self.graph, operator).values())
        except (NoLayerError, InputError):
            return ()


def _zeros(axis: Axis, taps: int, outputs: Range) -> Range:
    """Return the number of zeros before and behind the input in the windows of a range of outputs."""
    first = outputs[0] * axis.stride - axis.padding
    behind = (outputs[1] - 1) * axis.stride - axis.padding + (taps - 1) * axis.dilation + 1
    return max(-first, 0), max(behind - axis.size, 0)


def _whole(number: Fraction) -> int:
    """Return a number that is whole. Raises NoLayerError for another one: the part is none of the nest's loops."""
    if number.denominator > 1:
        raise NoLayerError("its parts have no loop nest of whole extents")
    return int(number)


def nests_of_operator(graph: Graph, operator: Operator, precision: Precision) -> Iterator[tuple[Layer, int]]:
    """Yield the loop nests of an operator, of a tile those of the whole operator, with their number of executions.

    Yields nothing if no loop nest describes the operator.
    """
    alone = whole_operator(graph, operator)
    found = layers_of(alone, precision)
    for name, layer in found.layers.items():
        yield layer, found.times.get(name, 1)


def whole_operator(graph: Graph, operator: Operator) -> Graph:
    """Return an operator as a separate network; a tile becomes its whole operator, as wide as the tile's operands."""
    tile = operator.tile
    if tile is None:
        names = dict.fromkeys((*operator.reads, *operator.outputs))
        return _alone({name: graph.tensor[name] for name in names}, replace(operator, in_place=()))
    bits: dict[str, int] = {}
    for name in (*operator.reads, *operator.outputs):
        tensor = graph.tensor[name]
        bits.setdefault(tensor.part_of or name, tensor.bits or PLAIN_BITS)
    widest = max(bits.values())
    tensors = {
        name: Tensor.of_shape(name, shape, bits.get(name, widest), Role.ACTIVATION)
        for name, shape in tile.shape.items()
    }
    return _alone(tensors, operator.whole)


def _alone(tensors: dict[str, Tensor], operator: Operator) -> Graph:
    roles = dict.fromkeys(operator.outputs, Role.OUTPUT) | dict.fromkeys(operator.parameters, Role.PARAMETER)
    named = (replace(tensor, role=roles.get(tensor.name, Role.INPUT)) for tensor in tensors.values())
    return Graph(operator.name, tuple(named), (operator,))


LOOKUPS: Final = frozenset({"Gather", "GatherElements", "GATHER", "EMBEDDING_LOOKUP", "Slice"})
"""Kinds that read at most one element of each operand per written element, such as the looked-up rows of a table."""
NOTHING_JOINED: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BandedOperand:
    """The distinct bands of one network tensor that an operator reads or writes.

    `operand` determines the possible home memories: those of weights for a parameter, those of inputs for other reads,
    and those of outputs for writes. `most_elements` is the maximum number of elements read, or None for all.
    """

    operand: Operand
    bands: tuple[Tensor, ...]
    most_elements: int | None = None
    joins: str | None = None
    """The concatenation that contains the bands, if any."""

    @property
    def tensor(self) -> str:
        """Name of the network tensor."""
        return self.joins or self.bands[0].part_of or self.bands[0].name

    @property
    def bits(self) -> int:
        """Number of moved bits: all bands in whole bytes, or only the elements read."""
        whole = sum(band.size_bytes for band in self.bands) * 8
        bits = self.bands[0].bits
        if self.most_elements is None or bits is None:
            return whole
        return min(whole, -(-self.most_elements * bits // 8) * 8)

    @property
    def row_bits(self) -> int:
        """Number of bits of a row (the last axis) of the first band, or of the whole band without a shape or axes."""
        first = self.bands[0]
        if first.shape is None or first.bits is None or not first.shape:
            return first.size_bytes * 8
        return first.shape[-1] * first.bits


def operands_of(graph: Graph, operator: Operator) -> tuple[BandedOperand, ...]:
    """Return the operands of an operator of a tile graph: first its reads, then its writes."""
    most = _elements_written(graph, operator) if operator.kind in LOOKUPS else None
    joined = {} if operator.tile is None else {one.part: one.whole for one in operator.tile.joined}
    read = _operands(graph, operator.reads, None, most, joined)
    return (*read, *_operands(graph, operator.outputs, Operand.OUTPUT))


def _elements_written(graph: Graph, operator: Operator) -> int | None:
    shapes = [graph.tensor[name].shape for name in operator.outputs]
    return None if None in shapes else sum(prod(shape) for shape in shapes if shape is not None)


def _operands(
    graph: Graph,
    names: tuple[str, ...],
    operand: Operand | None,
    most_elements: int | None = None,
    joined: Mapping[str, str] = NOTHING_JOINED,
) -> Iterator[BandedOperand]:
    bands: dict[tuple[Operand, str], dict[str, Tensor]] = {}
    for name in names:
        tensor = graph.tensor[name]
        kind = operand or (Operand.WEIGHT if tensor.role is Role.PARAMETER else Operand.INPUT)
        base = tensor.part_of or name
        bands.setdefault((kind, joined.get(base, base)), {})[name] = tensor
    wholes = set(joined.values())
    for (kind, base), found in bands.items():
        yield BandedOperand(kind, tuple(found.values()), most_elements, base if base in wholes else None)


def moved_operators(graph: Graph, names: Iterable[str], bits: int | None) -> tuple[StreamedOperator, ...]:
    """Return the operators of these names with the data that they move, in whole bytes, at `bits` per element.

    None stands for each tensor's own bits.
    """
    sized = with_elements_of(graph, bits)
    return tuple(_moved(sized, sized.operator[name]) for name in names)


def macs_of_nests(graph: Graph, operator: Operator) -> int:
    """Return the multiply-accumulates of an operator's loop nests, or 0 without loop nests."""
    try:
        return sum(layer.macs for layer in layers_of_operator(graph, operator).values())
    except (NoLayerError, InputError):
        return 0


def _moved(graph: Graph, operator: Operator) -> StreamedOperator:
    operands = ((one.operand, one.bits) for one in operands_of(graph, operator))
    return StreamedOperator(operator.name, tuple(operands))
