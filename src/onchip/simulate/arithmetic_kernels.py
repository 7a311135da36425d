"""Kernels for networks in tiles that come without a model: integers that a wrong tile cannot leave alone.

Parameters and network inputs are made up, of the seed and the whole tensor's name; operators compute with
them modulo 2^bits. What there is no arithmetic for runs on made-up kernels, its operands put together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.operator import VIEWS, Operator
from onchip.ir.region import Range, Region, whole_region
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Tile
from onchip.ir.window import Shape, Window, integer, integers
from onchip.ops.registry.kinds import geometry_of
from onchip.ops.views.views import paces_of
from onchip.simulate.arithmetic import computed, limbs, masked, mixed, product_of_limbs
from onchip.simulate.call import Call
from onchip.simulate.kernel_protocol import Bytes
from onchip.simulate.parts import ELEMENTS, Integers, RegionValues, band_of, elements
from onchip.simulate.seeded_kernels import SeededKernels
from onchip.transform.slices.bands import tile_of
from onchip.transform.slices.tile_bytes import bytes_of_region, bytes_put_together, place_of

_Taken: TypeAlias = tuple[Range, slice] | None
"""Along one axis: the input's pixels that meet a tap, and where in the region their products belong."""

_MOST_REMEMBERED = 4


class ArithmeticKernels:
    """Runs operators of `graph`, which may be tiles; `whole` is the same network without tiles, to compare with."""

    name = "integer arithmetic"

    def __init__(self, graph: Graph, seed: int = 0, whole: Graph | None = None) -> None:
        self._graph = graph
        self._seed = seed
        self._whole = whole
        self._made_up = SeededKernels(graph, seed)
        self._bases = _bases(graph)
        self._remembered: dict[str, Bytes] = {}
        self._originals: dict[str, tuple[Operator, Graph]] = {}

    # What is in DRAM from the start

    def parameter(self, tensor: Tensor) -> Bytes:
        """Made of the seed and the whole tensor's name; of a band, its region."""
        base, region = self._base_and_region(tensor)
        return (
            bytes_of_region(self._made_of(base), base.shape or (), region)
            if base.bits in ELEMENTS
            else self._made_of(base)
        )

    def network_input(self, tensor: Tensor) -> Bytes:
        """Made of the seed and the whole tensor's name; of a band, its region."""
        return self.parameter(tensor)

    def given_input(self, tensor: Tensor, array: npt.NDArray[np.generic]) -> Bytes:
        """The bytes of a value handed in for the whole tensor, or of a band its region.

        Raises InputError where they are too many or too few.
        """
        base, region = self._base_and_region(tensor)
        if array.nbytes != base.size_bytes:
            what = f"it holds {array.nbytes} bytes"
            raise InputError(what, place=f"tensor {base.name!r}", expected=f"{base.size_bytes} bytes")
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return bytes_of_region(content, base.shape or (), region) if tensor.part_of is not None else content

    def _base_and_region(self, tensor: Tensor) -> tuple[Tensor, Region]:
        name, region = place_of(tensor)
        return self._bases.get(name, tensor), region

    def _made_of(self, base: Tensor) -> Bytes:
        """Bands of one tensor are asked for one after the other: the last few are remembered."""
        if base.name not in self._remembered:
            if len(self._remembered) == _MOST_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[base.name] = self._made_up.parameter(base)
        return self._remembered[base.name]

    # Operators

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """The operator's outputs; a tile computes its own region only."""
        tile = operator.tile
        original, graph = self._original(operator, tile)
        is_paced = keeps_a_pace(original, graph)
        geometry = None if is_paced else geometry_of(original, graph, is_model=False)
        is_known = is_paced or geometry is not None
        if not is_known or not _has_arithmetic(graph):
            return self._run_made_up(operator, tile, original, graph, operands)
        tile = tile or tile_of(graph, operator)
        names = (*tile.inputs, *tile.parameters)
        bands = self._bands(operator, tile, operands)
        parts = tuple(
            RegionValues.of_bands(name, tile.shape[name], bands[name]) if bands.get(name) else None for name in names
        )
        bits = graph.tensor[tile.outputs[0]].bits or 0
        call = Call(original, tile, parts, bits, geometry)
        values = (paced(call),) if is_paced else computed(call)
        if tile.part.adds_to_a_sum:
            before = operator.inputs[-1]
            added = elements(self._graph.tensor[before], operands[before]).astype(np.uint64)
            values = (masked(values[0] + added, bits),)
        if tile.part.is_complete and len(operator.members) > 1:
            values = tuple(mixed(each, bits, "fused") for each in values)
        return self._cut(operator, tile, values)

    def _bands(
        self, operator: Operator, tile: Tile, operands: Mapping[str, Bytes]
    ) -> dict[str, list[tuple[Tensor, Bytes]]]:
        """What is read of each operand; parameters that are not planned are made here."""
        found: dict[str, list[tuple[Tensor, Bytes]]] = {}
        partial_sum = operator.inputs[-1] if tile.part.adds_to_a_sum else None
        for name in operator.reads:
            if name == partial_sum:
                continue
            tensor = self._graph.tensor[name]
            content = operands[name] if name in operands else self.parameter(tensor)
            seen = tile.seen(tensor)
            base = name if name in tile.shape else place_of(seen)[0]
            found.setdefault(base, []).append((seen, content))
        return found

    def _cut(self, operator: Operator, tile: Tile, values: tuple[npt.NDArray[np.uint64], ...]) -> dict[str, Bytes]:
        """Into the bands that the operator writes; a sum of parts is one tensor of its region's shape."""
        by_base = dict(zip(tile.outputs, zip(tile.regions, values, strict=True), strict=True))
        written = {}
        for name in operator.outputs:
            tensor = self._graph.tensor[name]
            base = name if name in by_base else place_of(tensor)[0]
            region, content = by_base.get(base, (whole_region(tensor.shape or ()), values[0]))
            is_band = tensor.part_of is not None and base == tensor.part_of
            own = tensor if is_band else replace(tensor, part_of=None, region=None)
            written[name] = band_of(own, region if is_band else whole_region(tensor.shape or ()), content)
        return written

    def _run_made_up(
        self, operator: Operator, tile: Tile | None, original: Operator, graph: Graph, operands: Mapping[str, Bytes]
    ) -> Mapping[str, Bytes]:
        """On operands put together, its outputs cut apart again; parameters that are not planned are made here."""
        if tile is None:
            made = {name: self.parameter(self._graph.tensor[name]) for name in operator.parameters}
            return SeededKernels(self._graph, self._seed).run(operator, {**made, **operands})
        bands = self._bands(operator, tile, operands)
        whole = {
            name: band_of(graph.tensor[name], part.region, part.values)
            for name in original.reads
            for part in (RegionValues.of_bands(name, tile.shape[name], bands[name]),)
        }
        written = SeededKernels(graph, self._seed).run(original, whole)
        values = tuple(elements(graph.tensor[name], written[name]).astype(np.uint64) for name in original.outputs)
        return self._cut(operator, tile, values)

    def _original(self, operator: Operator, tile: Tile | None) -> tuple[Operator, Graph]:
        """The operator of which this is a tile, alone in a graph of its whole tensors."""
        if operator.name not in self._originals:
            original = operator
            if tile is not None:
                original = replace(
                    operator,
                    name=tile.operator,
                    inputs=tile.inputs,
                    parameters=tile.parameters,
                    outputs=tile.outputs,
                    tile=None,
                    in_place=(),
                )
            self._originals[operator.name] = (original, self._alone(original))
        return self._originals[operator.name]

    def _alone(self, operator: Operator) -> Graph:
        roles = dict.fromkeys(operator.inputs, Role.INPUT) | dict.fromkeys(operator.parameters, Role.PARAMETER)
        roles |= dict.fromkeys(operator.outputs, Role.OUTPUT)
        tensors = (self._graph.tensor.get(name) or self._bases[name] for name in roles)
        return Graph(
            operator.name,
            tuple(replace(tensor, role=roles[tensor.name], part_of=None, region=None) for tensor in tensors),
            (operator,),
        )

    # The whole network

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float | None:
        """0 where the outputs, put together, are those of the network without tiles, else infinite; None without it."""
        if self._whole is None:
            return None
        kernels = ArithmeticKernels(self._whole, self._seed)
        given = {name: self._put_together(name, inputs) for name in _names(self._whole, Role.INPUT)}
        expected = values_in_given_order(self._whole, kernels, given, kept=frozenset(_names(self._whole, Role.OUTPUT)))
        same = all(np.array_equal(self._put_together(name, outputs), content) for name, content in expected.items())
        return 0.0 if same else np.inf

    def _put_together(self, name: str, contents: Mapping[str, Bytes]) -> Bytes:
        if name in contents:
            return contents[name]
        base = self._bases[name]
        bands = [(tensor, contents[tensor.name]) for tensor in self._graph.tensors if tensor.part_of == name]
        return bytes_put_together(base, bands)


