"""The eight networks of the multi-scratchpad thesis: sizes computed by hand from their layers."""

from __future__ import annotations

from importlib import import_module
from math import prod
from pathlib import Path
from typing import NamedTuple

import pytest

from onchip.answer.problem import Problem
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import load_network
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.model.capacity.bounds import greatest_need
from onchip.model.timeline.mac_count import MacCount
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
def test_a_network_is_stored_raw_in_16_bits_with_one_output(name: str) -> None:
    graph = load_network(name)
    assert graph.name == name
    assert not any(operator.members for operator in graph.operators)
    assert {tensor.bits for tensor in graph.tensors} == {16}
    assert [tensor.shape for tensor in graph.with_role(Role.OUTPUT)] == [OUTPUTS[name]]
    assert all(graph.readers[tensor.name] for tensor in graph.tensors if tensor.role is not Role.OUTPUT)


def test_the_stored_graphs_are_those_of_the_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    definitions = import_module("networks.smaug").SMAUG_NETWORKS
    assert set(definitions) == set(FACTS)
    for name, build in definitions.items():
        assert build() == load_network(name)
