"""The transform from a network and the stacks of a schedule to their tile graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from onchip.answer.program import Compute
from onchip.answer.schedule import MOST_TILE_OPERATORS, Schedule, ScheduledStack, ScheduleError
from onchip.answer.stacks import Tiling
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.channel_slices import CHANNELS
from onchip.ops.fusable import MATRIX_RANKS, FusableNetwork, Layout, Stack
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import Precision, with_elements_of
from onchip.ops.nests import NestsOfNetwork
from onchip.ops.views import JoinedMaps, joined_maps, parts_of, views_that_join
from onchip.ops.windows import NoLayerError
from onchip.transform.groups.bands import EmittedParts, JoinedBands, MapBands, OutsideLines
from onchip.transform.groups.stack_in_slices import StackInSlices
from onchip.transform.groups.stack_in_tiles import StackInTiles
from onchip.transform.groups.tile_graph import TileGraph, TileOperator, part_of_network, with_results_in_place

AnyTiles: TypeAlias = StackInTiles | StackInSlices
"""A stack in tiles of rows and columns, or in slices of channels."""


@dataclass(frozen=True, slots=True)
class Tiled:
    """The transform from a network to its tile graph.

    Requires stacks that cover all operators of the network once, in an executable order, and tilings only for stacks of
    layers over feature maps. Ensures that every element that is read, or leaves the network, is computed before, and
    that loop nests have the extents of the regions that their operators compute.
    """

    stacks: tuple[ScheduledStack, ...]
    precision: Precision = field(default_factory=Precision)
    views: frozenset[str] = frozenset()
    """Concatenations that are not made, some of those that `views_that_join` allows."""

    def __call__(self, graph: Graph) -> TileGraph:
        """Raises ScheduleError where the stacks are not the network's, cannot run in tiles, or are too many tiles."""
        network = with_elements_of(graph, self.precision.bits)
        check_stacks(network, self.stacks)
        tiled = stacks_in_tiles(network, self.stacks)
        whole = sum(len(stack.operators) for stack in self.stacks if stack.tiling is None)
        _check_number(network, whole + sum(one.layer_tiles for one in tiled.values()))
        joined = joined_maps(network, self.views)
        made = emitted(NestsOfNetwork(network, self.precision), self.stacks, tiled, joined)
        _check_number(network, len(made.operators))
        return made


def tile_graph(
    graph: Graph, stacks: Sequence[ScheduledStack], precision: Precision, views: Collection[str] = ()
) -> TileGraph:
    """Return the tile graph of the network in these stacks, with elements of `precision`; see docs/schedule.md.

    Concatenations that are `views` are not materialised: their readers read the parts. Raises ScheduleError if the
    stacks do not cover the network, cannot run in tiles, or have too many tiles.
    """
    return Tiled(tuple(stacks), precision, frozenset(views))(graph)


def tile_graph_of_schedule(graph: Graph, schedule: Schedule, precision: Precision) -> TileGraph:
    """Return the tile graph that a schedule runs: a concatenation is made if, and only if, the program runs it.

    Raises what `tile_graph` raises.
    """
    run = {one.operator for one in schedule.program.instructions if isinstance(one, Compute)}
    made = run | {name.rpartition("#")[0] for name in run - graph.operator.keys()}
    return tile_graph(graph, schedule.stacks, precision, views_that_join(graph) - made)


def _check_number(graph: Graph, count: int) -> None:
    if count > MOST_TILE_OPERATORS:
        expected = f"at most {MOST_TILE_OPERATORS:,}: larger tiles"
        raise ScheduleError(f"it has {count:,} tile operators", file=graph.name, place="stacks", expected=expected)


