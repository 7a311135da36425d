"""The eight networks of the multi-scratchpad thesis: sizes computed by hand from their layers."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from math import prod
from pathlib import Path
from typing import NamedTuple

import pytest

from onchip.answer.problem import Problem
from onchip.arch.memory import Memory
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import bundled_networks, load_network
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.model.capacity.bounds import greatest_need
from onchip.model.timeline.mac_count import MacCount, SimpleCost
from onchip.transform.rewrite.activations import fuse

TOOLS = Path(__file__).parents[2] / "tools"


class Facts(NamedTuple):
    """Operators and M_R (largest working set of an operator, in bytes) raw and fused; elements of all parameters."""

    operators: tuple[int, int]
    parameters: int
    macs: int
    required_bytes: tuple[int, int]


FACTS = {
    "minerva": Facts(
        (7, 4),
        784 * 256 + 2 * 256 * 256 + 256 * 10,
        784 * 256 + 2 * 256 * 256 + 256 * 10,
        (2 * (784 + 256), 2 * (784 + 256)),
    ),
    "lenet5": Facts(
        (8, 5),
        9 * 32 + 9 * 32 * 32 + 4608 * 128 + 128 * 10,
        26 * 26 * 9 * 32 + 24 * 24 * 9 * 32 * 32 + 4608 * 128 + 128 * 10,
        (2 * 2 * 32 * 26 * 26, 2 * (32 * 26 * 26 + 32 * 24 * 24)),
    ),
    "smaug_cnn": Facts(
        (16, 11),
        9 * (3 * 32 + 32 * 32 + 32 * 64 + 64 * 64) + 4 * (32 + 32 + 64) + 4096 * 512 + 512 * 10,
        32 * 32 * 9 * (3 * 32 + 32 * 32) + 16 * 16 * 9 * (32 * 64 + 64 * 64) + 4096 * 512 + 512 * 10,
        (2 * 2 * 32 * 32 * 32, 2 * 2 * 32 * 32 * 32),
    ),
    "vgg_cifar": Facts(
        (27, 16),
        9 * (3 * 64 + 64 * 128 + 2 * 128 * 128 + 128 * 256 + 2 * 256 * 256 + 256 * 512 + 2 * 512 * 512)
        + 2048 * 512
        + 512 * 10,
        32 * 32 * 9 * (3 * 64 + 64 * 128)
        + 16 * 16 * 9 * 2 * 128 * 128
        + 8 * 8 * 9 * (128 * 256 + 2 * 256 * 256)
        + 4 * 4 * 9 * (256 * 512 + 2 * 512 * 512)
        + 2048 * 512
        + 512 * 10,
        (2 * 2 * 128 * 32 * 32, 2 * (64 + 128) * 32 * 32),
    ),
    "elu_cifar100": Facts(
        (27, 16),
        25 * 3 * 192
        + (192 * 192 + 9 * 192 * 240)
        + (240 * 240 + 4 * 240 * 260)
        + (260 * 260 + 4 * 260 * 280)
        + (280 * 280 + 4 * 280 * 300)
        + (300 * 300 + 300 * 100),
        32 * 32 * 25 * 3 * 192
        + 16 * 16 * (192 * 192 + 9 * 192 * 240)
        + 8 * 8 * (240 * 240 + 4 * 240 * 260)
        + 4 * 4 * (260 * 260 + 4 * 260 * 280)
        + 2 * 2 * (280 * 280 + 4 * 280 * 300)
        + (300 * 300 + 300 * 100),
        (2 * 2 * 192 * 32 * 32, 2 * 192 * (32 * 32 + 16 * 16)),
    ),
    "large_elu": Facts(
        (43, 24),
        9 * 3 * 384
        + (384 * 384 + 4 * (384 * 384 + 384 * 640 + 640 * 640))
        + (640 * 640 + 4 * (640 * 768 + 2 * 768 * 768))
        + (768 * 768 + 4 * (768 * 896 + 896 * 896))
        + (9 * 896 * 896 + 4 * (896 * 1024 + 1024 * 1024))
        + (1024 * 1024 + 4 * 1024 * 1152 + 1152 * 1152 + 1152 * 100),
        32 * 32 * 9 * 3 * 384
        + 16 * 16 * (384 * 384 + 4 * (384 * 384 + 384 * 640 + 640 * 640))
        + 8 * 8 * (640 * 640 + 4 * (640 * 768 + 2 * 768 * 768))
        + 4 * 4 * (768 * 768 + 4 * (768 * 896 + 896 * 896))
        + 2 * 2 * (9 * 896 * 896 + 4 * (896 * 1024 + 1024 * 1024))
        + (1024 * 1024 + 4 * 1024 * 1152 + 1152 * 1152 + 1152 * 100),
        (2 * 2 * 384 * 32 * 32, 2 * 384 * (32 * 32 + 16 * 16)),
    ),
    # torchvision's: 25,557,032 parameters with 53,120 of batch norm (two of four counted) and 2,049,000 at the end;
    # 4,089,184,256 products at 224 pixels, with 2,048,000 at the end and 112 x 112 outputs of the first layer.
    "resnet50_smaug": Facts(
        (53 + 53 + 49 + 16 + 1 + 1, 53 + 16 + 1 + 1),
        25_557_032 - 53_120 - 2_049_000 + 2 * 53_120 + 7 * 7 * 2048 * 10,
        4_089_184_256 - 2_048_000 + (113 * 113 - 112 * 112) * 64 * 147 + 7 * 7 * 2048 * 10,
        (2 * 3 * 256 * 56 * 56, 2 * 3 * 256 * 56 * 56),
    ),
    # Fused, a step's four activations of gates run within its Split; the last cell of a layer has one reader, its Tanh.
    "lstm": Facts(
        (1 + 2 * 4 * 13, 1 + 2 * 4 * (13 - 4) - 2),
        2 * 2 * 128 * 32,
        2 * 4 * 2 * 128 * 32,
        (2 * 3 * 128, 2 * 3 * 128),
    ),
}
OUTPUTS = dict.fromkeys(FACTS, (1, 10)) | {
    "elu_cifar100": (1, 100, 1, 1),
    "large_elu": (1, 100, 1, 1),
    "lstm": (1, 32),
}


def shape_of(graph: Graph, name: str) -> tuple[int, ...]:
    shape = graph.tensor[name].shape
    assert shape is not None
    return shape


def required_bytes(graph: Graph) -> int:
    return greatest_need(Problem(graph, (Memory("sram", 2**40),))).need_bytes


def integers(operator: Operator, name: str) -> list[int]:
    values = operator.attributes[name]
    assert isinstance(values, list)
    return [value for value in values if isinstance(value, int)]


def shape_written(graph: Graph, operator: Operator) -> tuple[int, ...]:
    """Return the output shape that follows from the operands' shapes by the rules of ONNX."""
    reads = [shape_of(graph, name) for name in operator.inputs]
    if operator.kind in ("Conv", "MaxPool"):
        kernel, strides, pads = (integers(operator, name) for name in ("kernel_shape", "strides", "pads"))
        sizes = zip(reads[0][2:], kernel, strides, pads[:2], pads[2:], strict=True)
        pixels = tuple((size + before + after - window) // stride + 1 for size, window, stride, before, after in sizes)
        if operator.kind == "MaxPool":
            return (*reads[0][:2], *pixels)
        weight = shape_of(graph, operator.parameters[0])
        assert weight[1:] == (reads[0][1], *kernel)
        return (1, weight[0], *pixels)
    if operator.kind == "Gemm":
        columns, depth = shape_of(graph, operator.parameters[0])
        assert depth == prod(reads[0])
        return (1, columns)
    if operator.kind == "Split":
        return (1, prod(reads[0]) // len(operator.outputs))
    if operator.kind == "BatchNormalization":
        assert [shape_of(graph, name) for name in operator.parameters] == [reads[0][1:2]] * 4
    assert operator.kind in {"BatchNormalization", "Add", "Mul", "Relu", "Elu", "Sigmoid", "Tanh"}
    assert len(set(reads)) == 1
    return reads[0]


def test_the_thesis_eight_are_bundled() -> None:
    assert set(FACTS) <= set(bundled_networks())


@pytest.mark.parametrize("name", FACTS)
def test_a_network_has_the_sizes_worked_out_by_hand(name: str) -> None:
    raw = load_network(name)
    fused = fuse(raw)
    assert FACTS[name] == Facts(
        (len(raw.operators), len(fused.operators)),
        sum(prod(shape_of(raw, tensor.name)) for tensor in raw.with_role(Role.PARAMETER)),
        sum(map(MacCount(raw).macs, raw.operators)),
        (required_bytes(raw), required_bytes(fused)),
    )


@pytest.mark.parametrize("name", FACTS)
def test_every_operator_writes_the_shape_that_follows_from_what_it_reads(name: str) -> None:
    graph = load_network(name)
    for operator in graph.operators:
        for written in operator.outputs:
            assert shape_of(graph, written) == shape_written(graph, operator), operator.name


@pytest.mark.parametrize("name", FACTS)
def test_a_network_is_stored_raw_in_16_bits_with_one_output(name: str) -> None:
    graph = load_network(name)
    assert graph.name == name
    assert not any(operator.members for operator in graph.operators)
    assert {tensor.bits for tensor in graph.tensors} == {16}
    assert [tensor.shape for tensor in graph.with_role(Role.OUTPUT)] == [OUTPUTS[name]]
    assert all(graph.readers[tensor.name] for tensor in graph.tensors if tensor.role is not Role.OUTPUT)


def test_an_even_kernel_is_padded_below_and_right() -> None:
    graph = load_network("large_elu")
    pads = {
        prod(integers(operator, "kernel_shape")): integers(operator, "pads")
        for operator in graph.operators
        if operator.kind == "Conv"
    }
    assert pads == {9: [1, 1, 1, 1], 1: [0, 0, 0, 0], 4: [0, 0, 1, 1]}
    strided = load_network("resnet50_smaug").operator["stage1.block0.conv1"]
    assert integers(strided, "pads") == [0, 0, 1, 1]


def test_a_convolution_counts_its_macs() -> None:
    """MACs are output pixels x output channels x kernel x input channels."""
    network = load_network("elu_cifar100")
    operators, count = network.operator, MacCount(network)
    cost = SimpleCost(network, load_accelerator("nvdla-like"))
    assert count.macs(operators["conv0"]) == 32 * 32 * 192 * 5 * 5 * 3
    assert count.macs(operators["conv2"]) == 16 * 16 * 240 * 3 * 3 * 192
    assert count.macs(operators["conv4"]) == 8 * 8 * 260 * 2 * 2 * 240
    # Eight output channels and 32 input channels run at once: lanes that stay empty are lost.
    assert cost.cycles(operators["conv0"]) == 32 * 32 * 24 * 5 * 5 * 1
    assert cost.cycles(operators["conv4"]) == 8 * 8 * 33 * 2 * 2 * 8


def test_resnet50_has_the_convolutions_of_torchvisions() -> None:
    def weights(name: str) -> Counter[tuple[int, ...]]:
        graph = load_network(name)
        kinds = [operator for operator in graph.operators if operator.kind == "Conv"]
        return Counter(shape_of(graph, operator.parameters[0]) for operator in kinds)

    assert weights("resnet50_smaug") == weights("resnet50")


def test_a_step_of_the_lstm_has_thirteen_operators() -> None:
    graph = load_network("lstm")
    for layer in range(2):
        for step in range(4):
            here = [each for each in graph.operators if each.name.startswith(f"lstm{layer}.step{step}.")]
            kinds = Counter(operator.kind for operator in here)
            assert kinds == {"Gemm": 2, "Add": 2, "Split": 1, "Sigmoid": 3, "Tanh": 2, "Mul": 3}
            matmul_h = graph.operator[f"lstm{layer}.step{step}.matmul_h"]
            before = f"lstm{layer}.step{step - 1}.mul_h" if step else f"lstm{layer}.hidden"
            assert matmul_h.inputs == (before,)
    assert graph.operator["lstm1.step2.matmul_x"].inputs == ("lstm0.step2.mul_h",)


def test_the_stored_graphs_are_those_of_the_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    definitions = import_module("networks.smaug").SMAUG_NETWORKS
    assert set(definitions) == set(FACTS)
    for name, build in definitions.items():
        assert build() == load_network(name)
