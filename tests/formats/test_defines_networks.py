"""DeFiNES's five networks as shipped, and as their own papers define them."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from math import prod
from pathlib import Path

import pytest

from onchip.answer.problem import Problem
from onchip.api.plan import plan_problem
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import bundled_networks, load_network
from onchip.ir.layer import WEIGHT
from onchip.ir.tensor import Role
from onchip.ir.window import Window
from onchip.ops.fusable import FusableLayer, FusableNetwork
from onchip.ops.fusable_reading import fusable_of
from onchip.search.budget.limits import Limits
from onchip.transform.rewrite.activations import fuse
from onchip.verify.verifier import verify
from support.defines_files import PublishedNetwork, published_networks

TOOLS = Path(__file__).parents[2] / "tools"
PUBLISHED = published_networks()
PADDED = ("dmcnn-vd", "fsrcnn", "mc-cnn", "mobilenetv1", "resnet18")
PAPER = {
    "fsrcnn-defines": (28.5, 15.6),
    "dmcnn-vd-defines": (26.7, 651.3),
    "mc-cnn-defines": (29.1, 108.6),
    "mobilenetv1-defines": (3.8, 4 * 1024),
    "resnet18-defines": (5.9, 11 * 1024),
}
"""Table I(b) of the paper: MiB of the largest feature map, KiB of all weights."""


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


def test_only_one_file_forgets_columns() -> None:
    forgotten = {
        name: sum(needed - layer.bound("OX") for needed, layer in zip(columns_needed(one)[1:], one.layers, strict=True))
        for name, one in PUBLISHED.items()
    }
    assert forgotten == {name: 15 * 10 if name == "dmcnn-vd-defines" else 0 for name in PUBLISHED}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_network_as_shipped_has_the_published_totals(name: str) -> None:
    network, published = network_of(name), PUBLISHED[name]
    largest = max(layer.output.size_bits for layer in network.layers) // 8
    more = [
        (needed - layer.bound("OX")) * prod(bound for loop, bound in layer.bounds.items() if loop != "OX")
        for needed, layer in zip(columns_needed(published)[1:], published.layers, strict=True)
    ]
    assert macs(network) == published.macs + sum(more)
    assert weight_bytes(network) == published.weight_bytes
    assert largest == published.largest_map_bytes + (10 * 550 * 64 if name == "dmcnn-vd-defines" else 0)
    assert sum(more) == (2_770_617_600 if name == "dmcnn-vd-defines" else 0)


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_table_has_the_totals_of_the_files(name: str) -> None:
    published, (largest_mib, weights_kib) = PUBLISHED[name], PAPER[name]
    assert published.largest_map_bytes / 2**20 == pytest.approx(largest_mib, abs=0.05)
    assert published.weight_bytes / 2**10 == pytest.approx(weights_kib, rel=0.005)


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
    "dmcnn-vd": (
        9 * (2 * 3 * 64 + 18 * 64 * 64),
        512 * 768 * 9 * (2 * 3 * 64 + 18 * 64 * 64),
        64 * 512 * 768,
    ),
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


def test_fsrcnn_has_the_weights_of_its_paper_and_writes_four_by_four_times_as_many_pixels() -> None:
    graph = fuse(load_network("fsrcnn"))
    weights = [graph.tensor[operator.parameters[0]].shape or () for operator in graph.operators]
    assert sum(map(prod, weights)) == 12_464
    assert [tensor.shape for tensor in graph.with_role(Role.OUTPUT)] == [(1, 1, 4 * 540, 4 * 960)]
    made, shipped = network_of("fsrcnn").layers[-1], network_of("fsrcnn-defines").layers[-1]
    assert made.layer.bounds == shipped.layer.bounds
    assert made.output.size_bits == shipped.output.size_bits


@pytest.mark.parametrize("name", ["dmcnn-vd", "mc-cnn", "mobilenetv1", "resnet18"])
def test_a_padded_network_has_the_weights_of_the_one_shipped(name: str) -> None:
    """ResNet18 has three more projections, and no other difference."""
    padded, shipped = (
        Counter(layer.layer.elements(WEIGHT) for layer in network_of(each).layers if layer.weight_bits)
        for each in (name, f"{name}-defines")
    )
    projections = [64 * 128, 128 * 256, 256 * 512] if name == "resnet18" else []
    assert padded - shipped == Counter(projections)
    assert not shipped - padded


@pytest.mark.parametrize("name", [*PUBLISHED, *PADDED])
def test_a_network_is_stored_raw_in_8_bits_with_one_output(name: str) -> None:
    graph = load_network(name)
    assert graph.name == name
    assert not any(operator.members for operator in graph.operators)
    assert {tensor.bits for tensor in graph.tensors} == {8}
    assert len(graph.with_role(Role.OUTPUT)) == 1
    assert all(graph.readers[tensor.name] for tensor in graph.tensors if tensor.role is not Role.OUTPUT)


@pytest.mark.parametrize("name", [*PUBLISHED, *PADDED])
def test_a_network_is_planned(name: str) -> None:
    accelerator = load_accelerator("single-2mib@64MiB")
    problem = Problem(fuse(load_network(name)), accelerator.scratchpads)
    plan = plan_problem(problem, limits=Limits(time_limit_seconds=10)).answer
    assert plan is not None
    assert not verify(problem, plan).violations


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
