"""Splits operators larger than the scratchpads into tiles, so that the planner needs no special case.

A tile is an operator on tiles of the original's tensors; docs/tiling.md lists the splits and the choice among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from onchip.answer.document import Split as When
from onchip.answer.problem import Problem
from onchip.errors import UnsplitError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.ir.tile import Range, size_of
from onchip.model.capacity.bounds import operator_need, packed_bytes
from onchip.model.capacity.room import SplitRoom, items_of
from onchip.ops.entries import geometry_of, has_bounded_operand
from onchip.ops.slicing import Geometry, OperandAccess
from onchip.scheduling.candidates.choice import Chooser
from onchip.scheduling.candidates.in_steps import steps_of, with_steps
from onchip.scheduling.candidates.search import CombinationSearch, Option, OutOfWorkError
from onchip.transform.slices.emission import emitted
from onchip.transform.slices.operators_in_tiles import counted_geometries
from onchip.transform.slices.tile_choice import Cuts, TileChoice, cut

FULL, HALF = 16, 8
_MOST_ROUNDS = 8
Geometries = Mapping[str, Geometry | None]
"""Geometry of each operator by name; None if it cannot be split."""


def split_operators(problem: Problem, when: When, *, is_model: bool = False) -> Graph:
    """Return the graph with operators in tiles if they do not fit (AUTO), or not in half of every scratchpad (ALWAYS).

    With ALWAYS an operator that fits stays whole if no split brings it below half. If `is_model`, the operators run as
    nodes of an ONNX model: no sums are split, and layouts are those of ONNX. Raises UnsplitError if no combination of
    splits is found in which every tile fits.
    """
    if when is When.NEVER:
        return problem.graph
    return _Splitting(_Splitting(problem, is_model).in_steps(), is_model).run(when)


def can_split(problem: Problem, *, is_model: bool = False) -> bool:
    """Return True if some operator can be split, whether or not it fits whole."""
    graph = problem.graph
    return any(
        geometry_of(each, graph, is_model=is_model) is not None or steps_of(each, graph, is_model=is_model) is not None
        for each in graph.operators
    )


def cap_tensors(graph: Graph, capacity_bytes: int) -> Graph:
    """Return the graph with larger tensors clamped to the scratchpad's size and without shapes (Jang, 2023)."""
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
    """The splitting: rounds of independent choices, which suffice for most networks, then a search over combinations.

    Operators that fit are left whole if a combination is found that leaves all of them whole.
    """

    problem: Problem
    is_model: bool
    chooser: Chooser = field(default_factory=Chooser)

    def in_steps(self) -> Problem:
        """Return the problem with operators decomposed if none of their tiles fits, but a tile of each step does."""
        graph = self.problem.graph
        too_large = (operator for operator in graph.operators if not self._has_a_part_that_fits(operator))
        apart = {each.name: steps_of(each, graph, is_model=self.is_model) for each in too_large}
        steps = {name: found for name, found in apart.items() if found is not None}
        if not steps:
            return self.problem
        taken = _Splitting(replace(self.problem, graph=with_steps(graph, steps)), self.is_model)
        fitting = {name: each for name, each in steps.items() if all(map(taken._has_a_part_that_fits, each.operators))}
        return replace(self.problem, graph=with_steps(graph, fitting))

    def _has_a_part_that_fits(self, operator: Operator) -> bool:
        """Return True if the operator fits, or its smallest tile does if it can be cut."""
        room, geometry = SplitRoom.of(self.problem.memories), self._geometries[operator.name]
        if geometry is None or room.holds(items_of(self.problem, operator)):
            return room.holds(items_of(self.problem, operator))
        if len(self.problem.memories) == 1:
            return smallest_part_bytes(self.problem, operator, geometry) <= room.capacities_bytes[0]
        uncut = {access.tensor: [set[int]() for _ in access.spans] for access in (*geometry.reads, *geometry.writes)}
        return self.chooser.split_of_least_traffic(geometry, room, uncut) is not None

    def run(self, when: When) -> Graph:
        if (hopeless := self._hopeless()) is not None:
            raise self._refusal(hopeless, "no split of it fits", is_proven=True)
        if when is When.ALWAYS and (found := self._rounds((HALF, FULL), leaves_whole=False).run()):
            return found
        for leaves_whole in (True, False):
            if found := self._rounds((FULL,), leaves_whole=leaves_whole).run():
                return found
            search, misfits = self._search(leaves_whole=leaves_whole)
            if (splits := _found(search, misfits)) is not None:
                return graph_in_tiles(self.problem, splits)
        raise self._unfound(search, misfits)

    def _hopeless(self) -> Operator | None:
        """Return the operator with the largest minimum tile that exceeds the only scratchpad, or None."""
        room = SplitRoom.of(self.problem.memories)
        if len(self.problem.memories) > 1:
            return None
        too_large = (each for each in self.problem.graph.operators if not room.holds(items_of(self.problem, each)))
        least = {each: smallest_part_bytes(self.problem, each, self._geometries[each.name]) for each in too_large}
        largest = max(least, key=lambda each: least[each], default=None)
        return largest if largest is not None and least[largest] > room.capacities_bytes[0] else None

    def _rounds(self, shares: tuple[int, ...], *, leaves_whole: bool) -> Rounds:
        return Rounds(self.problem, self._geometries, self.chooser, shares, leaves_whole)

    @cached_property
    def _geometries(self) -> Geometries:
        return counted_geometries(self.problem, is_model=self.is_model)

    def _search(self, *, leaves_whole: bool) -> tuple[CombinationSearch, tuple[str, ...]]:
        """Return a search from the first round's choice, and the operators that do not fit in that."""
        splits, misfits = self._rounds((FULL,), leaves_whole=True).first()
        chosen: dict[str, Option] = {each.name: (splits.get(each.name),) for each in self.problem.graph.operators}
        return CombinationSearch(self.problem, self._geometries, self.chooser, chosen, leaves_whole), misfits

    def _unfound(self, search: CombinationSearch, misfits: tuple[str, ...]) -> UnsplitError:
        """Return an error for the first misfit without a fitting split, else the first enlarged by other cuts."""
        named = next((name for name in misfits if not search.may_fit_alone(name)), misfits[0])
        more, why = "", "no split of it fits"
        if search.may_fit_alone(named):
            operator = self.problem.graph.operator[named]
            need, beside = operator_need(self.problem, operator).need_bytes, search.need_in_bands(named)
            more = f", in the bands of its neighbours' tiles {beside}" if beside not in (None, need) else ""
            why = "no combination of splits fits"
        if not search.is_complete:
            why = "no combination of splits that fits was found"
        return self._refusal(self.problem.graph.operator[named], why, more, is_proven=search.is_complete)

    def _refusal(self, operator: Operator, why: str, more: str = "", *, is_proven: bool) -> UnsplitError:
        geometry = self._geometries[operator.name]
        need = operator_need(self.problem, operator).need_bytes
        smallest = smallest_part_bytes(self.problem, operator, geometry)
        part = f", its smallest part {smallest}"
        if smallest == need:
            part = "" if geometry is None else ", as does its smallest part"
        if geometry is None:
            is_bounded = has_bounded_operand(operator, self.problem.graph)
            part += ", and it is cut along no axis" + (", as shapes are known only when it runs" if is_bounded else "")
        listed = ", ".join(f"{memory.capacity_bytes} of {memory.name!r}" for memory in self.problem.memories)
        return UnsplitError(
            f"{why}: its operands take {need} bytes ({operator.kind}){part}{more}",
            operator=operator.name,
            need_bytes=need,
            smallest_part_bytes=smallest,
            capacity_bytes=sum(memory.capacity_bytes for memory in self.problem.memories),
            is_proven=is_proven,
            expected=f"operands that fit, each in one scratchpad: bytes {listed}",
        )


