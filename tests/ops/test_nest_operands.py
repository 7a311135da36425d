"""Operands that a loop nest reads: they have the element counts of its input and its weight."""

from __future__ import annotations

import pytest

from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import layers_of_operator, nest_operands

Shape = tuple[int, ...]
WINDOW: dict[str, AttributeValue] = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]}
MAP = (1, 4, 6, 6)


def graph_of(
    kind: str, inputs: list[Shape], parameters: list[Shape], output: Shape, attributes: dict[str, AttributeValue]
) -> Graph:
    """Return a graph of one operator that reads x0, x1, ... and the parameters w0, w1, ..."""
    names = [f"x{at}" for at in range(len(inputs))], [f"w{at}" for at in range(len(parameters))]
    tensors = [Tensor.of_shape(name, shape, 8, Role.INPUT) for name, shape in zip(names[0], inputs, strict=True)]
    tensors += [
        Tensor.of_shape(name, shape, 8, Role.PARAMETER) for name, shape in zip(names[1], parameters, strict=True)
    ]
    tensors.append(Tensor.of_shape("y", output, 8, Role.OUTPUT))
    return Graph("one", tuple(tensors), (Operator("op", kind, tuple(names[0]), ("y",), tuple(names[1]), attributes),))


@pytest.mark.parametrize(
    ("kind", "inputs", "parameters", "output", "expected"),
    [
        ("Conv", [MAP], [(4, 4, 3, 3), (4,)], MAP, ("x0", "w0")),
        ("QLinearConv", [MAP], [(1,), (1,), (4, 4, 3, 3), (4,), (4,)], MAP, ("x0", "w2")),
        ("Conv", [MAP, (4, 4, 3, 3)], [(4,)], MAP, ("x0", "x1")),
        ("ConvTranspose", [MAP], [(4, 4, 3, 3), (4,)], MAP, ("x0", "w0")),
        ("MaxPool", [MAP], [], MAP, ("x0", None)),
        ("GlobalAveragePool", [MAP], [], (1, 4, 1, 1), ("x0", None)),
        ("ReduceMean", [MAP], [(2,)], (1, 4, 1, 1), ("x0", None)),
        ("Gemm", [(2, 8)], [(5, 8), (5,)], (2, 5), ("x0", "w0")),
        ("MatMul", [(2, 8)], [(8, 5)], (2, 5), ("x0", "w0")),
        ("MatMul", [(3, 2, 8), (3, 8, 5)], [], (3, 2, 5), ("x0", "x1")),
        ("MatMul", [(2, 8), (3, 8, 5)], [], (3, 2, 5), ("x1", "x0")),
        ("QLinearMatMul", [(2, 8)], [(1,), (1,), (8, 5), (1,)], (2, 5), ("x0", "w2")),
        ("Relu", [MAP], [], MAP, ("x0", None)),
        ("Add", [MAP, MAP], [], MAP, ("x0", "x1")),
        ("Add", [MAP], [(4, 1, 1)], MAP, ("x0", "w0")),
        ("Mul", [MAP], [(1,)], MAP, ("x0", None)),
        ("Mul", [(4, 1, 1)], [MAP], MAP, ("w0", "x0")),
        ("Mul", [(4, 1, 1), MAP], [], MAP, ("x1", "x0")),
        ("Mul", [(1, 1)], [(1,)], (1, 1), ("x0", "w0")),
    ],
)
def test_a_nest_reads_its_input_and_its_weight(
    kind: str, inputs: list[Shape], parameters: list[Shape], output: Shape, expected: tuple[str, str | None]
) -> None:
    graph = graph_of(kind, inputs, parameters, output, WINDOW if len(output) == 4 else {})
    found = nest_operands(graph, graph.operators[0])
    assert (found.input, found.weight) == expected
    layers = layers_of_operator(graph, graph.operators[0]).values()
    assert {layer.has_weight for layer in layers} == {found.weight is not None}
    size = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    assert max(layer.elements("input") for layer in layers) == size[found.input]
    assert sum(layer.elements("weight") for layer in layers) == (size[found.weight] if found.weight else 0)
