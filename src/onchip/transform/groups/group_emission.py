"""The tile graph of a fusion strategy: one operator on bands for each layer in each tile.

`plan`, `check` and `run` therefore apply to fused stacks without change. docs/fusion.md describes the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.stacks import Tiling
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.region import Range, Region, whole_region
from onchip.ir.tensor import Role, Tensor
from onchip.ops.derive.fusable import FusableNetwork, Layout, Stack, ranges_of_pixels
from onchip.ops.views.views import paces_of, seen_region
from onchip.transform.groups.bands import MapBands, OutsideLines, TilePlace
from onchip.transform.groups.parts import EmittedParts
from onchip.transform.groups.stack_in_tiles import StackInTiles
from onchip.transform.groups.views import ViewEmission
from onchip.transform.rewrite.splits_apart import SplitsApart


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
