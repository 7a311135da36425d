"""From a fusion strategy to the graph of its tiles: what every layer computes in every tile is an operator on bands.

So `plan`, `check` and `run` apply to fused stacks as they are. docs/fusion.md says what is in such a graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onchip.answer.stacks import Tiling
from onchip.ir.graph import Graph
from onchip.ir.region import Range, Region, whole_region
from onchip.ops.derive.fusable import FusableNetwork, Stack, ranges_of_pixels
from onchip.ops.views.views import paces_of, seen_region
from onchip.transform.groups.bands import MapBands, OutsideLines
from onchip.transform.groups.parts import EmittedParts
from onchip.transform.groups.stack_in_tiles import StackInTiles
from onchip.transform.groups.whole_operators import WholeOperators, views_that_leave
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
    """The bands of the network's inputs and the stacks' outputs, cut at the lines of all stacks and views over them."""
    names = dict.fromkeys([*(one.name for one in network.inputs), *(stack.output.name for stack in stacks)])
    lines = OutsideLines(graph, names)
    for one in tiled:
        for name, (rows, columns) in one.lines_outside(graph):
            lines.cut(name, rows, columns)
    for operator in views_that_leave(graph, network):
        lines.cut(*_shown(graph, network, operator.outputs[0]))
    scales = {one.stack.output.name: one.scale(graph, one.stack.output.name) for one in tiled}
    return {name: lines.bands(name, scales.get(name, (1, 1))) for name in names}


def _shown(graph: Graph, network: FusableNetwork, name: str) -> tuple[str, Range, Range]:
    """The map of which a view shows these rows and columns."""
    region = whole_region(graph.tensor[name].shape or ())
    while name not in network.maps:
        name, region = _seen(graph, name, region)
    return name, *ranges_of_pixels(region)


def _seen(graph: Graph, name: str, region: Region) -> tuple[str, Region]:
    """What a region of a view takes of the tensor that it is a view of."""
    operator = graph.producer[name]
    source, written = (graph.tensor[each].shape or () for each in (operator.inputs[0], name))
    paces = paces_of(operator, source, written)
    if paces is not None:
        return operator.inputs[0], seen_region(paces, region, source)
    return operator.inputs[0], region if source == written else whole_region(source)
