"""Stacks and tiles given to `schedule`: by number or by name as in `fuse`, else refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.diamond import Program
from support.fused_files import three_convolutions
from support.small_schedules import chip, three

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
