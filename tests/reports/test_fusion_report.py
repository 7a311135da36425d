from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.verb_options import FusionOptions, TileSizes
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.fuse import FusionRequest, fuse_network
from onchip.reports.stack.html import (
    accesses,
    energy_by_cause,
    energy_by_memory,
    fusion_html,
    heat_map,
    latency,
    memory_levels,
    network,
)
from onchip.reports.stack.outcome import FusionOutcome
from support.fused_files import CHIP, three_convolutions


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> FusionOutcome:
    folder = tmp_path_factory.mktemp("fused")
    (folder / "three.json").write_text(three_convolutions())
    (folder / "chip.yaml").write_text(CHIP)
    options = FusionOptions("one", tile_sizes=TileSizes.HALVES, mode=OverlapMode.FULLY_CACHED)
    files = str(folder / "three.json"), str(folder / "chip.yaml")
    return fuse_network(
        FusionRequest(*files, options=replace(options, mapper="loma", uses_cache=False), reading=Reading(bits=8))
    )


def bars_of(figure: Any) -> float:  # noqa: ANN401 - JSON
    return float(sum(height for trace in figure["traces"] for height in trace["y"]))


@pytest.mark.slow
def test_bars_add_up_to_what_the_strategy_costs(outcome: FusionOutcome) -> None:
    sums = outcome.sums
    assert bars_of(energy_by_memory(outcome)) == pytest.approx(sums.energy_pj)
    assert bars_of(energy_by_cause(outcome)) == pytest.approx(sums.energy_pj)
    assert bars_of(latency(outcome)) == pytest.approx(sums.cycles)
    assert bars_of(accesses(outcome)) == sum(sums.accesses.values())


def test_heat_maps_show_what_each_tile_costs(outcome: FusionOutcome) -> None:
    """Without neighbouring tiles all modes are equal, and the cell shows the same cost."""
    (one,) = outcome.stacks
    figure: Any = heat_map(one, OverlapMode.FULLY_CACHED, outcome.unit)
    (trace,) = figure["traces"]
    assert trace["x"] == trace["y"] == ["1", "2", "4", "8"]
    values = {each.tiling: each for each in one.tilings}
    for row, line in enumerate(trace["z"]):
        for column, value in enumerate(line):
            tiling = Tiling(2**column, 2**row, OverlapMode.FULLY_CACHED).within(8, 8)
            assert value == values[tiling].value
            assert trace["text"][row][column]
    best = min(each.value for each in values.values())
    assert best == outcome.result.objective_value
    assert all(each.value >= best for each in values.values())


def test_memory_levels_are_those_of_every_kind_of_tile(outcome: FusionOutcome) -> None:
    (one,) = outcome.stacks
    figure: Any = memory_levels(one, outcome.accelerator)
    (trace,) = figure["traces"]
    assert trace["x"] == ["conv0", "conv1", "add"]
    assert len(trace["y"]) == 3 * len(one.cost.placed)
    assert trace["meta"]["labels"] == ["register", "buffer", "global", "dram"]
    first = dict(zip(trace["y"][:3], trace["customdata"][:3], strict=True))
    (weights,) = [line for label, line in first.items() if label.endswith("weight")]
    assert weights[:2] == ["dram", "dram"]
    (outputs,) = [line for label, line in first.items() if label.endswith("output")]
    assert outputs[2] == "dram"


def test_the_network_is_drawn_with_the_map_that_skips_a_layer(outcome: FusionOutcome) -> None:
    figure: Any = network(outcome)
    edges, stack = figure["traces"]
    assert stack["x"] == [0, 1, 2]
    ends = [(edges["x"][at], edges["x"][at + 2]) for at in range(0, len(edges["x"]), 4)]
    assert ends == [(-1, 0), (0, 1), (0, 2), (1, 2)]
    assert edges["y"][9] > edges["y"][5] == 0


def test_the_page_loads_nothing_and_escapes_names(outcome: FusionOutcome) -> None:
    text = fusion_html(outcome, "onchip fuse <three>")
    assert "onchip fuse &lt;three&gt;" in text
    assert "src=" not in text.split("<script", 1)[0]
    assert outcome.space.split("'")[0] in text
