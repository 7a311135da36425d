"""Tests of `onchip schedule`: fronts, given stacks, starts, bit widths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onchip.answer.document import Reading
from onchip.answer.schedule import Schedule
from onchip.api.schedule import ScheduleRequest, read_schedule_question
from onchip.formats.own.accelerator_yaml import accelerator_to_yaml
from onchip.formats.own.graph_json import write_graph
from onchip.formats.own.schedule_json import read_schedule
from support.diamond import Program
from support.fused_files import three_convolutions
from support.reports import facts_of
from support.small_schedules import chip, skip_chip, skip_network, three

ALONE = ("--groups", "layers", "--no-cache")


@pytest.mark.slow
def test_each_point_of_a_front_is_a_schedule_that_check_believes(
    onchip: Program, network: Path, chip: Path, tmp_path: Path
) -> None:
    folder, page = tmp_path / "front", tmp_path / "front.html"
    asked = ("schedule", network, "--accelerator", chip, *ALONE, "--pareto", "energy,latency")
    ended = onchip(*asked, "-o", folder, "--report", page, "--json")

    assert ended.code == 0
    front = ended.json
    assert front["pareto"] == ["energy", "latency"]
    files = sorted(folder.iterdir())
    assert len(files) == len(front["points"]) >= 1
    for path, point in zip(files, front["points"], strict=True):
        checked = onchip("check", path, network, "--json")
        assert checked.code == 0
        recomputed = checked.json["recomputed"]
        assert recomputed["energy_pj"] * 1000 == pytest.approx(point["energy"])
        assert recomputed["latency_cycles"] == point["latency"] == point["schedule"]["latency_cycles"]
        bounds = front["lower_bounds"]
        least = min(1 - bounds[axis] / point[axis] for axis in ("energy", "latency"))
        assert point["gap"] == pytest.approx(least)
    (shown, *_) = facts_of(page.read_text())["figures"]["front-0"]["traces"]
    assert [*zip(shown["x"], shown["y"], strict=True)] == [(one["energy"], one["latency"]) for one in front["points"]]


@pytest.mark.slow
def test_a_front_is_shown_as_a_table(onchip: Program, network: Path, chip: Path) -> None:
    asked = ("schedule", network, "--accelerator", chip, *ALONE, "--pareto", "traffic,peak", "--points", "2")
    ended = onchip(*asked)

    assert ended.code == 0
    assert "traffic, bytes" in ended.out
    assert "lower bounds: traffic" in ended.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pareto", "energy"), "two axes or more"),
        (("--pareto", "energy,energy"), "two axes or more"),
        (("--pareto", "energy,area"), "energy, latency, traffic, peak"),
        (("--pareto", "energy,latency,peak", "--points", "2"), "at least 3"),
        (("--pareto", "energy,latency", "--objective", "edp"), "--objective: "),
        (("--points", "3"), "--points: "),
    ],
)
def test_axes_that_are_none_are_refused_in_a_line(
    options: tuple[str, ...], said: str, onchip: Program, network: Path, chip: Path
) -> None:
    ended = onchip("schedule", network, "--accelerator", chip, *options)

    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_file_is_no_folder_for_a_front(onchip: Program, network: Path, chip: Path, tmp_path: Path) -> None:
    place = tmp_path / "front"
    place.write_text("kept")
    ended = onchip("schedule", network, "--accelerator", chip, "--pareto", "energy,latency", "-o", place)

    assert (ended.code, place.read_text()) == (2, "kept")
    assert "is a file" in ended.err


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no folder that nobody can write into")
@pytest.mark.parametrize("place", ["/proc/front", "/proc/self"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(
    onchip: Program, network: Path, chip: Path, place: str
) -> None:
    ended = onchip("schedule", network, "--accelerator", chip, "--pareto", "energy,latency", "-o", place)

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"onchip: {place} cannot be written (")


# Stacks and tiles given to `schedule`: by number or by name as in `fuse`, else refused


PLAIN = {"shape": [1, 4, 8, 8], "bits": 8}


def two_runs() -> str:
    """Return a graph file with `three` twice and a softmax between, which is not a layer."""
    first = json.loads(three_convolutions())
    second = json.loads(three_convolutions().replace('"x"', '"s"').replace('"m', '"n').replace('"w', '"v'))
    names = {"conv0": "conv2", "conv1": "conv3", "add": "last"}
    for operator in second["operators"]:
        operator["name"] = names[operator["name"]]
        operator["outputs"] = ["z" if name == "y" else name for name in operator["outputs"]]
    roles = {"y": "activation", "s": "activation"}
    tensors = [*first["tensors"], *second["tensors"]]
    for tensor in tensors[len(first["tensors"]) :]:
        tensor["name"] = "z" if tensor["name"] == "y" else tensor["name"]
    tensors = [tensor | {"role": roles.get(tensor["name"], tensor["role"])} for tensor in tensors]
    softmax = {"name": "softmax", "kind": "Softmax", "inputs": ["y"], "outputs": ["s"]}
    operators = [*first["operators"], softmax, *second["operators"]]
    return json.dumps({**first, "name": "twice", "tensors": tensors, "operators": operators})


def stacks_of(onchip: Program, network: object, *given: str) -> list[list[str]]:
    ended = onchip("schedule", network, "--accelerator", chip(), "--bits", 8, *given, "--placements", "dram", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["remark"] is None
    return [stack["operators"] for stack in ended.json["stacks"]]


@pytest.mark.parametrize("stacks", ["0-9", "2-0", "conv0,nothing", "", "0-1", "1-2", "0,2"])
def test_stacks_that_are_none_of_the_network_are_refused(onchip: Program, stacks: str) -> None:
    ended = onchip("schedule", three(), "--accelerator", chip(), "--bits", 8, "--groups", stacks, "--json")
    assert (ended.code, ended.json["place"]) == (2, "--groups")
    fused = onchip("fuse", three(), "--accelerator", chip(), "--bits", 8, "--groups", stacks, "--json")
    assert ended.json == fused.json


def test_a_tile_that_is_larger_than_every_map_is_refused(onchip: Program) -> None:
    ended = onchip("schedule", three(), "--accelerator", chip(), "--bits", 8, "--tile", "9x9", "--json")
    assert (ended.code, ended.json["place"], ended.json["expected"]) == (2, "--tile", "at most 8x8, the size of 'm0'")


@pytest.mark.slow
def test_stacks_are_as_given(onchip: Program) -> None:
    assert stacks_of(onchip, three(), "--groups", "0-2", "--tile", "4x4") == [["conv0", "conv1", "add"]]
    assert stacks_of(onchip, three(), "--groups", "conv0,conv1-add", "--tile", "4x4") == [["conv0"], ["conv1", "add"]]


def test_layers_are_numbered_through_the_whole_network(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_text(two_runs())
    found = stacks_of(onchip, path, "--groups", "0-2,3,4-5", "--tile", "4x4")
    assert found == [["conv0", "conv1", "add"], ["softmax"], ["conv2"], ["conv3", "last"]]
    ended = onchip("schedule", path, "--accelerator", chip(), "--bits", 8, "--groups", "0,1-3,4,5", "--json")
    assert (ended.code, ended.json["place"]) == (2, "--groups")


def test_what_cannot_run_in_the_stacks_asked_for_is_said_to_run_alone(onchip: Program, tmp_path: Path) -> None:
    """Both the sum and the first map leave the network: they do not form one stack."""
    fields = json.loads(three_convolutions())
    next(tensor for tensor in fields["tensors"] if tensor["name"] == "m0")["role"] = "output"
    path = tmp_path / "leaving.json"
    path.write_text(json.dumps(fields))
    asked = ("--bits", 8, "--groups", "one", "--placements", "dram", "--json")
    ended = onchip("schedule", path, "--accelerator", chip(), *asked)
    assert ended.json["remark"] == "no stacks as asked for fit, or can run in tiles: every operator runs alone"
    assert ended.json["space"]["stacks"] == "layers"


def test_what_runs_alone_where_other_stacks_fit_is_said(onchip: Program, tmp_path: Path) -> None:
    """A map in the second half leaves the network, so only the first half is one stack."""
    fields = json.loads(two_runs())
    next(tensor for tensor in fields["tensors"] if tensor["name"] == "n0")["role"] = "output"
    path = tmp_path / "twice.json"
    path.write_text(json.dumps(fields))
    ask = ("--accelerator", chip(), "--bits", 8, "--placements", "dram", "--groups", "one", "--tile", "4x4", "--json")
    answer = onchip("schedule", path, *ask).json
    assert [len(one["operators"]) for one in answer["stacks"]] == [3, 1, 1, 1, 1]
    remark = "unfused operators: no requested groups were found among 'conv2' to 'last': each operator there runs alone"
    assert answer["remark"] == remark


# `schedule --start` reads an earlier schedule of the network, and refuses other files


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return the paths of the network, the machine, and the schedule to write."""
    network, chip = tmp_path / "skip.json", tmp_path / "chip.yaml"
    write_graph(skip_network(), network)
    chip.write_text(accelerator_to_yaml(skip_chip(40, 400)))
    return network, chip, tmp_path / "first.json"


