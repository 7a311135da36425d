"""Small networks of any operators, and partitions of them into stacks, some of them in tiles."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume
from hypothesis import strategies as st

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.ops.layers_of import Precision
from onchip.ops.views import views_that_join
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph
from support.fusable_graphs import graphs
from support.tiled import networks

VIEWS = frozenset({"Slice", "Pad", "Flatten", "Concat", "Resize"})
_WHOLE = frozenset({"BatchNormalization", "Transpose", "MatMul", "Softmax"})


def tiled(names: str | Sequence[str], tile: str = "1x1", mode: OverlapMode = OverlapMode.RECOMPUTE) -> ScheduledStack:
    """Return a stack of operators in tiles of columns x rows."""
    columns, rows = map(int, tile.split("x"))
    listed = tuple(names.split()) if isinstance(names, str) else tuple(names)
    return ScheduledStack(listed, Tiling(columns, rows, mode))


def whole(*names: str) -> tuple[ScheduledStack, ...]:
    """Return each operator as a stack without tiles."""
    return tuple(ScheduledStack((name,)) for name in names)


def all_whole(graph: Graph) -> tuple[ScheduledStack, ...]:
    """Return every operator alone and without tiles."""
    return whole(*graph.operator)


@st.composite
def stacks_of(draw: st.DrawFn, graph: Graph) -> tuple[ScheduledStack, ...]:
    """Draw stacks in the graph's order that only their last output leaves; tileable stacks are often tiled."""
    found, start, names = [], 0, list(graph.operator)
    while start < len(names):
        ends = [stop for stop in range(start + 1, len(names) + 1) if stop == start + 1 or _may_be(graph, start, stop)]
        stop = draw(st.sampled_from(ends[::-1]))
        is_tiled = stop > start + 1 or (_may_be(graph, start, stop) and draw(st.booleans()))
        tiling = draw(_tilings(graph, names[stop - 1])) if is_tiled else None
        found.append(ScheduledStack(tuple(names[start:stop]), tiling))
        start = stop
    return tuple(found)


@st.composite
def tile_graphs(draw: st.DrawFn) -> tuple[Graph, tuple[ScheduledStack, ...], TileGraph]:
    """Draw a network of 8, 16, 32 or 64 bits, stacks of all its operators, and their tile graph.

    Some concatenations that need not be made are not.
    """
    graph = draw(st.one_of(graphs(), networks()))
    stacks = draw(stacks_of(graph))
    bits = graph.tensors[0].bits or 8
    views = draw(st.frozensets(st.sampled_from(sorted(found)))) if (found := views_that_join(graph)) else found
    try:
        return graph, stacks, tile_graph(graph, stacks, Precision(bits), views)
    except ScheduleError as error:
        assume("it cannot run in tiles" not in error.what)
        raise


def _may_be(graph: Graph, start: int, stop: int) -> bool:
    """Return True if the operators may be a stack in tiles, judging by kinds and readers only."""
    operators = graph.operators[start:stop]
    if operators[-1].kind in VIEWS or any(one.kind in _WHOLE for one in operators):
        return False
    inside = {one.name for one in operators}
    inner = [name for one in operators[:-1] for name in one.outputs]
    return all(
        graph.tensor[name].role is not Role.OUTPUT and {one.name for one in graph.readers[name]} <= inside
        for name in inner
    )


@st.composite
def _tilings(draw: st.DrawFn, graph: Graph, last: str) -> Tiling:
    rows, columns = (graph.tensor[graph.operator[last].outputs[0]].shape or ())[2:] or (1, 1)
    mode = draw(st.sampled_from(OverlapMode))
    return Tiling(draw(st.integers(1, columns)), draw(st.integers(1, rows)), mode)
