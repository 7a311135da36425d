"""TFLite's operators over transposed maps, seen through views: the values of their tiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onchip.answer.problem import Problem
from onchip.api.networks import read_network
from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_ORDERS
from onchip.ir.tensor import Role
from onchip.ops.entries import geometry_of
from onchip.simulate.kernels.tflite_kernels import TfliteKernels, TfliteTileKernels
from onchip.simulate.machine import run_in_given_order
from support.tflite_models import TfliteLayers
from support.tiled import ROOMY, split_to_share, whole_tensor_differences

pytest.importorskip("ai_edge_litert", reason="runs the models: pip install 'onchip[run]'")
POOL = {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}


def boxes_of_two_maps(folder: Path) -> tuple[Graph, Path]:
    """Return a detector's last layers: boxes from the channels of each pixel of two maps, all in one list."""
    net = TfliteLayers(1, 12, 10, 12)
    small = net.add("MAX_POOL_2D", ["x"], (1, 6, 5, 12), ("Pool2DOptions", POOL))
    large = net.add("NEG", ["x"], (1, 12, 10, 12))
    seen = [
        net.add("RESHAPE", [one, net.numbers(3, values=[1, boxes, 6])], (1, boxes, 6))
        for one, boxes in ((large, 240), (small, 60))
    ]
    net.add("CONCATENATION", seen, (1, 300, 6), ("ConcatenationOptions", {"Axis": 1}))
    path = net.model().write(folder / "network.tflite")
    return read_network(str(path)), path


def test_boxes_of_maps_are_cut_by_rows_of_the_maps(tmp_path: Path) -> None:
    """A row of the large map has 20 boxes."""
    graph, _ = boxes_of_two_maps(tmp_path)
    operator = graph.operators[-1]
    assert operator.kind == "CONCATENATION"
    assert operator.attributes[SEEN_ORDERS] == [[0, 2, 3, 1], [0, 2, 3, 1]]
    geometry = geometry_of(operator, graph, is_model=True)
    assert geometry is not None
    large = geometry.reads[0]
    whole = ((0, 1), (0, 12), (0, 12), (0, 10))
    tile = ((0, 1), (30, 45), (0, 6))
    assert large.region(tile, geometry.axes) == (*whole[:2], (1, 3), whole[3])


def transposed_convolution(folder: Path) -> tuple[Graph, Path]:
    """Return MediaPipe's own operator, whose stride (2) and padding (as large as the output) are custom options."""
    net = TfliteLayers(1, 6, 8, 4)
    net.add("CUSTOM", ["x", net.constant(5, 3, 3, 4), net.constant(5)], (1, 12, 16, 5))
    net.operators[-1].custom = "Convolution2DTransposeBias"
    net.operators[-1].custom_options = np.array([1, 2, 2, 0], np.int32).tobytes()
    path = net.model().write(folder / "network.tflite")
    return read_network(str(path)), path


@pytest.mark.parametrize("network", [boxes_of_two_maps, transposed_convolution])
def test_tiles_of_turned_maps_give_what_the_model_gives(
    network: Callable[[Path], tuple[Graph, Path]], tmp_path: Path
) -> None:
    whole, path = network(tmp_path)
    tiled = split_to_share(whole, 0.5, is_model=True, name=whole.operators[-1].name)
    kernels = TfliteTileKernels(tiled, whole, TfliteKernels(whole, path))
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.with_role(Role.INPUT)}
    outputs = run_in_given_order(Problem(tiled, ROOMY), kernels, inputs).outputs
    assert kernels.difference_from_whole_model(inputs, outputs) == 0


def test_tiles_of_boxes_give_the_made_up_values_of_the_whole(tmp_path: Path) -> None:
    whole, _ = boxes_of_two_maps(tmp_path)
    name = whole.operators[-1].name
    assert whole_tensor_differences(split_to_share(whole, 0.5, is_model=False, name=name), whole) == ()
