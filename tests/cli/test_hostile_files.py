"""Hostile content of files gives one line; hostile names never become code in files for other tools."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import yaml
from onnx import helper

from support.c_projects import made_and_run, needs_a_compiler, saved
from support.diamond import Program, diamond_fields
from support.forked import run_forked
from support.fused_files import CHIP, three_convolutions
from support.hostile_files import ANY, CSV, JSON, LONG_YAML, ONNX, PACKED, YAML, Maker
from support.onnx_networks import model, value
from support.series import series

# Any content of a file gives one line that names the file, soon and within 2 GiB


GREATEST_SECONDS = 60  # processor seconds, on a slow machine; a reader that does not end is killed
GREATEST_BYTES = 2 * 2**30
READERS: dict[str, tuple[str, dict[str, Maker]]] = {
    "info {}.json": (".json", ANY | JSON),
    "info {}.json.gz": (".json.gz", PACKED),
    "info {}.onnx": (".onnx", ANY | ONNX),
    "plan lenet5 --accelerator {}.yaml": (".yaml", ANY),
    "pack {}.csv --minimize": (".csv", ANY | CSV),
}
OTHER_READERS: dict[str, tuple[str, dict[str, Maker]]] = {
    "plan lenet5 --accelerator {}.yaml": (".yaml", YAML | LONG_YAML),
    "map {}.yaml --accelerator simba": (".yaml", ANY | YAML | LONG_YAML),
    "pack {}.csv.gz --minimize": (".csv.gz", PACKED),
    "check {}.json lenet5": (".json", ANY | JSON),
    "check {}.json.gz lenet5": (".json.gz", PACKED),
    "check {}.yaml lenet5 --accelerator simba": (".yaml", ANY),
    "explain {}.json lenet5": (".json", ANY),
    "run {}.json lenet5": (".json", ANY),
}


def cases(readers: dict[str, tuple[str, dict[str, Maker]]], every: int = 1) -> list[object]:
    """Return each file for each verb; all but one in `every` cases are left to `make test-long`."""
    each = [(verb, suffix, name, makers[name]) for verb, (suffix, makers) in readers.items() for name in makers]
    return [
        pytest.param(verb, suffix, make, id=f"{verb}-{name}", marks=[pytest.mark.slow] if at % every else [])
        for at, (verb, suffix, name, make) in enumerate(each)
    ]


@pytest.mark.parametrize(("verb", "suffix", "make"), cases(READERS, every=2))
def test_a_hostile_file_is_one_line(tmp_path: Path, verb: str, suffix: str, make: Maker) -> None:
    is_one_line(tmp_path, verb, suffix, make)


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "suffix", "make"), cases(OTHER_READERS, every=5))
def test_a_hostile_file_is_one_line_to_every_verb(tmp_path: Path, verb: str, suffix: str, make: Maker) -> None:
    is_one_line(tmp_path, verb, suffix, make)


def is_one_line(tmp_path: Path, verb: str, suffix: str, make: Maker) -> None:
    path = tmp_path / f"file{suffix}"
    make(path)
    ended = run_forked(verb.format(tmp_path / "file").split(), tmp_path, GREATEST_SECONDS)
    lines = ended.said.splitlines()

    assert (ended.code, len(lines)) == (2, 1), lines[-3:]
    assert lines[0].startswith(f"onchip: {path}")
    assert len(lines[0]) < 1000
    assert ended.greatest_bytes < GREATEST_BYTES


# Names in a file never become code in files for other tools


MARK = "`"
"""A character that no C program contains outside of comments and strings."""
NAMES = [
    f"*/ int injected(void) {{ {MARK} }} /*",
    f"a\n#error {MARK}\n",
    f"/*/ {MARK} */*/",
    f'"; {MARK} "',
    f"\\\n{MARK}??/",
    f"*\\\n/ {MARK}",
    f"=1+{MARK}",
    f"@{MARK}$(shell false)",
    f"</script><script>'{MARK}'",
    f"main{MARK}",
    "int",
]
_COMMENTS_AND_STRINGS = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def assert_no_name_is_code(source: str) -> None:
    rest = _COMMENTS_AND_STRINGS.sub(" ", source.replace("\\\n", ""))
    assert MARK not in rest
    assert "injected(void)" not in rest


def assert_compiles(file: Path) -> None:
    if gcc := shutil.which("gcc"):
        subprocess.run([gcc, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(file)], check=True)


def renamed_mapping(onchip: Program, folder: Path, accelerator: str, names: list[str]) -> Path:
    path = folder / "mapping.yaml"
    bits = ("--bits", "32", "--partial-bits", "32")
    ended = onchip("map", "gemm:m16n16k16", "--accelerator", accelerator, *bits, "--time-limit", "1", "-o", path)
    assert ended.code == 0
    fields = yaml.safe_load(path.read_text())
    (layer,) = fields["layers"]
    fields["layers"] = [{**deepcopy(layer), "names": [name]} for name in names]
    path.write_text(yaml.safe_dump(fields))
    return path


@pytest.mark.parametrize(("form", "ending"), [("c", ".c"), ("cuda", ".cu"), ("opencl", ".cl")])
def test_layer_names_are_not_code_in_a_loop_nest(form: str, ending: str, onchip: Program, tmp_path: Path) -> None:
    mapping = renamed_mapping(onchip, tmp_path, "h100-like", NAMES)
    ended = onchip("export", mapping, "--to", form, "-o", tmp_path / f"out{ending}")
    assert ended.code == 0, ended.err
    files = sorted(tmp_path.glob(f"out.*{ending}"))
    assert len(files) == len(NAMES)
    for file in files:
        assert_no_name_is_code(file.read_text())
        if form == "c":
            assert_compiles(file)


def renamed_diamond(folder: Path, name: str) -> Path:
    fields = diamond_fields()
    fields["name"] = name
    for tensor in fields["tensors"]:
        tensor["name"] += name
    for operator in fields["operators"]:
        operator["name"] += name
        operator["members"] = [operator["name"], f"{operator['name']}.relu"]
        operator["kind"] = name
        operator["inputs"] = [one + name for one in operator["inputs"]]
        operator["outputs"] = [one + name for one in operator["outputs"]]
    path = folder / "renamed.json"
    path.write_text(json.dumps(fields))
    return path


@pytest.mark.parametrize("name", NAMES)
def test_names_of_a_network_are_not_code_in_tables_and_pages(name: str, onchip: Program, tmp_path: Path) -> None:
    network, plan = renamed_diamond(tmp_path, name), tmp_path / "plan.json"
    assert onchip("plan", network, "--sram", "130", "-o", plan).code == 0
    assert onchip("export", plan, network, "--to", "c", "-o", tmp_path / "plan.h").code == 0
    for file in (tmp_path / "plan.h", tmp_path / "plan.c"):
        assert_no_name_is_code(file.read_text())
        assert_compiles(file)
    assert onchip("export", plan, network, "--to", "csv", "-o", tmp_path / "plan.csv").code == 0
    assert onchip("export", plan, network, "--to", "trace", "-o", tmp_path / "trace.json").code == 0
    json.loads((tmp_path / "trace.json").read_text())
    assert onchip("report", plan, network, "-o", tmp_path / "page.html").code == 0
    assert "<script>'" not in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_names_of_layers_are_not_code_in_a_schedule_s_tables_and_page(onchip: Program, tmp_path: Path) -> None:
    name = "".join(NAMES)
    network, chip, schedule = tmp_path / "three.json", tmp_path / "chip.yaml", tmp_path / "schedule.json"
    chip.write_text(CHIP)
    fields = json.loads(three_convolutions())
    for operator in fields["operators"]:
        operator["name"] += name
    network.write_text(json.dumps(fields))
    ended = onchip("schedule", network, "--accelerator", chip, "--time-limit", "2", "-o", schedule)
    assert ended.code == 0, ended.err
    assert onchip("export", schedule, network, "--to", "c", "-o", tmp_path / "out.h").code == 0
    for file in (tmp_path / "out.h", tmp_path / "out.c"):
        assert_no_name_is_code(file.read_text())
    assert onchip("report", schedule, network, "-o", tmp_path / "page.html").code == 0
    assert "<script>'" not in (tmp_path / "page.html").read_text()


def test_a_text_that_begins_like_a_formula_is_text_in_csv(onchip: Program, tmp_path: Path) -> None:
    fields = json.loads(json.dumps(diamond_fields()).replace('"s"', '"=HYPERLINK(1)"'))
    network, plan = tmp_path / "renamed.json", tmp_path / "plan.json"
    network.write_text(json.dumps(fields))
    assert onchip("plan", network, "--sram", "130", "-o", plan).code == 0
    assert onchip("export", plan, network, "--to", "csv", "-o", tmp_path / "plan.csv").code == 0
    with (tmp_path / "plan.residencies.csv").open(newline="") as file:
        tensors = {row["tensor"] for row in csv.DictReader(file)}
    assert "'=HYPERLINK(1)" in tensors
    assert not any(one.startswith("=") for one in tensors)


@needs_a_compiler
@pytest.mark.parametrize("name", series(NAMES, 2))
def test_names_of_a_model_are_not_code_in_a_project(name: str, onchip: Program, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    nodes = [
        helper.make_node("Relu", [f"a.b{name}"], [f"run{name}"], name=f"x{name}"),
        helper.make_node("Sigmoid", [f"run{name}"], [f"a_b{name}"], name=f"y{name}"),
        helper.make_node("Softmax", [f"a_b{name}"], ["DRAM"], name=f"z{name}"),
    ]
    network = saved(model(nodes, [value(f"a.b{name}", (1, 8))], [value("DRAM", (1, 8))]), tmp_path)
    plan, folder = tmp_path / "plan.json", tmp_path / "project"
    assert onchip("plan", network, "--objective", "peak", "--alignment", "8", "-o", plan).code == 0
    ended = onchip("export", plan, network, "--to", "c-project", "-o", folder)
    assert ended.code == 0, ended.err
    for file in folder.rglob("*.[ch]"):
        assert_no_name_is_code(file.read_text())
    assert made_and_run(folder)[1] == 0


@pytest.mark.slow
@needs_a_compiler
def test_tensors_called_as_a_project_s_own_things_have_other_names(onchip: Program, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    weights = [helper.make_tensor(name, 1, (8,), np.arange(8.0)) for name in ("run", "begin", "dram.")]
    nodes = [
        helper.make_node("Add", ["a.b", "run"], ["one"]),
        helper.make_node("Add", ["one", "begin"], ["two"]),
        helper.make_node("Add", ["two", "dram."], ["a_b"]),
    ]
    network = saved(model(nodes, [value("a.b", (8,))], [value("a_b", (8,))], weights), tmp_path)
    plan, folder = tmp_path / "plan.json", tmp_path / "project"
    assert onchip("plan", network, "--objective", "peak", "--alignment", "8", "-o", plan).code == 0
    assert onchip("export", plan, network, "--to", "c-project", "-o", folder).code == 0
    assert made_and_run(folder)[1] == 0
