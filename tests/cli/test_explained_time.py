"""`onchip explain` of timed answers: each change of the machine yields the time of `onchip time` on that machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from support.diamond import Program
from support.small_schedules import schedule_text, three

Json = dict[str, Any]
CHIP: Json = {
    "format": "onchip-accelerator",
    "version": 1,
    "name": "chip",
    "clock_mhz": 100,
    "array": {"free": 4, "mac_energy_pj": 1},
    "memories": [
        {
            "name": "sram",
            "capacity": 130,
            "holds": ["input", "weight", "output"],
            "scratchpad": True,
            "ports": [{"direction": "read_write", "bits_per_cycle": 16}],
        }
    ],
    "dram": {"ports": [{"direction": "read_write", "bits_per_cycle": 12}]},
    "dma": {"queues": 1, "setup_cycles": 7},
}


def faster_dram(chip: Json) -> None:
    chip["dram"]["ports"][0]["bits_per_cycle"] *= 2


def more_queues(chip: Json) -> None:
    chip["dma"] = {**chip.get("dma", {}), "queues": 2 * chip.get("dma", {}).get("queues", 1)}


def faster_ports(chip: Json, memory: str) -> None:
    for one in chip["memories"]:
        if one["name"] == memory:
            for port in one["ports"]:
                port["bits_per_cycle"] *= 2


def changed(chip: Json, change: Mapping[str, Any]) -> Json | None:
    """Return the changed machine, or None for unlimited room or halved operator cycles, which no file can state."""
    found = deepcopy(chip)
    if change["change"] == "ports":
        faster_ports(found, change["memory"])
        return found
    change_of: Mapping[str, Callable[[Json], None]] = {"bandwidth": faster_dram, "queues": more_queues}
    if change["change"] not in change_of:
        return None
    change_of[change["change"]](found)
    return found


def test_a_plan_s_changes_are_what_time_says(onchip: Program, diamond: Path, planned: Path, tmp_path: Path) -> None:
    path = tmp_path / "chip.yaml"
    path.write_text(json.dumps(CHIP))
    said = onchip("explain", planned, diamond, "--accelerator", path, "--json").json
    timed = onchip("time", planned, diamond, "--accelerator", path, "--json").json

    assert said["latency_cycles"] == timed["total_cycles"] == sum(said["latency_parts"].values())
    assert (said["latency_parts"], said["waits"]) == (timed["latency_parts"], timed["waits"])
    latencies = [one["latency_cycles"] for one in said["changes"]]
    assert latencies == sorted(latencies)
    assert {one["change"] for one in said["changes"]} >= {"bandwidth", "capacity", "array"}
    for one in said["changes"]:
        assert one["saved_cycles"] == said["latency_cycles"] - one["latency_cycles"] > 0
        machine = changed(CHIP, one)
        if machine is not None:
            path.write_text(json.dumps(machine))
            there = onchip("time", planned, diamond, "--accelerator", path, "--json").json
            assert there["total_cycles"] == one["latency_cycles"], one
    (room,) = (one for one in said["changes"] if one["change"] == "capacity")
    assert room["memory"] == "sram"
    assert room["need_bytes"] > 130


def test_words_say_where_the_time_of_a_plan_goes(onchip: Program, diamond: Path, planned: Path, tmp_path: Path) -> None:
    path = tmp_path / "chip.yaml"
    path.write_text(json.dumps(CHIP))
    ended = onchip("explain", planned, diamond, "--accelerator", path)
    words = " ".join(ended.out.split())
    said = onchip("explain", planned, diamond, "--accelerator", path, "--json").json
    parts = said["latency_parts"]
    assert f"latency {said['latency_cycles']:,} cycles: compute {parts['computing']:,}" in words
    assert "the array waits longest in" in words
    assert "twice the DRAM bandwidth" in words
    assert f"{said['changes'][0]['latency_cycles']:,}" in words


def test_without_a_machine_a_plan_of_least_traffic_has_no_time(onchip: Program, diamond: Path, planned: Path) -> None:
    said = onchip("explain", planned, diamond, "--json").json
    assert "latency_cycles" not in said
    assert "latency" not in onchip("explain", planned, diamond).out


def test_a_plan_of_least_latency_needs_no_machine(onchip: Program, tmp_path: Path) -> None:
    chip, plan = tmp_path / "chip.yaml", tmp_path / "plan.json"
    roomy = {**CHIP["memories"][0], "capacity": "64KiB", "ports": []}
    chip.write_text(json.dumps({**CHIP, "memories": [roomy]}))
    asked = ("lenet5", "--bits", "8", "--count", "activations", "--cost", "macs", "--objective", "latency")
    made = onchip("plan", *asked, "--accelerator", chip, "-o", plan, "--json").json
    said = onchip("explain", plan, "lenet5", "--json").json
    assert said["latency_cycles"] == made["objective_value"] == sum(said["latency_parts"].values())
    assert said["changes"] == onchip("explain", plan, "lenet5", "--accelerator", chip, "--json").json["changes"]


@pytest.mark.parametrize("in_tiles", [False, True])
def test_a_schedule_s_changes_are_what_time_says(onchip: Program, tmp_path: Path, in_tiles: bool) -> None:
    path = tmp_path / "schedule.json"
    content = json.loads(schedule_text(in_tiles=in_tiles))
    del content["result"]
    path.write_text(json.dumps(content))
    said = onchip("explain", path, three(), "--json").json

    assert said["latency_cycles"] == sum(said["latency_parts"].values())
    checked = 0
    for one in said["changes"]:
        assert one["latency_cycles"] < said["latency_cycles"]
        machine = changed(content["accelerator"], one)
        if machine is not None:
            path.write_text(json.dumps({**content, "accelerator": machine}))
            assert onchip("time", path, three(), "--json").json["total_cycles"] == one["latency_cycles"], one
            checked += 1
    assert checked
    tensor = said["copies"][0]["tensor"] if said["copies"] else said["streamed"][0]["tensor"]
    assert "changes" not in onchip("explain", path, three(), "--tensor", tensor, "--json").json


def test_a_schedule_has_its_own_machine(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(schedule_text(in_tiles=False))
    ended = onchip("explain", path, three(), "--accelerator", "simba")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "--accelerator: " in ended.err
