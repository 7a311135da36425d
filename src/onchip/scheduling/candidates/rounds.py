"""Splits of operators chosen one after the other, again with less room where the bands that they make take too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from onchip.answer.problem import Problem
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.model.capacity.room import SplitRoom, items_of
from onchip.ops.derive.geometry import Geometry
from onchip.scheduling.candidates.choice import Chooser
from onchip.transform.slices.emission import emitted
from onchip.transform.slices.tile_choice import Cuts, TileChoice, cut

FULL, HALF = 16, 8
_MOST_ROUNDS = 8
Geometries = Mapping[str, Geometry | None]
"""Of each operator, by its name; None where it cannot be split."""


@dataclass
class Rounds:
    """Bands are rounded up to the alignment, so that an operator may need more than its regions' bytes.

    Where that is too much, the next round gives the operator a sixteenth of every scratchpad less. `shares` are the
    sixteenths in which an operator is to fit, whole or in tiles: the first in which it does. With `leaves_whole`
    operators that fit are not split, whatever the others' bands make of them.
    """

    problem: Problem
    geometries: Geometries
    chooser: Chooser
    shares: tuple[int, ...]
    leaves_whole: bool
    withheld: Counter[str] = field(default_factory=Counter)

    def run(self) -> Graph | None:
        """Return the graph in tiles, None if no round brings all of them to fit."""
        for _ in range(_MOST_ROUNDS):
            splits, rooms = self._chosen()
            if len(rooms) < len(self.problem.graph.operators):
                return None
            if not splits:
                return self.problem.graph
            graph = graph_in_tiles(self.problem, splits)
            misfits = self._misfits(graph, rooms)
            if not misfits:
                return graph
            if self.leaves_whole and any(name not in splits for name in misfits):
                return None
            self.withheld.update(misfits)
        return None

    def first(self) -> tuple[dict[str, TileChoice], tuple[str, ...]]:
        """Return the first round's splits, and the operators that have none that fits or do not fit in the bands."""
        splits, rooms = self._chosen()
        roomy = {operator.name: SplitRoom.of(self.problem.memories) for operator in self.problem.graph.operators}
        misfits = self._misfits(graph_in_tiles(self.problem, splits), roomy)
        return splits, tuple(name for name in roomy if name in misfits or name not in rooms)

    def _chosen(self) -> tuple[dict[str, TileChoice], dict[str, SplitRoom]]:
        """Return the split of each operator that is given one, and the room of each for which there is a choice."""
        cuts = {tensor.name: [set[int]() for _ in tensor.shape or ()] for tensor in self.problem.graph.tensors}
        splits: dict[str, TileChoice] = {}
        rooms: dict[str, SplitRoom] = {}
        for operator in self.problem.graph.operators:
            split, room = self._choice(operator, cuts)
            if room is not None:
                rooms[operator.name] = room
            if split is not None:
                splits[operator.name] = split
                cut(cuts, split)
        return splits, rooms

    def _choice(self, operator: Operator, cuts: Cuts) -> tuple[TileChoice | None, SplitRoom | None]:
        """Return the split, None to leave it whole, and the room that it has been given, None if nothing fits."""
        withheld, items = self.withheld[operator.name], items_of(self.problem, operator)
        geometry = self.geometries[operator.name]
        for share in self.shares:
            room = SplitRoom.of(self.problem.memories, share)
            if (not withheld or self.leaves_whole) and room.holds(items):
                return None, room
            less = SplitRoom.of(self.problem.memories, max(share - withheld, 0))
            split = None if geometry is None else self.chooser.split_of_least_traffic(geometry, less, cuts)
            if split is not None:
                return split, room
        room = SplitRoom.of(self.problem.memories)
        return None, room if room.holds(items) else None

    def _misfits(self, graph: Graph, rooms: Mapping[str, SplitRoom]) -> tuple[str, ...]:
        """Return the original operators of which a tile does not fit."""
        banded = replace(self.problem, graph=graph)
        found = dict[str, None]()
        for operator in graph.operators:
            tile = operator.tile
            name = operator.name if operator.name in rooms or tile is None else tile.operator
            if not rooms[name].holds(items_of(banded, operator)):
                found[name] = None
        return tuple(found)


def graph_in_tiles(problem: Problem, splits: Mapping[str, TileChoice]) -> Graph:
    """Return the graph with these operators in tiles; tensors of a state are cut alike if every operator then fits."""
    return emitted(problem, splits, partial(_fits, problem))


def _fits(problem: Problem, graph: Graph, cut_further: Collection[str]) -> bool:
    """Return True if all operators fit that read or write bands of these tensors."""
    banded, room = replace(problem, graph=graph), SplitRoom.of(problem.memories)
    named = {tensor.name for tensor in graph.tensors if (tensor.part_of or tensor.name) in cut_further}
    around = (each for each in graph.operators if not named.isdisjoint((*each.reads, *each.outputs)))
    return all(room.holds(items_of(banded, operator)) for operator in around)
