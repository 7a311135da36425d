"""The loop nests of operators and of their tiles."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Axis, Layer
from onchip.ir.operator import Operator
from onchip.ir.region import Range, Region, whole_region
from onchip.ops.contractions.attention import ATTENTION
from onchip.ops.contractions.contractions import ELEMENT_BY_ELEMENT
from onchip.ops.contractions.products import MATRIX_KINDS, PACKED_PRODUCT
from onchip.ops.derive.fusable import MATRIX_RANKS, Layout, pixels_of
from onchip.ops.derive.layers_of import Precision, layers_of_operator, shapes_of
from onchip.ops.derive.operands import NestOperands, nest_operands, precise
from onchip.ops.derive.tile_layer import Pixels, Sides, layer_of_tile
from onchip.ops.sequences.recurrences import RECURRENT
from onchip.ops.windows.sliding_windows import NoLayerError, loop_nests, transposed_convolution

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

    def _of_part(self, operator: Operator, region: Region) -> tuple[Layer, ...]:
        """Return the nest over some rows of some heads of a matrix.

        Of a product, rows are in N, and heads in G if both factors have them. Element by element, both are in N with an
        operand that all rows share, in G with one that has the output's rows, and else as in the whole nest.
        """
        shape = self.graph.tensor[operator.outputs[0]].shape or ()
        extents = tuple([stop - start for start, stop in region])
        part, whole = pixels_of(extents, Layout.MATRIX), pixels_of(shape, Layout.MATRIX)
        key = operator.name, part, (0, 0, 0, 0)
        if key not in self._tiles:
            (layer,) = self.whole(operator)
            rows, heads = Fraction(part[0], whole[0]), Fraction(part[1], whole[1])
            if operator.kind not in ELEMENT_BY_ELEMENT:
                has_heads = layer.g > 1
                found = replace(layer, n=_whole(layer.n * rows * (1 if has_heads else heads)))
                found = replace(found, g=_whole(layer.g * heads)) if has_heads else found
            elif layer.has_weight and layer.n > 1 and not self._weight_has_rows(operator, whole[0]):
                found = replace(layer, n=_whole(layer.n * rows * heads))
            elif layer.has_weight or len(shape) == max(MATRIX_RANKS):
                found = replace(layer, g=_whole(layer.g * rows * heads))
            elif len(shape) < max(MATRIX_RANKS):
                found = replace(layer, n=_whole(layer.n * rows))
            else:
                found = replace(layer, p=part[0], g=_whole(layer.g * heads))
            self._tiles[key] = (found,)
        return self._tiles[key]

    def _weight_has_rows(self, operator: Operator, rows: int) -> bool:
        """Return True if the second operand of an element-wise operator has the rows of the output."""
        operands = self.operands(operator)
        weight = operands.weight if operands else None
        shape = self.graph.tensor[weight].shape or () if weight is not None else ()
        return len(shape) > 1 and shape[-2] == rows > 1

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
