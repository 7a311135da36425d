"""Read operators as fusable layers: windows, products, elementwise operators and the views between them.

The layers are those of `layers_of`; biases and fused activations cost nothing, as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final, Self, TypeAlias

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import OUTPUT, WEIGHT, Layer
from onchip.ir.operator import KEY_SLICE, SEEN_SHAPES, Operator
from onchip.ir.tensor import Role
from onchip.ir.window import Shape, Window, begins_inside, integer, integers, shapes_as_read
from onchip.ops.contractions import ELEMENT_BY_ELEMENT
from onchip.ops.fusable import (
    HEADS_RANK,
    OF_ROWS,
    SLIDING,
    FeatureMap,
    FusableLayer,
    FusableNetwork,
    Layout,
    Read,
    layout_of,
    pixels_of,
)
from onchip.ops.layers_of import (
    PLAIN_BITS,
    LeftOut,
    Precision,
    largest_first,
    layers_and_left_out,
    moves_in_rows,
    multiplies_matrices,
    multiplies_rows,
    nest_operands,
    precise,
    reduces_rows,
    shapes_of,
    times_repeated,
    why_without_nest,
    works_on_rows,
)
from onchip.ops.nests import moved_operators
from onchip.ops.slicing import Span, along, spread
from onchip.ops.views import RESIZES, SAME_ELEMENTS, moves_channels, paces_of, slices_of, spans_in, spans_read
from onchip.ops.windows import NoLayerError, transposed_convolution

_PIXEL: Final = Window(1, 1, 1, 0)
_ROWS: Final = 2
_BEHIND_CHANNELS: Final = 5
"""Index in a Pad's eight numbers (batch, channels, rows and columns, before and then after) of zeros after channels."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A view of a feature map; `size` is channels, rows, columns.

    The windows, of one tap each, locate the map's pixels in the view. `channels` is the number of the map's channels in
    the view (None: all); zeros may follow them.
    """

    whole: FeatureMap
    size: tuple[int, int, int]
    rows: Window = _PIXEL
    columns: Window = _PIXEL
    channels: int | None = None

    @classmethod
    def of(cls, whole: FeatureMap) -> Self:
        """Return the view of a whole map, unchanged."""
        return cls(whole, (whole.channels, whole.rows, whole.columns))

    @property
    def shows_all(self) -> bool:
        """Return True if the view has each element of the map once, in some order."""
        return self == type(self).of(self.whole)

    @property
    def stored_channels(self) -> int:
        """Return the number of the map's channels in the view."""
        return self.whole.channels if self.channels is None else self.channels

    @property
    def shows_all_pixels(self) -> bool:
        """Return True if the view has each pixel of the map once, with all or some channels."""
        return replace(self, channels=None, size=(self.whole.channels, *self.size[1:])).shows_all

    @property
    def shows_all_repeated(self) -> bool:
        """Return True if the view repeats each pixel of the map equally often, with all or some channels."""
        times = self.rows.repeat, self.columns.repeat
        alike = replace(self, rows=replace(self.rows, repeat=1), columns=replace(self.columns, repeat=1))
        size = self.whole.rows * times[0], self.whole.columns * times[1]
        return self.size[1:] == size and replace(alike, size=(self.size[0], *self._stored)).shows_all_pixels

    @property
    def _stored(self) -> tuple[int, int]:
        return self.whole.rows, self.whole.columns

    def seen_through(self, read: Read) -> Read:
        """Return the read of the map by a layer that reads a concatenation that contains this view."""
        rows, columns = replace(read.rows, repeat=self.rows.repeat), replace(read.columns, repeat=self.columns.repeat)
        return self.read(rows, columns)

    def read(self, rows: Window, columns: Window) -> Read:
        """Return the read of the map by a layer with these windows over the view."""
        return Read(self.whole.name, rows, columns, self.channels)

    def __str__(self) -> str:
        return " x ".join(map(str, self.size))


