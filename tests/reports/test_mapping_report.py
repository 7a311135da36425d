from __future__ import annotations

from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.verb_options import MapOptions
from onchip.api.map import MappingRequest, map_layers
from onchip.arch.memory import DRAM
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.reports.mapping.outcome import (
    MappingOutcome,
    costed_layers,
    energy_by_memory,
    energy_by_operand,
    loop_nest,
    mapping_html,
    roofline,
    utilisation,
)
from onchip.reports.shared.figures import Json

SIMBA = load_accelerator("simba")


@pytest.fixture(scope="module")
def outcome() -> MappingOutcome:
    return map_layers(
        MappingRequest(
            "lenet5", "simba", options=MapOptions(method="random", uses_cache=False), reading=Reading(bits=8)
        )
    )


def traces_of(figure: Json) -> list[Json]:
    traces = figure["traces"]
    assert isinstance(traces, list)
    return traces


def test_a_loop_nest_reads_like_listing_1_of_cosa() -> None:
    layer = Layer(k=4, c=8, q=6)
    nest = (Loop("Q", 2), Loop("C", 8, "lane"), Loop("K", 2), Loop("Q", 3), Loop("K", 2, "pe"))
    mapping = LayerMapping(
        nest,
        (Kept("input_buffer", 3), Kept("global_buffer", 4)),
        (Kept("register", 1), Kept("weight_buffer", 3)),
        (Kept("accumulation_buffer", 3), Kept("global_buffer", 5)),
    )
    assert loop_nest(LayerProblem(layer, SIMBA), mapping).splitlines() == [
        "// dram: input, weight, output",
        "// global_buffer: output 24 bytes",
        "spatial_for k1 = [0 : 2) :  // along pe",
        "  // global_buffer: input 48 bytes",
        "  for q1 = [0 : 3) :",
        "    // input_buffer: input 16 bytes",
        "    // weight_buffer: weight 16 bytes",
        "    // accumulation_buffer: output 4 bytes",
        "    for k0 = [0 : 2) :",
        "      spatial_for c0 = [0 : 8) :  // along lane",
        "        // register: weight 1 byte",
        "        for q0 = [0 : 2) :",
        "          output[n, k, p, q] += input[n, c, height, width] * weight[k, c, r, s]",
    ]


def test_bars_of_energy_add_up_to_the_layer(outcome: MappingOutcome) -> None:
    layers = costed_layers(outcome)
    for figure in (energy_by_memory(layers, outcome.accelerator), energy_by_operand(layers)):
        heights = [trace["y"] for trace in traces_of(figure)]
        for at, one in enumerate(layers):
            total = sum(height[at] for height in heights if isinstance(height, list))
            assert total == pytest.approx(one.cost.energy_pj)


def test_the_cycle_breakdown_adds_up_to_the_cycles(outcome: MappingOutcome) -> None:
    layers = costed_layers(outcome)
    heights = [trace["y"] for trace in traces_of(utilisation(layers))]
    for at in range(len(layers)):
        assert sum(height[at] for height in heights if isinstance(height, list)) == pytest.approx(
            layers[at].cost.cycles
        )


def test_no_layer_is_above_the_roof(outcome: MappingOutcome) -> None:
    layers = costed_layers(outcome)
    roof, points = traces_of(roofline(layers, outcome.accelerator))
    assert isinstance(points["x"], list)
    assert isinstance(points["y"], list)
    assert isinstance(roof["y"], list)
    peak, bytes_per_cycle = 1024, 160 / 8
    assert max(roof["y"]) == peak
    assert roof["y"] == sorted(roof["y"])
    for intensity, rate in zip(points["x"], points["y"], strict=True):
        assert 0 < rate <= min(peak, intensity * bytes_per_cycle) * (1 + 1e-9)


def test_intensity_counts_what_dram_reads_and_writes(outcome: MappingOutcome) -> None:
    (_, points), one = traces_of(roofline(costed_layers(outcome), outcome.accelerator)), costed_layers(outcome)[0]
    moved_bits = sum(each.elements * each.bits for each in one.cost.accesses if each.memory == DRAM)
    assert isinstance(points["x"], list)
    assert points["x"][0] == pytest.approx(one.cost.macs * 8 / moved_bits)


def test_the_page_stands_alone_and_escapes_names(outcome: MappingOutcome, tmp_path: Path) -> None:
    page = mapping_html(outcome, "onchip map '</script><b>'")
    assert "</script><b>" not in page
    head = page.split("<script", 1)[0]
    for place in ("energy-by-memory", "energy-by-operand", "roofline-plot", "utilisation-plot"):
        assert f'id="{place}"' in head
    assert "src=" not in head
    assert "// dram: input, weight, output" in head
