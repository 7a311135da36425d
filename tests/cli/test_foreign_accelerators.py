"""ZigZag accelerators in every verb that takes one, and files of other tools that are no accelerator or network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onchip.formats.own.graph_json import write_graph
from onchip.formats.own.schedule_json import read_schedule
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from support.diamond import Program

SYSTOLIC = Path(__file__).parents[1] / "data" / "zigzag-systolic.yaml"
SCRATCHPAD_BYTES = 2_097_152


@pytest.fixture(name="product")
def written_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONCHIP_CACHE", str(tmp_path / "cache"))
    tensors = (
        Tensor.of_shape("x", (2, 8), 8, Role.INPUT),
        Tensor.of_shape("w", (8, 4), 8, Role.PARAMETER),
        Tensor.of_shape("y", (2, 4), 8, Role.OUTPUT),
    )
    path = tmp_path / "product.json"
    write_graph(Graph("product", tensors, (Operator("product", "MatMul", ("x",), ("y",), ("w",)),)), path)
    return path


def test_zigzags_hardware_is_planned_for(onchip: Program, product: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    planned = onchip("plan", product, "--accelerator", SYSTOLIC, "-o", plan, "--json")
    assert (planned.code, planned.json["status"]) == (0, "OPTIMAL")
    assert planned.json["capacity_bytes"] == SCRATCHPAD_BYTES
    assert onchip("check", plan, product, "--accelerator", SYSTOLIC).code == 0
    assert onchip("capacity", product, "--accelerator", SYSTOLIC, "--json").code == 0


def test_zigzags_hardware_is_scheduled_on_and_stands_whole_in_the_file(
    onchip: Program, product: Path, tmp_path: Path
) -> None:
    path = tmp_path / "schedule.json"
    scheduled = onchip("schedule", product, "--accelerator", SYSTOLIC, "-o", path, "--json")
    assert (scheduled.code, scheduled.json["accelerator"]) == (0, "systolic")
    assert onchip("check", path, product, "--accelerator", SYSTOLIC).code == 0
    assert read_schedule(path).accelerator.scratchpads[0].capacity_bytes == SCRATCHPAD_BYTES


def test_zigzags_hardware_is_fused_on(onchip: Program, product: Path, tmp_path: Path) -> None:
    path = tmp_path / "strategy.json"
    assert onchip("fuse", product, "--accelerator", SYSTOLIC, "-o", path).code == 0
    assert onchip("check", path, product, "--accelerator", SYSTOLIC).code == 0


NODES = """\
architecture:
  version: 0.4
  nodes:
  - !Component {name: main, class: DRAM, attributes: {width: 64}, LEFT_OUT}
  - !Component {name: buffer, class: SRAM, attributes: {depth: 64, width: 64}}
  - !Component {name: mac, class: intmac, spatial: {meshX: 2}}
"""
NOTES = (
    "Not modelled: sparse optimisations of main (Timeloop 0.4): "
    "energies, cycles and capacities are those of dense execution",
    "Not applied: temporal constraint of main (Timeloop 0.4): "
    "the mapping may break it, and status and bound are valid for mappings without it",
)
RESTRICTION = "without the features noted"


@pytest.mark.parametrize("verb", ["map", "fuse", "schedule"])
def test_answers_and_their_files_name_the_timeloop_features_that_are_left_out(
    onchip: Program, product: Path, tmp_path: Path, verb: str
) -> None:
    chip, answer, page = tmp_path / "chip.yaml", tmp_path / "answer.json", tmp_path / "page.html"
    asked = (verb, product, "--accelerator", chip)
    chip.write_text(NODES.replace(", LEFT_OUT", ""))
    plain = onchip(*asked, "--json").json
    chip.write_text(
        NODES.replace("LEFT_OUT", "constraints: {temporal: {factors: [C=1]}}, sparse_optimizations: {a: 1}")
    )
    noted = onchip(*asked, "--json", "-o", answer, "--report", page).json
    assert (plain["not_modelled"], noted["not_modelled"]) == ([], list(NOTES))
    before, after = (one["layers"][0] if verb == "map" else one for one in (plain, noted))
    assert after["objective_value"] == before["objective_value"]
    assert (RESTRICTION in str(before["space"]), RESTRICTION in str(after["space"])) == (False, True)
    table = onchip(*asked).out
    for text in (table, page.read_text(), answer.read_text()):
        assert all(note in text for note in NOTES)
    assert RESTRICTION in " ".join(table.split())
    chip.write_text(NODES.replace(", LEFT_OUT", ""))
    assert onchip("check", answer, product, "--accelerator", chip).code == 0  # the notes do not enter the hash


@pytest.mark.parametrize("verb", ["plan", "schedule", "map"])
def test_cores_of_stream_are_refused_as_what_they_are(
    onchip: Program, product: Path, tmp_path: Path, verb: str
) -> None:
    path = tmp_path / "soc.yaml"
    path.write_text("name: soc\ncores:\n  0: ./cores/one.yaml\noffchip_core_id: 0\n")
    ended = onchip(verb, product, "--accelerator", path, "--json")
    assert ended.code == 2
    assert (ended.json["place"], ended.json["error"]) == ("cores", "it lists cores of Stream")


def test_a_file_of_layers_is_no_network_and_map_takes_it(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "layers.yaml"
    path.write_text(json.dumps([{"id": 0, "operator_type": "Conv"}]))
    ended = onchip("plan", path, "--sram", "4KiB")
    assert ended.code == 2
    assert "the file lists layers at most, which `onchip map` accepts" in ended.err