def values_in_given_order(
    graph: Graph, kernels: ArithmeticKernels, inputs: Mapping[str, Bytes], kept: frozenset[str] | None = None
) -> dict[str, Bytes]:
    """Every tensor's bytes, or those `kept`, when operators run one after the other; parameters as they are needed."""
    held = dict(inputs)
    last = {name: readers[-1].name for name, readers in graph.readers.items() if readers}
    for operator in graph.operators:
        for name in operator.parameters:
            if name not in held:
                held[name] = kernels.parameter(graph.tensor[name])
        held |= kernels.run(operator, {name: held[name] for name in operator.reads})
        for name in (*operator.reads, *operator.outputs):
            if kept is not None and name not in kept and last.get(name, operator.name) == operator.name:
                del held[name]
    return held if kept is None else {name: held[name] for name in kept}


def _names(graph: Graph, role: Role) -> tuple[str, ...]:
    return tuple(tensor.name for tensor in graph.with_role(role))


def _bases(graph: Graph) -> dict[str, Tensor]:
    """The whole tensors of which there are bands, by name; their shapes as tiles say, else as far as bands reach."""
    regions: dict[str, list[Region]] = {}
    some: dict[str, Tensor] = {}
    for tensor in graph.tensors:
        if tensor.part_of is not None and tensor.region is not None and tensor.part_of not in graph.tensor:
            regions.setdefault(tensor.part_of, []).append(tensor.region)
            some[tensor.part_of] = tensor
    shapes = {
        name: tuple(max(stop for _, stop in ranges) for ranges in zip(*each, strict=True))
        for name, each in regions.items()
    }
    for tile in filter(None, (operator.tile for operator in graph.operators)):
        for one in tile.joined:
            shapes[one.whole], some[one.whole] = (), graph.tensor.get(one.part) or some[one.part]
        shapes |= {name: shape for name, shape in tile.shape.items() if name in shapes}
    return {name: Tensor.of_shape(name, shapes[name], tensor.bits or 0, tensor.role) for name, tensor in some.items()}


