"""Fused groups in slices of output channels (docs/schedule.md, section 2).

A tile of such a group is a slice of the channels of its last map, with all rows and columns. Every operator computes
the channels that the slice needs. A map between operators of the group is cut into slices, each computed once, so that
its readers need equal channels of it in each tile. A convolution needs all channels of its input in every tile: it may
read maps from outside the group only. This follows from the accesses of the operators (`slicing.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tile import Range, Region, whole_region
from onchip.ops.contractions import ELEMENT_BY_ELEMENT
from onchip.ops.entries import geometry_of
from onchip.ops.fusable import SLIDING, FeatureMap, FusableNetwork, Read, Stack
from onchip.ops.layers_of import nest_operands
from onchip.ops.slicing import Geometry

CHANNELS: Final = 1
"""Dimension of the channels."""
_RANK: Final = 4
"""Rank of the maps that may be cut into slices: batch, channels, rows and columns."""
_SLICED: Final = SLIDING | ELEMENT_BY_ELEMENT | {"GlobalAveragePool", "GlobalMaxPool"}
"""Kinds that compute channels of images, if their accesses are known."""


def ranges_of_channels(count: int, size: int) -> tuple[Range, ...]:
    """Return slices of `size` channels each; the first one is smaller if they do not fill all channels."""
    return tuple(pairwise((0, *range(count % size or size, count + 1, size))))


@dataclass(frozen=True, slots=True)
class OperatorInSlices:
    """An operator of a group: the channels that each slice computes, and the regions of the operands that it reads.

    `reads` maps a tensor to the regions that each slice reads; several accesses of one tensor have several regions.
    """

    operator: Operator
    written: tuple[Range, ...]
    reads: tuple[Mapping[str, tuple[Region, ...]], ...]

    def channels_of(self, name: str) -> Iterator[Range]:
        """Yield the channels of a feature map that slices read or write."""
        if name in self.operator.inputs:
            yield from (region[CHANNELS] for each in self.reads for region in each[name])
        if name in self.operator.outputs:
            yield from self.written


@dataclass(frozen=True, slots=True)
class GroupInSlices:
    """The operators of a group in execution order, each in `count` slices."""

    operators: tuple[OperatorInSlices, ...]
    count: int

    @classmethod
    def of(cls, graph: Graph, operators: Sequence[str], channels: int) -> GroupInSlices:
        """Return the group in slices of `channels` of its last output.

        Raises InputError with the operator and the reason if the group has no such slices.
        """
        last = graph.operator[operators[-1]]
        shape = graph.tensor[last.outputs[0]].shape or ()
        if len(shape) != _RANK or not 1 <= channels <= shape[CHANNELS]:
            expected = f"1 to {shape[CHANNELS]}" if len(shape) == _RANK else "an image with channels"
            raise InputError(
                f"{last.outputs[0]!r} has no tiles of {channels} channels", place="tile", expected=expected
            )
        wanted = {last.outputs[0]: ranges_of_channels(shape[CHANNELS], channels)}
        inside = {written for name in operators for written in graph.operator[name].outputs}
        found = []
        for operator in map(graph.operator.__getitem__, reversed(operators)):
            one = _in_slices(graph, operator, wanted)
            found.append(one)
            for name in inside.intersection(operator.inputs):
                ranges = tuple(region[CHANNELS] for each in one.reads for region in each[name])
                _ensure_parts(graph, operator, name, [each[name] for each in one.reads])
                if wanted.setdefault(name, ranges) != ranges:
                    raise _error(operator, f"it needs other channels of {name!r} in a slice than another reader")
        return cls(tuple(reversed(found)), len(wanted[last.outputs[0]]))

    def sliced(self, graph: Graph, network: FusableNetwork, number: int) -> Stack:
        """Return the layers of the group, which are those of `network`, as they run in one slice.

        A map from outside has the channels that some layer reads in the slice. Raises InputError for operators that are
        no layers, and for a loop nest that is not cut along the channels.
        """
        if [layer.name for layer in network.layers] != [one.operator.name for one in self.operators]:
            raise InputError("not every operator is a layer over its own maps", place="tile", expected="no views")
        ranges: dict[str, list[Range]] = {}
        for one in self.operators:
            ranges.setdefault(one.operator.outputs[0], []).append(one.written[number])
            for name, regions in one.reads[number].items():
                ranges.setdefault(name, []).extend(region[CHANNELS] for region in regions if len(region) == _RANK)
        counts = {
            name: max(end for _, end in own) - min(begin for begin, _ in own) for name, own in ranges.items() if own
        }

        def map_of(one: FeatureMap) -> FeatureMap:
            shape = graph.tensor[one.name].shape or ()
            count = counts.get(one.name)
            if count is None or len(shape) != _RANK:
                return one
            return replace(one, channels=one.channels // shape[CHANNELS] * count)

        layers = []
        for layer, one in zip(network.layers, self.operators, strict=True):
            start, stop = one.written[number]
            count = (graph.tensor[layer.output.name].shape or ())[CHANNELS]
            layers.append(
                replace(
                    layer,
                    layer=layer_of_channels(graph, one.operator, layer.layer, (start, stop)),
                    output=map_of(layer.output),
                    reads=tuple(_read_of(graph, read, one.reads[number]) for read in layer.reads),
                    weight_bits=layer.weight_bits * (stop - start) // count,
                )
            )
        return Stack(
            tuple(map(map_of, network.inputs)), tuple(layers), network.layers[-1].output.name in network.outputs
        )

    @property
    def whole_reads(self) -> frozenset[str]:
        """Return the feature maps of which every slice reads the same channels, in all of their readers."""
        names = {name for one in self.operators for name in one.operator.inputs}
        return frozenset(name for name in names if len({*self.channels_of(name)}) == 1)

    def channels_of(self, name: str) -> Iterator[Range]:
        """Return the channels of a feature map that slices of operators read or write."""
        return (channels for one in self.operators for channels in one.channels_of(name))


def whole_inputs(graph: Graph, operator: Operator) -> frozenset[str] | None:
    """Return the inputs of which a slice of the operator's channels needs all channels; None if no slice contains it.

    Parameters that no loop nest reads may be missing in `graph`. If the accesses are then unknown, no input counts.
    """
    names = (*operator.inputs, *operator.outputs)
    is_sliced = operator.kind in _SLICED and len(operator.outputs) == 1 and not operator.workspace_bytes
    if not is_sliced or any(len(graph.tensor[name].shape or ()) != _RANK for name in names):
        return None
    geometry = geometry_of(operator, graph, is_model=False)
    if geometry is None:
        return frozenset() if operator.kind in ELEMENT_BY_ELEMENT else None
    axis = _axis_of_channels(graph, operator, geometry)
    if axis is None:
        return None
    inputs = (one for one in geometry.reads if one.tensor in operator.inputs)
    return frozenset(one.tensor for one in inputs if one.spans[CHANNELS].axis != axis)


def _axis_of_channels(graph: Graph, operator: Operator, geometry: Geometry) -> int | None:
    """Return the axis of a geometry that is the channels of the output, or None if they are not cut."""
    spans, shape = geometry.writes[0].spans, graph.tensor[operator.outputs[0]].shape or ()
    axis = spans[CHANNELS].axis if len(spans) == len(shape) == _RANK else None
    return axis if axis is not None and geometry.axes[axis].size == shape[CHANNELS] else None


def layer_of_channels(graph: Graph, operator: Operator, layer: Layer, channels: Range) -> Layer:
    """Return the loop nest over some channels of the output; `layer` is the nest over all of them.

    Channels are K of a convolution without groups. Else they are groups, or a batch that meets one element of the
    second operand. Raises InputError if the slice has no nest of whole extents.
    """
    count = (graph.tensor[operator.outputs[0]].shape or ())[CHANNELS]
    if channels == (0, count):
        return layer

    def part(extent: int) -> int:
        found, rest = divmod(extent * (channels[1] - channels[0]), count)
        if rest:
            raise _error(operator, "its loop nest cannot be cut along these channels")
        return found

    if operator.kind not in ELEMENT_BY_ELEMENT:
        return replace(layer, k=part(layer.k)) if layer.g == 1 else replace(layer, g=part(layer.g))
    if layer.k > 1:
        raise _error(operator, "its loop nest cannot be cut along channels")
    if layer.has_weight and layer.n > 1 and not _weight_has_channels(graph, operator):
        return replace(layer, n=part(layer.n))
    return replace(layer, g=part(layer.g))


def _weight_has_channels(graph: Graph, operator: Operator) -> bool:
    """Return True if the second operand of an element-wise nest has an element for each channel."""
    geometry, weight = geometry_of(operator, graph, is_model=False), nest_operands(graph, operator).weight
    if geometry is None:
        return False
    axis = geometry.writes[0].spans[CHANNELS].axis
    return any(one.tensor == weight and any(span.axis == axis for span in one.spans) for one in geometry.reads)


def _in_slices(graph: Graph, operator: Operator, wanted: Mapping[str, tuple[Range, ...]]) -> OperatorInSlices:
    """Return an operator that computes the channels `wanted` of its output."""
    if len(operator.outputs) != 1 or operator.workspace_bytes or operator.kind not in _SLICED:
        raise _error(operator, "its slices of channels are not known")
    written = operator.outputs[0]
    if written not in wanted:
        raise _error(operator, "no operator of its group reads its output")
    if any(len(graph.tensor[name].shape or ()) != _RANK for name in operator.inputs):
        raise _error(operator, "it reads other tensors than images with channels")
    geometry = geometry_of(operator, graph, is_model=False)
    axis = None if geometry is None else _axis_of_channels(graph, operator, geometry)
    if geometry is None or axis is None:
        raise _error(operator, "it cannot be cut along its channels")
    return OperatorInSlices(
        operator, wanted[written], tuple(_regions(operator, geometry, axis, channels) for channels in wanted[written])
    )


def _regions(operator: Operator, geometry: Geometry, axis: int, channels: Range) -> Mapping[str, tuple[Region, ...]]:
    """Return the regions of each operand that the operator reads for some channels of its output."""
    tile: list[Range] = [(0, one.size) for one in geometry.axes]
    tile[axis] = channels
    found: dict[str, tuple[Region, ...]] = {}
    for access in geometry.reads:
        region = access.region(tile, geometry.axes)
        if region is None:
            raise _error(operator, f"a slice sees nothing of {access.tensor!r}")
        found[access.tensor] = tuple(dict.fromkeys((*found.get(access.tensor, ()), region)))
    return found


def _ensure_parts(graph: Graph, operator: Operator, name: str, regions: Sequence[tuple[Region, ...]]) -> None:
    """Raises InputError unless the regions that slices read of a map inside the group partition its channels."""
    whole = whole_region(graph.tensor[name].shape or ())
    behind = 0
    for own in regions:
        if len(own) != 1 or len(whole) != _RANK or own[0][CHANNELS][0] != behind:
            raise _error(operator, f"a slice needs more than its own channels of {name!r}, which the group computes")
        behind = own[0][CHANNELS][1]
        if (*own[0][:CHANNELS], *own[0][CHANNELS + 1 :]) != (*whole[:CHANNELS], *whole[CHANNELS + 1 :]):
            raise _error(operator, f"it needs a part of the pixels of {name!r}")
    if behind != whole[CHANNELS][1]:
        raise _error(operator, f"its slices do not need all channels of {name!r}")


def _read_of(graph: Graph, read: Read, regions: Mapping[str, tuple[Region, ...]]) -> Read:
    """Return the read of a map in a slice, with the number of channels that it takes."""
    if read.channels is not None:
        raise InputError(f"{read.source!r} is read in parts", place="tile", expected="operators that read whole maps")
    own = regions.get(read.source, ())
    shape = graph.tensor[read.source].shape or ()
    if len(own) != 1 or own[0][CHANNELS] == (0, shape[CHANNELS]):
        return read
    batch = shape[0]
    return replace(read, channels=batch * (own[0][CHANNELS][1] - own[0][CHANNELS][0]))


def _error(operator: Operator, what: str) -> InputError:
    return InputError(what, place=f"{operator.kind} {operator.name!r}", expected="tiles of rows and columns")