def emitted(
    nests: NestsOfNetwork, stacks: Sequence[ScheduledStack], tiled: Mapping[int, AnyTiles], joined: JoinedMaps
) -> TileGraph:
    """Return the tile graph of a network with legal stacks; `tiled` maps stack numbers to the stacks in tiles.

    Concatenations that are `joined` are not materialised. Raises ScheduleError for an operator that cannot run in
    parts.
    """
    for number, one in tiled.items():
        if one.stack.output.name in joined:
            place = place_of_stack(number, stacks[number])
            expected = "a stack without the concatenation, which is not made"
            raise ScheduleError("a view leaves the stack", place=place, expected=expected)
    emission = _Emission(nests, _bands_outside(nests.graph, tuple(tiled.values()), joined), joined)
    for number, stack in enumerate(stacks):
        if number not in tiled:
            for operator in map(nests.graph.operator.__getitem__, stack.operators):
                if operator.outputs[0] not in joined:
                    emission.add_whole(number, operator)
            continue
        try:
            emission.add_tiles(number, tiled[number])
        except (InputError, NoLayerError) as error:
            why = error if isinstance(error, InputError) else InputError(str(error))
            raise cannot_run_in_tiles(nests.graph, number, stack, why) from None
    return emission.finished()


def _bands_outside(graph: Graph, tiled: Sequence[AnyTiles], joined: JoinedMaps) -> Mapping[str, MapBands]:
    """Return the bands of each map between stacks, or from the network's input, that some stack cuts.

    Raises ScheduleError if one stack cuts a map as an image, and another one as matrices.
    """
    layouts: dict[str, Layout] = {}
    for one in tiled:
        for name in one.maps_outside:
            is_matrix = len(graph.tensor[name].shape or ()) in MATRIX_RANKS
            own = Layout.MATRIX if is_matrix else one.stack.output.layout
            if own is Layout.MATRIX and name in joined and not is_matrix:
                what, expected = "matrices with heads are no maps joined along channels", "a stack that runs whole"
                raise ScheduleError(what, file=graph.name, place=f"tensor {name!r}", expected=expected)
            for part in (name, *parts_of(joined, (name,))):
                if layouts.setdefault(part, own) is not own:
                    what, expected = "one stack cuts it as an image, another as matrices", "one of them whole"
                    raise ScheduleError(what, file=graph.name, place=f"tensor {part!r}", expected=expected)
    in_tiles = [one for one in tiled if isinstance(one, StackInTiles)]
    cut = (each for one in in_tiles for each in one.lines_outside(graph, layouts))
    found = [(part, each) for name, each in cut for part in parts_of(joined, (name,))]
    names = dict.fromkeys(part for one in tiled for name in one.maps_outside for part in parts_of(joined, (name,)))
    lines = OutsideLines(graph, {name: layouts[name] for name in names})
    for name, (rows, columns) in found:
        lines.cut(name, rows, columns)
    for name, channels in (
        each for one in tiled if isinstance(one, StackInSlices) for each in one.channel_lines(graph)
    ):
        lines.cut_channels(name, channels)
    return {name: lines.bands(name) for name in names}


