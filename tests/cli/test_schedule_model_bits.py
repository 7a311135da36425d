"""`onchip schedule` without --bits: every tensor, and every loop nest over it, has the bit width of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.diamond import Program
from support.fused_files import three_convolutions

BITS = {"x": 8, "w0": 8, "m0": 16, "w1": 8, "m1": 16, "y": 32}
LAYERS = ("--groups", "layers")
TILES = ("--groups", "one", "--tile", "4x4", "--mode", "fully-cached")
Json = dict[str, Any]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Write a network of three convolutions whose maps grow wider."""
    fields = json.loads(three_convolutions())
    for tensor in fields["tensors"]:
        tensor["bits"] = BITS[tensor["name"]]
    path = tmp_path / "mixed.json"
    path.write_text(json.dumps(fields))
    return path


def scheduled(onchip: Program, network: Path, chip: Path, *options: object) -> tuple[Path, Json]:
    schedule = network.with_name("schedule.json")
    asked = ("schedule", network, "--accelerator", chip, "--no-cache", "-o", schedule, "--json", *options)
    ended = onchip(*asked)
    assert (ended.code, ended.err) == (0, "")
    return schedule, ended.json


@pytest.mark.parametrize("options", [LAYERS, TILES], ids=["layers", "tiles"])
def test_tensors_and_loop_nests_have_their_own_bits(
    onchip: Program, mixed: Path, chip: Path, options: tuple[str, ...]
) -> None:
    schedule, answer = scheduled(onchip, mixed, chip, *options)

    fields = json.loads(schedule.read_text())
    assert (fields["reading"]["bits"], fields["reading"]["partial_bits"]) == (None, 32)
    assert {tuple(one["layer"]["bits"].values()) for one in fields["mappings"]} == {
        (8, 8, 16, 32),
        (16, 8, 16, 32),
        (16, 16, 32, 32),
    }
    assert answer["lower_bound"] <= answer["objective_value"]
    # x is read once at least, y is written once, and the weights are read once
    assert answer["traffic"]["total"] >= 256 + 4 * 256 + 2 * 144


@pytest.mark.parametrize("options", [LAYERS, TILES], ids=["layers", "tiles"])
def test_such_a_file_is_checked_run_timed_and_shown(
    onchip: Program, mixed: Path, chip: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    schedule, answer = scheduled(onchip, mixed, chip, *options)

    assert onchip("check", schedule, mixed).code == 0
    ran = onchip("run", schedule, mixed, "--json")
    assert (ran.code, ran.json["run"]["difference"], ran.json["kernels"]) == (0, None, "integer arithmetic")
    timed = onchip("time", schedule, mixed, "--json")
    assert (timed.code, timed.json["total_cycles"]) == (0, answer["latency_cycles"])
    assert onchip("report", schedule, mixed, "-o", tmp_path / "page.html").code == 0


@pytest.mark.slow
def test_a_network_of_eight_bits_costs_the_same_either_way(onchip: Program, network: Path, chip: Path) -> None:
    about_the_run = dict.fromkeys(("seconds",))
    _, own = scheduled(onchip, network, chip, "--partial-bits", 24, *LAYERS)
    _, eight = scheduled(onchip, network, chip, "--bits", 8, "--partial-bits", 24, *LAYERS)
    assert {**own, **about_the_run} == {**eight, **about_the_run}


@pytest.mark.slow
def test_a_loop_nest_of_other_bits_than_its_tensors_is_not_the_operator_s(
    onchip: Program, mixed: Path, chip: Path
) -> None:
    schedule, _ = scheduled(onchip, mixed, chip, *LAYERS)
    fields = json.loads(schedule.read_text())
    fields["mappings"][0]["layer"]["bits"]["input"] = 16
    schedule.write_text(json.dumps(fields))
    ended = onchip("check", schedule, mixed)
    assert ended.code == 1
    assert "mapping-missing" in ended.out


@pytest.mark.parametrize("bits", ["model", "0", "65", "-1", "8.5", "²"])
def test_bits_that_are_none_are_one_line(onchip: Program, network: Path, chip: Path, bits: str) -> None:
    ended = onchip("schedule", network, "--accelerator", chip, f"--bits={bits}")
    assert (ended.code, ended.out) == (2, "")
    assert "--bits" in ended.err
    assert bits in ended.err
