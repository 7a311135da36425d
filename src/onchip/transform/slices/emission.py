"""Operators in tiles along one axis, or in equal bands of channels, and the graph of these tiles and bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Final

from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Problem
from onchip.arch.memory import Operand
from onchip.errors import GraphError
from onchip.ir.graph import Graph, State
from onchip.ir.operator import Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range
from onchip.ops.entries import geometry_of
from onchip.ops.layers_of import Channels
from onchip.ops.slicing import Geometry, OperandAccess, Span, TileAxis
from onchip.transform.slices.bands import Bands, band_of_tensor, tile_of

NOTHING: Final[Range] = (0, 0)
"""The range of a tile that is not computed, because its reader reads nothing of it."""

Cuts = Mapping[str, Sequence[set[int]]]
"""Map from a tensor to the inner boundaries at which tiles cut each of its dimensions."""


@dataclass(frozen=True, slots=True)
class TilesAlongAxis:
    """An operator in tiles along one axis: the range of each tile, in execution order; tiles may differ in size.

    The tiles of an operator partition the axis, unless it `is_recomputed`: then each tile has the range that the tile
    of its reader with this number reads, or (0, 0) if that tile reads nothing.
    """

    geometry: Geometry
    axis: int
    ranges: tuple[Range, ...]
    is_recomputed: bool = False

    def tiles(self) -> tuple[tuple[Range, ...], ...]:
        """Return the range of each tile along each axis, in execution order."""
        axes = self.geometry.axes
        whole = tuple((0, axis.size) for axis in axes)
        return tuple((*whole[: self.axis], part, *whole[self.axis + 1 :]) for part in self.ranges)

    def lines(self, span: Span) -> AbstractSet[int]:
        """Return the boundaries at which the tiles cut a dimension of an operand.

        Dimensions that follow another axis are cut where the operator reads only a part of them, such as a crop.
        """
        if span.axis is None:
            return frozenset()
        size = self.geometry.axes[span.axis].size
        parts = [part for part in self.ranges if part[0] < part[1]] if span.axis == self.axis else [(0, size)]
        return {end for part in parts for end in span.range(*part, size)} - {0, span.size}

    def band(self, tensor: Tensor, number: int) -> Tensor:
        """Return the part of an output that a recomputed tile writes; parts of several tiles may overlap."""
        write = next(one for one in self.geometry.writes if one.tensor == tensor.name)
        region = write.region(self.tiles()[number], self.geometry.axes)
        return band_of_tensor(tensor, region or (), f"#{number}")


def cut(cuts: Cuts, tiles: TilesAlongAxis) -> None:
    """Add the boundaries of an operator's tiles to `cuts`."""
    for access in (*tiles.geometry.reads, *tiles.geometry.writes):
        for span, made in zip(access.spans, cuts[access.tensor], strict=True):
            made |= tiles.lines(span)


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
    again = {
        name: tuple(
            tiles.band(problem.graph.tensor[name], at) for at, (start, stop) in enumerate(tiles.ranges) if start < stop
        )
        for operator, tiles in tilings.items()
        if tiles.is_recomputed
        for name in problem.graph.operator[operator].outputs
    }
    bands = {tensor.name: Bands.of(tensor, edges[tensor.name]) for tensor in problem.graph.tensors}
    operators = tuple(SliceEmission(problem.graph, tilings, bands, problem.counts).operators())
    tensors = tuple(band for name, each in bands.items() for band in again.get(name, each.all))
    states = tuple(each for state in problem.graph.states for each in _states(state, bands, operators))
    return Graph(problem.graph.name, tensors, operators, states)


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
        for number, tile in enumerate(tiles.tiles()):
            if tile[tiles.axis] != NOTHING:
                yield self._slice(operator, tiles.geometry, tile, number)

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

    def _slice(self, operator: Operator, geometry: Geometry, tile: tuple[Range, ...], number: int) -> Operator:
        read = self._bands_of(geometry, geometry.reads, tile, number)
        regions = tuple(access.region(tile, geometry.axes) or () for access in geometry.writes)
        is_parameter = {band: self.graph.tensor[base].role is Role.PARAMETER for band, base in read.items()}
        uncounted = (each for each in operator.parameters if not self.is_counted(self.graph.tensor[each]))
        sizes = prod(axis.size for axis in geometry.axes)
        return replace(
            operator,
            name=f"{operator.name}#{number}",
            inputs=tuple(band for band in read if not is_parameter[band]),
            parameters=(*(band for band in read if is_parameter[band]), *uncounted),
            outputs=tuple(self._bands_of(geometry, geometry.writes, tile, number)),
            tile=tile_of(self.graph, operator, regions),
            stated=operator.stated.share(prod(stop - start for start, stop in tile), sizes),
        )

    def _bands_of(
        self, geometry: Geometry, accesses: Sequence[OperandAccess], tile: tuple[Range, ...], number: int
    ) -> dict[str, str]:
        """Return each band that the tile needs, with its base tensor, in the operator's order."""
        found: dict[str, str] = {}
        for access in accesses:
            region, writer = access.region(tile, geometry.axes), self.graph.producer.get(access.tensor)
            again = None if writer is None else self.tilings.get(writer.name)
            if region is not None and again is not None and again.is_recomputed:
                found[again.band(self.graph.tensor[access.tensor], number).name] = access.tensor
            elif region is not None:
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


