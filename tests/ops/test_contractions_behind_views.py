"""Contractions keep their loop nest when an operand is a view, and when a constant is the left factor."""

from __future__ import annotations

from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from onchip.api.map import moved_operators
from onchip.api.networks import read_network
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.timeline.mac_count import MacCount
from onchip.ops.layers_of import layers_of, nest_operands
from onchip.reports.mapping.outcome import coverage
from onchip.verify.schedule.nests import NestDerivation
from support.onnx_networks import model, read, value
from support.tflite_models import TfliteOperator, TfliteTensor
from support.tflite_models import network as tflite_network

Shape = tuple[int, ...]


def constant(name: str, shape: Shape) -> TensorProto:
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def behind_a_view(random: Random, name: str, shape: Shape) -> tuple[Shape, list[NodeProto], list[TensorProto]]:
    """Return the shape of an input, and the nodes that make `name` of it through one view."""
    views = ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"]
    match random.choice(views):
        case "Flatten" if len(shape) == 2:
            rows = next((size for size in (2, 3) if shape[1] % size == 0), 1)
            return (shape[0], rows, shape[1] // rows), [helper.make_node("Flatten", ["x"], [name])], []
        case "Squeeze":
            axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
            return (shape[0], 1, *shape[1:]), [helper.make_node("Squeeze", ["x", "axes"], [name])], [axes]
        case "Unsqueeze" if shape[0] == 1:
            axes = helper.make_tensor("axes", TensorProto.INT64, [1], [0])
            return shape[1:], [helper.make_node("Unsqueeze", ["x", "axes"], [name])], [axes]
        case "Transpose":
            order = list(range(len(shape)))
            random.shuffle(order)
            stored = tuple(shape[order.index(axis)] for axis in range(len(shape)))
            return stored, [helper.make_node("Transpose", ["x"], [name], perm=order)], []
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [len(shape)], shape)
    stored = (prod(shape),) if random.random() < 0.3 else (shape[-1], *shape[:-1])
    return stored, [helper.make_node("Reshape", ["x", "sizes"], [name])], [sizes]


def contraction(random: Random) -> tuple[str, list[Shape], Shape, dict[str, Any], int]:
    """Return a kind, the shapes of its two factors and of its output, its attributes and its multiply-accumulates."""
    m, k, n, batch = (random.choice((1, 2, 3, 4, 6)) for _ in range(4))
    match random.choice(("MatMul", "batched", "shared", "Gemm", "transposed", "Einsum", "Conv", "ConvTranspose")):
        case "MatMul":
            return "MatMul", [(m, k), (k, n)], (m, n), {}, m * k * n
        case "batched":
            return "MatMul", [(batch, m, k), (batch, k, n)], (batch, m, n), {}, batch * m * k * n
        case "shared":
            return "MatMul", [(batch, 2, m, k), (k, n)], (batch, 2, m, n), {}, 2 * batch * m * k * n
        case "Gemm":
            return "Gemm", [(m, k), (k, n)], (m, n), {}, m * k * n
        case "transposed":
            return "Gemm", [(m, k), (n, k)], (m, n), {"transB": 1}, m * k * n
        case "Einsum":
            equation = {"equation": "bik,bkj->bij"}
            return "Einsum", [(batch, m, k), (batch, k, n)], (batch, m, n), equation, batch * m * k * n
        case "Conv":
            return "Conv", [(batch, k, 5, 4), (n, k, 3, 2)], (batch, n, 3, 3), {}, batch * n * k * 9 * 6
    return "ConvTranspose", [(batch, k, 3, 2), (k, n, 2, 2)], (batch, n, 4, 3), {}, batch * n * k * 12 * 4


