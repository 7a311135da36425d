"""From a fusion strategy to the graph of its tiles: what every layer computes in every tile is an operator on bands.

So `plan`, `check` and `run` apply to fused stacks as they are. docs/fusion.md says what is in such a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onchip.answer.stacks import Tiling
from onchip.facts.back_calculation import AxisName, BackCalculation, back_calculation
from onchip.facts.fusable import FusableLayer, FusableNetwork, Stack
from onchip.facts.views import paces_of, seen_region
from onchip.ir.graph import Graph
from onchip.ir.region import Range, Region, whole_region
from onchip.ir.tensor import Role, Tensor
from onchip.lower.stacks.bands import Lines, MapBands, TilePlace, lines_inside, lines_outside, range_of
from onchip.lower.stacks.parts import EmittedParts
from onchip.lower.stacks.views import ViewEmission


def graph_in_tiles(graph: Graph, network: FusableNetwork, stacks: Sequence[tuple[Stack, Tiling]]) -> Graph:
    """`graph`, whose layers are `network`, as the tiles of `stacks`, which have all its layers in order.

    Each output of the network, or the map that it shows, ends one of them. Raises GraphError for what cannot run in
    parts.
    """
    tiled = [_TiledStack.of(stack, tiling) for stack, tiling in stacks]
    leaving = tuple(_views_that_leave(graph, network))
    outside = _bands_outside(graph, network, tiled, leaving)
    parts, inputs = EmittedParts(graph), {one.name for one in network.inputs}
    _emit_whole((view for view in leaving if view.shown in inputs), parts, outside)
    for one in tiled:
        bands = {**outside, **one.bands_inside(graph)}
        for place in one.places():
            _emit_tile(parts, one, ViewEmission(parts, bands, place))
        _emit_whole((view for view in leaving if view.shown == one.stack.output.name), parts, outside)
    return parts.finished({one.name: outside[one.name].all for one in network.inputs})


@dataclass(frozen=True, slots=True)
class _LeavingView:
    """An output of the network that only shows these rows and columns of map `shown`."""

    tensor: Tensor
    shown: str
    rows: Range
    columns: Range


@dataclass(frozen=True, slots=True)
class _TiledStack:
    stack: Stack
    tiling: Tiling
    rows: BackCalculation
    columns: BackCalculation

    @classmethod
    def of(cls, stack: Stack, tiling: Tiling) -> _TiledStack:
        rows = back_calculation(stack, AxisName.ROWS, tiling.rows, cached=tiling.mode.caches_rows)
        columns = back_calculation(stack, AxisName.COLUMNS, tiling.columns, cached=tiling.mode.caches_columns)
        return cls(stack, tiling, rows, columns)

    def places(self) -> Iterator[TilePlace]:
        """Of all tiles, as they run."""
        output = self.stack.output.name
        rows, columns = (len(found.maps[output].computed.starts) for found in (self.rows, self.columns))
        return (TilePlace(row, column, columns) for row in range(rows) for column in range(columns))

    def bands_inside(self, graph: Graph) -> Mapping[str, MapBands]:
        """Of the maps that do not leave the stack."""
        rows = lines_inside(self.stack, self.rows, cached=self.tiling.mode.caches_rows)
        columns = lines_inside(self.stack, self.columns, cached=self.tiling.mode.caches_columns)
        return {name: MapBands(graph.tensor[name], lines, columns[name]) for name, lines in rows.items()}

    def computed(self, name: str, place: TilePlace) -> tuple[Range, Range]:
        """The rows and columns of a map that a tile computes."""
        down, across = self.rows.maps[name].computed, self.columns.maps[name].computed
        return range_of(down, place.row), range_of(across, place.column)


def _bands_outside(
    graph: Graph, network: FusableNetwork, stacks: Sequence[_TiledStack], leaving: Sequence[_LeavingView]
) -> Mapping[str, MapBands]:
    """Of the network's inputs and the stacks' outputs, cut at the lines of all stacks and views over them."""
    maps = network.maps
    names = dict.fromkeys([*(one.name for one in network.inputs), *(one.stack.output.name for one in stacks)])
    rows = {name: {0, maps[name].rows} for name in names}
    columns = {name: {0, maps[name].columns} for name in names}
    for one in stacks:
        for lines, found in ((rows, one.rows), (columns, one.columns)):
            for name, cuts in lines_outside(one.stack, found):
                lines[name].update(cuts)
    for view in leaving:
        rows[view.shown].update(view.rows)
        columns[view.shown].update(view.columns)
    bands = {}
    for name in names:
        tensor = graph.tensor[name]
        height, width = (tensor.shape or ())[2:] or (1, 1)
        scale = height // maps[name].rows, width // maps[name].columns
        down, across = (Lines((tuple(sorted(lines[name])),)) for lines in (rows, columns))
        bands[name] = MapBands(tensor, down, across, scale)
    return bands


def _emit_tile(parts: EmittedParts, tiled: _TiledStack, views: ViewEmission) -> None:
    """The layers in their order; one that has nothing left to compute does not run."""
    for at, layer in enumerate(tiled.stack.layers):
        rows, columns = tiled.computed(layer.output.name, views.place)
        if rows[0] == rows[1] or columns[0] == columns[1]:
            continue
        operator = parts.graph.operator[layer.name]
        written = views.bands[layer.output.name].within(views.place, rows, columns)
        read = _read(tiled, at, layer, views)
        parts.add(operator, f"{operator.name}#{views.place.number}", read, written)


def _read(tiled: _TiledStack, at: int, layer: FusableLayer, views: ViewEmission) -> tuple[Tensor, ...]:
    """The bands that a layer sees, through views where its operands are views."""
    place, graph = views.place, views.parts.graph
    computed = tiled.computed(layer.output.name, place)
    found: list[Tensor] = []
    uses = zip(
        graph.operator[layer.name].inputs, layer.reads, tiled.rows.reads[at], tiled.columns.reads[at], strict=True
    )
    for name, read, down, across in uses:
        seen = range_of(down.seen, place.row), range_of(across.seen, place.column)
        if name == read.source:
            found += views.bands[name].within(place, *seen)
            continue
        shape = graph.tensor[name].shape or ()
        sizes, map_sizes = shape[2:] or (1, 1), views.bands[read.source].pixels
        # A view of other pixels is read element by element: at the pixels that are written.
        wanted = (
            own if size == map_size else written
            for size, map_size, own, written in zip(sizes, map_sizes, seen, computed, strict=True)
        )
        region = (*whole_region(shape[:2]), *wanted) if len(shape) > 2 else whole_region(shape)
        found.append(views.view(name, region))
    return tuple(found)


def _views_that_leave(graph: Graph, network: FusableNetwork) -> Iterator[_LeavingView]:
    """In the order in which they are made."""
    maps = network.maps
    for operator in graph.operators:
        tensor = graph.tensor[operator.outputs[0]]
        if tensor.role is not Role.OUTPUT or tensor.name in maps:
            continue
        name, region = tensor.name, whole_region(tensor.shape or ())
        while name not in maps:
            name, region = _seen(graph, name, region)
        rows, columns = region[2:] or ((0, 1), (0, 1))
        yield _LeavingView(tensor, name, rows, columns)


def _seen(graph: Graph, name: str, region: Region) -> tuple[str, Region]:
    """What a region of a view takes of the tensor that it is a view of."""
    operator = graph.producer[name]
    source, written = (graph.tensor[each].shape or () for each in (operator.inputs[0], name))
    paces = paces_of(operator, source, written)
    if paces is not None:
        return operator.inputs[0], seen_region(paces, region, source)
    return operator.inputs[0], region if source == written else whole_region(source)


def _emit_whole(views: Iterable[_LeavingView], parts: EmittedParts, outside: Mapping[str, MapBands]) -> None:
    """Before any tile makes a part of them that does not leave."""
    emission = ViewEmission(parts, outside, TilePlace(0, 0, 1))
    for one in views:
        emission.leave(one.tensor)