@pytest.fixture
def start(onchip: Program, files: tuple[Path, Path, Path]) -> Path:
    network, chip, answer = files
    ended = onchip("schedule", network, "--accelerator", chip, "--groups", "layers", "--no-cache", "-o", answer)
    assert ended.code == 0
    return answer


def options_start(network: Path, chip: Path, start: Path) -> Schedule | None:
    return read_schedule_question(
        ScheduleRequest(str(network), str(chip), reading=Reading(bits=8), start_file=start)
    ).options.start


def test_the_start_is_handed_to_the_search_also_of_another_machine(files: tuple[Path, Path, Path], start: Path) -> None:
    network, chip, _ = files
    known = read_schedule(start).answer
    assert options_start(network, chip, start) == known
    chip.write_text(accelerator_to_yaml(skip_chip(30, 600)))
    assert options_start(network, chip, start) == known
    assert options_start(network, Path("simba"), start) == known


@pytest.mark.slow
def test_a_start_changes_neither_space_nor_bound(
    onchip: Program, files: tuple[Path, Path, Path], start: Path, tmp_path: Path
) -> None:
    network, chip, _ = files
    asked = ("schedule", network, "--accelerator", chip, "--groups", "layers", "--no-cache", "--json")
    found = [onchip(*asked, *more).json for more in ((), ("--start", start, "-o", tmp_path / "second.json"))]
    for name in ("lower_bound", "space"):
        assert found[0][name] == found[1][name]
    assert onchip("check", tmp_path / "second.json", network).code == 0


