"""`onchip schedule` with elements wider than a register: mappings bypass it, and the schedule is checked and runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.diamond import Program
from support.fused_files import three_convolutions

LAYERS = ("--groups", "layers")
TILES = ("--groups", "one", "--tile", "4x4", "--mode", "fully-cached")
Json = dict[str, Any]


@pytest.fixture
def convolutions(tmp_path: Path) -> Path:
    path = tmp_path / "three.json"
    path.write_text(three_convolutions())
    return path


def scheduled(onchip: Program, network: Path, chip: Path, *options: str) -> tuple[Path, Json, Json]:
    schedule = network.with_name("schedule.json")
    ended = onchip("schedule", network, "--accelerator", chip, "--no-cache", "-o", schedule, "--json", *options)
    assert (ended.code, ended.err) == (0, "")
    return schedule, json.loads(schedule.read_text()), ended.json


def of_parameters(fields: Json) -> list[Json]:
    """Return the mappings of loop nests with a weight, without those of two feature maps."""
    return [one for one in fields["mappings"] if one["layer"]["loops"].get("K")]


@pytest.mark.parametrize(
    "options", [pytest.param(LAYERS, id="layers"), pytest.param(TILES, id="tiles", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("bits", "has_room"), [("8", True), ("32", False)])
def test_a_register_is_used_if_an_element_has_room(
    onchip: Program, convolutions: Path, chip: Path, bits: str, has_room: bool, options: tuple[str, ...]
) -> None:
    schedule, fields, answer = scheduled(onchip, convolutions, chip, "--bits", bits, *options)
    kept = {place["memory"] for one in of_parameters(fields) for place in one.get("weight", [])}
    assert of_parameters(fields)
    assert ("register" in kept) == has_room
    assert 0 < answer["lower_bound"] <= answer["objective_value"]
    assert onchip("check", schedule, convolutions).code == 0
    ran = onchip("run", schedule, convolutions, "--json")
    assert (ran.code, ran.json["run"]["difference"]) == (0, None)


def test_a_mapping_with_an_element_in_a_register_that_is_too_narrow_is_illegal(
    onchip: Program, convolutions: Path, chip: Path
) -> None:
    schedule, fields, _ = scheduled(onchip, convolutions, chip, "--bits", "16", *LAYERS)
    mapping = of_parameters(fields)[0]
    mapping["weight"] = [{"memory": "register", "loops": 0}, *mapping.get("weight", [])]
    schedule.write_text(json.dumps(fields))
    ended = onchip("check", schedule, convolutions)
    assert ended.code == 1
    assert "capacity-exceeded" in ended.out
    assert "16 bits (weight 16) in 8" in ended.out.replace("\n", " ")


def test_sums_wider_than_every_memory_go_to_dram_and_back(onchip: Program, convolutions: Path, tmp_path: Path) -> None:
    """Four bytes in all have room for an input and a weight, but not for a sum of forty bits."""
    path = tmp_path / "tiny.yaml"
    path.write_text(CHIP_OF_FOUR_BYTES)
    _, fields, _ = scheduled(onchip, convolutions, path, "--partial-bits", "40", *LAYERS)
    assert of_parameters(fields)
    assert not any("output" in one for one in of_parameters(fields))


CHIP_OF_FOUR_BYTES = """\
format: onchip-accelerator
version: 1
name: tiny
array: {dimensions: {K: 2, OX: 2}, mac_energy_pj: 0.5}
memories:
  - {name: global, capacity: 4B, scratchpad: true, access_bits: 32, read_energy_pj: 30, write_energy_pj: 35}
dram: {access_bits: 64, read_energy_pj: 400, write_energy_pj: 450}
"""
