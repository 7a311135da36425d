"""Concatenations along the channels that move nothing: their readers read the maps that are joined."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.stated_cost import NOTHING_STATED
from onchip.ir.tensor import Role
from onchip.ir.tile import JoinedPart
from onchip.ir.window import integer

JoinedMaps: TypeAlias = Mapping[str, tuple[JoinedPart, ...]]
"""Map from a concatenation to the maps that it joins, in the order of their channels."""
_CHANNELS: Final = 1
_RANKS: Final = (2, 4)


def views_that_join(graph: Graph) -> frozenset[str]:
    """Return the concatenations whose parts a schedule may read directly (docs/schedule.md, 2).

    They join computed maps along the channels, and no operator reads a part of one twice.
    """
    views = may_be_views(graph)
    while True:
        joined = joined_maps(graph, views)
        twice = next((operator for operator in graph.operators if _sees_twice(operator, joined)), None)
        if twice is None:
            return views
        views -= {graph.producer[name].name for name in twice.inputs if name in joined}


def may_be_views(graph: Graph) -> frozenset[str]:
    """Return the concatenations that may be views, if no operator reads a part of one twice."""
    return frozenset(operator.name for operator in graph.operators if _joins_computed_maps(graph, operator))


def joined_maps(graph: Graph, views: Collection[str]) -> JoinedMaps:
    """Return the parts of each of these concatenations, with nested concatenations replaced by their parts."""
    found: dict[str, tuple[JoinedPart, ...]] = {}
    for operator in graph.operators:
        if operator.name in views:
            (whole,) = operator.outputs
            found[whole] = tuple(_parts(graph, whole, operator.inputs, found))
    return found


def seeing_parts(graph: Graph, joined: JoinedMaps) -> Graph:
    """Return the network without these concatenations; their readers have the parts as inputs."""
    operators = (one for one in graph.operators if one.outputs[0] not in joined)
    return replace(
        graph,
        tensors=tuple(one for one in graph.tensors if one.name not in joined),
        operators=tuple(replace(one, inputs=tuple(parts_of(joined, one.inputs))) for one in operators),
    )


def parts_of(joined: JoinedMaps, names: Iterable[str]) -> Iterator[str]:
    """Yield tensors, with each concatenation replaced by its parts."""
    for name in names:
        yield from (one.part for one in joined[name]) if name in joined else (name,)


def _parts(graph: Graph, whole: str, names: Iterable[str], known: JoinedMaps) -> Iterator[JoinedPart]:
    first = 0
    for name in names:
        inner = known.get(name) or (JoinedPart(name, name, 0),)
        yield from (JoinedPart(whole, one.part, first + one.first_channel) for one in inner)
        first += (graph.tensor[name].shape or (0, 0))[_CHANNELS]


def _sees_twice(operator: Operator, joined: JoinedMaps) -> bool:
    seen = list(parts_of(joined, dict.fromkeys(operator.inputs)))
    return len(seen) > len(set(seen))


def _joins_computed_maps(graph: Graph, operator: Operator) -> bool:
    is_plain = (
        operator.kind == "Concat"
        and len(operator.outputs) == 1
        and not operator.parameters
        and not operator.workspace_bytes
        and operator.tile is None
        and operator.stated == NOTHING_STATED
        and operator.attributes.keys() <= {"axis"}
        and len(operator.members) <= 1  # a fused member may compute something
        and len(set(operator.inputs)) == len(operator.inputs) > 0
    )
    if not is_plain:
        return False
    whole, parts = graph.tensor[operator.outputs[0]], [graph.tensor[name] for name in operator.inputs]
    shape = whole.shape or ()
    rank = len(shape)
    if rank not in _RANKS or integer(operator, "axis", rank) % rank != _CHANNELS or not graph.readers[whole.name]:
        return False
    if any(one.role is not Role.ACTIVATION or one.bits != whole.bits for one in (whole, *parts)):
        return False
    shapes = [one.shape or () for one in parts]
    alike = all(len(one) == rank and (one[:1], one[2:]) == (shape[:1], shape[2:]) for one in shapes)
    return alike and sum(one[_CHANNELS] for one in shapes) == shape[_CHANNELS]