def test_a_start_of_another_network_or_of_an_illegal_schedule_is_refused(
    onchip: Program, files: tuple[Path, Path, Path], start: Path, tmp_path: Path
) -> None:
    network, chip, _ = files
    other = tmp_path / "other.json"
    write_graph(skip_network(6, 4), other)
    asked = ("--accelerator", chip, "--groups", "layers", "--start", start)
    ended = onchip("schedule", other, *asked)
    assert ended.code == 2
    assert "first.json" in ended.err
    assert "network-differs" in ended.err
    read_otherwise = onchip("schedule", network, *asked, "--bits", "16")
    assert read_otherwise.code == 2
    assert "first.json: graph: " in read_otherwise.err
    fields = json.loads(start.read_text())
    fields["instructions"] = fields["instructions"][1:]
    start.write_text(json.dumps(fields))
    illegal = onchip("schedule", network, *asked)
    assert illegal.code == 2
    assert "violations, the first" in illegal.err


def test_the_start_is_not_overwritten(onchip: Program, files: tuple[Path, Path, Path], start: Path) -> None:
    network, chip, _ = files
    before = start.read_text()
    ended = onchip("schedule", network, "--accelerator", chip, "--start", start, "-o", start)
    assert ended.code == 2
    assert start.read_text() == before


@pytest.mark.parametrize("text", ["", "{}", '{"format": "onchip-plan", "version": 1}'])
def test_what_is_no_schedule_is_no_start(onchip: Program, files: tuple[Path, Path, Path], text: str) -> None:
    network, chip, answer = files
    answer.write_text(text)
    ended = onchip("schedule", network, "--accelerator", chip, "--start", answer)
    assert ended.code == 2
    assert "first.json" in ended.err


# `onchip schedule` without --bits: every tensor, and every loop nest over it, has the bit width of the file


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


# `onchip schedule` with elements wider than a register: mappings bypass it, and the schedule is checked and runs


def scheduled_wide(onchip: Program, network: Path, chip: Path, *options: str) -> tuple[Path, Json, Json]:
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
    onchip: Program, network: Path, chip: Path, bits: str, has_room: bool, options: tuple[str, ...]
) -> None:
    schedule, fields, answer = scheduled_wide(onchip, network, chip, "--bits", bits, *options)
    kept = {place["memory"] for one in of_parameters(fields) for place in one.get("weight", [])}
    assert of_parameters(fields)
    assert ("register" in kept) == has_room
    assert 0 < answer["lower_bound"] <= answer["objective_value"]
    assert onchip("check", schedule, network).code == 0
    ran = onchip("run", schedule, network, "--json")
    assert (ran.code, ran.json["run"]["difference"]) == (0, None)


def test_a_mapping_with_an_element_in_a_register_that_is_too_narrow_is_illegal(
    onchip: Program, network: Path, chip: Path
) -> None:
    schedule, fields, _ = scheduled_wide(onchip, network, chip, "--bits", "16", *LAYERS)
    mapping = of_parameters(fields)[0]
    mapping["weight"] = [{"memory": "register", "loops": 0}, *mapping.get("weight", [])]
    schedule.write_text(json.dumps(fields))
    ended = onchip("check", schedule, network)
    assert ended.code == 1
    assert "capacity-exceeded" in ended.out
    assert "16 bits (weight 16) in 8" in ended.out.replace("\n", " ")


def test_sums_wider_than_every_memory_go_to_dram_and_back(onchip: Program, network: Path, tmp_path: Path) -> None:
    """Four bytes in all have room for an input and a weight, but not for a sum of forty bits."""
    path = tmp_path / "tiny.yaml"
    path.write_text(CHIP_OF_FOUR_BYTES)
    _, fields, _ = scheduled_wide(onchip, network, path, "--partial-bits", "40", *LAYERS)
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
