"""Tests of `onchip explain`: spills, time, and schedules."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import pytest

from onchip.reports.schedule.outcome import schedule_object
from support.diamond import Program
from support.small_schedules import document, outcome, schedule_text, three


def test_the_diamond_s_spill_is_explained(onchip: Program, diamond: Path, planned: Path) -> None:
    ended = onchip("explain", planned, diamond)

    assert (ended.code, ended.err) == (0, "")
    words = " ".join(ended.out.split())
    assert "130 bytes, set by join (Conv) with l (50), r (50), y (30)" in words
    assert "full steps 2: 2 (" in words
    assert "costs 100: spill 50 + reload 50" in words
    assert "evicted in step 2" in words
    assert "capacity needed to stay: 160 bytes, 30 more" in words
    assert "this order needs at least 160 bytes; the best order needs 160 bytes (M_P)" in words


def test_json_has_the_same(onchip: Program, diamond: Path, planned: Path) -> None:
    said = onchip("explain", planned, diamond, "--json").json

    assert (said["required_bytes"], said["required_by"]) == (130, [{"operator": "join", "step": 3}])
    assert [full["step"] for full in said["full_steps"]] == [2, 3]
    assert said["spill_free_bytes"] == {"this_order": 160, "any_order": 160}
    (absence,) = said["absences"]
    assert (absence["cost"], absence["spill_cost"], absence["reload_cost"]) == (100, 50, 50)
    assert (absence["tightest_step"], absence["forced"], absence["stays_with_bytes"]) == (2, True, 160)
    assert {one["tensor"]: one["bytes"] for one in absence["pushed_out_by"]}["s"] == 60
    assert all(one["operand"] for one in absence["pushed_out_by"])


def test_a_plan_without_spills_has_nothing_to_explain_and_asks_for_no_m_p(
    onchip: Program, diamond: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    assert onchip("plan", diamond, "--sram", "160", "-o", plan).code == 0

    assert "All tensors stay in the scratchpad until their last use." in onchip("explain", plan, diamond).out
    assert onchip("explain", plan, diamond, "--json").json["spill_free_bytes"] == {"this_order": 160, "any_order": None}


def test_an_illegal_plan_is_not_explained(onchip: Program, diamond: Path, planned: Path) -> None:
    fields = json.loads(planned.read_text())
    del fields["instructions"][0]
    planned.write_text(json.dumps(fields))

    ended = onchip("explain", planned, diamond)

    assert ended.code == 1
    assert "violation" in ended.out


# The most expensive spills are explained one by one; the others are summed up


SPILLED = 13


def kept_across_a_full_step() -> dict[str, object]:
    """Return a graph of tensors of 11 to 23 bytes, each live across a step that leaves no room for it."""
    ids = range(1, SPILLED + 1)
    tensors = [{"name": "x", "bytes": 5, "role": "input"}, {"name": "wide", "bytes": 60, "role": "activation"}]
    tensors += [{"name": f"kept{i}", "bytes": 10 + i, "role": "activation"} for i in ids]
    tensors += [{"name": "whole", "bytes": 60, "role": "output"}]
    tensors += [{"name": f"end{i}", "bytes": 1, "role": "output"} for i in ids]
    operators = [{"name": f"write{i}", "kind": "Op", "inputs": ["x"], "outputs": [f"kept{i}"]} for i in ids]
    operators += [{"name": "widen", "kind": "Op", "inputs": ["x"], "outputs": ["wide"]}]
    operators += [{"name": "fill", "kind": "Op", "inputs": ["wide"], "outputs": ["whole"]}]
    operators += [{"name": f"read{i}", "kind": "Op", "inputs": [f"kept{i}"], "outputs": [f"end{i}"]} for i in ids]
    return {"format": "onchip-graph", "version": 1, "name": "full", "tensors": tensors, "operators": operators}


def test_what_is_not_told_one_by_one_is_summed_up(onchip: Program, tmp_path: Path) -> None:
    network, plan = tmp_path / "full.json", tmp_path / "plan.json"
    network.write_text(json.dumps(kept_across_a_full_step()))
    assert onchip("plan", network, "--sram", "120", "--order", "given", "-o", plan).code == 0

    costs = [cause["cost"] for cause in onchip("explain", plan, network, "--json").json["absences"]]
    words = " ".join(onchip("explain", plan, network).out.split())

    assert costs == [2 * (10 + i) for i in range(SPILLED, 0, -1)]
    assert f"And 3 times more, at {sum(costs[10:])}; --json has all." in words


def test_bands_of_one_tensor_are_told_together(onchip: Program, tmp_path: Path) -> None:
    network, plan, graph = tmp_path / "full.json", tmp_path / "plan.json", kept_across_a_full_step()
    for tensor in cast("list[dict[str, object]]", graph["tensors"]):
        if (name := str(tensor["name"])).startswith("kept"):
            number, size = int(name.removeprefix("kept")), tensor.pop("bytes")
            tensor |= {"shape": [1, size], "bits": 8, "part_of": "map", "region": [[number - 1, number], [0, size]]}
    network.write_text(json.dumps(graph))
    assert onchip("plan", network, "--sram", "120", "--order", "given", "-o", plan).code == 0

    costs = [cause["cost"] for cause in onchip("explain", plan, network, "--json").json["absences"]]
    words = " ".join(onchip("explain", plan, network).out.split())

    assert f"13 tiles of map, 13 times at {sum(costs)}; the most expensive: kept13 (23 bytes) costs {costs[0]}" in words
    assert words.count("evicted in step") == 1
    assert "more, at" not in words


# `onchip explain` of timed answers: each change of the machine yields the time of `onchip time` on that machine


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


# `onchip explain SCHEDULE NETWORK`: energy by part, transfers and their reasons, in total and per tensor


BOTH = pytest.mark.parametrize("in_tiles", [False, True])
SMALL = """\
format: onchip-accelerator
version: 1
name: small
array: {dimensions: {K: 2, OX: 2}, mac_energy_pj: 0.5}
memories:
  - {name: register, capacity: 1B, holds: [weight], serves: [OX], access_bits: 8, read_energy_pj: 0.1,
     write_energy_pj: 0.1}
  - {name: buffer, capacity: 200B, scratchpad: true, access_bits: 32, read_energy_pj: 5, write_energy_pj: 6}