def _has_arithmetic(graph: Graph) -> bool:
    return all(tensor.bits in ELEMENTS for tensor in graph.tensors)


def keeps_a_pace(operator: Operator, graph: Graph) -> bool:
    """Whether `paced` computes the operator."""
    if not operator.inputs or len(operator.outputs) > 1 or not VIEWS.isdisjoint(operator.attributes):
        return False
    source, written = (graph.tensor[name].shape or () for name in (operator.inputs[0], operator.outputs[0]))
    if operator.kind != "ConvTranspose":
        return paces_of(operator, source, written) is not None
    if len(operator.inputs) != 1 or not operator.parameters:  # another input stands between the map and the weight
        return False
    weight = graph.tensor[operator.parameters[0]].shape or ()
    groups = integer(operator, "group", 1)
    return (
        len(source) == len(weight) == len(written) > 2
        and weight[0] == source[1]
        and weight[1] * groups == written[1]
        and source[0] == written[0]
        and source[1] % groups == 0
    )


def paced(call: Call) -> Integers:
    """The region's values, before any fused activation."""
    values = _transposed(call) if call.operator.kind == "ConvTranspose" else _viewed(call)
    return masked(values, call.bits)


def _viewed(call: Call) -> Integers:
    source = call.part(0)
    paces = paces_of(call.operator, source.shape, call.written) or ()
    seen = [pace.seen(each) for pace, each in zip(paces, call.region, strict=True)]
    window = source.window(seen)
    for axis, (pace, (start, stop), (first, _)) in enumerate(zip(paces, call.region, seen, strict=True)):
        places = (np.arange(start, stop) * pace.step + pace.first) // pace.repeat - first
        window = np.take(window, places, axis=axis)
    return window


