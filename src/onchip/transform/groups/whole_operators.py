"""Operators that run whole beside stacks in tiles: those outside of all, layers alone, views that leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.region import whole_region
from onchip.ir.tensor import Role, Tensor
from onchip.ops.derive.fusable import FusableNetwork
from onchip.transform.groups.bands import MapBands, TilePlace
from onchip.transform.groups.parts import EmittedParts
from onchip.transform.groups.views import ViewEmission


@dataclass
class WholeOperators:
    """Those of `network`, whose maps are `bands`; operators that are outside, and views that leave, are `waiting`.

    `there` are the tensors, views left out, that have been written or are given.
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
        """The tensor, itself no view, that a tensor shows."""
        graph = self.parts.graph
        while name not in self.bands and name in graph.producer and not self._is_moved(graph.producer[name]):
            name = graph.producer[name].inputs[0]
        return name

    def _all_of(self, name: str) -> tuple[Tensor, ...]:
        """All bands of a map; a view is made whole; what is neither stands as it is."""
        graph = self.parts.graph
        if name in self.bands:
            return self.bands[name].all
        tensor = graph.tensor[name]
        if self._behind_views(name) == name:
            return (tensor,)
        views = ViewEmission(self.parts, self.bands, TilePlace(0, 0, 1))
        return (views.view(name, whole_region(tensor.shape or ())),)


def views_that_leave(graph: Graph, network: FusableNetwork) -> tuple[Operator, ...]:
    """The operators, in their order, whose outputs leave the network and only show a map of it."""
    maps, moved = network.maps, {one.name for one in network.moved}
    return tuple(
        operator
        for operator in graph.operators
        if operator.name not in moved
        and operator.outputs[0] not in maps
        and graph.tensor[operator.outputs[0]].role is Role.OUTPUT
    )
