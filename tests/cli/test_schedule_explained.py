"""`onchip explain SCHEDULE NETWORK`: energy by part, transfers and their reasons, in total and per tensor."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from onchip.reports.schedule.outcome import schedule_object
from support.diamond import Program
from support.small_schedules import document, outcome, schedule_text, three

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