dram: {access_bits: 64, read_energy_pj: 400, write_energy_pj: 450}
"""


def written(folder: Path, *, in_tiles: bool) -> Path:
    path = folder / "schedule.json"
    path.write_text(schedule_text(in_tiles=in_tiles))
    return path


@BOTH
def test_json_has_the_schedule_s_figures_and_all_that_moves(onchip: Program, tmp_path: Path, in_tiles: bool) -> None:
    ended = onchip("explain", written(tmp_path, in_tiles=in_tiles), three(), "--json")

    assert (ended.code, ended.err) == (0, "")
    said, found = ended.json, json.loads(json.dumps(schedule_object(outcome(in_tiles=in_tiles))))
    for name in (
        "objective_value",
        "lower_bound",
        "gap",
        "status",
        "energy_pj",
        "energies",
        "latency_parts",
        "traffic",
    ):
        assert said[name] == found[name]
    operators, moved = said["operators"], [*said["copies"], *said["streamed"]]
    assert [one["operator"] for one in operators] == [
        one["operator"] for one in sorted(operators, key=lambda one: -one["energy_pj"])
    ]
    copies_pj = sum(said["energies"]["copies"].values())
    assert sum(one["energy_pj"] for one in operators) + copies_pj == pytest.approx(said["energy_pj"])
    for one in operators:
        assert sum(part["energy_pj"] for part in one["energies"]) == pytest.approx(one["energy_pj"])
    assert sum(one["bytes"] for one in moved if one["kind"] != "move") == said["traffic"]["total"]
    assert sum(one["energy_pj"] for one in said["copies"]) == pytest.approx(copies_pj)


@BOTH
def test_words_say_where_the_energy_goes_and_what_moves(onchip: Program, tmp_path: Path, in_tiles: bool) -> None:
    ended = onchip("explain", written(tmp_path, in_tiles=in_tiles), three())

    assert (ended.code, ended.err) == (0, "")
    words = " ".join(ended.out.split())
    assert "network three, 3 operators" in words
    assert "energy input weight output copies all share" in words
    assert "operator most of it is steps energy share cycles" in words
    assert re.search("y (streamed out by|write from (buffer|global) after) add needed once", words)
    assert "capacity causes no DRAM traffic" in words
    for level in document(in_tiles=in_tiles).accelerator.levels:
        assert level.memory.name in words


def test_what_lacks_room_is_said_with_the_bytes_that_are_missing(
    onchip: Program, network: Path, tmp_path: Path
) -> None:
    """A map has 256 bytes and the buffer 200: 56 bytes are missing."""
    machine, schedule = tmp_path / "small.yaml", tmp_path / "schedule.json"
    machine.write_text(SMALL)
    asked = ("schedule", network, "--accelerator", machine, "--groups", "layers", "--no-cache", "-o", schedule)
    assert onchip(*asked).code == 0

    said = onchip("explain", schedule, network, "--json").json
    (map_out,) = (one for one in said["streamed"] if (one["tensor"], one["kind"]) == ("m0", "streamed out"))
    assert map_out["reason"] == "too large"
    worst = map_out["worst"]
    assert (worst["memory"], worst["capacity_bytes"], worst["need_bytes"]) == ("buffer", 200, 256)
    assert worst["missing_bytes"] == 256 + worst["others_bytes"] - 200
    words = " ".join(onchip("explain", schedule, network).out.split())
    assert "m0, streamed out by conv0: needs 256 bytes" in words
    assert f"buffer (200) would have to be {worst['missing_bytes']} larger" in words


@BOTH
def test_a_tensor_s_places_and_movements_are_those_of_the_program(
    onchip: Program, tmp_path: Path, in_tiles: bool
) -> None:
    schedule = written(tmp_path, in_tiles=in_tiles)
    instructions = json.loads(schedule.read_text())["instructions"]
    found = outcome(in_tiles=in_tiles)
    assert found.tiles is not None
    for tensor in ("x", "w0", "m0", "y"):
        said = onchip("explain", schedule, three(), "--tensor", tensor, "--json").json
        bands = {one.name for one in found.tiles.graph.tensors if tensor in (one.name, one.part_of)}
        placed = [one["allocate"] for one in instructions if "allocate" in one and one["allocate"]["tensor"] in bands]
        copied = [one["copy"] for one in instructions if "copy" in one and one["copy"]["tensor"] in bands]
        places = [{"tensor": one["band"], **{key: one[key] for key in ("memory", "offset_bytes")}}
                  for one in said["residencies"]]  # fmt: skip
        assert places == placed
        own = [one for one in said["movements"] if not one["kind"].startswith("streamed")]
        assert [{"tensor": one["bands"][0], "source": one["source"], "target": one["target"]} for one in own] == copied
        assert (said["tensor"], said["bands"]) == (tensor, len(bands))
        assert f"tensor {tensor}," in " ".join(onchip("explain", schedule, three(), "--tensor", tensor).out.split())


def test_a_band_stands_for_its_tensor(onchip: Program, tmp_path: Path) -> None:
    schedule = written(tmp_path, in_tiles=True)
    found = outcome(in_tiles=True).tiles
    assert found is not None
    band = next(one.name for one in found.graph.tensors if one.part_of == "m0")
    assert onchip("explain", schedule, three(), "--tensor", band, "--json").json["tensor"] == "m0"


def test_a_tensor_that_there_is_not_is_one_line(onchip: Program, tmp_path: Path) -> None:
    ended = onchip("explain", written(tmp_path, in_tiles=False), three(), "--tensor", "z")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("onchip: --tensor: the schedule has no tensor 'z'")
    assert ended.err.count("\n") == 1


def test_a_plan_has_no_tensor_to_explain(onchip: Program, diamond: Path, planned: Path) -> None:
    ended = onchip("explain", planned, diamond, "--tensor", "s")
    assert (ended.code, ended.err.startswith("onchip: --tensor: ")) == (2, True)
