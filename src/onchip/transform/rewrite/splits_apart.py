"""The transform that takes a Split apart: each of its outputs is a Slice of its own, through which tiles can see."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from onchip.ir.graph import Graph
from onchip.ops.views.split_views import slices_of


@dataclass(frozen=True, slots=True)
class SplitsApart:
    """The transform from a Split to operators `NAME (0)`, `NAME (1)` and so on of kind Slice, one for each output.

    It leaves alone those that are named as `whole`, those of a map that has no shape or is a view of another one, and
    those whose parts do not make up the map. It ensures that the Slices of a Split have all elements of its map once.
    """

    whole: Collection[str] = ()

    def __call__(self, graph: Graph) -> Graph:
        """The same network; names of tensors, and of other operators, keep their meaning."""
        operators = [
            part
            for operator in graph.operators
            for part in (slices_of(graph, operator) if operator.name not in self.whole else ()) or (operator,)
        ]
        return Graph(graph.name, graph.tensors, tuple(operators), graph.states)
