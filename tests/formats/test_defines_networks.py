"""DeFiNES's five networks as shipped, and as their own papers define them."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from onchip.formats.own.graph_json import bundled_networks, load_network
from onchip.ir.window import Window
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
