"""Emit the tile operators of fused groups.

`plan`, `check` and `run` therefore apply to fused stacks without change. docs/fusion.md describes the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from onchip.answer.stacks import Tiling
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range, Region, whole_region
from onchip.ir.window import Window, shapes_as_read
from onchip.ops.contractions import ELEMENT_BY_ELEMENT
from onchip.ops.fusable import (
    AxisName,
    BackCalculation,
    FeatureMap,
    FusableLayer,
    FusableNetwork,
    Layout,
    Read,
    ReadUse,
    Stack,
    back_calculation,
    pixels_of,
    ranges_of_pixels,
    region_of_pixels,
)
from onchip.ops.layers_of import largest_first, multiplies_matrices, times_repeated
from onchip.ops.views import paces_of, region_read, seen_region, spans_in
from onchip.transform.groups.bands import (
    EmittedParts,
    JoinedBands,
    MapBands,
    OutsideLines,
    TilePlace,
    ViewEmission,
    lines_inside,
    lines_outside,
    range_of,
    shift_of_view,
)
from onchip.transform.rewrite.attention_apart import SplitsApart


@dataclass(frozen=True, slots=True)
class StackInTiles:
    """A stack, its tiling, and the back-calculation of both axes."""

    stack: Stack
    tiling: Tiling
    rows: BackCalculation
    columns: BackCalculation

    @classmethod
    def of(cls, stack: Stack, tiling: Tiling) -> StackInTiles:
        """Raises InputError for a tile larger than the map, and where a tile would see nothing but padding."""
        rows = back_calculation(stack, AxisName.ROWS, tiling.rows, cached=tiling.mode.caches_rows)
        columns = back_calculation(stack, AxisName.COLUMNS, tiling.columns, cached=tiling.mode.caches_columns)
        return cls(stack, tiling, rows, columns)

    @property
    def layer_tiles(self) -> int:
        """Return the number of tiles of all layers together, without those in which a layer computes nothing."""
        return sum(
            prod(int((axis.maps[layer.output.name].computed.lengths > 0).sum()) for axis in (self.rows, self.columns))
            for layer in self.stack.layers
        )

    def places(self) -> Iterator[TilePlace]:
        """Return all tiles, in execution order: row by row; for matrices all rows of one head, then the next head."""
        output = self.stack.output
        rows, columns = (range(len(found.maps[output.name].computed.starts)) for found in (self.rows, self.columns))
        if output.layout is Layout.MATRIX:
            return (TilePlace(row, column, 1, len(rows)) for column in columns for row in rows)
        return (TilePlace(row, column, len(columns)) for row in rows for column in columns)

    @property
    def maps_outside(self) -> Mapping[str, FeatureMap]:
        """Return the stack's inputs and its output, by name."""
        return {one.name: one for one in (*self.stack.inputs, self.stack.output)}

    def scale(self, graph: Graph, name: str, layout: Layout) -> tuple[int, int]:
        """Return the rows and columns of a tensor with a layout, per pixel of the stack's input or output."""
        rows, columns = pixels_of(graph.tensor[name].shape or (), layout)
        one = self.maps_outside[name]
        return rows // one.rows, columns // one.columns

    def bands_inside(self, graph: Graph) -> Mapping[str, MapBands]:
        """Return the bands of each map that does not leave the stack."""
        rows = lines_inside(self.stack, self.rows, cached=self.tiling.mode.caches_rows)
        columns = lines_inside(self.stack, self.columns, cached=self.tiling.mode.caches_columns)
        layout = self.stack.output.layout
        return {name: MapBands(graph.tensor[name], lines, columns[name], layout=layout) for name, lines in rows.items()}

    def lines_outside(
        self, graph: Graph, layouts: Mapping[str, Layout]
    ) -> Iterator[tuple[str, tuple[set[int], set[int]]]]:
        """Yield the rows and columns, in elements, at which the stack cuts each of its inputs and its output.

        `layouts` are those of the tensors by name; other tensors have the layout of the stack.
        """
        across = dict(lines_outside(self.stack, self.columns))
        for name, down in lines_outside(self.stack, self.rows):
            scale = self.scale(graph, name, layouts.get(name, self.stack.output.layout))
            yield name, ({line * scale[0] for line in down}, {line * scale[1] for line in across[name]})

    def computed(self, name: str, place: TilePlace) -> tuple[Range, Range]:
        """Return the rows and columns of a map that a tile computes."""
        down, across = self.rows.maps[name].computed, self.columns.maps[name].computed
        return range_of(down, place.row), range_of(across, place.column)

    def emit(self, parts: EmittedParts, bands: Mapping[str, MapBands | JoinedBands]) -> None:
        """Emit all tiles in order; `bands` are those of all maps that the stack reads and writes.

        Raises GraphError for an operator that cannot run in parts.
        """
        for place in self.places():
            self._emit_tile(ViewEmission(parts, bands, place))

    def _emit_tile(self, views: ViewEmission) -> None:
        """Emit the layers of a tile in order; a layer with nothing left to compute is skipped."""
        for at, layer in enumerate(self.stack.layers):
            rows, columns = self.computed(layer.output.name, views.place)
            if rows[0] == rows[1] or columns[0] == columns[1]:
                continue
            operator = views.parts.graph.operator[layer.name]
            written = views.bands[layer.output.name].within(views.place, rows, columns)
            read = self._read(at, layer, views)
            views.parts.add(operator, f"{operator.name}#{views.place.number}", read, written)

    def _read(self, at: int, layer: FusableLayer, views: ViewEmission) -> tuple[Tensor, ...]:
        """Return the bands that a layer reads, through views if its operands are views."""
        place, graph = views.place, views.parts.graph
        computed = self.computed(layer.output.name, place)
        found: list[Tensor] = []
        operator = graph.operator[layer.name]
        is_at_pixels = operator.kind in ELEMENT_BY_ELEMENT
        names = largest_first(graph, operator.inputs) if is_at_pixels else operator.inputs
        every = zip(layer.reads, self.rows.reads[at], self.columns.reads[at], strict=True)
        uses = zip(names, every, strict=not layer.joins)  # parts that are joined are seen alike, as one operand
        for name, (read, down, across) in uses:
            seen = range_of(down.seen, place.row), range_of(across.seen, place.column)
            if name == read.source:
                found += views.bands[name].within(place, *seen)
                continue
            if layer.output.layout is Layout.MATRIX:
                found += views.view(name, _region_of_matrix(graph, operator, name, computed))
                continue
            others = computed if is_at_pixels else self._seen_of_view(name, (read, down, across), computed, views)
            region = self._region(name, read, (seen, others), views)
            found += views.view(name, region)
        return tuple(found)

    def _region(
        self, name: str, read: Read, ranges: tuple[tuple[Range, Range], tuple[Range, Range]], views: ViewEmission
    ) -> Region:
        """Return the region of a view that a layer reads.

        Along an axis where the view has the map's length, and nothing is repeated, this is the region of the map, else
        the second of the two ranges.
        """
        shape, layout = views.parts.graph.tensor[name].shape or (), views.bands[read.source].layout
        is_repeated = max(read.rows.repeat, read.columns.repeat) > 1
        rows, columns = (
            own if size == map_size and not is_repeated else other
            for size, map_size, own, other in zip(
                pixels_of(shape, layout), views.bands[read.source].pixels, *ranges, strict=True
            )
        )
        return region_of_pixels(whole_region(shape), rows, columns, layout)

    def _seen_of_view(
        self, name: str, use: tuple[Read, ReadUse, ReadUse], computed: tuple[Range, Range], views: ViewEmission
    ) -> tuple[Range, Range]:
        """Rows and columns of a view that windows slide over."""
        graph, (read, down, across), place = views.parts.graph, use, views.place
        sizes = pixels_of(graph.tensor[name].shape or ())
        if max(read.rows.repeat, read.columns.repeat) > 1:
            windows = read.rows, read.columns
            rows, columns = (_positions(*each) for each in zip(windows, computed, sizes, strict=True))
            return rows, columns
        places, shift = (place.row, place.column), shift_of_view(graph, name, views.bands)
        rows, columns = (_in_view(*each) for each in zip((down, across), places, shift, sizes, strict=True))
        return rows, columns


