"""From a fusion strategy to the graph of its tiles: what every layer computes in every tile is an operator on bands.

So `plan`, `check` and `run` apply to fused stacks as they are. docs/fusion.md says what is in such a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onchip.answer.stacks import Tiling
from onchip.facts.fusable import FusableNetwork, Stack, ranges_of_pixels
from onchip.facts.views import paces_of, seen_region
from onchip.ir.graph import Graph
from onchip.ir.region import Range, Region, whole_region
from onchip.ir.tensor import Role, Tensor
from onchip.lower.stacks.bands import MapBands, OutsideLines, TilePlace
from onchip.lower.stacks.parts import EmittedParts
from onchip.lower.stacks.stack_in_tiles import StackInTiles
from onchip.lower.stacks.views import ViewEmission


def graph_in_tiles(graph: Graph, network: FusableNetwork, stacks: Sequence[tuple[Stack, Tiling]]) -> Graph:
    """`graph`, whose layers are `network`, as the tiles of `stacks`, which have all its layers in order.

    Each output of the network, or the map that it shows, ends one of them. Raises GraphError for what cannot run in
    parts.
    """
    tiled = [StackInTiles.of(stack, tiling) for stack, tiling in stacks]
    leaving = tuple(_views_that_leave(graph, network))
    outside = _bands_outside(graph, network, tiled, leaving)
    parts, inputs = EmittedParts(graph), {one.name for one in network.inputs}
    _emit_whole((view for view in leaving if view.shown in inputs), parts, outside)
    for one in tiled:
        one.emit(parts, {**outside, **one.bands_inside(graph)})
        _emit_whole((view for view in leaving if view.shown == one.stack.output.name), parts, outside)
    return parts.finished({one.name: outside[one.name].all for one in network.inputs})


@dataclass(frozen=True, slots=True)
class _LeavingView:
    """An output of the network that only shows these rows and columns of map `shown`."""

    tensor: Tensor
    shown: str
    rows: Range
    columns: Range


def _bands_outside(
    graph: Graph, network: FusableNetwork, stacks: Sequence[StackInTiles], leaving: Sequence[_LeavingView]
) -> Mapping[str, MapBands]:
    """The bands of the network's inputs and the stacks' outputs, cut at the lines of all stacks and views over them."""
    names = dict.fromkeys([*(one.name for one in network.inputs), *(one.stack.output.name for one in stacks)])
    lines = OutsideLines(graph, names)
    for one in stacks:
        for name, (rows, columns) in one.lines_outside(graph):
            lines.cut(name, rows, columns)
    for view in leaving:
        lines.cut(view.shown, view.rows, view.columns)
    scales = {one.stack.output.name: one.scale(graph, one.stack.output.name) for one in stacks}
    return {name: lines.bands(name, scales.get(name, (1, 1))) for name in names}


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
        rows, columns = ranges_of_pixels(region)
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
