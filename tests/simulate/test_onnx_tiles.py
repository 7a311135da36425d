"""Tiles of an ONNX model's operators, run by onnxruntime, give the values of the whole model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_node

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count, Problem
from onchip.api.networks import read_network
from onchip.arch.memory import Memory
from onchip.ir.tensor import Role
from onchip.simulate.kernels.onnx_kernels import OnnxKernels, OnnxTileKernels
from onchip.simulate.machine import run_in_given_order
from support.onnx_networks import model, value
from support.tiled import tiled_to_fit


def constant(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.random.default_rng(0).standard_normal(shape).astype("float32"), name)


def saved_network(folder: Path) -> Path:
    """Save a convolution with an activation, a pool, an Add, a Concat and a product with a square matrix."""
    nodes = [
        make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
        make_node("Relu", ["c"], ["r"], "relu"),
        make_node("AveragePool", ["r"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        make_node("Sigmoid", ["p"], ["s"], "sigmoid"),
        make_node("Concat", ["p", "s"], ["j"], "concat", axis=1),
        make_node("GlobalAveragePool", ["j"], ["g"], "mean"),
        make_node("Flatten", ["g"], ["f"], "flatten"),
        make_node("Gemm", ["f", "m"], ["y"], "product"),
    ]
    weights = [constant("w", 16, 3, 3, 3), constant("b", 16), constant("m", 32, 32)]
    path = folder / "network.onnx"
    network = model(nodes, [value("x", [1, 3, 12, 10])], ["y"], weights)
    path.write_bytes(network.SerializeToString())
    return path


@pytest.mark.parametrize("count", Count)
@pytest.mark.parametrize("granularity", Granularity)
def test_tiles_of_a_model_give_what_the_model_gives(tmp_path: Path, count: Count, granularity: Granularity) -> None:
    path = saved_network(tmp_path)
    whole = read_network(str(path), Reading(count=count, granularity=granularity))
    problem = Problem(whole, (Memory("sram", 1000), Memory("other", 700)), count=count)
    tiled = replace(problem, graph=tiled_to_fit(problem, is_model=True))
    assert len(tiled.graph.operators) > len(whole.operators) + 5
    kernels = OnnxTileKernels(tiled.graph, whole, OnnxKernels(whole, path, Bindings()))
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.graph.with_role(Role.INPUT)}
    outputs = run_in_given_order(tiled, kernels, inputs).outputs
    assert kernels.difference_from_whole_model(inputs, outputs) < 1e-6


@pytest.mark.parametrize(("operands", "tiles"), [(["x", "m"], 2), (["m", "x"], 3)])
def test_a_product_of_squares_is_cut_by_rows_only_if_its_input_stands_on_the_left(
    tmp_path: Path, operands: list[str], tiles: int
) -> None:
    path = tmp_path / "network.onnx"
    nodes = [make_node("MatMul", operands, ["y"], "product")]
    path.write_bytes(model(nodes, [value("x", [3, 4, 4])], ["y"], [constant("m", 4, 4)]).SerializeToString())
    whole = read_network(str(path), Reading())
    problem = Problem(whole, (Memory("sram", 192),))
    tiled = replace(problem, graph=tiled_to_fit(problem, is_model=True))
    assert len(tiled.graph.operators) == tiles
    kernels = OnnxTileKernels(tiled.graph, whole, OnnxKernels(whole, path, Bindings()))
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.graph.with_role(Role.INPUT)}
    outputs = run_in_given_order(tiled, kernels, inputs).outputs
    assert kernels.difference_from_whole_model(inputs, outputs) < 1e-6


def test_a_band_of_an_input_is_a_region_of_what_is_handed_in(tmp_path: Path) -> None:
    path = saved_network(tmp_path)
    whole = read_network(str(path), Reading())
    problem = Problem(whole, (Memory("sram", 1000),))
    graph = tiled_to_fit(problem, is_model=True)
    kernels = OnnxTileKernels(graph, whole, OnnxKernels(whole, path, Bindings()))
    band = graph.with_role(Role.INPUT)[1]
    assert band.region is not None
    array = np.arange(360, dtype=np.float32).reshape(1, 3, 12, 10)
    expected = array[tuple(slice(*each) for each in band.region)].reshape(-1)
    assert np.array_equal(kernels.given_input(band, array).view(np.float32), expected)
