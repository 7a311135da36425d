"""The construction of a graph of tiles and bands from the tiles of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import prod

from onchip.answer.problem import Problem
from onchip.ir.graph import Graph, State
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range
from onchip.ops.slicing import Geometry, OperandAccess
from onchip.transform.slices.bands import Bands, tile_of
from onchip.transform.slices.tiles_along_axis import TilesAlongAxis, cut

BandEdges = Mapping[str, Sequence[AbstractSet[int]]]
"""Inner boundaries of the bands, by tensor and dimension."""


def emitted(problem: Problem, tilings: Mapping[str, TilesAlongAxis]) -> Graph:
    """Return the graph with these operators in tiles, which replace the operator at its position.

    The two tensors of a state are cut alike; then each pair of their bands is a state.
    """
    cuts = {tensor.name: [set[int]() for _ in tensor.shape or ()] for tensor in problem.graph.tensors}
    for tiles in tilings.values():
        cut(cuts, tiles)
    edges: BandEdges = {**cuts, **cuts_of_states_alike(problem.graph, cuts)}
    bands = {tensor.name: Bands.of(tensor, edges[tensor.name]) for tensor in problem.graph.tensors}
    operators = tuple(SliceEmission(problem.graph, tilings, bands, problem.counts).operators())
    tensors = tuple(band for each in bands.values() for band in each.all)
    return Graph(problem.graph.name, tensors, operators, states_of_bands(problem.graph, bands, operators))


@dataclass(frozen=True, slots=True)
class SliceEmission:
    """The operators of a graph in slices, over the bands of its tensors.

    `is_counted` is False for parameters that slices list whole.
    """

    graph: Graph
    tilings: Mapping[str, TilesAlongAxis]
    bands: Mapping[str, Bands]
    is_counted: Callable[[Tensor], bool] = lambda _: True

    def operators(self) -> Iterator[Operator]:
        """Yield the slices of each operator, or the whole operator over all bands of its operands."""
        for operator in self.graph.operators:
            yield from self.slices(operator)

    def slices(self, operator: Operator) -> Iterator[Operator]:
        """Yield the operator's slices, or the whole operator if it is not cut."""
        tiles = self.tilings.get(operator.name)
        if tiles is None:
            yield self._with_bands(operator)
            return
        for index, tile in enumerate(tiles.tiles()):
            yield self._slice(operator, tiles.geometry, tile, f"{operator.name}#{index}")

    def _with_bands(self, operator: Operator) -> Operator:
        """Return a whole operator that lists every band of its operands, as a single tile."""
        names = (*operator.inputs, *operator.parameters, *operator.outputs)
        if all(self.bands[name].is_whole for name in names):
            return operator
        return replace(
            operator,
            inputs=self._all_bands(operator.inputs),
            parameters=self._all_bands(operator.parameters),
            outputs=self._all_bands(operator.outputs),
            tile=tile_of(self.graph, operator),
        )

    def _all_bands(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(band.name for name in names for band in self.bands[name].all))

    def _slice(self, operator: Operator, geometry: Geometry, tile: tuple[Range, ...], name: str) -> Operator:
        read = self._bands_of(geometry, geometry.reads, tile)
        regions = tuple(access.region(tile, geometry.axes) or () for access in geometry.writes)
        is_parameter = {band: self.graph.tensor[base].role is Role.PARAMETER for band, base in read.items()}
        uncounted = (each for each in operator.parameters if not self.is_counted(self.graph.tensor[each]))
        sizes = prod(axis.size for axis in geometry.axes)
        return replace(
            operator,
            name=name,
            inputs=tuple(band for band in read if not is_parameter[band]),
            parameters=(*(band for band in read if is_parameter[band]), *uncounted),
            outputs=tuple(self._bands_of(geometry, geometry.writes, tile)),
            tile=tile_of(self.graph, operator, regions),
            stated=operator.stated.share(prod(stop - start for start, stop in tile), sizes),
        )

    def _bands_of(
        self, geometry: Geometry, accesses: Sequence[OperandAccess], tile: tuple[Range, ...]
    ) -> dict[str, str]:
        """Return each band that the tile needs, with its base tensor, in the operator's order."""
        found: dict[str, str] = {}
        for access in accesses:
            region = access.region(tile, geometry.axes)
            if region is not None:
                found |= dict.fromkeys(self.bands[access.tensor].within(region), access.tensor)
        return found


def cuts_of_states_alike(
    graph: Graph, cuts: Mapping[str, Sequence[AbstractSet[int]]]
) -> dict[str, Sequence[AbstractSet[int]]]:
    """Return, for each state whose tensors are cut differently, the union of both tensors' cuts for both.

    States whose tensors differ in shape or bits are omitted.
    """
    found: dict[str, Sequence[AbstractSet[int]]] = {}
    for state in graph.states:
        old, new = graph.tensor[state.old], graph.tensor[state.new]
        if (old.shape, old.bits) == (new.shape, new.bits) and list(cuts[state.old]) != list(cuts[state.new]):
            both = [one | other for one, other in zip(cuts[state.old], cuts[state.new], strict=True)]
            found |= {state.old: both, state.new: both}
    return found


def states_of_bands(graph: Graph, bands: Mapping[str, Bands], operators: Sequence[Operator]) -> tuple[State, ...]:
    """Return the states of uncut tensors, and a state for each pair of bands of tensors that are cut alike."""
    return tuple(each for state in graph.states for each in _states(state, bands, operators))


def _states(state: State, bands: Mapping[str, Bands], operators: Sequence[Operator]) -> Iterator[State]:
    old, new = bands[state.old], bands[state.new]
    if old.is_whole and new.is_whole:
        yield state
    elif old.edges == new.edges and old.base.bits == new.base.bits:
        names = {band.name for band in old.all}
        read_by_writer = {name: names & {*each.reads} for each in operators for name in each.outputs}
        place = new.base.aliases.index(state.alias) if state.alias in new.base.aliases else None
        for one, other in zip(old.all, new.all, strict=True):
            in_place = state.in_place and read_by_writer[other.name] == {one.name}
            alias = "" if place is None else other.aliases[place]
            yield replace(state, old=one.name, new=other.name, in_place=in_place, alias=alias)
