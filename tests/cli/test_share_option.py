"""`--share`: shared bytes stated on the command line, in an accelerator file and in a graph file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.diamond import Program

CHIP = """\
format: onchip-accelerator
version: 1
name: small
memories:
  - {name: sram, capacity: 1605632, scratchpad: true}
"""
RESNET50 = ("plan", "resnet50", "--bits", 8)


def test_resnet50_at_what_an_addition_in_place_needs(onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    ended = onchip(*RESNET50, "--sram", 1605632, "--share", "all", "--json", "-o", plan)
    found = ended.json
    assert (ended.code, found["status"], found["required_bytes"]) == (0, "OPTIMAL", 1605632)
    assert json.loads(plan.read_text())["reading"]["share"] == {"in_place": ["*"], "alias": ["*"]}
    assert onchip("check", plan, "resnet50").code == 0
    assert onchip("run", plan, "resnet50").code == 0

    alone = onchip(*RESNET50, "--sram", 1605632, "--tiles", "never", "--json")
    assert (alone.code, alone.json["status"]) == (3, "INFEASIBLE")


@pytest.mark.slow
def test_tiles_share_bytes_too(onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "tiled.json"
    asked = (*RESNET50, "--sram", 900_000, "--tiles", "auto", "--time-limit", 20)
    apart = onchip(*asked, "--json").json
    found = onchip(*asked, "--share", "all", "--json", "-o", plan).json
    assert found["objective_value"] <= apart["objective_value"]
    assert onchip("check", plan, "resnet50").code == 0
    assert onchip("run", plan, "resnet50").code == 0


def test_what_has_a_place_for_life_shares_nothing(onchip: Program) -> None:
    ended = onchip(*RESNET50, "--sram", "m_r", "--placement", "static", "--share", "all")
    assert ended.code == 2
    assert "--share, --placement static: " in ended.err


def test_an_accelerator_says_which_kinds_its_kernels_can(onchip: Program, tmp_path: Path) -> None:
    chip = tmp_path / "chip.yaml"
    chip.write_text(CHIP + "share: {in_place: [Add, Relu]}\n")
    asked = (*RESNET50, "--accelerator", chip, "--tiles", "never", "--json")
    assert onchip(*asked).json["status"] == "OPTIMAL"
    assert onchip(*asked, "--share", "none").code == 3
    chip.write_text(CHIP + "share: {in_place: [Mul]}\n")
    assert onchip(*asked).code == 3


def test_a_mistake_in_what_an_accelerator_shares_is_named(onchip: Program, tmp_path: Path) -> None:
    chip = tmp_path / "chip.yaml"
    chip.write_text(CHIP + "share: {inplace: [Add]}\n")
    ended = onchip(*RESNET50, "--accelerator", chip)
    assert ended.code == 2
    assert "line 6" in ended.err
    assert "inplace" in ended.err


def test_info_says_what_sharing_saves(onchip: Program) -> None:
    said = onchip("info", "resnet50", "--bits", 8).out
    assert "with share=in-place M_R 1,605,632 bytes, M_P 1,806,336 bytes" in " ".join(said.split())
    shared = onchip("info", "densenet121", "--bits", 8, "--json").json["shared"]
    assert [one["required_bytes"] for one in shared] == [1605632, 1605632, 1605632, 1204224]
    assert [one["min_peak_bytes"] for one in shared] == [2107392, 1806336, 2107392, 1806336]


def test_what_shares_nothing_says_so(onchip: Program) -> None:
    ended = onchip(*RESNET50, "--sram", "m_r", "--share", "in-place", "--method", "belady")
    assert ended.code == 2
    assert "--share: method 'belady'" in ended.err


@pytest.mark.parametrize("share", ["none", "all"])
def test_pairs_of_a_file_count_where_they_are_asked_for(onchip: Program, tmp_path: Path, share: str) -> None:
    shape = {"shape": [4, 8], "bits": 8}
    graph = {
        "format": "onchip-graph",
        "version": 1,
        "name": "own",
        "tensors": [{"name": name, **shape, "role": role} for name, role in (("x", "input"), ("y", "output"))],
        "operators": [{"name": "op", "kind": "Softmax", "inputs": ["x"], "outputs": ["y"], "in_place": [["x", "y"]]}],
    }
    path = tmp_path / "own.json"
    path.write_text(json.dumps(graph))
    found = onchip("plan", path, "--sram", "m_r", "--share", share, "--json").json
    assert found["required_bytes"] == {"none": 64, "all": 32}[share]
