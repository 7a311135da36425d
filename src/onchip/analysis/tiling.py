"""Splits operators that are larger than the scratchpads into tiles, so that the planner needs no special case.

A tile is an operator on bands of the original's tensors; docs/tiling.md says which splits there are and which is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from onchip.analysis.tile import Tile
from onchip.analysis.tiling_choice import Chooser, Cuts, Split, cut
from onchip.analysis.tiling_emission import emitted
from onchip.analysis.tiling_geometry import Geometry
from onchip.analysis.tiling_kinds import geometry_of
from onchip.analysis.tiling_room import Room, items_of
from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.plan.document import Split as When
from onchip.plan.problem import Problem

_FULL, _HALF = 16, 8
_MOST_ROUNDS = 8


def split_operators(problem: Problem, when: When, *, is_model: bool = False) -> Graph:
    """The graph with operators in tiles: where they do not fit (AUTO), or not in half of every scratchpad (ALWAYS).

    With ALWAYS an operator that fits and that no split brings below half stays. The operators of a graph that
    `is_model` are run as nodes of an ONNX model: no sums are split, and layouts are those of ONNX. Raises
    GraphError for an operator that does not fit and cannot be split.
    """
    if when is When.NEVER:
        return problem.graph
    return _Splitting(problem, when, is_model).run()


def cap_tensors(graph: Graph, capacity_bytes: int) -> Graph:
    """Every larger tensor is given the size of the scratchpad instead of its own, and no shape (Jang, 2023)."""
    return replace(
        graph,
        tensors=tuple(
            Tensor(tensor.name, capacity_bytes, tensor.role, aliases=tensor.aliases)
            if tensor.size_bytes > capacity_bytes
            else tensor
            for tensor in graph.tensors
        ),
    )


@dataclass
class _Splitting:
    """Rounds: bands are rounded up to the alignment, so that an operator may need more than its regions' bytes.

    Where that is too much, the next round gives the operator a sixteenth of every scratchpad less.
    """

    problem: Problem
    when: When
    is_model: bool
    chooser: Chooser = field(default_factory=Chooser)
    withheld: Counter[str] = field(default_factory=Counter)

    def run(self) -> Graph:
        for _ in range(_MOST_ROUNDS):
            splits, rooms = self._chosen()
            if not splits:
                return self.problem.graph
            graph = emitted(self.problem, splits)
            too_large = self._too_large(graph, rooms)
            if not too_large:
                return graph
            self.withheld.update(too_large)
        raise self._no_split_fits(self.problem.graph.operator[min(too_large)])

    def _chosen(self) -> tuple[dict[str, Split], dict[str, Room]]:
        """The split of each operator that needs one, and the room that each operator has been given."""
        cuts = {tensor.name: [set[int]() for _ in tensor.shape or ()] for tensor in self.problem.graph.tensors}
        splits: dict[str, Split] = {}
        rooms: dict[str, Room] = {}
        for operator in self.problem.graph.operators:
            split, rooms[operator.name] = self._split_of(operator, cuts)
            if split is not None:
                splits[operator.name] = split
                cut(cuts, split)
        return splits, rooms

    def _split_of(self, operator: Operator, cuts: Cuts) -> tuple[Split | None, Room]:
        withheld = self.withheld[operator.name]
        geometry = self._counted_geometry(operator)
        for share in (_HALF, _FULL) if self.when is When.ALWAYS else (_FULL,):
            room = Room.of(self.problem.memories, share)
            if not withheld and room.holds(items_of(self.problem, operator)):
                return None, room
            less = Room.of(self.problem.memories, max(share - withheld, 0))
            split = None if geometry is None else self.chooser.split_of_least_traffic(geometry, less, cuts)
            if split is not None:
                return split, room
        raise self._no_split_fits(operator)

    def _counted_geometry(self, operator: Operator) -> Geometry | None:
        graph = self.problem.graph
        geometry = geometry_of(operator, graph, is_model=self.is_model)
        if geometry is None:
            return None
        reads = tuple(access for access in geometry.reads if self.problem.counts(graph.tensor[access.tensor]))
        return replace(geometry, reads=reads)

    def _too_large(self, graph: Graph, rooms: Mapping[str, Room]) -> tuple[str, ...]:
        """The original operators of which a tile does not fit."""
        banded = replace(self.problem, graph=graph)
        found = dict[str, None]()
        for operator in graph.operators:
            tile = Tile.of(operator)
            name = operator.name if operator.name in rooms or tile is None else tile.operator
            if not rooms[name].holds(items_of(banded, operator)):
                found[name] = None
        return tuple(found)

    def _no_split_fits(self, operator: Operator) -> GraphError:
        items = items_of(self.problem, operator)
        capacities = ", ".join(f"{memory.capacity_bytes} of {memory.name!r}" for memory in self.problem.memories)
        return GraphError(
            f"its operands take {sum(size for _, size in items)} bytes ({operator.kind}), and no split of it fits",
            place=f"operator {operator.name!r}",
            expected=f"operands that fit, each in one scratchpad: bytes {capacities}",
        )