def changed(graph: Graph, operator: Operator, source: Sight) -> Sight | None:
    """Return the view after an operator of one input; None if the operator computes something.

    Raises NoLayerError if the kind may be a view, but attributes or shapes do not determine it.
    """
    written = shape_of(graph, operator.outputs[0])
    if operator.kind in SAME_ELEMENTS:
        return reshaped(source, shape_of(graph, operator.inputs[0]), written)
    if operator.kind == "Slice":
        return cropped(operator, source, written)
    if operator.kind in RESIZES:
        return repeated(graph, operator, source)
    return padded(operator, source, written) if operator.kind == "Pad" else None


def repeated(graph: Graph, operator: Operator, source: Sight) -> Sight | None:
    """Return the view with pixels repeated by a nearest-neighbour Resize; None for any other Resize."""
    read, written = (shape_of(graph, name) for name in (operator.inputs[0], operator.outputs[0]))
    paces = paces_of(operator, read, written) if len(read) == len(written) > _ROWS else None
    if paces is None or not source.shows_all_pixels or any(pace.repeat > 1 for pace in paces[:-_ROWS]):
        return None
    rows, columns = (replace(_PIXEL, repeat=pace.repeat) for pace in paces[-_ROWS:])
    return replace(source, size=(source.size[0], *pixels_of(written)), rows=rows, columns=columns)


def reshaped(source: Sight, read: Shape, written: Shape) -> Sight:
    """Return the view unchanged if `written` keeps it or flattens it to a row; raises NoLayerError otherwise.

    Rows and columns keep their positions among the dimensions, unless the map is one pixel.
    """
    pixels = pixels_of(written)
    size = prod(written) // prod(pixels), *pixels
    is_same = size == source.size and (len(read) == len(written) or prod(pixels) == 1)
    if not is_same and size != (prod(source.size), 1, 1):
        raise NoLayerError(f"it makes {list(written)} of {source}")
    return source


def cropped(operator: Operator, source: Sight, written: Shape) -> Sight:
    """Return the view after a Slice of rows, columns or channels; raises NoLayerError if it cannot be determined."""
    count = len(starts) if isinstance(starts := operator.attributes.get("starts"), list) else 0
    if not count or len(written) not in (_ROWS, 4):
        raise NoLayerError("its attributes do not say what it leaves of rows and columns")
    source = _with_channels(source, prod(written[:2]))
    windows = [source.rows, source.columns]
    axes = integers(operator, "axes", tuple(range(count)))
    steps = integers(operator, "steps", (1,) * count)
    for axis, start, step in zip(axes, integers(operator, "starts", (0,) * count), steps, strict=True):
        index = axis % len(written) - _ROWS
        if step < 1 or (index < 0 and step > 1):
            raise NoLayerError("it leaves out some of the channels between others, or reverses")
        if index < 0:
            continue
        before = windows[index]
        first = start + source.size[1 + index] if start < 0 else start
        windows[index] = replace(before, stride=before.stride * step, pad=before.pad - first * before.stride)
    return replace(source, size=(source.size[0], *pixels_of(written)), rows=windows[0], columns=windows[1])


def _with_channels(source: Sight, channels: int) -> Sight:
    """Return the view with that many of its channels; raises NoLayerError if zeros follow the stored ones."""
    if channels == source.size[0]:
        return source
    if source.size[0] != source.stored_channels:
        raise NoLayerError("it leaves a part of the channels that zeros were put behind")
    return replace(source, size=(channels, *source.size[1:]), channels=channels)


def padded(operator: Operator, source: Sight, written: Shape) -> Sight:
    """Return the view with zeros padded after the channels, or around rows and columns that are all present.

    Raises NoLayerError for any other Pad.
    """
    more = prod(written[:2]) - source.size[0]
    behind = tuple(more if at == _BEHIND_CHANNELS else 0 for at in range(8))
    pads = integers(operator, "pads", (-1,) * 8)
    if more >= 0 and pads == behind:
        return replace(source, size=(source.size[0] + more, source.size[1], source.size[2]))
    is_around = min(pads) >= 0 and pads == (0, 0, *pads[2:4], 0, 0, *pads[6:])
    if not is_around or not source.shows_all_pixels or paces_of(operator, written, written) is None:
        raise NoLayerError("it pads more than zeros behind the channels, or around whole rows and columns")
    rows, columns = (replace(_PIXEL, pad=pad) for pad in pads[2:4])
    return replace(source, size=(source.size[0], written[2], written[3]), rows=rows, columns=columns)