def _found(search: CombinationSearch, misfits: tuple[str, ...]) -> dict[str, TileChoice] | None:
    try:
        return search.find(misfits)
    except OutOfWorkError:
        search.is_complete = False
        return None


def smallest_part_bytes(problem: Problem, operator: Operator, geometry: Geometry | None) -> int:
    """Return the bytes that some tile of the operator needs in every split of it, packed in the first scratchpad.

    In one scratchpad a further cut never increases the need, except for a sum that is passed on. So the bound is over
    tiles of one element along each axis, with the sum split or not. Without a cut axis it is the whole operator.
    """
    if geometry is None:
        return operator_need(problem, operator).need_bytes
    ways = (False, True) if geometry.reduction is not None else (False,)
    return min(max(_needs_of_some_tiles(problem, geometry, in_parts=in_parts)) for in_parts in ways)


def _needs_of_some_tiles(problem: Problem, geometry: Geometry, *, in_parts: bool) -> Iterator[int]:
    """Yield the needs of one-element tiles: at the start, the middle and the end of each axis.

    With a split sum a tile may be the first of its sum, or a later one: the smaller need counts.
    """
    axes, summed = geometry.axes, geometry.reduction
    for number in (0, 1, 2):
        places = [(axis.size - 1) * number // 2 for axis in axes]
        tile: list[Range] = [(place, place + 1) for place in places]
        if summed is not None and not in_parts:
            tile[summed] = (0, axes[summed].size)
        need = _packed(problem, geometry, (*geometry.reads, *geometry.writes), tile)
        if in_parts:
            reads = [one for one in geometry.reads if any(span.axis == summed for span in one.spans)]
            need = min(need, _packed(problem, geometry, (*reads, *geometry.writes), tile, sums=geometry.writes))
        yield need


def _packed(
    problem: Problem,
    geometry: Geometry,
    accesses: Sequence[OperandAccess],
    tile: Sequence[Range],
    sums: Sequence[OperandAccess] = (),
) -> int:
    sizes = (*_bytes_of(problem, geometry, accesses, tile), *_bytes_of(problem, geometry, sums, tile))
    return packed_bytes(sizes, problem.memories[0].alignment_bytes)


def _bytes_of(
    problem: Problem, geometry: Geometry, accesses: Sequence[OperandAccess], tile: Sequence[Range]
) -> tuple[int, ...]:
    """Return the bytes of the regions of counted tensors; for a tensor read in several places, of the largest."""
    found: dict[str, int] = {}
    for access in accesses:
        region = access.region(tile, geometry.axes)
        if region is not None and problem.counts(problem.graph.tensor[access.tensor]):
            size_bytes = size_of(region) * access.element_bytes
            found[access.tensor] = max(found.get(access.tensor, 0), size_bytes)
    return tuple(found.values())


@dataclass
class Rounds:
    """Rounds of independent split choices that converge on the sizes of aligned tensor tiles.

    Tensor tiles are rounded up to the alignment, so an operator may need more than its regions' bytes. If that exceeds
    the capacity, the next round gives the operator a sixteenth of every scratchpad less. An operator must fit, whole or
    in tiles, in the first possible of `shares` (in sixteenths). With `leaves_whole` operators that fit are not split,
    even if others' cuts enlarge them.
    """

    problem: Problem
    geometries: Geometries
    chooser: Chooser
    shares: tuple[int, ...]
    leaves_whole: bool
    withheld: Counter[str] = field(default_factory=Counter)

    def run(self) -> Graph | None:
        """Return the graph in tiles, or None if no round makes all operators fit."""
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
        """Return the first round's splits, and the operators without a fitting split or too large with all cuts."""
        splits, rooms = self._chosen()
        roomy = {operator.name: SplitRoom.of(self.problem.memories) for operator in self.problem.graph.operators}
        misfits = self._misfits(graph_in_tiles(self.problem, splits), roomy)
        return splits, tuple(name for name in roomy if name in misfits or name not in rooms)

    def _chosen(self) -> tuple[dict[str, TileChoice], dict[str, SplitRoom]]:
        """Return the split of each split operator, and the capacity share of each operator that has a choice."""
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
        """Return the split, None to leave it whole, and its capacity share, None if nothing fits."""
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
        """Return the original operators with a tile that does not fit."""
        banded = replace(self.problem, graph=graph)
        found = dict[str, None]()
        for operator in graph.operators:
            tile = operator.tile
            name = operator.name if operator.name in rooms or tile is None else tile.operator
            if not rooms[name].holds(items_of(banded, operator)):
                found[name] = None
        return tuple(found)


def graph_in_tiles(problem: Problem, splits: Mapping[str, TileChoice]) -> Graph:
    """Return the graph with these operators in tiles; a state's tensors get equal cuts if every operator then fits."""
    return emitted(problem, splits, partial(_fits, problem))


def _fits(problem: Problem, graph: Graph, cut_further: Collection[str]) -> bool:
    """Return True if all operators fit that read or write tiles of these tensors."""
    banded, room = replace(problem, graph=graph), SplitRoom.of(problem.memories)
    named = {tensor.name for tensor in graph.tensors if (tensor.part_of or tensor.name) in cut_further}
    around = (each for each in graph.operators if not named.isdisjoint((*each.reads, *each.outputs)))
    return all(room.holds(items_of(banded, operator)) for operator in around)