def counted_geometries(problem: Problem, *, is_model: bool) -> dict[str, Geometry | None]:
    """Return the geometry of each operator by name, with the operands that plans count; None if it cannot be cut."""
    graph, counts = problem.graph, problem.counts
    geometries = {each.name: geometry_of(each, graph, is_model=is_model) for each in graph.operators}
    return {
        name: geometry
        and replace(geometry, reads=tuple(read for read in geometry.reads if counts(graph.tensor[read.tensor])))
        for name, geometry in geometries.items()
    }


def with_tiles(
    problem: Problem,
    tiles: Mapping[str, OperatorTiles],
    *,
    is_model: bool,
    geometries: Mapping[str, Geometry | None] | None = None,
) -> Graph:
    """Return the graph with these operators, by name, in tiles; raises GraphError for tiles that they cannot have.

    `geometries` are those that `counted_geometries` returns, if they are known.
    """
    graph = problem.graph
    if geometries is None:
        geometries = counted_geometries(problem, is_model=is_model)
    for name, one in tiles.items():
        place, expected = f"tiles of {name!r}", "those of a plan for this network"
        if name not in graph.operator:
            raise GraphError("there is no such operator", place=place, expected=expected)
        geometry = geometries[name]
        if geometry is None or not one.axis < len(geometry.axes) or geometry.axes[one.axis].is_reduction:
            raise GraphError(f"the operator is not cut along axis {one.axis}", place=place, expected=expected)
        if one.ends and one.ends[-1] != geometry.axes[one.axis].size:
            what = f"the last tile ends at {one.ends[-1]}"
            raise GraphError(what, place=place, expected=f"{geometry.axes[one.axis].size}, the axis's size")
    cut: dict[str, TilesAlongAxis] = {}
    for name, geometry in reversed(tuple(geometries.items())):
        if geometry is not None and name in tiles:
            ends, axis = tiles[name].ends, tiles[name].axis
            cut[name] = (
                TilesAlongAxis(geometry, axis, tuple(pairwise((0, *ends))))
                if ends
                else _computed_again(graph, geometry, axis, cut, graph.operator[name])
            )
    return emitted(problem, cut)


def _computed_again(
    graph: Graph, geometry: Geometry, axis: int, cut: Mapping[str, TilesAlongAxis], operator: Operator
) -> TilesAlongAxis:
    """Return the tiles of an operator that runs for each tile of its reader; raises GraphError if it cannot."""
    (name, *others), place = operator.outputs, f"tiles of {operator.name!r}"
    readers, is_inner = graph.readers[name], not others and graph.tensor[name].role is Role.ACTIVATION
    dimension = geometry.writes[0].dimension_of_positions(axis, geometry.axes[axis].size)
    tiles = cut.get(readers[0].name) if is_inner and len(readers) == 1 else None
    reads = [one for one in tiles.geometry.reads if one.tensor == name] if tiles is not None else []
    if tiles is None or dimension is None or len(reads) != 1:
        what = "the operator is not computed again for each tile of its reader"
        raise GraphError(what, place=place, expected="those of a plan for this network")
    regions = (
        None if own == NOTHING else reads[0].region(tile, tiles.geometry.axes)
        for own, tile in zip(tiles.ranges, tiles.tiles(), strict=True)
    )
    ranges = tuple(NOTHING if region is None else region[dimension] for region in regions)
    return TilesAlongAxis(geometry, axis, ranges, is_recomputed=True)