def between_zeros(layer: Layer, sight: Sight) -> Layer:
    """Return a nest of windows over a padded view as a nest over the map, whose zeros are not stored.

    Raises NoLayerError if the view is not the whole map with or without zeros around it.
    """
    if sight.shows_all_repeated:
        return layer
    whole, windows = sight.whole, (sight.rows, sight.columns)
    behind = [size - window.pad for size, window in zip(sight.size[1:], windows, strict=True)]
    is_all = sight.size[0] == sight.stored_channels and behind[0] >= whole.rows and behind[1] >= whole.columns
    if not is_all or any(window != replace(_PIXEL, pad=max(window.pad, 0)) for window in windows):
        raise NoLayerError(f"it reads {sight} of {whole.name!r}")
    top, left = layer.padding[0] + sight.rows.pad, layer.padding[1] + sight.columns.pad
    height, width = (
        axis.span(*loops) for axis, loops in zip(layer.axes, ((layer.p, layer.r), (layer.q, layer.s)), strict=True)
    )
    return replace(layer, padding=(top, left, max(height - top - whole.rows, 0), max(width - left - whole.columns, 0)))


def spreads_over(sight: Sight, written: Sight, layer: Layer) -> bool:
    """Return True if a whole map has the pixels written, and its channels (the groups) are broadcast to others."""
    is_whole = sight.shows_all and sight.size[1:] == written.size[1:] and layer.has_weight
    return is_whole and prod(sight.size) == layer.g < prod(written.size)


