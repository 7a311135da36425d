"""Windows of a TFLite file equal those of the same ONNX network: the same loop nests, the same bytes."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from onchip.formats.networks import read_tflite
from onchip.ir.graph import Graph
from onchip.ops.layers_of import layers_and_left_out
from support.onnx_networks import make_node, model, read, value, weight
from support.tflite_models import TfliteOperator, TfliteTensor, network

SIZES = ((7, 7), (8, 5), (12, 9))
STEPS = ((1, 1), (2, 2), (2, 1), (3, 2))
CASES = list(product(SIZES, ((1, 1), (3, 3), (2, 5)), STEPS, ("SAME", "VALID")))
SAME, VALID = "SAME", "VALID"


def pixels(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    """Return the output size along an axis in TFLite's reference (kernels/padding.h, ComputeOutSize)."""
    reach = (kernel - 1) * dilation + 1
    return (size + stride - 1) // stride if padding == SAME else (size + stride - reach) // stride


def constant(name: str, *shape: int) -> TfliteTensor:
    return TfliteTensor(name, shape, data=np.ones(shape, np.float32))


def alike(tflite_graph: Graph, onnx_graph: Graph) -> None:
    """Check that the layers, and the sizes and shapes of all computed tensors, are equal."""
    ours, theirs = (list(layers_and_left_out(graph)[0].values()) for graph in (tflite_graph, onnx_graph))
    assert ours
    assert ours == theirs
    sizes = [
        {each.name: (each.size_bytes, each.shape) for each in graph.tensors} for graph in (tflite_graph, onnx_graph)
    ]
    assert sizes[0] == sizes[1]


def options(padding: str, strides: tuple[int, int], dilations: tuple[int, int]) -> dict[str, int]:
    stated = {"Padding": int(padding == VALID), "StrideH": strides[0], "StrideW": strides[1]}
    return {**stated, "DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}


def auto_pad(padding: str) -> str:
    return "SAME_UPPER" if padding == SAME else VALID


@pytest.mark.parametrize(("size", "kernel", "strides", "padding"), CASES)
@pytest.mark.parametrize("dilation", [1, 2])
def test_convolutions(
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: str,
    dilation: int,
    tmp_path: Path,
) -> None:
    out = [pixels(*each, dilation, padding) for each in zip(size, kernel, strides, strict=True)]
    if min(out) < 1:
        pytest.skip("its kernel is larger than its input")
    stated = ("Conv2DOptions", options(padding, strides, (dilation, dilation)))
    tensors = [TfliteTensor("x", (2, *size, 6)), constant("w", 4, *kernel, 3), constant("b", 4)]
    tensors.append(TfliteTensor("y", (2, *out, 4)))
    path = network(tensors, [TfliteOperator("CONV_2D", "xwb", "y", stated)], "x", "y").write(tmp_path / "m.tflite")
    node = make_node(
        "Conv", ["x", "w", "b"], ["y"],
        strides=strides, dilations=(dilation, dilation), auto_pad=auto_pad(padding), group=2,
    )  # fmt: skip
    parameters = [weight("w", (4, 3, *kernel)), weight("b", (4,))]
    alike(read_tflite(path), read(model([node], [value("x", (2, 6, *size))], ["y"], parameters), tmp_path))


@pytest.mark.parametrize(("size", "kernel", "strides", "padding"), CASES)
def test_depthwise_convolutions(
    size: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int], padding: str, tmp_path: Path
) -> None:
    out = [pixels(*each, 1, padding) for each in zip(size, kernel, strides, strict=True)]
    stated = ("DepthwiseConv2DOptions", {**options(padding, strides, (1, 1)), "DepthMultiplier": 2})
    tensors = [TfliteTensor("x", (1, *size, 3)), constant("w", 1, *kernel, 6), constant("b", 6)]
    tensors.append(TfliteTensor("y", (1, *out, 6)))
    operators = [TfliteOperator("DEPTHWISE_CONV_2D", "xwb", "y", stated)]
    path = network(tensors, operators, "x", "y").write(tmp_path / "m.tflite")
    node = make_node("Conv", ["x", "w", "b"], ["y"], strides=strides, auto_pad=auto_pad(padding), group=3)
    parameters = [weight("w", (6, 1, *kernel)), weight("b", (6,))]
    alike(read_tflite(path), read(model([node], [value("x", (1, 3, *size))], ["y"], parameters), tmp_path))


@pytest.mark.parametrize(("size", "kernel", "strides", "padding"), CASES)
@pytest.mark.parametrize("kind", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
def test_pools(
    kind: str, size: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int], padding: str, tmp_path: Path
) -> None:
    out = [pixels(*each, 1, padding) for each in zip(size, kernel, strides, strict=True)]
    stated = {"Padding": int(padding == VALID), "StrideH": strides[0], "StrideW": strides[1]}
    stated |= {"FilterHeight": kernel[0], "FilterWidth": kernel[1]}
    tensors = [TfliteTensor("x", (2, *size, 6)), TfliteTensor("y", (2, *out, 6))]
    operators = [TfliteOperator(kind, "x", "y", ("Pool2DOptions", stated))]
    path = network(tensors, operators, "x", "y").write(tmp_path / "m.tflite")
    named = "MaxPool" if kind == "MAX_POOL_2D" else "AveragePool"
    node = make_node(named, ["x"], ["y"], kernel_shape=kernel, strides=strides, auto_pad=auto_pad(padding))
    alike(read_tflite(path), read(model([node], [value("x", (2, 6, *size))], ["y"]), tmp_path))


@pytest.mark.parametrize(("size", "kernel", "strides", "padding"), CASES)
def test_transposed_convolutions_undo_the_sizes_of_a_convolution(
    size: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int], padding: str, tmp_path: Path
) -> None:
    low = [pixels(*each, 1, padding) for each in zip(size, kernel, strides, strict=True)]
    stated = {"Padding": int(padding == VALID), "StrideH": strides[0], "StrideW": strides[1]}
    shape = TfliteTensor("s", [4], "INT32", np.array([1, *size, 4], np.int32))
    tensors = [shape, constant("w", 4, *kernel, 6), TfliteTensor("x", (1, *low, 6)), TfliteTensor("y", (1, *size, 4))]
    operators = [TfliteOperator("TRANSPOSE_CONV", "swx", "y", ("TransposeConvOptions", stated))]
    path = network(tensors, operators, "x", "y").write(tmp_path / "m.tflite")
    graph = read_tflite(path)
    pads = graph.operators[0].attributes["pads"]
    more = graph.operators[0].attributes["output_padding"]
    node = make_node(
        "ConvTranspose", ["x", "w"], ["y"], strides=strides, kernel_shape=kernel, pads=pads, output_padding=more
    )
    alike(graph, read(model([node], [value("x", (1, 6, *low))], ["y"], [weight("w", (6, 4, *kernel))]), tmp_path))


def test_a_fully_connected_layer_is_a_product_with_a_row_of_weights_for_each_unit(tmp_path: Path) -> None:
    tensors = [TfliteTensor("x", (2, 12)), constant("w", 5, 12), constant("b", 5), TfliteTensor("y", (2, 5))]
    path = network(tensors, [TfliteOperator("FULLY_CONNECTED", "xwb", "y")], "x", "y").write(tmp_path / "m.tflite")
    node = make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    alike(
        read_tflite(path),
        read(model([node], [value("x", (2, 12))], ["y"], [weight("w", (5, 12)), weight("b", (5,))]), tmp_path),
    )
