"""The transform that replaces a Split by a Slice per output, which tiles can read through."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from onchip.ir.graph import Graph
from onchip.ops.views.split_views import slices_of


@dataclass(frozen=True, slots=True)
class SplitsApart:
    """The transform from a Split to operators `NAME (0)`, `NAME (1)` and so on of kind Slice, one per output.

    It keeps Splits listed in `whole`, those of a map without a shape or of a view, and those whose parts do not add up
    to the map. The Slices of a Split together have all elements of its map once.
    """

    whole: Collection[str] = ()

    def __call__(self, graph: Graph) -> Graph:
        """Return the same network; names of tensors, and of other operators, keep their meaning."""
        operators = [
            part
            for operator in graph.operators
            for part in (slices_of(graph, operator) if operator.name not in self.whole else ()) or (operator,)
        ]
        return Graph(graph.name, graph.tensors, tuple(operators), graph.states)