def _region_of_matrix(graph: Graph, operator: Operator, name: str, computed: tuple[Range, Range]) -> Region:
    """Return the region of a view that an operator reads for some rows and columns of its output.

    It has the same rows, or all rows of the right factor of a product, and the same columns; of rows or columns that
    broadcast the only one.
    """
    stored = graph.tensor[name].shape or ()
    at = operator.inputs.index(name)
    shape = shapes_as_read(operator, [graph.tensor[each].shape or () for each in operator.inputs])[at]
    sizes, written = (pixels_of(one, Layout.MATRIX) for one in (shape, graph.tensor[operator.outputs[0]].shape or ()))
    rows, columns = (own if size == of else (0, size) for own, size, of in zip(computed, sizes, written, strict=True))
    if times := times_repeated(graph, operator):
        shape, columns = stored, (computed[1][0] // times, (computed[1][1] - 1) // times + 1)
    if at == 1 and multiplies_matrices(graph, operator):
        rows = (0, shape[-2])
    region = region_of_pixels(whole_region(shape), rows, columns, Layout.MATRIX)
    return region if shape == stored else region_read(spans_in(stored, shape), shape, region)


def _positions(window: Window, computed: Range, size: int) -> Range:
    """Return the range of repeated pixels that a sliding window sees, within the map's size."""
    first = computed[0] * window.stride - window.pad
    behind = (computed[1] - 1) * window.stride - window.pad + window.reach
    return max(first, 0), min(behind, size)


def _in_view(use: ReadUse, tile: int, shift: int, size: int) -> Range:
    """Return the range of a view that windows see, including the zeros that the view adds around its map."""
    start, stop = range_of(use.seen, tile)
    first, behind = start - int(use.zeros_before[tile]) - shift, stop + int(use.zeros_after[tile]) - shift
    return max(first, 0), min(behind, size)


def graph_in_tiles(graph: Graph, network: FusableNetwork, stacks: Sequence[tuple[Stack, Tiling]]) -> Graph:
    """`graph`, whose layers are `network`, as the tiles of `stacks`, which have all its layers in order.

    A Split through which layers see is taken apart.
    Layers that run alone and operators outside of all stacks stand whole. Each output of the network, or the map that
    it shows, ends a stack. Raises GraphError for what cannot run in parts.
    """
    graph = SplitsApart({one.name for one in network.moved})(graph)
    tiled = [None if stack.layers[0].runs_alone else StackInTiles.of(stack, tiling) for stack, tiling in stacks]
    outside = _bands_outside(graph, network, [stack for stack, _ in stacks], [one for one in tiled if one is not None])
    parts = EmittedParts(graph)
    whole = WholeOperators(network, parts, outside)
    whole.emit_ready()
    for one, (stack, _) in zip(tiled, stacks, strict=True):
        if one is None:
            whole.emit_alone(stack.layers[0].name)
        else:
            one.emit(parts, {**outside, **one.bands_inside(graph)})
        whole.emit_ready([stack.output.name])
    return parts.finished({one.name: outside[one.name].all for one in network.inputs})


def _bands_outside(
    graph: Graph, network: FusableNetwork, stacks: Sequence[Stack], tiled: Sequence[StackInTiles]
) -> Mapping[str, MapBands]:
    """Return the bands of the network's inputs and the stacks' outputs, cut at the lines of all stacks and views."""
    maps = [*network.inputs, *(stack.output for stack in stacks)]
    layouts: dict[str, Layout] = {one.name: one.layout for one in maps}
    lines = OutsideLines(graph, layouts)
    for one in tiled:
        for name, (rows, columns) in one.lines_outside(graph, layouts):
            lines.cut(name, rows, columns)
    for operator in views_that_leave(graph, network):
        lines.cut(*_shown(graph, network, operator.outputs[0]))
    scales = {name: one.scale(graph, name, layouts[name]) for one in tiled for name in (one.stack.output.name,)}
    return {name: lines.bands(name, scales.get(name, (1, 1))) for name in layouts}


def _shown(graph: Graph, network: FusableNetwork, name: str) -> tuple[str, Range, Range]:
    """Return the map that a view shows, and the rows and columns of it that the view shows."""
    region = whole_region(graph.tensor[name].shape or ())
    while name not in network.maps:
        name, region = _seen(graph, name, region)
    return name, *ranges_of_pixels(region, network.maps[name].layout)


def _seen(graph: Graph, name: str, region: Region) -> tuple[str, Region]:
    """Return the source tensor of a view, and the region of it that a region of the view shows."""
    operator = graph.producer[name]
    source, written = (graph.tensor[each].shape or () for each in (operator.inputs[0], name))
    paces = paces_of(operator, source, written)
    if paces is not None:
        return operator.inputs[0], seen_region(paces, region, source)
    return operator.inputs[0], region if source == written else whole_region(source)


@dataclass
class WholeOperators:
    """The operators of `network` that run whole.

    `waiting` are operators outside the stacks, and views that are outputs. `bands` are those of the maps. `there` are
    the tensors, except views, that are written or given so far.
    """

    network: FusableNetwork
    parts: EmittedParts
    bands: Mapping[str, MapBands]
    waiting: list[Operator] = field(init=False)
    there: set[str] = field(init=False)

    def __post_init__(self) -> None:
        graph, moved = self.parts.graph, {one.name for one in self.network.moved}
        leaving = {operator.name for operator in views_that_leave(graph, self.network)}
        self.waiting = [one for one in graph.operators if one.name in moved or one.name in leaving]
        self.there = {tensor.name for tensor in graph.with_role(Role.INPUT)}

    def emit_ready(self, written: Sequence[str] = ()) -> None:
        """Emit, in the network's order, what waits for nothing any more now that these maps are written."""
        self.there.update(written)
        for operator in list(self.waiting):
            if all(self._behind_views(name) in self.there for name in operator.inputs):
                self.waiting.remove(operator)
                self._emit(operator)

    def emit_alone(self, name: str) -> None:
        """Emit a layer that runs alone."""
        self.parts.add_whole(self.parts.graph.operator[name], self._all_of)

    def _emit(self, operator: Operator) -> None:
        graph = self.parts.graph
        if all(name in self.bands or self._is_moved(operator) for name in operator.outputs):
            self.parts.add_whole(operator, self._all_of)
            self.there.update(operator.outputs)
        else:
            ViewEmission(self.parts, self.bands, TilePlace(0, 0, 1)).leave(graph.tensor[operator.outputs[0]])

    def _is_moved(self, operator: Operator) -> bool:
        return any(one.name == operator.name for one in self.network.moved)

    def _behind_views(self, name: str) -> str:
        """Return the tensor, which is no view, that a tensor shows."""
        graph = self.parts.graph
        while name not in self.bands and name in graph.producer and not self._is_moved(graph.producer[name]):
            name = graph.producer[name].inputs[0]
        return name

    def _all_of(self, name: str) -> tuple[Tensor, ...]:
        """Return all bands of a map, a view made whole, or any other tensor itself."""
        graph = self.parts.graph
        if name in self.bands:
            return self.bands[name].all
        tensor = graph.tensor[name]
        if self._behind_views(name) == name:
            return (tensor,)
        views = ViewEmission(self.parts, self.bands, TilePlace(0, 0, 1))
        return views.view(name, whole_region(tensor.shape or ()))


def views_that_leave(graph: Graph, network: FusableNetwork) -> tuple[Operator, ...]:
    """Return the operators, in order, whose outputs leave the network and are views of its maps."""
    maps, moved = network.maps, {one.name for one in network.moved}
    return tuple(
        operator
        for operator in graph.operators
        if operator.name not in moved
        and operator.outputs[0] not in maps
        and graph.tensor[operator.outputs[0]].role is Role.OUTPUT
    )
