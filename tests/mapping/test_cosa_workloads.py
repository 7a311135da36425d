"""CoSA's layer tables and machines against the figures of their sources."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from onchip.errors import UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table, layer_tables
from onchip.ir.layer import Layer

KIB = 1024
COUNTS = {
    "resnet50": 24,
    "resnext50": 25,
    "resnext50-cosa": 25,
    "deepbench": 76,
    "deepbench-ocr": 4,
    "deepbench-face-recognition": 5,
}


def sizes_read(layer: Layer) -> tuple[int, ...]:
    return tuple(axis.size for axis in layer.axes)


def test_the_tables_have_as_many_layers_as_the_source() -> None:
    assert {name: len(layer_table(name)) for name in layer_tables()} == COUNTS


@pytest.mark.parametrize("name", ["resnet50", "resnext50", "resnext50-cosa", "deepbench"])
def test_a_table_names_its_source_and_licence(name: str) -> None:
    table = json.loads(files("onchip.data").joinpath("layers", f"{name}.json").read_text(encoding="utf-8"))
    assert (table["name"], table["licence"]) == (name, "BSD-2-Clause")
    assert "c4798a7" in table["source"]


@pytest.mark.parametrize("name", ["resnet50", "resnext50", "resnext50-cosa"])
def test_layers_of_a_network_differ_and_read_images_of_its_sizes(name: str) -> None:
    layers = list(layer_table(name).values())
    assert len(set(layers)) == len(layers)
    # A 1x1 filter with stride 2 leaves the last row and column alone.
    sizes = {size - (layer.r == 1 and layer.stride[0] == 2) for layer in layers for size in sizes_read(layer)}
    assert sizes <= {224, 56, 28, 14, 7, 1, 54, 26, 12}


def test_resnet50_begins_with_118_million_macs_and_ends_fully_connected() -> None:
    layers = list(layer_table("resnet50").values())
    assert layers[0].macs == 118_013_952
    assert layers[-1].macs == 2048 * 1000


def test_grouped_layers_have_the_work_of_the_shipped_ones_and_32_times_their_input() -> None:
    grouped, shipped = layer_table("resnext50"), layer_table("resnext50-cosa")
    assert list(grouped) == list(shipped)
    convolutions = [name for name, layer in grouped.items() if layer.g > 1]
    assert {grouped[name].r for name in convolutions} == {3}
    for name, layer in grouped.items():
        assert layer.macs == shipped[name].macs
        assert layer.elements("weight") == shipped[name].elements("weight")
        assert layer.elements("input") == shipped[name].elements("input") * (32 if name in convolutions else 1)
    assert len(convolutions) == 7


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no layer table 'vgg'") as caught:
        layer_table("vgg")
    assert "deepbench-ocr" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "elements", "accumulation", "weight", "inputs", "shared", "dram_bits"),
    [
        ("simba", 16, 3 * KIB, 32 * KIB, 8 * KIB, 128 * KIB, 160),
        ("simba-64-pes", 64, 3 * KIB, 32 * KIB, 8 * KIB, 128 * KIB, 320),
        ("simba-large-buffers", 16, 6 * KIB, 64 * KIB, 16 * KIB, 1024 * KIB, 160),
        ("simba-cosa", 16, 8 * 64 * 3, 128 * KIB, 4 * KIB, 64 * KIB, 160),
    ],
)
def test_a_machine_has_the_sizes_of_its_source(
    name: str, elements: int, accumulation: int, weight: int, inputs: int, shared: int, dram_bits: int
) -> None:
    """The first four in bytes of a processing element, 64 MACs each."""
    accelerator = load_accelerator(name)
    array, dram = accelerator.array, accelerator.dram
    assert array is not None
    assert dram is not None
    assert array.macs == 64 * elements
    per_element = {"register": 64, "accumulation_buffer": 8, "weight_buffer": 8, "input_buffer": 1, "global_buffer": 1}
    capacities = {
        level.memory.name: level.memory.capacity_bytes * per_element[level.memory.name] for level in accelerator.levels
    }
    assert list(capacities.values()) == [64, accumulation, weight, inputs, shared]
    assert [port.bits_per_cycle for port in dram.ports] == [dram_bits]


@pytest.mark.parametrize("name", ["simba", "simba-64-pes", "simba-large-buffers", "simba-cosa"])
def test_a_machine_has_energies_scaled_with_the_root_of_its_sizes(name: str) -> None:
    for level in load_accelerator(name).levels[:-1]:
        assert level.access is not None
        expected = 10 * (level.memory.capacity_bytes / (8 * KIB)) ** 0.5 * level.access.access_bits / 64
        assert level.access.read_energy_pj == pytest.approx(expected, rel=0.01)
        assert level.access.read_energy_pj == level.access.write_energy_pj
