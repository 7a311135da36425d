"""Splits operators that are larger than the scratchpads into tiles, so that the planner needs no special case.

A tile is an operator on bands of the original's tensors; docs/tiling.md says which splits there are and which is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from onchip.answer.document import Split as When
from onchip.answer.problem import Problem
from onchip.errors import GraphError
from onchip.facts.bounds import operator_need
from onchip.ir.graph import Graph
from onchip.ir.tensor import Tensor
from onchip.lower.split.choice import Chooser, TileChoice
from onchip.lower.split.emission import emitted
from onchip.lower.split.kinds import geometry_of
from onchip.lower.split.rounds import FULL, HALF, Geometries, Rounds
from onchip.lower.split.search import CombinationSearch, Option, OutOfWorkError


def split_operators(problem: Problem, when: When, *, is_model: bool = False) -> Graph:
    """The graph with operators in tiles: where they do not fit (AUTO), or not in half of every scratchpad (ALWAYS).

    With ALWAYS an operator that fits and that no split brings below half stays. The operators of a graph that
    `is_model` are run as nodes of an ONNX model: no sums are split, and layouts are those of ONNX. Raises
    GraphError where no combination of splits is found of which every tile fits.
    """
    if when is When.NEVER:
        return problem.graph
    return _Splitting(problem, is_model).run(when)


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
    """Rounds of one choice after the other, which do for most networks, then a search over combinations.

    Operators that fit are left whole if any combination that is found leaves them all whole.
    """

    problem: Problem
    is_model: bool
    chooser: Chooser = field(default_factory=Chooser)

    def run(self, when: When) -> Graph:
        if when is When.ALWAYS and (found := self._rounds((HALF, FULL), leaves_whole=False).run()):
            return found
        for leaves_whole in (True, False):
            if found := self._rounds((FULL,), leaves_whole=leaves_whole).run():
                return found
            search, misfits = self._search(leaves_whole=leaves_whole)
            if (splits := _found(search, misfits)) is not None:
                return emitted(self.problem, splits)
        raise self._refusal(search, misfits)

    def _rounds(self, shares: tuple[int, ...], *, leaves_whole: bool) -> Rounds:
        return Rounds(self.problem, self._geometries, self.chooser, shares, leaves_whole)

    @cached_property
    def _geometries(self) -> Geometries:
        graph, counts = self.problem.graph, self.problem.counts
        geometries = {each.name: geometry_of(each, graph, is_model=self.is_model) for each in graph.operators}
        return {
            name: geometry
            and replace(geometry, reads=tuple(read for read in geometry.reads if counts(graph.tensor[read.tensor])))
            for name, geometry in geometries.items()
        }

    def _search(self, *, leaves_whole: bool) -> tuple[CombinationSearch, tuple[str, ...]]:
        """Return a search from the first round's choice, and the operators that do not fit in that."""
        splits, misfits = self._rounds((FULL,), leaves_whole=True).first()
        chosen: dict[str, Option] = {each.name: (splits.get(each.name),) for each in self.problem.graph.operators}
        return CombinationSearch(self.problem, self._geometries, self.chooser, chosen, leaves_whole), misfits

    def _refusal(self, search: CombinationSearch, misfits: tuple[str, ...]) -> GraphError:
        """Name the first operator of which no split fits alone, else the first that others' bands make too large."""
        capacities = ", ".join(f"{memory.capacity_bytes} of {memory.name!r}" for memory in self.problem.memories)
        named = next((name for name in misfits if not search.may_fit_alone(name)), misfits[0])
        operator = self.problem.graph.operator[named]
        need = operator_need(self.problem, operator).need_bytes
        what, smaller = f"its operands take {need} bytes ({operator.kind})", search.need_of_smallest_tiles(named)
        if smaller not in (None, need):
            what += f", of the smallest tiles {smaller}"
        why = "no split of it fits"
        if search.may_fit_alone(named):
            beside = search.need_in_bands(named)
            what += f", in the bands of its neighbours' tiles {beside}" if beside not in (None, need) else ""
            why = "no combination of splits fits"
        if not search.is_complete:
            why = "no combination of splits that fits was found"
        return GraphError(
            f"{what}, and {why}",
            place=f"operator {named!r}",
            expected=f"operands that fit, each in one scratchpad: bytes {capacities}",
        )


def _found(search: CombinationSearch, misfits: tuple[str, ...]) -> dict[str, TileChoice] | None:
    try:
        return search.find(misfits)
    except OutOfWorkError:
        search.is_complete = False
        return None
