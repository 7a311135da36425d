"""Pixels that the bound of a schedule calls needed are computed, and read, in every tiling."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from onchip.answer.schedule import ScheduleError
from onchip.bounds.layer.needed import ALL, needed_pixels
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.ops.layers_of import Precision
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.schedule.tiles import joins_left_out
from support.small_schedules import all_whole, stacks_of, tile_graphs
from support.tiled import Attributes, Network, conv, crop

Pixel = tuple[int, int]


@st.composite
def networks_of_views(draw: st.DrawFn) -> Graph:
    """Convolutions with Pads (some negative), Slices, Resizes and transposed convolutions between them."""
    network = Network(8)
    last = conv(network, network.input(1, 2, 6, 5), 3, 3)
    for _ in range(draw(st.integers(1, 3))):
        last = _viewed(draw, network, last)
        if draw(st.booleans()):
            last = conv(network, last, 2, draw(st.sampled_from((1, 3))), stride=draw(st.integers(1, 2)))
    return network.graph()


def _viewed(draw: st.DrawFn, network: Network, source: str) -> str:
    batch, channels, rows, columns = network.shape(source)
    match draw(st.sampled_from(("Pad", "Pad of channels", "Slice", "Slice of channels", "Resize", "ConvTranspose"))):
        case "Pad":
            lower = [-min(1, (size - 1) // 2) for size in (rows, columns)] * 2
            top, left, bottom, right = (draw(st.integers(low, 2)) for low in lower)
            pads: Attributes = {"pads": [0, 0, top, left, 0, 0, bottom, right]}
            if draw(st.booleans()):
                pads |= {"mode": "edge"}
            shape = (batch, channels, rows + top + bottom, columns + left + right)
            return network.add("Pad", [source], shape, (), pads)
        case "Pad of channels":
            more: Attributes = {"pads": [0, 1, 0, 0, 0, 1, 0, 0]}
            return network.add("Pad", [source], (batch, channels + 2, rows, columns), (), more)
        case "Slice" if min(rows, columns) > 2:
            return crop(network, source, 1, draw(st.integers(1, 2)))
        case "Slice of channels" if channels > 1:
            taken: Attributes = {"axes": [1], "starts": [1], "ends": [channels]}
            return network.add("Slice", [source], (batch, channels - 1, rows, columns), (), taken)
        case "Resize":
            nearest: Attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
            nearest |= {"nearest_mode": "floor"}
            return network.add("Resize", [source], (batch, channels, 2 * rows, columns), (), nearest)
    kernel = draw(st.integers(1, 3))
    weights = [network.parameter(channels, 2, kernel, kernel)]
    sizes = [(size - 1) * 2 + kernel for size in (rows, columns)]
    return network.add("ConvTranspose", [source], (batch, 2, *sizes), weights, {"strides": [2, 2]})


@st.composite
def tilings_of_views(draw: st.DrawFn) -> tuple[Graph, object, TileGraph]:
    graph = draw(networks_of_views())
    stacks = draw(stacks_of(graph))
    try:
        return graph, stacks, tile_graph(graph, stacks, Precision(8))
    except ScheduleError:
        assume(False)
        raise


def pixels_of_bands(tiles: TileGraph, *, are_read: bool) -> dict[str, set[Pixel]]:
    """Return by tensor of the network the pixels that tile operators write, or read."""
    found: dict[str, set[Pixel]] = defaultdict(set)
    for operator in tiles.graph.operators:
        for name in operator.inputs if are_read else operator.outputs:
            tensor = tiles.graph.tensor[name]
            region = tensor.region or tuple((0, size) for size in tensor.shape or ())
            rows, columns = region[-2:] if len(region) > 1 else ((0, 1), (0, 1))
            found[tensor.part_of or name] |= set(product(range(*rows), range(*columns)))
    return found


@pytest.mark.slow
@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.one_of(tile_graphs(), tilings_of_views(), tilings_of_views()))
def test_needed_pixels_are_computed_in_every_tiling(made: tuple[Graph, object, TileGraph]) -> None:
    network, _, tiles = made
    whole = tile_graph(network, all_whole(network), Precision(network.tensors[0].bits or 8))
    needed = needed_pixels(whole.graph, whole.nests, whole.nest_operands)
    written, read = pixels_of_bands(tiles, are_read=False), pixels_of_bands(tiles, are_read=True)
    for name, parts in joins_left_out(network, tiles.graph).items():
        written[name] = set.intersection(*(written[part] for part in parts))
    for tensor in whole.graph.tensors:
        shape = tensor.shape or ()
        if len(shape) != 4 or tensor.role is Role.PARAMETER:
            continue
        rows, columns = (
            range(size) if one is None else one
            for size, one in zip(shape[2:], (needed[tensor.name].rows, needed[tensor.name].columns), strict=True)
        )
        made_of = read if tensor.role is Role.INPUT else written
        assert set(product(rows, columns)) <= made_of[tensor.name], tensor.name


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(networks_of_views())
def test_demand_passes_through_views(network: Graph) -> None:
    """A Pad that cuts nothing off needs all of what it pads, if all that it writes is needed."""
    whole = tile_graph(network, all_whole(network), Precision(8))
    needed = needed_pixels(whole.graph, whole.nests, whole.nest_operands)
    for operator in whole.graph.operators:
        pads = operator.attributes.get("pads")
        if operator.kind == "Pad" and isinstance(pads, list) and needed[operator.outputs[0]] == ALL:
            assert min(pad for pad in pads if isinstance(pad, int)) < 0 or needed[operator.inputs[0]] == ALL