def over_all_pixels(layer: Layer, source: FeatureMap) -> Layer:
    """Return the nest with the map's pixels as the kernel, if the nest has them among its channels."""
    pixels = source.rows * source.columns
    if layer.r * layer.s == pixels or layer.c % pixels:
        return layer
    return replace(layer, c=layer.c // pixels, r=source.rows, s=source.columns)


def ensure_side_by_side(operator: Operator, parts: Mapping[str, Sight], whole: FeatureMap, shape: Shape) -> None:
    """Raise NoLayerError unless a Concat joins maps, or channels of maps, along the channels of `whole`."""
    plain = [name for name, part in parts.items() if part == Sight.of(part.whole)]
    if any(parts[name].whole.name != name for name in plain):
        raise NoLayerError("it joins other than whole maps")
    pixels = {(*part.size[1:], part.whole.bits) for part in parts.values()}
    channels, rank = sum(parts[name].size[0] for name in operator.inputs), len(shape)
    is_along_channels = rank > 0 and integer(operator, "axis", 0) % rank < rank - min(max(rank - _ROWS, 0), _ROWS)
    are_whole = all(part.shows_all_repeated for part in parts.values()) and channels == whole.channels
    if pixels != {(whole.rows, whole.columns, whole.bits)} or not is_along_channels or not are_whole:
        raise NoLayerError("it does not join maps along their channels")


def is_one_a_channel(graph: Graph, name: str, operator: Operator) -> bool:
    """Return True if a map has one element per channel of the operator's output, for several pixels."""
    written = shape_of(graph, operator.outputs[0])
    spread = ((1,) * len(written) + shape_of(graph, name))[-len(written) :]
    pixels = min(max(len(written) - 2, 0), 2)
    channels = len(written) - pixels
    is_spread = spread == (*written[:channels], *(1,) * pixels)
    return is_spread and prod(written[channels:]) > 1


def all_of(pixels: int) -> Window:
    """Return the window through which every output sees all pixels."""
    return Window(pixels, 0, 1, 0)


def shape_of(graph: Graph, name: str) -> Shape:
    """Return the shape of a tensor; empty if it is unknown."""
    return graph.tensor[name].shape or ()


_VIEWS_OF_MATRICES: Final = SAME_ELEMENTS | {"Concat", "Pad", "Slice", "Split", "Transpose"} | RESIZES
AxesOfMatrix: TypeAlias = tuple[int | None, int | None]
"""The dimensions of a view along which the rows and the columns of its map lie, each alone and whole, or None."""


def _axes_of_matrix(shape: Shape) -> AxesOfMatrix:
    return len(shape) - 2, 1 if len(shape) == HEADS_RANK else None


def _same_axis(span: Span, written: Shape) -> int | None:
    """Return the dimension of a view whose positions are those of the span; None without one."""
    is_same = span.axis is not None and span == Span(written[span.axis], span.axis)
    return span.axis if is_same else None


_IN_THE_WAY: Final = "a layer that reads it cannot be fused through it, or it shows an input as an output"


@dataclass
class ShownMaps:
    """Views of feature maps: `seen` maps each tensor so far to its view, `joined` each concatenation to its parts.

    Views in `apart` are not passed through. With `are_all_in_tiles` maps have zero or two dimensions behind the
    channels, or are matrices. Without a `given_layout` the graph determines which.
    """

    graph: Graph
    precision: Precision
    apart: frozenset[str]
    are_all_in_tiles: bool
    seen: dict[str, Sight] = field(default_factory=dict)
    joined: dict[str, tuple[Sight, ...]] = field(default_factory=dict)
    given_layout: Layout | None = None
    layout: Layout = field(init=False)
    _views: dict[str, str] = field(default_factory=dict)
    _axes: dict[str, AxesOfMatrix] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layout = (self.given_layout or layout_of(self.graph)) if self.are_all_in_tiles else Layout.IMAGE

    def look_at(self, operator: Operator) -> None:
        """Enter inputs that no earlier operator has written or read as maps; raises NoLayerError as `map` does."""
        for name in (one for one in operator.inputs if one not in self.seen):
            self.seen[name] = Sight.of(self.map(name))

    def view(self, operator: Operator) -> bool:
        """Enter the operator's outputs as views of its input and return True, if it only changes the view.

        Raises NoLayerError if later layers cannot read through it.
        """
        if self.layout is Layout.MATRIX:
            return self._passes_matrix_on(operator)
        if len(operator.outputs) > 1:
            self._take_apart(operator)
            return True
        if operator.kind == "Concat":
            self._join(operator)
            return True
        if len(operator.inputs) != 1:
            return False
        if operator.name in self.apart:
            raise NoLayerError(_IN_THE_WAY)
        sight = changed(self.graph, operator, self.seen[operator.inputs[0]])
        if sight is not None:
            self._show(operator.outputs[0], sight, operator.name)
        return sight is not None

    def _passes_matrix_on(self, operator: Operator) -> bool:
        """Enter the output of an operator that turns or reshapes a matrix as a view; raises NoLayerError for others.

        Return False if the operator computes something.
        """
        if operator.kind not in _VIEWS_OF_MATRICES or moves_in_rows(self.graph, operator):
            return False
        source, written = operator.inputs[0], operator.outputs[0]
        spans = spans_read(operator, shape_of(self.graph, source), shape_of(self.graph, written))
        if len(operator.inputs) > 1 or len(operator.outputs) > 1 or spans is None:
            raise NoLayerError("it changes the shape of a matrix, or joins or takes apart matrices")
        if operator.name in self.apart:
            raise NoLayerError(_IN_THE_WAY)
        sight, self._axes[written] = self._turned(source, spans, shape_of(self.graph, written))
        self._show(written, sight, operator.name)
        return True

    def read_as(self, name: str, shape: Shape) -> Sight:
        """Return the view of a matrix in another shape."""
        return self._turned(name, spans_in(shape_of(self.graph, name), shape), shape)[0]

    def _turned(self, source: str, spans: Sequence[Span], written: Shape) -> tuple[Sight, AxesOfMatrix]:
        """Return the view of a tensor whose dimensions have these spans in the view, and the axes of its map there.

        Rows of the view see the map's rows only where these lie along the rows of the view; otherwise they see all.
        """
        whole = self.seen[source].whole
        axes = self._axes.get(source) or _axes_of_matrix(shape_of(self.graph, source))
        found = [None if axis is None else _same_axis(spans[axis], written) for axis in axes]
        rows, columns = (
            _PIXEL if lies == place and place is not None else all_of(pixels)
            for lies, place, pixels in zip(found, _axes_of_matrix(written), (whole.rows, whole.columns), strict=True)
        )
        size = prod(written) // prod(pixels_of(written, self.layout)), *pixels_of(written, self.layout)
        return Sight(whole, size, rows, columns), (found[0], found[1])

    def map(self, name: str) -> FeatureMap:
        """Return a tensor as a separate feature map; raises NoLayerError if it does not have the shape of a map."""
        shape = self.graph.tensor[name].shape
        if shape is None:
            raise NoLayerError(f"tensor {name!r} has no shape")
        if self.are_all_in_tiles and self.layout is Layout.IMAGE and len(shape) not in (2, 4):
            raise NoLayerError(f"{name!r} is {list(shape)}, not batch, channels, rows and columns")
        rows, columns = pixels_of(shape, self.layout)
        return FeatureMap(name, prod(shape) // (rows * columns), rows, columns, self._bits(name), self.layout)

    def views_behind(self, names: Iterable[str]) -> frozenset[str]:
        """Return the operators that join these tensors, or that make them views of maps that are not joined."""
        shown = {name: self.seen[name].whole.name for name in names if name in self.seen}
        views = (whole if whole in self.joined else name for name, whole in shown.items())
        return frozenset(self._views[name] for name in views if name in self._views)

    def joining(self, names: Iterable[str]) -> frozenset[str]:
        """Return the operators that join these tensors."""
        shown = (self.seen[name].whole.name for name in names if name in self.seen)
        return frozenset(self._views[name] for name in shown if name in self.joined)

    def views_of_inputs(self, names: Iterable[str]) -> frozenset[str]:
        """Return the operators that make these tensors views of a network input."""
        given = {tensor.name for tensor in self.graph.with_role(Role.INPUT)}
        shown = (name for name in names if name in self._views and self.seen[name].whole.name in given)
        return frozenset(self._views[name] for name in shown)

    def _show(self, name: str, sight: Sight, operator: str) -> None:
        """Enter an output of the operator as a view, so that layers read the map through it."""
        if self._bits(name) != sight.whole.bits:
            raise NoLayerError(f"it has other bits than {sight.whole.name!r}, which it shows")
        if sight.whole.name in self.joined and (sight.channels or max(sight.rows.repeat, sight.columns.repeat) > 1):
            raise NoLayerError("it leaves a part of the channels of maps that are joined, or repeats their pixels")
        self.seen[name] = sight
        self._views[name] = operator

    def _take_apart(self, operator: Operator) -> None:
        parts = slices_of(self.graph, operator)
        if not parts:
            raise NoLayerError(f"it writes {len(operator.outputs)} tensors")
        if operator.name in self.apart:
            raise NoLayerError(_IN_THE_WAY)
        sights = [cropped(part, self.seen[part.inputs[0]], shape_of(self.graph, part.outputs[0])) for part in parts]
        for part, sight in zip(parts, sights, strict=True):
            self._show(part.outputs[0], sight, operator.name)

    def _join(self, operator: Operator) -> None:
        """Enter a concatenation along the channels, whose parts layers read as parts of one input."""
        name = operator.outputs[0]
        if self.graph.tensor[name].role is Role.OUTPUT:
            raise NoLayerError("its kind is no loop nest of multiply-accumulates")
        if operator.name in self.apart:
            raise NoLayerError(_IN_THE_WAY)
        parts = {one: self.seen[one] for one in operator.inputs}
        if operator.parameters or any(one.whole.name in self.joined for one in parts.values()):
            raise NoLayerError("it joins other than whole maps")
        whole = self.map(name)
        ensure_side_by_side(operator, parts, whole, shape_of(self.graph, name))
        self.seen[name] = Sight.of(whole)
        self.joined[name] = tuple(parts[one] for one in operator.inputs)
        self._views[name] = operator.name

    def _bits(self, name: str) -> int:
        return self.precision.bits or self.graph.tensor[name].bits or PLAIN_BITS


def nest_of_transposed(graph: Graph, operator: Operator, part: Layer, maps: tuple[FeatureMap, FeatureMap]) -> Layer:
    """Return the nest of stride 1, with the outputs of one input pixel as channels; `maps` are input and output.

    `part` is the nest of some of these outputs. Along an axis, the outputs from s * q on need the inputs from q +
    ceil((pad - kernel + 1) / s) on. Raises NoLayerError if the operator has no rows and columns, if its output is not a
    multiple of its input in size, or if it crops more than its kernel.
    """
    source, high = maps
    shapes = shapes_of(graph, operator)
    if len(shapes[0]) != 4:
        raise NoLayerError("it is no map of rows and columns")
    entry = transposed_convolution(operator, shapes)
    down, across = (entry.span(one, None) for one in entry.operands[1][2:])
    if (high.rows, high.columns) != (source.rows * down.per, source.columns * across.per):
        raise NoLayerError(f"its output is not {down.per} x {across.per} times as large as its input")
    if max(down.offset, across.offset) > 0:
        raise NoLayerError("it cuts off more than its kernel")
    before, behind = (-down.offset, -across.offset), (down.extent - 1 + down.offset, across.extent - 1 + across.offset)
    return replace(
        part,
        k=part.k * down.per * across.per,
        p=source.rows,
        q=source.columns,
        r=down.extent,
        s=across.extent,
        padding=(*before, *behind),
    )


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
    given_layout: Layout | None = None
    shown: ShownMaps = field(init=False)
    outside: list[LeftOut] = field(default_factory=list)
    alone: list[LeftOut] = field(default_factory=list)
    inside: list[FusableLayer] = field(default_factory=list)
    in_the_way: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.shown = ShownMaps(
            self.graph, self.precision, self.apart, self.all_in_tiles, given_layout=self.given_layout
        )

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
        if self._leaves_joined(operator):
            return self._concatenation(operator)
        if self.shown.view(operator):
            return None
        if operator.kind == "ConvTranspose":
            return self._transposed(operator)
        if operator.kind in OF_ROWS or KEY_SLICE in operator.attributes:
            return self._of_each_row(operator)
        if self.shown.layout is Layout.MATRIX and moves_in_rows(self.graph, operator):
            return self._without_nest(operator, [self.shown.seen[name] for name in operator.inputs])
        if self.shown.layout is Layout.MATRIX and (times := times_repeated(self.graph, operator)):
            sight = self._only_input(operator)
            is_same = sight.columns == _PIXEL
            return self._without_nest(
                operator, [replace(sight, columns=replace(_PIXEL, repeat=times)) if is_same else sight]
            )
        if self.all_in_tiles and self.shown.layout is Layout.IMAGE and moves_channels(self.graph, operator):
            return self._without_nest(operator, (self._only_input(operator),))
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

        The operator is a product with a matrix of weights, a product with another matrix that reads all rows of it, a
        reduction of each row to one element, or element by element on matrices of one shape.
        """
        if operator.kind in ELEMENT_BY_ELEMENT:
            return self._broadcast(operator, layer, output)
        shapes = shapes_as_read(operator, [shape_of(self.graph, name) for name in operator.inputs])
        sights = [
            self.shown.seen[name] if shape == shape_of(self.graph, name) else self.shown.read_as(name, shape)
            for name, shape in zip(operator.inputs, shapes, strict=False)
        ]
        reads = [one.read(one.rows, one.columns) for one in sights]
        if multiplies_matrices(self.graph, operator):
            reads[1] = replace(reads[1], rows=all_of(sights[1].whole.rows))
        elif not multiplies_rows(self.graph, operator) and not reduces_rows(self.graph, operator):
            raise NoLayerError("it is no product of rows")
        rest = layer.macs // (layer.k * layer.c * output.rows * output.columns)
        n, g = (1, rest) if layer.k == layer.c == 1 else (rest, 1)
        layer = replace(layer, n=n, g=g, p=output.rows, q=output.columns)
        return self._finished(operator, layer, output, tuple(reads))

    def _broadcast(self, operator: Operator, layer: Layer, output: FeatureMap) -> FusableLayer:
        """Return a layer that computes each element of a matrix from the elements of its inputs that broadcast to it.

        A mask may have one row for all rows, or one head for all heads.
        """
        names, written = largest_first(self.graph, operator.inputs), shape_of(self.graph, output.name)
        shapes = [shape_of(self.graph, name) for name in names]
        if SEEN_SHAPES in operator.attributes or shapes[0] != written:
            raise NoLayerError("it reads a matrix in another shape")
        if any(spread(along(written), shape) is None for shape in shapes):
            raise NoLayerError("it reads matrices of different shapes")
        reads = [
            self._at_pixels(self.shown.seen[name], pixels_of(shape, Layout.MATRIX), output)
            for name, shape in zip(names, shapes, strict=True)
        ]
        if not layer.has_weight or len(names) == 1 or shapes[1] != written:
            g = layer.macs // (output.rows * output.columns)
            layer = replace(layer, n=1, g=g, p=output.rows, q=output.columns)
        return self._finished(operator, layer, output, tuple(reads))

    def _at_pixels(self, sight: Sight, pixels: tuple[int, int], output: FeatureMap) -> Read:
        """Return the read of a matrix of these rows and heads at those of the output; one for all is always read."""
        rows, columns = (
            own if size == of else all_of(whole)
            for own, size, of, whole in zip(
                (sight.rows, sight.columns),
                pixels,
                (output.rows, output.columns),
                (sight.whole.rows, sight.whole.columns),
                strict=True,
            )
        )
        return sight.read(rows, columns)

    def _of_each_row(self, operator: Operator) -> FusableLayer:
        """Return an operator without a loop nest that computes each row from that row."""
        if self.shown.layout is not Layout.MATRIX or not works_on_rows(self.graph, operator):
            raise NoLayerError(why_without_nest(operator.kind))
        return self._without_nest(operator, (self._only_input(operator),))

    def _leaves_joined(self, operator: Operator) -> bool:
        """Return True if a concatenation leaves the group, so that its tiles are made."""
        is_output = self.graph.tensor[operator.outputs[0]].role is Role.OUTPUT
        return operator.kind == "Concat" and self.all_in_tiles and self.shown.layout is Layout.IMAGE and is_output

    def _concatenation(self, operator: Operator) -> FusableLayer:
        """Return a concatenation of whole maps along their channels."""
        parts = {name: self.shown.seen[name] for name in operator.inputs}
        if operator.parameters or len(parts) < len(operator.inputs) or len(parts) < 2:
            raise NoLayerError("it joins other than whole maps, or one map twice")
        name = operator.outputs[0]
        ensure_side_by_side(operator, parts, self.shown.map(name), shape_of(self.graph, name))
        return self._without_nest(operator, tuple(parts.values()))

    def _without_nest(self, operator: Operator, sources: Sequence[Sight]) -> FusableLayer:
        """Return an operator without a loop nest that computes each pixel, or each row, from that pixel or row.

        Its costs are estimated as those of an operator element by element.
        """
        output, source = self.shown.map(operator.outputs[0]), sources[0]
        if any(one.whole.name in self.shown.joined for one in sources):
            raise NoLayerError("it reads a concatenation, and multiplies nothing")
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
        return FusableLayer(operator.name, layer, output, tuple(one.read(one.rows, one.columns) for one in sources))

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


_FUSABLE: Final = (
    "convolutions, pools, one or two maps of one size element by element (a Slice or Pad before them), "
    "fully connected layers, a transposed convolution as the last"
)


def fusable_of(
    graph: Graph,
    precision: Precision = Precision(),  # noqa: B008 (frozen)
    layout: Layout | None = None,
) -> FusableNetwork:
    """Return all operators as layers, in the graph's order; without a `layout` the graph determines that of its maps.

    A fully connected layer is a convolution to one pixel whose kernel is the whole map. A transposed convolution of
    stride s is one of stride 1 over its input, with s x s times the output channels: those of the square of outputs
    over an input pixel; taps that an output lacks are zeros among the weights. Operators that only change a shape are
    passed through. A Slice before an addition crops the addition's input (a negative pad, with its step as stride), and
    zeros that a Pad adds to the channels are not read. If an output of the graph is a view of a feature map, that map
    is an output. Raises InputError for any other operator.
    """
    reading = FusableReading(graph, *layers_and_left_out(graph), precision, all_in_tiles=True, given_layout=layout)
    reading.read()
    if reading.outside:
        first = reading.outside[0]
        place, what = f"{first.kind} {first.operator!r}", f"it cannot be fused: {first.why}"
        raise InputError(what, file=graph.name, place=place, expected=_FUSABLE)
    if reading.in_the_way:
        what = f"a view of what it joins leaves: {min(reading.in_the_way)!r}"
        raise InputError(what, file=graph.name, expected="layers that read what is joined")
    if not reading.inside:
        raise InputError("no operator is a layer", file=graph.name, expected="at least one beside views")
    return _network(reading)


@dataclass(frozen=True, slots=True)
class PartlyFusable:
    """A network of the operators that are layers, and the operators outside of its stacks.

    The maps that outside operators read leave the network, and the maps that they write come from outside, so no stack
    contains both sides. `alone` lists the layers that run alone, with the reason.
    """

    network: FusableNetwork
    outside: tuple[LeftOut, ...]
    alone: tuple[LeftOut, ...] = ()


def partly_fusable_of(graph: Graph, precision: Precision = Precision()) -> PartlyFusable:  # noqa: B008 (frozen)
    """Return `fusable_of`'s layers, where operators that cannot be fused run alone or stay outside, possibly all.

    An operator that is one loop nest over whole maps runs alone. A view is outside if a layer that reads through it
    could not be fused; it is then written instead of passed through.
    """
    layers, left_out = layers_and_left_out(graph)
    apart = frozenset[str]()
    while True:
        reading = FusableReading(graph, layers, left_out, precision, apart)
        reading.read()
        if reading.in_the_way <= apart:
            return PartlyFusable(_network(reading), tuple(reading.outside), tuple(reading.alone))
        apart |= reading.in_the_way


def _network(reading: FusableReading) -> FusableNetwork:
    """Return the network of the layers, with the operators that run outside of them."""
    graph, seen = reading.graph, reading.shown.seen
    outside = [graph.operator[left_out.operator] for left_out in reading.outside]
    given = [tensor.name for tensor in graph.with_role(Role.INPUT) if graph.readers[tensor.name]]
    come = (*given, *(name for operator in outside for name in operator.outputs))
    inputs = tuple(seen[name].whole for name in come if name in seen)
    left = [tensor.name for tensor in graph.with_role(Role.OUTPUT)]
    left += [name for operator in outside for name in operator.inputs]
    outputs = dict.fromkeys(seen[name].whole.name for name in left if name in seen)
    moved = moved_operators(graph, (operator.name for operator in outside), reading.precision.bits)
    return FusableNetwork(graph.name, inputs, _in_order(reading), tuple(outputs), moved)


def _in_order(reading: FusableReading) -> tuple[FusableLayer, ...]:
    """Return the layers in the graph's order, but each one that runs alone directly after the last layer it depends on.

    That layer's output leaves its stack in any case, so no stack is cut additionally.
    """
    ordered: list[FusableLayer] = []
    layers = {layer.name: layer for layer in reading.inside}
    behind: dict[str, str | None] = {}  # tensor name -> last layer that must run before the tensor exists
    for operator in reading.graph.operators:
        names = [one.name for one in ordered]
        waits = [names.index(last) for name in operator.inputs if (last := behind.get(name)) is not None]
        layer = layers.get(operator.name)
        if layer is not None:
            ordered.insert(max(waits, default=-1) + 1 if layer.runs_alone else len(ordered), layer)
        last = operator.name if layer is not None else (names[max(waits)] if waits else None)
        behind.update(dict.fromkeys(operator.outputs, last))
    return tuple(ordered)