@dataclass(frozen=True, slots=True)
class ChannelBands:
    """The transform that runs operators, by name, in `parts` equal parts that their `splits` allow.

    Band k of operator OP is the operator `OP#k` with its cycles and its share of the energy. The bands of a tensor
    partition it, cut at the boundaries of its writer and of every reader. Operators that are not cut keep their names.
    The order is that of the operators, band by band.
    """

    parts: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph in bands; raises GraphError for an unknown operator, or an unsupported number of parts."""
        channels = Channels(graph)
        for name, parts in self.parts.items():
            if name not in graph.operator:
                raise GraphError("there is no such operator", place=f"operator {name!r}", expected="one of the graph")
            _ensure_it_may_run_in(channels, graph.operator[name], parts)
        if not self.parts:
            return graph
        several = {name: parts for name, parts in self.parts.items() if parts > 1}
        splits = {name: _channel_split(channels, graph.operator[name], parts) for name, parts in several.items()}
        cuts = {tensor.name: [set[int]() for _ in tensor.shape or ()] for tensor in graph.tensors}
        for tiles in splits.values():
            cut(cuts, tiles)
        bands = {tensor.name: Bands.of(tensor, cuts[tensor.name]) for tensor in graph.tensors}
        tensors = tuple(band for each in bands.values() for band in each.all)
        emission = SliceEmission(graph, splits, bands)
        operators = (self._with_cost(one, band) for one in graph.operators for band in emission.slices(one))
        return Graph(graph.name, tensors, tuple(operators), graph.states_among(tensors))

    def _with_cost(self, whole: Operator, band: Operator) -> Operator:
        """Return the band with the cost that the operator's file states for it; bands share no bytes in place."""
        if band is whole:
            return band
        parts, stated = self.parts.get(whole.name, 1), whole.stated
        if parts > 1:
            energy_pj = None if stated.energy_pj is None else stated.energy_pj / parts
            stated = StatedCost(stated.splits.cycles_of(parts) if stated.splits else None, energy_pj)
        return replace(band, stated=stated, in_place=())


def _ensure_it_may_run_in(channels: Channels, operator: Operator, parts: int) -> None:
    place, splits = f"operator {operator.name!r}", operator.stated.splits
    if splits is None or splits.cycles_of(parts) is None:
        ways = ", ".join(str(parts) for parts, _ in splits.ways) if splits else "a graph file that lists splits"
        raise GraphError(f"the file states no split into {parts} tiles", place=place, expected=ways)
    cut_inputs = operator.inputs if splits.cuts_inputs else ()
    for name in (*operator.outputs, *operator.parameters, *cut_inputs):
        count = channels.count(channels.graph.tensor[name])
        if count is None or count % parts:
            what = f"{name!r} has {'no' if count is None else count} channels for {parts} equal bands"
            raise GraphError(what, place=place, expected=f"a multiple of {parts}")


def _channel_split(channels: Channels, operator: Operator, parts: int) -> TilesAlongAxis:
    """Return the operator in equal bands of its channels, with one tile per band."""
    cut_operands = _cut_operands(operator)

    def access(name: str) -> OperandAccess:
        tensor = channels.graph.tensor[name]
        spans = [Span(size) for size in tensor.shape or ()]
        if name in cut_operands:
            axis = channels.axis(tensor)
            size = spans[axis].size
            spans[axis] = Span(size, 0, step=size // parts, extent=size // parts)
        operand = Operand.OUTPUT if name in operator.outputs else Operand.INPUT
        return OperandAccess(name, operand, (tensor.bits or 0) // 8, tuple(spans))

    reads, writes = tuple(map(access, dict.fromkeys(operator.reads))), tuple(map(access, operator.outputs))
    return TilesAlongAxis(Geometry((TileAxis(parts),), reads, writes), 0, tuple((at, at + 1) for at in range(parts)))


def _cut_operands(operator: Operator) -> frozenset[str]:
    """Return the operands that each band has a part of: outputs, parameters, and inputs if the operator cuts them."""
    splits = operator.stated.splits
    inputs = operator.inputs if splits is not None and splits.cuts_inputs else ()
    return frozenset((*operator.outputs, *operator.parameters, *inputs))
