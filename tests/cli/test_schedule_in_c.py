"""`onchip export SCHEDULE --to c`: tables compile without warnings; C programs walk them with the header alone."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from onchip.answer.program import Allocate, Compute, Copy, Free
from onchip.answer.schedule import WORKSPACE
from onchip.arch.memory import Operand
from support.diamond import Program
from support.series import series
from support.small_schedules import document, outcome, schedule_text, three

WALKERS = Path(__file__).parents[1] / "backends"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
BOTH = pytest.mark.parametrize("in_tiles", series([False, True], 1))
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def exported(onchip: Program, folder: Path, text: str, network: object) -> None:
    schedule = folder / "schedule.json"
    schedule.write_text(text)
    ended = onchip("export", schedule, network, "--to", "c", "-o", folder / "net.h", "--json")
    assert ended.code == 0
    assert ended.json["files"] == [str(folder / "net.h"), str(folder / "net.c")]


def walked(folder: Path, walker: str) -> str:
    names = ("-DPLAN_HEADER=<net.h>", "-DIN_CAPITALS(what)=NET_##what", "-DPLAN(what)=net_##what")
    files = (folder / "net.c", WALKERS / walker)
    built = subprocess.run(
        ["cc", *STRICT, f"-I{folder}", *names, *files, "-o", folder / "walk"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    ended = subprocess.run([folder / "walk"], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@BOTH
def test_a_plan_s_walker_finds_the_program_and_its_arenas(onchip: Program, tmp_path: Path, in_tiles: bool) -> None:
    exported(onchip, tmp_path, schedule_text(in_tiles=in_tiles), three())
    lines = [line.split("\t") for line in walked(tmp_path, "walk_plan.c").split("\x01")[:-1]]

    own = document(in_tiles=in_tiles).answer.program.instructions
    program = [line for line in lines if line[0] != "total"]
    assert [line[0] for line in program] == [type(one).__name__.lower() for one in own]
    for line, one in zip(program, own, strict=True):
        match one:
            case Allocate(tensor, memory, offset_bytes):
                name = f"{tensor}@{memory}" if tensor.endswith(WORKSPACE) else tensor
                assert line[1:] == [name, memory, str(offset_bytes)]
            case Free(tensor, memory):
                assert line[1:] == [f"{tensor}@{memory}" if tensor.endswith(WORKSPACE) else tensor, memory]
            case Copy(tensor, source, target):
                assert line[1:] == [tensor, source, target]
            case Compute(operator):
                assert line[1:] == [operator]
    figures = outcome(in_tiles=in_tiles).figures
    assert figures is not None
    totals = {what: int(value) for kind, what, value in (line for line in lines if line[0] == "total")}
    assert (totals["loads"], totals["write-backs"]) == (figures.traffic.loads, figures.traffic.write_backs)
    for name, memory_figures in figures.memories.items():
        assert totals[f"arena {name}"] == memory_figures.arena_bytes


@BOTH
def test_each_operator_s_operands_lie_where_the_tables_say(onchip: Program, tmp_path: Path, in_tiles: bool) -> None:
    """The walker ends with an error if an operand lies elsewhere; streamed operands are in DRAM."""
    exported(onchip, tmp_path, schedule_text(in_tiles=in_tiles), three())
    lines = [line.split("\t") for line in walked(tmp_path, "walk_schedule.c").splitlines()]

    found = outcome(in_tiles=in_tiles)
    assert found.tiles is not None
    schedule = document(in_tiles=in_tiles).answer
    for name, stack, *rest in (line[1:] for line in lines if line[0] == "compute"):
        origin, operator = found.tiles.operators[name], found.tiles.graph.operator[name]
        assert int(stack) == origin.stack
        operands = [one.split(" ") for one in rest if not one.startswith("mapping ")]
        kinds = {kind for kind, _, _ in operands}
        assert kinds - {"workspace"} == {"input", "weight", "output"}
        tensors = [tensor for kind, tensor, _ in operands if kind != "workspace"]
        assert sorted(tensors) == sorted({*operator.reads, *operator.outputs})
        workspaces = {f"{name}@workspace@{memory}" for memory in found.compute_costs[name].workspace_bytes}
        assert {tensor for kind, tensor, _ in operands if kind == "workspace"} == workspaces
        numbers = [int(one.removeprefix("mapping ")) for one in rest if one.startswith("mapping ")]
        used = [schedule.mappings[number] for number in numbers]
        assert [(one.stack, one.layer) for one in used] == [(origin.stack, nest) for nest in origin.nests]
        for kind, _, memory in operands:
            if kind != "workspace":
                assert all((one.homes.of(Operand(kind)) or "dram") == memory for one in used)


@BOTH
def test_the_mappings_are_those_of_the_file(onchip: Program, tmp_path: Path, in_tiles: bool) -> None:
    exported(onchip, tmp_path, schedule_text(in_tiles=in_tiles), three())
    lines = [line.split("\t")[1:] for line in walked(tmp_path, "walk_schedule.c").splitlines() if "mapping\t" in line]
    found = [line for line in lines if line[0].isdecimal()]

    mappings = document(in_tiles=in_tiles).answer.mappings
    assert len(found) == len(mappings)
    for line, one in zip(found, mappings, strict=True):
        assert [int(value) for value in line[:8]] == list(one.layer.bounds.values())
        loops = [str(loop) for loop in one.mapping.nest]
        tiles = [f"{operand} {kept.memory}:{kept.loops}" for operand in Operand for kept in one.mapping.kept(operand)]
        assert line[8:] == [*loops, *tiles]


def test_a_schedule_without_any_mapping_is_written(onchip: Program, tmp_path: Path, chip: Path) -> None:
    """C99 has no empty arrays."""
    plain = {"bits": 8, "shape": [1, 2, 4]}
    fields = {
        "format": "onchip-graph",
        "version": 1,
        "name": "softmax",
        "tensors": [{"name": "x", "role": "input", **plain}, {"name": "y", "role": "output", **plain}],
        "operators": [{"name": "s", "kind": "Softmax", "inputs": ["x"], "outputs": ["y"]}],
    }
    network, schedule = tmp_path / "softmax.json", tmp_path / "made.json"
    network.write_text(json.dumps(fields))
    asked = ("schedule", network, "--accelerator", chip, "--placements", "dram", "-o", schedule, "--no-cache")
    assert onchip(*asked).code == 0

    exported(onchip, tmp_path, schedule.read_text(), network)
    assert walked(tmp_path, "walk_schedule.c").startswith("compute\ts\t0\tinput x dram\toutput y dram\tworkspace s@")
