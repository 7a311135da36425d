"""Operators, one by one, as layers that read feature maps through windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import OUTPUT, WEIGHT, Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.ir.window import Window, begins_inside, integers
from onchip.ops.contractions.contractions import ELEMENT_BY_ELEMENT
from onchip.ops.derive.fusable import OF_ROWS, SLIDING, FeatureMap, FusableLayer, Layout, Read
from onchip.ops.derive.layers_of import LeftOut, Precision, shapes_of
from onchip.ops.derive.operands import (
    largest_first,
    multiplies_matrices,
    multiplies_rows,
    nest_operands,
    precise,
    works_on_rows,
)
from onchip.ops.derive.without_nest import why_without_nest
from onchip.ops.views.fusable_views import (
    Sight,
    all_of,
    between_zeros,
    is_one_a_channel,
    over_all_pixels,
    spreads_over,
)
from onchip.ops.views.shown_maps import ShownMaps
from onchip.ops.windows.sliding_windows import NoLayerError
from onchip.ops.windows.transposed import nest_of_transposed

_OF_ALL_PIXELS: Final = frozenset(
    {"GlobalMaxPool", "GlobalAveragePool", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"}
    | {"Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"}
)


@dataclass
class FusableReading:
    """The state of reading a graph's operators as layers.

    `shown` maps the tensors so far to views of feature maps. Layers are `inside`; those that cannot run in tiles are
    also `alone`; operators that cannot be fused are `outside`. With `all_in_tiles` none runs alone, and maps have zero
    or two dimensions behind the channels. Views in `apart` or `in_the_way` are not passed through.
    """

    graph: Graph
    layers: Mapping[str, Layer]
    left_out: tuple[LeftOut, ...]
    precision: Precision
    apart: frozenset[str] = frozenset()
    all_in_tiles: bool = False
    shown: ShownMaps = field(init=False)
    outside: list[LeftOut] = field(default_factory=list)
    alone: list[LeftOut] = field(default_factory=list)
    inside: list[FusableLayer] = field(default_factory=list)
    in_the_way: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.shown = ShownMaps(self.graph, self.precision, self.apart, self.all_in_tiles)

    def read(self) -> None:
        """Make every operator a layer, an operator outside, or a view that only changes how others read a map."""
        self._read_operators()
        leaving = [tensor.name for tensor in self.graph.with_role(Role.OUTPUT)]
        if not self.all_in_tiles:
            self.in_the_way |= self.shown.views_of_inputs(leaving)
        leaving += [name for one in self.outside for name in self.graph.operator[one.operator].inputs]
        self.in_the_way |= self.shown.joining(leaving)

    def _read_operators(self) -> None:
        for operator in self.graph.operators:
            try:
                self.shown.look_at(operator)
                layer = self._layer(operator)
            except NoLayerError as error:
                why = LeftOut(operator.name, operator.kind, str(error))
                layer = self._alone(operator, why)
                if layer is None:
                    self.outside.append(why)
                    continue
            if layer is not None:
                self.shown.seen[operator.outputs[0]] = Sight.of(layer.output)
                self.inside.append(layer)

    def _alone(self, operator: Operator, why: LeftOut) -> FusableLayer | None:
        """Return the operator as a layer that runs alone, or None if it is outside."""
        if self.all_in_tiles:
            return None
        try:
            layer = self._layer_alone(operator)
        except (NoLayerError, InputError):
            if any(name in (operator.name, f"{operator.name} (0, 0)") for name in self.layers):
                self.in_the_way |= self.shown.views_behind(operator.inputs)
            return None
        self.alone.append(why)
        return layer

    def _layer_alone(self, operator: Operator) -> FusableLayer:
        """Return the operator as a layer that reads all its maps whole, as the nest's operands."""
        if len(operator.outputs) > 1:
            raise NoLayerError("it writes several tensors")
        self.shown.look_at(operator)
        output, operands = self.shown.map(operator.outputs[0]), nest_operands(self.graph, operator)
        read = [operands.input, *(() if operands.weight is None else (operands.weight,))]
        if operands.input not in operator.inputs or set(operator.inputs) - set(read):
            raise NoLayerError("it reads other maps than its loop nest")
        sights = [self.shown.seen[name] for name in read if name in operator.inputs]
        if operator.kind == "ConvTranspose":
            layer, _ = self._nest_of_transposed(operator, sights[0].whole, output)
        else:
            layer = self._nest(operator, operator.name)
        is_whole = all(one.shows_all and one.whole.name not in self.shown.joined for one in sights)
        if not is_whole or layer.elements(OUTPUT) != output.elements:
            raise NoLayerError("its operands are no whole maps")
        reads = tuple(one.read(all_of(one.whole.rows), all_of(one.whole.columns)) for one in sights)
        return replace(self._finished(operator, layer, output, reads), runs_alone=True)

    def _layer(self, operator: Operator) -> FusableLayer | None:
        """Return the operator as a layer, or None if it only changes how others read its input."""
        if operator.workspace_bytes or not operator.inputs:
            raise NoLayerError("it reads no map, or its tiles would need a workspace of their own")
        if self.shown.view(operator):
            return None
        if operator.kind == "ConvTranspose":
            return self._transposed(operator)
        if operator.kind in OF_ROWS:
            return self._of_each_row(operator)
        layer, output = self._nest(operator, operator.name), self.shown.map(operator.outputs[0])
        if self.shown.layout is Layout.MATRIX:
            return self._row_by_row(operator, layer, output)
        if operator.kind in SLIDING:
            if begins_inside(operator):
                raise NoLayerError("its windows begin inside the map")
            if self._is_reshaped(operator):
                raise NoLayerError("its input is a view of another shape")
            if (layer.p, layer.q) != (output.rows, output.columns):
                raise NoLayerError("its output is no map of rows and columns")
            return self._through_windows(operator, between_zeros(layer, self._only_input(operator)), output)
        if operator.kind in _OF_ALL_PIXELS:
            if (layer.p, layer.q) != (1, 1) or layer.n * layer.k * layer.g != output.channels:
                raise NoLayerError("it does not leave one pixel a channel")
            return self._through_windows(operator, over_all_pixels(layer, self._whole_input(operator)), output)
        if operator.kind not in ELEMENT_BY_ELEMENT:
            raise NoLayerError("which part of its input a tile sees is not known of its kind")
        return self._element_by_element(operator, layer, output)

    def _row_by_row(self, operator: Operator, layer: Layer, output: FeatureMap) -> FusableLayer:
        """Return a layer that computes rows of matrices from the same rows.

        It is a product with a matrix of weights, or with another matrix, of which it reads all rows, or an operator
        element by element on matrices of one shape.
        """
        sights = [self.shown.seen[name] for name in operator.inputs]
        reads = [one.read(one.rows, one.columns) for one in sights]
        if operator.kind in ELEMENT_BY_ELEMENT:
            if any(sight.size[1:] != Sight.of(output).size[1:] for sight in sights):
                raise NoLayerError("it reads matrices of other rows than it writes")
            if len(sights) > 1 and prod(sights[0].size) != prod(sights[1].size):
                raise NoLayerError("it reads matrices of different shapes")
        elif multiplies_matrices(self.graph, operator):
            reads[1] = replace(reads[1], rows=all_of(sights[1].whole.rows))
        elif not multiplies_rows(self.graph, operator):
            raise NoLayerError("it is no product of rows")
        if operator.kind not in ELEMENT_BY_ELEMENT or not layer.has_weight or len(sights) == 1:
            rest = layer.macs // (layer.k * layer.c * output.rows * output.columns)
            n, g = (1, rest) if layer.k == layer.c == 1 else (rest, 1)
            layer = replace(layer, n=n, g=g, p=output.rows, q=output.columns)
        return self._finished(operator, layer, output, tuple(reads))

    def _of_each_row(self, operator: Operator) -> FusableLayer:
        """Return an operator without a loop nest that computes each row from that row.

        Its costs are estimated as those of an operator element by element.
        """
        output = self.shown.map(operator.outputs[0])
        if self.shown.layout is not Layout.MATRIX or not works_on_rows(self.graph, operator):
            raise NoLayerError(why_without_nest(operator.kind))
        (source,) = (self.shown.seen[name] for name in operator.inputs)
        layer = Layer(
            g=output.channels,
            p=output.rows,
            q=output.columns,
            input_bits=source.whole.bits,
            weight_bits=source.whole.bits,
            output_bits=output.bits,
            partial_bits=max(self.precision.sum_bits, output.bits),
            has_weight=False,
        )
        return FusableLayer(operator.name, layer, output, (source.read(source.rows, source.columns),))

    def _through_windows(self, operator: Operator, layer: Layer, output: FeatureMap) -> FusableLayer:
        """Return a layer with the loop nest's own windows, if these match the map."""
        sight = self._only_input(operator)
        source, (rows, columns) = sight.whole, layer.axes
        times = sight.rows.repeat, sight.columns.repeat
        fits = rows.size <= source.rows * times[0] and columns.size <= source.columns * times[1]
        if layer.n * layer.c * layer.g != sight.stored_channels or not fits:
            raise NoLayerError("its input is a view of another shape")
        windows = [
            Window(kernel, axis.stride, axis.dilation, axis.padding, repeat)
            for kernel, axis, repeat in zip((layer.r, layer.s), (rows, columns), times, strict=True)
        ]
        return self._finished(operator, layer, output, (sight.read(windows[0], windows[1]),))

    def _element_by_element(self, operator: Operator, layer: Layer, output: FeatureMap) -> FusableLayer:
        """Return a layer that reads one or two maps at the pixels that it writes.

        The second map may have one pixel for all, as a gate has, or fewer channels, which are broadcast to the others.
        """
        names = largest_first(self.graph, operator.inputs)
        is_gate = [at > 0 and is_one_a_channel(self.graph, name, operator) for at, name in enumerate(names)]
        sights = [self.shown.seen[name] for name in names]
        written = Sight.of(output)
        spreads = [at > 0 and spreads_over(sight, written, layer) for at, sight in enumerate(sights)]
        for sight, gates, is_spread in zip(sights, is_gate, spreads, strict=True):
            fits = sight.size == written.size or is_spread or (gates and sight.shows_all)
            if not fits or max(sight.rows.pad, sight.columns.pad) > 0:
                raise NoLayerError(f"it reads {sight} and writes {written}")
        if layer.has_weight and layer.n > 1 and not any(spreads):  # a gate, or a parameter that is smaller than the map
            if layer.g != output.channels:
                raise NoLayerError(f"its parameter is neither one element nor {output.channels}, one a channel")
            layer = replace(layer, n=1, p=output.rows, q=output.columns)
        elif not layer.has_weight and (layer.p, layer.q) != (output.rows, output.columns):
            layer = replace(layer, n=1, g=output.channels, p=output.rows, q=output.columns)
        reads = (
            sight.read(*((all_of(1), all_of(1)) if gates else (sight.rows, sight.columns)))
            for sight, gates in zip(sights, is_gate, strict=True)
        )
        return self._finished(operator, layer, output, tuple(reads))

    def _transposed(self, operator: Operator) -> FusableLayer:
        """Return a layer over input pixels: outputs from s * q on need inputs from q + ceil((pad - kernel + 1) / s)."""
        source, high = self._whole_input(operator), self.shown.map(operator.outputs[0])
        layer, pixels = self._nest_of_transposed(operator, source, high)
        if pixels > 1 and (readers := self.graph.readers[operator.outputs[0]]):
            raise NoLayerError(f"{readers[0].kind} {readers[0].name!r} reads it")
        low = replace(source, name=high.name, channels=high.channels * pixels, bits=high.bits)
        return self._through_windows(operator, layer, low)

    def _nest_of_transposed(self, operator: Operator, source: FeatureMap, high: FeatureMap) -> tuple[Layer, int]:
        """Return the nest over the input's pixels, and the number of output pixels per input pixel."""
        strides = integers(operator, "strides", (1, 1))
        part = self._nest(operator, f"{operator.name} (0, 0)" if max(strides) > 1 else operator.name)
        return nest_of_transposed(self.graph, operator, part, (source, high)), prod(strides)

    def _finished(self, operator: Operator, layer: Layer, output: FeatureMap, reads: tuple[Read, ...]) -> FusableLayer:
        layer = precise(self.graph, operator, layer, self.precision)
        weight_bits = layer.elements(WEIGHT) * layer.weight_bits if len(reads) == 1 else 0
        joined = self.shown.joined.get(reads[0].source, ())
        if len(reads) > 1 and any(read.source in self.shown.joined for read in reads):
            raise NoLayerError("it reads a concatenation beside another map")
        if joined:
            reads = tuple(part.seen_through(reads[0]) for part in joined)
        return FusableLayer(operator.name, layer, output, reads, weight_bits, joins=len(joined) > 1)

    def _nest(self, operator: Operator, name: str) -> Layer:
        if name in self.layers:
            return self.layers[name]
        why = (one.why for one in self.left_out if one.operator == operator.name)
        raise NoLayerError(next(why, "it is several layers"))

    def _only_input(self, operator: Operator) -> Sight:
        if len(operator.inputs) != 1:
            raise NoLayerError(f"it reads {len(operator.inputs)} maps")
        return self.shown.seen[operator.inputs[0]]

    def _is_reshaped(self, operator: Operator) -> bool:
        """Return True if the operator reads its input in another shape than the stored one."""
        stored = self.graph.tensor[operator.inputs[0]].shape
        return stored is not None and shapes_of(self.graph, operator)[1] != stored

    def _whole_input(self, operator: Operator) -> FeatureMap:
        sight = self._only_input(operator)
        if sight != Sight.of(sight.whole):
            raise NoLayerError(f"it reads {sight} of {sight.whole.name!r}")
        return sight.whole