def _transposed(call: Call) -> Integers:
    """Output pixel i * stride - pad + k * dilation adds the product of input pixel i and tap k."""
    source, weight = call.part(0), call.part(1)
    batch, channels, *pixels = call.region
    groups = integer(call.operator, "group", 1)
    depth, columns = source.shape[1] // groups, weight.shape[1]
    first, last = channels[0] // columns, (channels[1] - 1) // columns + 1
    read, taps_of = (first * depth, last * depth), whole_region(weight.shape[2:])
    windows = _windows(call.operator, weight.shape[2:])
    columns_read = (0, columns) if groups > 1 else channels
    wide = columns_read[1] - columns_read[0]
    kernel = weight.window((read, columns_read, *taps_of)).reshape(last - first, depth, wide, *weight.shape[2:])
    by_tap = np.ascontiguousarray(np.moveaxis(kernel, (0, 2, 1), (-3, -2, -1)))
    kernel_limbs = limbs(by_tap, weight.bits)
    sizes = [stop - start for start, stop in pixels]
    total = np.zeros((batch[1] - batch[0], last - first, wide, *sizes), np.uint64)
    for taps in product(*map(range, weight.shape[2:])):
        taken = [_taken(*each) for each in zip(windows, taps, pixels, source.shape[2:], strict=True)]
        met = [one for one in taken if one is not None]
        if len(met) < len(taken):
            continue
        image = source.window((batch, read, *(seen for seen, _ in met)))
        image_limbs = limbs(image.reshape(image.shape[0], last - first, depth, -1), source.bits)
        found = product_of_limbs([each[taps] for each in kernel_limbs], image_limbs)
        total[(slice(None),) * 3 + tuple(place for _, place in met)] += found.reshape(
            *found.shape[:3], *image.shape[2:]
        )
    values = total.reshape(total.shape[0], -1, *sizes)
    skipped = channels[0] - first * columns if groups > 1 else 0
    return call.with_further_operands(values[:, skipped : skipped + channels[1] - channels[0]], 2)


def _windows(operator: Operator, kernel: Shape) -> tuple[Window, ...]:
    """Sizes matter only where padding is to be found out, which a transposed convolution's is not."""
    strides = integers(operator, "strides", (1,) * len(kernel))
    dilations = integers(operator, "dilations", (1,) * len(kernel))
    pads = integers(operator, "pads", (0,) * (2 * len(kernel)))
    return tuple(Window(*each) for each in zip(kernel, strides, dilations, pads, strict=False))


def _taken(window: Window, tap: int, region: Range, size: int) -> _Taken:
    start, stop = region
    offset = window.pad - tap * window.dilation
    first = max(-(-(start + offset) // window.stride), 0)
    last = min((stop - 1 + offset) // window.stride, size - 1)
    if first > last:
        return None
    place = first * window.stride - offset - start
    return (first, last + 1), slice(place, last * window.stride - offset - start + 1, window.stride)
