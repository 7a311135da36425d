"""Emit the tile operators of a fused group that runs in slices of channels (docs/schedule.md, section 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onchip.answer.stacks import Tiling
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.tensor import Tensor
from onchip.ir.tile import Range, Region, whole_region
from onchip.ops.channel_slices import CHANNELS, GroupInSlices, OperatorInSlices
from onchip.ops.fusable import FeatureMap, FusableNetwork, Layout, Stack, pixels_of
from onchip.transform.groups.bands import EmittedParts, JoinedBands, MapBands, TilePlace
from onchip.transform.slices.bands import band_of_tensor

_ANY_PLACE = TilePlace(0, 0, 1)
"""Maps outside of a group have the same bands for all of its tiles."""


@dataclass(frozen=True, slots=True)
class StackInSlices:
    """A stack whose tiles are slices of channels of its last output."""

    stack: Stack
    group: GroupInSlices

    @classmethod
    def of(cls, graph: Graph, network: FusableNetwork, operators: Sequence[str], tiling: Tiling) -> StackInSlices:
        """Raises InputError if the operators, whose layers are `network`, have no such slices."""
        output, channels = network.layers[-1].output, tiling.channels or 0
        if output.layout is not Layout.IMAGE:
            raise InputError("its maps are matrices", place="tile", expected="tiles of rows and columns")
        if (tiling.columns, tiling.rows) != (output.columns, output.rows):
            what, expected = "slices of channels have a part of the pixels", f"{output.columns}x{output.rows}"
            raise InputError(what, place=f"feature map {output.name!r}", expected=expected)
        group = GroupInSlices.of(graph, operators, channels)
        group.sliced(graph, network, 0)
        return cls(Stack(network.inputs, network.layers), group)

    def ensure_weights_are_read_once(self, whole: Graph) -> None:
        """Raise InputError for a parameter that another operator of the whole network reads: slices would cut it."""
        for parameter in (name for one in self.group.operators for name in one.operator.parameters):
            if len(whole.readers[parameter]) > 1:
                what = f"{parameter!r} has several readers, and slices would cut it"
                raise InputError(what, place="tile", expected="tiles of rows and columns")

    @property
    def layer_tiles(self) -> int:
        """Return the number of tiles of all layers together."""
        return self.group.count * len(self.group.operators)

    @property
    def maps_outside(self) -> Mapping[str, FeatureMap]:
        """Return the stack's inputs and its output, by name."""
        return {one.name: one for one in (*self.stack.inputs, self.stack.output)}

    def channel_lines(self, graph: Graph) -> Iterator[tuple[str, set[int]]]:
        """Yield the channels at which slices cut each map outside of the stack, if they do."""
        for name in self.maps_outside:
            whole = whole_region(graph.tensor[name].shape or ())
            ranges = list(self.group.channels_of(name))
            if any(channels != whole[CHANNELS] for channels in ranges):
                yield name, {*whole[CHANNELS], *(line for channels in ranges for line in channels)}

    def emit(self, parts: EmittedParts, bands: Mapping[str, MapBands | JoinedBands]) -> None:
        """Emit all tiles in order; `bands` are those of the maps outside.

        Raises GraphError for an operator that cannot run in parts, and InputError for parts of joined maps.
        """
        for number in range(self.group.count):
            for one in self.group.operators:
                _emit(one, number, parts, bands)


def _emit(one: OperatorInSlices, number: int, parts: EmittedParts, bands: Mapping[str, MapBands | JoinedBands]) -> None:
    """Emit an operator in a slice. Its parameters are cut where the slice reads a part of them."""
    graph, operator, reads = parts.graph, one.operator, one.reads[number]
    read = [
        band
        for name in operator.inputs
        for region in reads[name]
        for band in _bands_of(graph, name, region[CHANNELS], bands)
    ]
    parameters = parts.parameters.get(operator.name, operator.parameters)
    weights = [band_of_tensor(graph.tensor[name], region) for name in parameters for region in reads[name]]
    written = _bands_of(graph, operator.outputs[0], one.written[number], bands)
    parts.add(operator, f"{operator.name}#{number}", list(dict.fromkeys(read)), written, weights)


def _bands_of(
    graph: Graph, name: str, channels: Range, bands: Mapping[str, MapBands | JoinedBands]
) -> tuple[Tensor, ...]:
    """Return the bands of some channels of a map, which belong to the stack if `bands` lacks the map."""
    tensor = graph.tensor[name]
    whole = whole_region(tensor.shape or ())
    own = bands.get(name)
    if own is None:
        region: Region = (*whole[:CHANNELS], channels, *whole[CHANNELS + 1 :])
        return (band_of_tensor(tensor, region),)
    rows, columns = ((0, size) for size in pixels_of(tensor.shape or (), own.layout))
    if isinstance(own, JoinedBands):
        if channels != whole[CHANNELS]:
            raise InputError(
                f"a slice reads a part of {name!r}, which joins maps", expected="tiles of rows and columns"
            )
        return own.within(_ANY_PLACE, rows, columns)
    return own.within(_ANY_PLACE, rows, columns, channels)
