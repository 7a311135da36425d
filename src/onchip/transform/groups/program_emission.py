"""The operators of a tile graph in the order in which they run, and the bands that they read and write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.derive.nests import NestsOfNetwork
from onchip.ops.windows.sliding_windows import NoLayerError
from onchip.transform.groups.bands import MapBands, OutsideLines
from onchip.transform.groups.parts import EmittedParts
from onchip.transform.groups.stack_in_tiles import StackInTiles
from onchip.transform.groups.stacks_in_tiles import cannot_run_in_tiles
from onchip.transform.groups.tile_graph import TileGraph, TileOperator


def emitted(nests: NestsOfNetwork, stacks: Sequence[ScheduledStack], tiled: Mapping[int, StackInTiles]) -> TileGraph:
    """The tile graph of a network whose stacks are legal; `tiled` are those in tiles, by number.

    Raises ScheduleError for an operator that cannot run in parts.
    """
    emission = _Emission(nests, _bands_outside(nests.graph, tiled.values()))
    for number, stack in enumerate(stacks):
        if number not in tiled:
            for name in stack.operators:
                emission.add_whole(number, nests.graph.operator[name])
            continue
        try:
            emission.add_tiles(number, tiled[number])
        except (InputError, NoLayerError) as error:
            why = error if isinstance(error, InputError) else InputError(str(error))
            raise cannot_run_in_tiles(nests.graph, number, stack, why) from None
    return emission.finished()


def _bands_outside(graph: Graph, tiled: Iterable[StackInTiles]) -> Mapping[str, MapBands]:
    """The bands of each map between stacks, or from the network's input, that some stack reads or writes in tiles."""
    found = [each for one in tiled for each in one.lines_outside(graph)]
    lines = OutsideLines(graph, dict.fromkeys(name for name, _ in found))
    for name, (rows, columns) in found:
        lines.cut(name, rows, columns)
    return {name: lines.bands(name) for name, _ in found}


@dataclass
class _Emission:
    """The tile operators made so far; `outside` are the bands of maps that a stack in tiles reads or leaves."""

    nests: NestsOfNetwork
    outside: Mapping[str, MapBands]
    parts: EmittedParts = field(init=False)
    origins: dict[str, TileOperator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parameters = {operator.name: self._parameters_read(operator) for operator in self.nests.graph.operators}
        self.parts = EmittedParts(self.nests.graph, parameters)

    def add_whole(self, number: int, operator: Operator) -> None:
        """An operator of a stack without tiling: as it stands, but that it lists all bands of a map that has some."""
        if operator.name in self.parts.operators:
            place = f"operator {operator.name!r}"
            raise ScheduleError("a tile of another operator has this name", place=place, expected="another name")
        self.parts.add_whole(operator, self._all_bands)
        original = self.nests.graph.operator[operator.name]
        self._describe(number, operator.name, original, self.nests.whole(original))

    def add_tiles(self, number: int, tiled: StackInTiles) -> None:
        """The operators of a stack in tiles; raises InputError, or NoLayerError, where these cannot be."""
        graph, output = self.nests.graph, tiled.stack.output.name
        bands = {**self.outside, **tiled.bands_inside(graph)}
        bands[output] = replace(bands[output], scale=tiled.scale(graph, output))
        before = len(self.parts.operators)
        tiled.emit(self.parts, bands)
        for operator in list(self.parts.operators.values())[before:]:
            tile = operator.tile
            original = graph.operator[operator.name if tile is None else tile.operator]
            nests = self.nests.whole(original) if tile is None else self.nests.of_region(original, tile.regions[0])
            self._describe(number, operator.name, original, nests)

    def finished(self) -> TileGraph:
        """The tile graph of all stacks."""
        operators = self.parts.operators
        read = {name for operator in operators.values() for name in operator.parameters}
        inputs = {name: bands.all for name, bands in self.outside.items()}
        tensors = self.parts.tensors(inputs)
        is_left_out = {tensor.name for tensor in tensors if tensor.role is Role.PARAMETER} - read
        kept = tuple(tensor for tensor in tensors if tensor.name not in is_left_out)
        graph = Graph(self.nests.graph.name, kept, tuple(operators.values()))
        return TileGraph(graph, self.origins, tuple(one.name for one in tensors if one.name in is_left_out))

    def _describe(self, number: int, name: str, original: Operator, nests: tuple[Layer, ...]) -> None:
        """Says of which operator a new one is a part."""
        self.origins[name] = TileOperator(number, original.name, nests, self.nests.operands(original))

    def _parameters_read(self, operator: Operator) -> tuple[str, ...]:
        """Those of its nests' operands; all where there are no nests."""
        operands = self.nests.operands(operator)
        if operands is None:
            return operator.parameters
        return tuple(name for name in operator.parameters if name in (operands.input, operands.weight))

    def _all_bands(self, name: str) -> tuple[Tensor, ...]:
        """Of a map that is cut all bands; another tensor is whole."""
        return self.outside[name].all if name in self.outside else (self.nests.graph.tensor[name],)