@dataclass
class _Emission:
    """The tile operators made so far; `outside` are the bands of maps that a stack in tiles reads or leaves."""

    nests: NestsOfNetwork
    outside: Mapping[str, MapBands]
    joined: JoinedMaps
    parts: EmittedParts = field(init=False)
    origins: dict[str, TileOperator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parameters = {operator.name: self._parameters_read(operator) for operator in self.nests.graph.operators}
        self.parts = EmittedParts(self.nests.graph, parameters, self.joined)

    def add_whole(self, number: int, operator: Operator) -> None:
        """Add an operator of a stack without tiling, with all bands of each map that is cut. Raises ScheduleError."""
        if operator.name in self.parts.operators:
            place = f"operator {operator.name!r}"
            raise ScheduleError("a tile of another operator has this name", place=place, expected="another name")
        self.parts.add_whole(operator, self._all_bands)
        original = self.nests.graph.operator[operator.name]
        self._describe(number, operator.name, original, self.nests.whole(original))

    def add_tiles(self, number: int, tiled: AnyTiles) -> None:
        """Add the operators of a stack in tiles. Raises InputError or NoLayerError if it cannot run in these tiles."""
        graph = self.nests.graph
        outside: dict[str, MapBands | JoinedBands] = {}
        for name in tiled.maps_outside:
            if name in self.joined:
                outside[name] = JoinedBands(tuple(self.outside[part] for part in parts_of(self.joined, (name,))))
            else:
                outside[name] = self.outside[name]
        before = len(self.parts.operators)
        if isinstance(tiled, StackInSlices):
            tiled.emit(self.parts, outside)
        else:
            for name in tiled.maps_outside.keys() - self.joined.keys():
                band = self.outside[name]
                outside[name] = replace(band, scale=tiled.scale(graph, name, band.layout))
            tiled.emit(self.parts, {**self.outside, **tiled.bands_inside(graph), **outside})
        for operator in list(self.parts.operators.values())[before:]:
            tile = operator.tile
            original = graph.operator[operator.name if tile is None else tile.operator]
            if tile is None:
                nests = self.nests.whole(original)
            elif isinstance(tiled, StackInSlices):
                nests = self.nests.of_channels(original, tile.regions[0][CHANNELS])
            else:
                nests = self.nests.of_region(original, tile.regions[0])
            self._describe(number, operator.name, original, nests)

    def finished(self) -> TileGraph:
        """Return the tile graph of all stacks."""
        operators = self.parts.operators
        read = {name for operator in operators.values() for name in operator.parameters}
        inputs = {name: bands.all for name, bands in self.outside.items()}
        tensors = self.parts.tensors(inputs)
        is_left_out = {tensor.name for tensor in tensors if tensor.role is Role.PARAMETER} - read
        kept = tuple(tensor for tensor in tensors if tensor.name not in is_left_out)
        graph = Graph(self.nests.graph.name, kept, tuple(operators.values()))
        graph = with_results_in_place(graph, self.nests.graph)
        return TileGraph(graph, self.origins, tuple(one.name for one in tensors if one.name in is_left_out))

    def _describe(self, number: int, name: str, original: Operator, nests: tuple[Layer, ...]) -> None:
        """Record the origin of a new operator."""
        self.origins[name] = TileOperator(number, original.name, nests, self.nests.operands(original))

    def _parameters_read(self, operator: Operator) -> tuple[str, ...]:
        """Return the parameters that the operator's nests read; all parameters without nests."""
        operands = self.nests.operands(operator)
        if operands is None:
            return operator.parameters
        return tuple(name for name in operator.parameters if name in (operands.input, operands.weight))

    def _all_bands(self, name: str) -> tuple[Tensor, ...]:
        """Return all bands of a map that is cut, any other tensor whole, and the parts of a joined concatenation."""
        return tuple(
            band
            for part in parts_of(self.joined, (name,))
            for band in (self.outside[part].all if part in self.outside else (self.nests.graph.tensor[part],))
        )


def stacks_in_tiles(graph: Graph, stacks: tuple[ScheduledStack, ...]) -> dict[int, AnyTiles]:
    """Return the stacks with a tiling, by number: their layers, and the regions that each tile computes and reads.

    Raises ScheduleError, with the operator and the reason, for a stack that cannot run in tiles, or not in these.
    """
    found: dict[int, AnyTiles] = {}
    for number, stack in enumerate(stacks):
        if stack.tiling is not None:
            try:
                found[number] = _tiled(graph, stack, stack.tiling)
            except InputError as error:
                raise cannot_run_in_tiles(graph, number, stack, error) from None
    return found


def cannot_run_in_tiles(graph: Graph, number: int, stack: ScheduledStack, why: InputError) -> ScheduleError:
    """Return the error for a stack whose layers or tiles were rejected for the given reason."""
    reason = why.what.removeprefix("it cannot be fused: ")
    what = f"it cannot run in tiles: {InputError(reason, place=why.place)}"
    return ScheduleError(what, file=graph.name, place=place_of_stack(number, stack), expected=why.expected)


def _tiled(graph: Graph, stack: ScheduledStack, tiling: Tiling) -> AnyTiles:
    alone = part_of_network(graph, stack.operators)
    network: FusableNetwork = fusable_of(alone)
    last, output = stack.operators[-1], network.layers[-1].output
    if network.layers[-1].name != last:
        place, expected = f"operator {last!r}", "a stack of its own, or one with its readers"
        raise ScheduleError("a view leaves the stack", place=place, expected=expected)
    if tiling.columns > output.columns or tiling.rows > output.rows:
        what, expected = (
            f"a tile of {tiling.columns}x{tiling.rows} is too large",
            f"at most {output.columns}x{output.rows}",
        )
        raise ScheduleError(what, place=f"feature map {output.name!r}", expected=expected)
    if tiling.channels is None:
        return StackInTiles.of(Stack(network.inputs, network.layers), tiling)
    slices = StackInSlices.of(alone, network, stack.operators, tiling)
    slices.ensure_weights_are_read_once(graph)
    return slices


def check_stacks(graph: Graph, stacks: Sequence[ScheduledStack]) -> None:
    """Raises ScheduleError unless they are the network's operators, once each, in an order in which they can run.

    Of several operators, all but the last have to be read inside their stack, and nowhere else.
    """
    _are_the_operators(graph, stacks)
    for number, stack in enumerate(stacks):
        _is_left_by_its_last_output_alone(graph, number, stack)
    _run_after_what_they_read(graph, stacks)


def place_of_stack(number: int, stack: ScheduledStack) -> str:
    """Return the name of a stack in error messages."""
    first, last = stack.operators[0], stack.operators[-1]
    return f"stack {number} ({first!r})" if first == last else f"stack {number} ({first!r} to {last!r})"


def _are_the_operators(graph: Graph, stacks: Sequence[ScheduledStack]) -> None:
    for number, stack in enumerate(stacks):
        for name in stack.operators:
            if name not in graph.operator:
                what, place = f"operator {name!r} is unknown", place_of_stack(number, stack)
                raise ScheduleError(what, file=graph.name, place=place, expected="operators of the network")
    times = Counter(name for stack in stacks for name in stack.operators)
    for name in graph.operator:
        if times[name] != 1:
            what = f"operator {name!r} is in {times[name] or 'no'} {'stacks' if times[name] else 'stack'}"
            raise ScheduleError(what, file=graph.name, place="stacks", expected="each operator in one")


def _is_left_by_its_last_output_alone(graph: Graph, number: int, stack: ScheduledStack) -> None:
    inside = set(stack.operators)
    for name in stack.operators[:-1]:
        for written in graph.operator[name].outputs:
            outside = [one.name for one in graph.readers[written] if one.name not in inside]
            what = None
            if graph.tensor[written].role is Role.OUTPUT:
                what = f"{written!r}, which {name!r} writes, is an output of the network"
            elif outside:
                what = f"{written!r}, which {name!r} writes, is read outside by {outside[0]!r}"
            elif not graph.readers[written]:
                what = f"{written!r}, which {name!r} writes, is read by nobody"
            if what is not None:
                place = place_of_stack(number, stack)
                raise ScheduleError(what, file=graph.name, place=place, expected="only the last output to leave")


def _run_after_what_they_read(graph: Graph, stacks: Sequence[ScheduledStack]) -> None:
    has_run = set[str]()
    for number, stack in enumerate(stacks):
        for name in stack.operators:
            for read in graph.operator[name].inputs:
                before = graph.producer.get(read)
                if before is not None and before.name not in has_run:
                    what, place = f"{name!r} runs before {before.name!r}, which it reads", place_of_stack(number, stack)
                    expected = "stacks, and operators in them, in an order in which they can run"
                    raise ScheduleError(what, file=graph.name, place=place, expected=expected)
            has_run.add(name)
