"""The construction of a graph of tiles and bands from the splits of operators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from math import prod

from onchip.answer.problem import Problem
from onchip.arch.memory import Operand
from onchip.ir.graph import Graph, State
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range, Region, SumPart, Tile
from onchip.ops.slicing import OperandAccess
from onchip.transform.slices.bands import Bands, named_bands, tile_of
from onchip.transform.slices.tile_choice import Split, cut

BandEdges = Mapping[str, Sequence[AbstractSet[int]]]
"""Inner boundaries of the bands, by tensor and dimension."""


def emitted(problem: Problem, splits: Mapping[str, Split], fits: Callable[[Graph, Collection[str]], bool]) -> Graph:
    """Return the graph with these operators in tiles, which replace the operator at its position.

    The two tensors of a state are cut alike if `fits` returns True for that graph and these tensors: every operator
    still fits. Then each pair of their bands is a state.
    """
    cuts = {tensor.name: [set[int]() for _ in tensor.shape or ()] for tensor in problem.graph.tensors}
    for split in splits.values():
        cut(cuts, split)
    alike = cuts_of_states_alike(problem.graph, cuts)
    if alike:
        found = _emitted_with(problem, splits, {**cuts, **alike})
        if fits(found, alike):
            return found
    return _emitted_with(problem, splits, cuts)


def _emitted_with(problem: Problem, splits: Mapping[str, Split], cuts: BandEdges) -> Graph:
    bands = {tensor.name: Bands.of(tensor, cuts[tensor.name]) for tensor in problem.graph.tensors}
    emission = SliceEmission(problem.graph, splits, bands, problem.counts)
    operators = tuple(emission.operators())
    tensors = (*(band for each in bands.values() for band in each.all), *emission.sums)
    return Graph(problem.graph.name, tensors, operators, states_of_bands(problem.graph, bands, operators))


def operands_of_tiles(
    problem: Problem, operator: Operator, split: Split | None, cuts: BandEdges
) -> Iterator[list[tuple[Operand, int]]]:
    """Yield the counted operands of each of the operator's tiles, or of the operator itself if `split` is None.

    `cuts` are the boundaries of the bands of its operands.
    """
    bands = {name: Bands.of(problem.graph.tensor[name], cuts[name]) for name in (*operator.reads, *operator.outputs)}
    tensors = {name: band for each in bands.values() for name, band in named_bands(each).items()}
    emission = SliceEmission(problem.graph, {}, bands, problem.counts)
    for tile in emission.tiles(operator, split):
        tensors |= {tensor.name: tensor for tensor in emission.sums[-1:]}
        operands = (tensors[name] for name in dict.fromkeys((*tile.reads, *tile.outputs)))
        yield [(problem.operand(tile, each), each.size_bytes) for each in operands if problem.counts(each)]


@dataclass
class SliceEmission:
    """The operators of a graph in slices, over the bands of its tensors; `sums` are the partial sums between slices.

    `is_counted` is False for parameters that slices list whole.
    """

    graph: Graph
    splits: Mapping[str, Split]
    bands: Mapping[str, Bands]
    is_counted: Callable[[Tensor], bool] = lambda _: True
    sums: list[Tensor] = field(default_factory=list)

    def operators(self) -> Iterator[Operator]:
        """Yield the slices of each operator, or the unsplit operator over all bands of its operands."""
        for operator in self.graph.operators:
            yield from self.tiles(operator, self.splits.get(operator.name))

    def tiles(self, operator: Operator, split: Split | None) -> Iterator[Operator]:
        """Yield the operator's tiles, or the operator itself if it is not split."""
        if split is None:
            yield self._with_bands(operator)
        else:
            yield from self._tiles(operator, split)

    def _with_bands(self, operator: Operator) -> Operator:
        """Return an unsplit operator that lists every band of its operands, as a single tile."""
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

    def _tiles(self, operator: Operator, split: Split) -> Iterator[Operator]:
        """Yield the tiles; those that reduce into one region pass the partial sum on in execution order."""
        geometry, axis = split.geometry, split.reduction
        tiles = split.tiles()
        last = {_output_part(tile, axis): index for index, tile in enumerate(tiles)}
        passed: dict[tuple[Range, ...], str] = {}
        for index, tile in enumerate(tiles):
            regions = tuple(access.region(tile, geometry.axes) or () for access in geometry.writes)
            described = tile_of(self.graph, operator, regions)
            key = _output_part(tile, axis)
            if axis is not None:
                part = SumPart.END if last[key] == index else SumPart.MIDDLE if key in passed else SumPart.START
                described = replace(described, reduction=tile[axis], part=part)
            emitted_tile = self._tile_operator(operator, split, tile, described, f"{operator.name}#{index}")
            if described.part.adds_to_a_sum:
                emitted_tile = replace(emitted_tile, inputs=(*emitted_tile.inputs, passed[key]))
            if not described.part.is_complete:
                passed[key] = self._sum(emitted_tile.name, operator.outputs[0], regions[0])
                emitted_tile = replace(emitted_tile, outputs=(passed[key],))
            yield emitted_tile

    def _tile_operator(
        self,
        operator: Operator,
        split: Split,
        tile: tuple[Range, ...],
        described: Tile,
        name: str,
    ) -> Operator:
        geometry = split.geometry
        reads = [access for access in geometry.reads if self._is_read(access, split, described.part)]
        read = self._bands_of(reads, tile, split)
        sizes = [axis.size for axis in geometry.axes]
        is_parameter = {band: self.graph.tensor[base].role is Role.PARAMETER for band, base in read.items()}
        uncounted = (each for each in operator.parameters if not self.is_counted(self.graph.tensor[each]))
        return replace(
            operator,
            name=name,
            inputs=tuple(band for band in read if not is_parameter[band]),
            parameters=(*(band for band in read if is_parameter[band]), *uncounted),
            outputs=tuple(self._bands_of(geometry.writes, tile, split)),
            tile=described,
            stated=operator.stated.share(prod(stop - start for start, stop in tile), prod(sizes)),
        )

    def _is_read(self, access: OperandAccess, split: Split, part: SumPart) -> bool:
        """Return True if the tile reads the operand; only the first tile reads operands outside of the sum (a bias)."""
        return not part.adds_to_a_sum or any(span.axis == split.reduction for span in access.spans)

    def _bands_of(self, accesses: Sequence[OperandAccess], tile: tuple[Range, ...], split: Split) -> dict[str, str]:
        """Return each band that the tile needs, with its base tensor, in the operator's order."""
        found: dict[str, str] = {}
        for access in accesses:
            region = access.region(tile, split.geometry.axes)
            if region is not None:
                found |= dict.fromkeys(self.bands[access.tensor].within(region), access.tensor)
        return found

    def _sum(self, tile: str, output: str, region: Region) -> str:
        shape = tuple(stop - start for start, stop in region)
        bits = self.graph.tensor[output].bits or 0
        self.sums.append(Tensor.of_shape(f"{tile}.sum", shape, bits, Role.ACTIVATION))
        return self.sums[-1].name


def _output_part(tile: tuple[Range, ...], reduction: int | None) -> tuple[Range, ...]:
    """Return a tile without its range of the reduced axis."""
    return tuple(each for axis, each in enumerate(tile) if axis != reduction)


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
