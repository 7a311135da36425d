"""Loops that DeFiNES unrolls, compared with its files."""

from __future__ import annotations

import pytest

from onchip.errors import UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import load_network
from onchip.ir.layer import OTHER_NAMES
from onchip.ops.fusable_reading import fusable_of
from oracles.unrollings import ARCHITECTURES, NETWORKS, unrolling_of
from support.defines_files import published_networks

PUBLISHED = published_networks()


def array_of(architecture: str) -> str:
    """Return the architecture file that has the same array."""
    found = architecture
    for ending in ("-paper", "-df", "-defines"):
        found = found.removesuffix(ending)
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("network", NETWORKS)
def test_every_layer_is_unrolled_as_published(network: str, architecture: str) -> None:
    layers = fusable_of(load_network(network)).layers
    published = PUBLISHED[network].unrolling[array_of(architecture)]
    for layer, source in zip(layers, published, strict=True):
        expected = {
            dimension: ("G" if len(layer.reads) == 2 else OTHER_NAMES.get(loop, loop), units)
            for dimension, (loop, units) in source.items()
        }
        assert unrolling_of(network, architecture, layer.name) == expected, layer.name


def test_every_network_and_array_is_there() -> None:
    assert set(NETWORKS) == set(PUBLISHED)
    assert {array_of(architecture) for architecture in ARCHITECTURES} == set(PUBLISHED["fsrcnn-defines"].unrolling)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("network", NETWORKS)
def test_no_more_units_are_used_than_the_array_has(network: str, architecture: str) -> None:
    array = load_accelerator(architecture).array
    assert array is not None
    for layer in fusable_of(load_network(network)).layers:
        for dimension, (_, units) in unrolling_of(network, architecture, layer.name).items():
            assert units <= array.dimensions[dimension]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("resnet50", "ascend-like", "conv0"), "no unrolling is known for 'resnet50'"),
        (("fsrcnn-defines", "simba", "conv0"), "no unrolling is known for 'simba'"),
        (("fsrcnn-defines", "ascend-like", "conv9"), "fsrcnn-defines: no layer 'conv9'"),
    ],
)
def test_other_names_are_refused(names: tuple[str, str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        unrolling_of(*names)