@pytest.mark.parametrize("seed", range(60))
def test_a_contraction_behind_a_view_has_a_nest_of_all_its_multiply_accumulates(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    kind, (left, right), output, attributes, macs = contraction(random)
    viewed = random.randrange(2) if not kind.startswith("Conv") else 0
    other = (left, right)[1 - viewed]
    stored, nodes, constants = behind_a_view(random, "seen", (left, right)[viewed])
    names = ["seen", "other"] if viewed == 0 else ["other", "seen"]
    inputs = [value("x", stored)]
    if random.random() < 0.6 or kind.startswith("Conv"):
        constants.append(constant("other", other))
    else:
        inputs.append(value("other", other))
    nodes.append(helper.make_node(kind, names, ["y"], name="product", **attributes))
    graph = read(model(nodes, inputs, [value("y", output)], constants), tmp_path)

    found = layers_of(graph)
    nests = {name: layer for name, layer in found.layers.items() if name.startswith("product")}
    assert "product" not in {one.operator for one in found.left_out}
    assert sum(layer.macs for layer in nests.values()) == macs
    derived = NestDerivation(graph, 32).of(graph.operator["product"])
    assert derived is not None
    operands = nest_operands(graph, graph.operator["product"])
    assert (derived.input, derived.weight) == (operands.input, operands.weight)
    assert [one.bounds for one in derived.layers] == [one.bounds for one in nests.values()]
    if kind != "ConvTranspose":
        assert MacCount(graph).macs(graph.operator["product"]) == macs


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("side", [0, 1])
def test_a_product_of_tflite_behind_a_reshape_has_a_nest(
    side: int, tmp_path: Path, *, is_turned: bool, is_constant: bool
) -> None:
    shapes = [(2, 3, 4), (2, 5, 4) if is_turned else (2, 4, 5)]
    other = TfliteTensor("w", shapes[1 - side], data=np.ones(shapes[1 - side], np.float32) if is_constant else None)
    tensors = [TfliteTensor("x", (prod(shapes[side]) // 2, 2)), TfliteTensor("seen", shapes[side]), other]
    tensors.append(TfliteTensor("y", (2, 3, 5)))
    names = ("seen", "w") if side == 0 else ("w", "seen")
    operators = [
        TfliteOperator("RESHAPE", ("x",), ("seen",)),
        TfliteOperator("BATCH_MATMUL", names, ("y",), ("BatchMatMulOptions", {"AdjY": is_turned})),
    ]
    inputs = ["x"] if is_constant else ["x", "w"]
    path = tflite_network(tensors, operators, inputs, ["y"]).write(tmp_path / "network.tflite")
    graph = read_network(str(path))

    (layer,) = layers_of(graph).layers.values()
    assert layer.macs == 2 * 3 * 4 * 5
    (operator,) = graph.operators
    derived = NestDerivation(graph, 32).of(operator)
    assert derived is not None
    assert derived.layers[0].bounds == layer.bounds
    assert MacCount(graph).macs(operator) == layer.macs


@pytest.mark.parametrize(
    ("factors", "stored_weight", "is_weight_left"),
    [([[3, 8], [8, 5]], (5, 8), False), ([[3, 8], [8, 5]], (8, 5), False), ([[3, 8], [8, 5]], (8, 3), True)],
)
def test_a_product_of_torch_with_a_turned_parameter_has_a_nest(
    factors: list[AttributeValue], stored_weight: Shape, *, is_weight_left: bool
) -> None:
    """The export lists the shapes of left and right, in any storage order of a parameter."""
    tensors = (
        Tensor.of_shape("x", (8, 5) if is_weight_left else (3, 8), 8, Role.INPUT),
        Tensor.of_shape("w", stored_weight, 8, Role.PARAMETER),
        Tensor.of_shape("y", (3, 5), 8, Role.OUTPUT),
    )
    operator = Operator("product", "MatMul", ("x",), ("y",), ("w",), {"input_shapes": factors})
    graph = Graph("one", tensors, (operator,))

    (layer,) = layers_of(graph).layers.values()
    assert layer.macs == MacCount(graph).macs(operator) == 3 * 8 * 5
    derived = NestDerivation(graph, 32).of(operator)
    assert derived is not None
    assert derived.layers[0].bounds == layer.bounds


@pytest.mark.parametrize(
    ("names", "parameters", "expected"),
    [
        ("bias a b", "", ("a", "b")),
        ("a b", "bias", ("a", "b")),
        ("bias a", "b", ("a", "b")),
        ("b", "bias a", ("b", "a")),
    ],
)
def test_a_product_added_to_a_map_has_the_nest_of_the_product(
    names: str, parameters: str, expected: tuple[str, str]
) -> None:
    shapes = {"bias": (2, 3, 5), "a": (2, 3, 4), "b": (2, 4, 5), "y": (2, 3, 5)}
    roles = {name: Role.PARAMETER if name in parameters.split() else Role.INPUT for name in shapes} | {"y": Role.OUTPUT}
    tensors = tuple(Tensor.of_shape(name, shape, 8, roles[name]) for name, shape in shapes.items())
    attributes: dict[str, AttributeValue] = {"input_shapes": [[2, 3, 4], [2, 4, 5]]}
    reads = tuple(names.split()), ("y",), tuple(parameters.split())
    graph = Graph("one", tensors, (Operator("product", "Gemm", *reads, attributes),))
    (layer,) = layers_of(graph).layers.values()
    assert layer.macs == MacCount(graph).macs(graph.operators[0]) == 2 * 3 * 4 * 5
    derived, operands = NestDerivation(graph, 32).of(graph.operators[0]), nest_operands(graph, graph.operators[0])
    assert derived is not None
    assert derived.layers[0].bounds == layer.bounds
    assert (derived.input, derived.weight) == (operands.input, operands.weight)
    assert {operands.input, operands.weight} == {*expected}


def test_a_product_whose_factors_and_addend_have_one_shape_has_no_nest() -> None:
    names = ("bias", "a", "b")
    tensors = [Tensor.of_shape(name, (2, 3, 3), 8, Role.INPUT) for name in names]
    operator = Operator("product", "Gemm", names, ("y",), (), {"input_shapes": [[2, 3, 3], [2, 3, 3]]})
    graph = Graph("one", (*tensors, Tensor.of_shape("y", (2, 3, 3), 8, Role.OUTPUT)), (operator,))
    assert [one.operator for one in layers_of(graph).left_out] == ["product"]
    assert NestDerivation(graph, 32).of(operator) is None


def test_a_product_added_to_an_input_multiplies_by_the_parameter() -> None:
    shapes = {"x": ((1, 90), Role.INPUT), "c": ((1, 2), Role.INPUT), "w": ((90, 2), Role.PARAMETER)}
    tensors = [Tensor.of_shape(name, shape, 8, role) for name, (shape, role) in shapes.items()]
    operator = Operator("product", "Gemm", ("x", "c"), ("y",), ("w",))
    graph = Graph("one", (*tensors, Tensor.of_shape("y", (1, 2), 8, Role.OUTPUT)), (operator,))
    (layer,) = layers_of(graph).layers.values()
    assert layer.macs == MacCount(graph).macs(operator) == 180
    derived = NestDerivation(graph, 32).of(operator)
    assert derived is not None
    assert (derived.layers[0].bounds, derived.weight) == (layer.bounds, nest_operands(graph, operator).weight)


def test_operations_of_a_contraction_without_a_nest_are_its_multiply_accumulates() -> None:
    tensors = (
        Tensor.of_shape("x", (2, 3, 4), 8, Role.INPUT),
        Tensor.of_shape("w", (3, 5), 8, Role.INPUT),
        Tensor.of_shape("v", (4, 6), 8, Role.INPUT),
        Tensor.of_shape("y", (2, 5, 6), 8, Role.OUTPUT),
    )
    operator = Operator("product", "Einsum", ("x", "w", "v"), ("y",), (), {"equation": "bij,ik,jl->bkl"})
    layers = layers_of(Graph("one", tensors, (operator,)))

    nests, moved = coverage(layers, moved_operators(layers, load_accelerator("simba")))
    assert (nests.share, moved.operations) == (0, 2 * 3 * 4 * 5 * 6)
