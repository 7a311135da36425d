"""Bundled networks have the sizes of their papers, of their files, and of calculations by hand."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from math import prod
from pathlib import Path
from typing import NamedTuple

import pytest

from onchip.answer.problem import Problem
from onchip.arch.memory import Memory
from onchip.errors import UsageError
from onchip.formats.own.graph_json import bundled_networks, load_network
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.ir.window import Window
from onchip.model.capacity.bounds import greatest_need
from onchip.model.timeline.mac_count import MacCount
from onchip.ops.fusable import FusableLayer, FusableNetwork
from onchip.ops.fusable_reading import fusable_of
from onchip.transform.rewrite.activations import fuse
from support.defines_files import PublishedNetwork, published_networks

TOOLS = Path(__file__).parents[2] / "tools"
PUBLISHED = published_networks()
PADDED = ("dmcnn-vd", "fsrcnn", "mc-cnn", "mobilenetv1", "resnet18")


def network_of(name: str) -> FusableNetwork:
    return fusable_of(fuse(load_network(name)))


def weight_bytes(network: FusableNetwork) -> int:
    return sum(layer.weight_bits for layer in network.layers) // 8


def macs(network: FusableNetwork) -> int:
    return sum(layer.layer.macs for layer in network.layers)


def columns_needed(published: PublishedNetwork) -> list[int]:
    """Return the columns that each layer has to write, and last those of the input, computed backwards."""
    needed = Counter({len(published.layers): published.layers[-1].bound("OX")})
    for number in range(len(published.layers) - 1, -1, -1):
        layer = published.layers[number]
        seen = (needed[number + 1] - 1) * layer.stride + layer.bound("FX")
        for source in layer.reads:
            needed[source + 1] = max(needed[source + 1], seen)
    return [needed[number] for number in range(len(published.layers) + 1)]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_network_as_shipped_has_the_layers_of_its_file(name: str) -> None:
    """The layers are equal except for columns that the file leaves out, which DeFiNES infers."""
    network, published = network_of(name), PUBLISHED[name]
    outputs = [one.output.name for one in network.layers]
    columns = columns_needed(published)
    assert network.inputs[0].columns == columns[0]
    for layer, source, needed in zip(network.layers, published.layers, columns[1:], strict=True):
        nest, output = layer.layer, layer.output
        channels = source.bound("K") * source.bound("G")
        assert (output.channels, output.rows, output.columns) == (channels, source.bound("OY"), needed), layer.name
        assert [outputs.index(read.source) if read.source in outputs else -1 for read in layer.reads] == [*source.reads]
        if source.kind != "add":
            assert (nest.k, nest.c, nest.g) == (source.bound("K"), source.bound("C"), source.bound("G"))
            assert (nest.r, nest.s, *nest.stride) == (source.bound("FY"), source.bound("FX"), *[source.stride] * 2)
            assert nest.padding == (0, 0, 0, 0)


def named(name: str) -> dict[str, FusableLayer]:
    return {layer.name: layer for layer in network_of(name).layers}


def test_an_unpadded_addition_reads_the_middle_of_the_larger_map() -> None:
    """The offset from its edges is what the two convolutions between the maps lose."""
    layers = named("resnet18-defines")
    maps = network_of("resnet18-defines").maps
    for layer in layers.values():
        if len(layer.reads) == 2:
            cut, plain = layer.reads
            size, outputs = maps[cut.source].rows, layer.output.rows
            assert (plain.rows, plain.columns) == (Window(1, 1, 1, 0),) * 2
            assert cut.rows == cut.columns
            last = (outputs - 1) * cut.rows.stride - cut.rows.pad
            assert -cut.rows.pad == cut.rows.stride + 1
            assert size - 1 - last - (cut.rows.stride + 1) in range(cut.rows.stride)
    halving = [name for name, layer in layers.items() if len(layer.reads) == 2 and layer.reads[0].rows.stride == 2]
    assert halving == ["add10", "add16", "add22"]
    assert maps[layers["add10"].reads[0].source].channels == 64


PADDED_FACTS = {
    # Dong et al. count 12,464 weights; the last layer's 56 x 81 become 56 x 16 x 9 here.
    "fsrcnn": (
        12_464 - 56 * 81 + 56 * 144,
        540 * 960 * (25 * 56 + 2 * 56 * 12 + 4 * 9 * 144 + 56 * 144),
        56 * 540 * 960,
    ),
    "dmcnn-vd": (9 * (2 * 3 * 64 + 18 * 64 * 64), 512 * 768 * 9 * (2 * 3 * 64 + 18 * 64 * 64), 64 * 512 * 768),
    "mc-cnn": (9 * (64 + 3 * 64 * 64), 376 * 1242 * 9 * (64 + 3 * 64 * 64), 64 * 376 * 1242),
    # Howard et al.: 4.2 million parameters (21,888 in batch norms, 1,000 biases), 569 million products.
    "mobilenetv1": (4_231_976 - 2 * 10_944 - 1000, 568_740_352 + 7 * 7 * 1024, 64 * 112 * 112),
    # torchvision: 11,689,512 parameters (9,600 in batch norms, 1,000 biases), 1,814,073,344 products.
    "resnet18": (
        11_689_512 - 9_600 - 1000,
        1_814_073_344 + 9 * 56 * 56 * 64 + 7 * 7 * 512 + 2 * (64 * 56**2 + 128 * 28**2 + 256 * 14**2 + 512 * 7**2),
        64 * 112 * 112,
    ),
}


@pytest.mark.parametrize("name", PADDED)
def test_a_padded_network_has_the_weights_products_and_largest_map_of_its_paper(name: str) -> None:
    network = network_of(name)
    largest = max(layer.output.size_bits for layer in network.layers) // 8
    assert (weight_bytes(network), macs(network), largest) == PADDED_FACTS[name]


def test_the_stored_graphs_are_those_of_the_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    shipped = import_module("networks.defines").DEFINES_NETWORKS
    padded = import_module("networks.padded").PADDED_NETWORKS
    assert (set(shipped), set(padded)) == (set(PUBLISHED), set(PADDED))
    for name, build in {**shipped, **padded}.items():
        assert build() == load_network(name)
    assert {*shipped, *padded} <= set(bundled_networks())


@pytest.mark.parametrize("name", [*PUBLISHED, *PADDED])
def test_the_table_of_bundled_networks_has_its_figures(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "bundled.md").read_text(encoding="utf-8")
    raw, network = load_network(name), network_of(name)
    largest = max(layer.output.size_bits for layer in network.layers) // 8
    counts = f"| {len(raw.operators)} / {len(fuse(raw).operators)} | {len(network.layers)} |"
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
    assert row.endswith(f"{counts} {weight_bytes(network):,} | {macs(network):,} | {largest:,} |")


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
        (1 + 2 * 4 * 13, 1 + 2 * 4 * (13 - 4) - 2), 2 * 2 * 128 * 32, 2 * 4 * 2 * 128 * 32, (2 * 3 * 128, 2 * 3 * 128)
    ),
}
OUTPUTS = dict.fromkeys(FACTS, (1, 10)) | {"elu_cifar100": (1, 100, 1, 1), "large_elu": (1, 100, 1, 1), "lstm": (1, 32)}


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


def test_stored_graphs_of_the_thesis_are_those_of_the_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    definitions = import_module("networks.smaug").SMAUG_NETWORKS
    assert set(definitions) == set(FACTS)
    for name, build in definitions.items():
        assert build() == load_network(name)


class PublishedFacts(NamedTuple):
    operators: tuple[int, int]
    activation_bytes_fused: int
    greatest_operands: tuple[int, int]
    peak_bytes: tuple[int, int]


TORCHVISION = {
    "resnet50": PublishedFacts((174, 72), 16_987_624, (2_408_448, 2_408_448), (2_408_448, 2_408_448)),
    "densenet121": PublishedFacts((430, 250), 28_527_080, (1_605_632, 1_605_632), (2_107_392, 2_107_392)),
    "resnext50_32x4d": PublishedFacts((174, 72), 20_274_152, (2_408_448, 2_408_448), (2_408_448, 2_408_448)),
    "r2plus1d_18": PublishedFacts((118, 47), 288_153_448, (57_802_752, 41_746_432), (70_647_808, 54_591_488)),
    "s3d": PublishedFacts((256, 102), 61_848_448, (25_690_112, 19_267_584), (25_690_112, 19_267_584)),
    "fcn_resnet50": PublishedFacts((177, 73), 40_659_024, (4_816_896, 4_816_896), (4_816_896, 4_816_896)),
    "lraspp_mobilenet_v3_large": PublishedFacts((193, 97), 8_137_952, (1_605_632, 1_070_160), (1_605_632, 1_070_160)),
    "deeplabv3_resnet50": PublishedFacts((198, 82), 42_668_368, (4_816_896, 4_816_896), (4_816_896, 4_816_896)),
    "transformer": PublishedFacts((158, 146), 54_067_200, (2_621_440, 1_638_400), (3_112_960, 2_129_920)),
    "vit_b_16": PublishedFacts((125, 113), 26_173_672, (1_210_368, 756_480), (1_361_664, 907_776)),
    "pnasnet5large": PublishedFacts((954, 671), 115_564_570, (2_452_416, 2_452_416), (4_934_166, 4_934_166)),
    "nasnetalarge": PublishedFacts((1264, 890), 113_500_240, (2_496_960, 2_496_960), (4_547_850, 4_547_850)),
    "amoebanetd_18_256": PublishedFacts((1045, 627), 105_324_520, (3_211_264, 3_211_264), (5_619_712, 4_816_896)),
    "darts_v2": PublishedFacts((708, 485), 13_784_488, (602_112, 451_584), (602_112, 451_584)),
}


def sizes_in_bytes(graph: Graph) -> dict[str, int]:
    return {tensor.name: tensor.size_bytes for tensor in graph.tensors if tensor.role is not Role.PARAMETER}


def greatest_operands(graph: Graph) -> int:
    size = sizes_in_bytes(graph)
    return max(sum(size[name] for name in {*operator.inputs, *operator.outputs}) for operator in graph.operators)


def peak_bytes_of_the_given_order(graph: Graph) -> int:
    """Return the peak of live bytes; a tensor is live from its first operator to its last."""
    steps: dict[str, list[int]] = {}
    for step, operator in enumerate(graph.operators):
        for name in (*operator.inputs, *operator.outputs):
            steps.setdefault(name, []).append(step)
    size = sizes_in_bytes(graph)
    return max(
        sum(size[name] for name, used in steps.items() if used[0] <= step <= used[-1])
        for step in range(len(graph.operators))
    )


@pytest.mark.parametrize("name", TORCHVISION)
def test_a_bundled_network_has_the_published_counts_and_bytes(name: str) -> None:
    raw = load_network(name).with_bits(8)
    fused = fuse(raw)
    assert raw.name == name
    assert TORCHVISION[name] == PublishedFacts(
        (len(raw.operators), len(fused.operators)),
        sum(sizes_in_bytes(fused).values()),
        (greatest_operands(raw), greatest_operands(fused)),
        (peak_bytes_of_the_given_order(raw), peak_bytes_of_the_given_order(fused)),
    )


def test_an_unknown_network_is_refused_with_the_names_of_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no network 'resnet51' is bundled"):
        load_network("resnet51")
