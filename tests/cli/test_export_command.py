from __future__ import annotations

import csv
import json
from pathlib import Path

import onnx
import pytest

from support.diamond import Json, Program, diamond_fields
from support.onnx_networks import make_node, model, value

PLAIN = {"trace": "plan.trace.json", "c": "plan.h", "csv": "plan.csv"}
FILES = {"trace": ["plan.trace.json"], "c": ["plan.h", "plan.c"], "csv": ["plan.residencies.csv", "plan.transfers.csv"]}
CHIP = """
format: onchip-accelerator
version: 1
name: chip
clock_mhz: 100
array: {free: 16}
memories:
  - {name: sram, capacity: 130B, scratchpad: true}
dram: {ports: [{direction: read_write, bits_per_cycle: 8}]}
"""


@pytest.fixture
def small_model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    network = model([make_node("Relu", ["x"], ["y"], name="relu")], [value("x", [4])], [value("y", [4])])
    onnx.save(network, path)
    return path


@pytest.mark.parametrize("form", PLAIN)
def test_files_are_written_and_named(form: str, onchip: Program, planned: Path, diamond: Path, tmp_path: Path) -> None:
    output = tmp_path / PLAIN[form]
    ended = onchip("export", planned, diamond, "--to", form, "-o", output)

    assert ended.code == 0, ended.err
    assert ended.err == ""
    assert ended.out.splitlines() == [str(tmp_path / name) for name in FILES[form]]
    assert all((tmp_path / name).stat().st_size > 0 for name in FILES[form])
    if form == "csv":
        assert not output.exists()


def test_what_is_written_is_the_plan(onchip: Program, planned: Path, diamond: Path, tmp_path: Path) -> None:
    assert onchip("export", planned, diamond, "--to", "csv", "-o", tmp_path / "plan.csv").code == 0
    with (tmp_path / "plan.residencies.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))

    lines = json.loads(planned.read_text())["instructions"]
    planned_offsets = [line["allocate"] for line in lines if "allocate" in line]
    assert [(row["tensor"], int(row["offset_bytes"])) for row in rows] == [
        (line["tensor"], line["offset_bytes"]) for line in planned_offsets
    ]


@pytest.mark.parametrize("form", PLAIN)
def test_the_same_plan_gives_the_same_bytes(
    form: str, onchip: Program, planned: Path, diamond: Path, tmp_path: Path
) -> None:
    written = []
    for _ in range(2):
        assert onchip("export", planned, diamond, "--to", form, "-o", tmp_path / PLAIN[form]).code == 0
        written.append([(tmp_path / name).read_bytes() for name in FILES[form]])

    assert written[0] == written[1]


def test_a_bundled_network_need_not_be_named(onchip: Program, tmp_path: Path) -> None:
    plan, trace = tmp_path / "plan.json", tmp_path / "trace.json"
    assert onchip("plan", "resnet50", "--bits", "8", "--sram", "2400KiB", "-o", plan).code == 0

    assert onchip("export", plan, "--to", "trace", "-o", trace).code == 0
    assert json.loads(trace.read_text())["otherData"]["network"] == "resnet50"


def test_a_trace_may_count_the_cycles_of_an_accelerator(
    onchip: Program, planned: Path, diamond: Path, tmp_path: Path
) -> None:
    (tmp_path / "chip.yaml").write_text(CHIP)
    trace = tmp_path / "trace.json"
    ended = onchip("export", planned, diamond, "--to", "trace", "--accelerator", tmp_path / "chip.yaml", "-o", trace)

    assert ended.code == 0, ended.err
    (load,) = [event for event in json.loads(trace.read_text())["traceEvents"] if event["name"] == "load x"]
    assert (load["ts"], load["dur"]) == (0, 0.4)  # 40 bytes, one in each cycle of 10 ns


def test_a_compressed_trace_is_one_that_viewers_open(
    onchip: Program, planned: Path, diamond: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json.gz"

    assert onchip("export", planned, diamond, "--to", "trace", "-o", trace).code == 0
    assert trace.read_bytes().startswith(b"\x1f\x8b")


def test_an_illegal_plan_is_not_exported(onchip: Program, planned: Path, diamond: Path, tmp_path: Path) -> None:
    fields: Json = json.loads(planned.read_text())
    fields["instructions"].pop()
    fields["instructions"] = [line for line in fields["instructions"] if "copy" not in line]
    planned.write_text(json.dumps(fields))
    output = tmp_path / "trace.json"
    ended = onchip("export", planned, diamond, "--to", "trace", "-o", output)

    assert ended.code == 1
    assert "output-never-written" in ended.out
    assert not output.exists()
    as_json = onchip("export", planned, diamond, "--to", "trace", "-o", output, "--json")
    assert as_json.code == 1
    assert as_json.json["files"] == []
    assert as_json.json["check"]["legal"] is False


def test_a_plan_for_another_graph_is_not_exported(
    onchip: Program, planned: Path, diamond: Path, tmp_path: Path
) -> None:
    fields = diamond_fields()
    fields["operators"][0]["kind"] = "Gemm"
    diamond.write_text(json.dumps(fields))
    ended = onchip("export", planned, diamond, "--to", "c", "-o", tmp_path / "plan.h")

    assert ended.code == 1
    assert not (tmp_path / "plan.h").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("plan.json diamond.json -o out.json", "--to"),
        ("plan.json diamond.json --to trace", "--output"),
        ("plan.json diamond.json --to pdf -o out.pdf", "pdf"),
        ("plan.json --to trace -o out.json", "'diamond', is not bundled"),
        ("missing.json diamond.json --to trace -o out.json", "missing.json"),
        ("missing.json --to trace -o out.json", "missing.json"),
        ("plan.json missing.json --to trace -o out.json", "missing.json"),
        ("diamond.json diamond.json --to trace -o out.json", "diamond.json"),
        ("plan.json small.onnx --to trace -o out.json", "has no tensor"),
        ("plan.json diamond.json --to trace -o nowhere/out.json", "nowhere"),
        ("plan.json diamond.json --to trace -o .", "directory"),
        ("plan.json diamond.json --to trace -o plan.json", "plan.json is an input"),
        ("plan.json diamond.json --to trace -o diamond.json", "diamond.json is an input"),
        ("plan.json diamond.json --to c -o out.json", "out.json"),
        ("plan.json diamond.json --to c -o out", "ends in .h or .c"),
        ("plan.json diamond.json --to c -o taken.h", "taken.c is a directory"),
        ("plan.json diamond.json --to csv -o out.txt", "ends in .csv"),
        ("plan.json diamond.json --to csv -o nowhere/out.csv", "nowhere"),
        ("plan.json diamond.json --to tflite -o out.tflite", "expected a .tflite file"),
        ("plan.json small.onnx --to trace -o small.onnx", "small.onnx is an input"),
        ("plan.json diamond.json --to csv -o out.csv --accelerator chip.yaml", "--accelerator"),
        ("plan.json diamond.json --to trace -o out.json --accelerator single-2mib", "no array"),
        ("plan.json diamond.json --to trace -o out.json --accelerator nonsense", "nonsense"),
    ],
)
def test_bad_input_ends_in_one_line(
    arguments: str,
    named: str,
    onchip: Program,
    planned: Path,
    small_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.c").mkdir()
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()}
    ended = onchip("export", *arguments.split())

    assert ended.code == 2
    assert ended.out == ""
    assert len(ended.err.splitlines()) == 1
    assert named in ended.err
    assert "Traceback" not in ended.err
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_header_that_no_include_can_name_is_refused(
    onchip: Program, planned: Path, diamond: Path, tmp_path: Path
) -> None:
    ended = onchip("export", planned, diamond, "--to", "c", "-o", tmp_path / 'a"b.h')

    assert ended.code == 2
    assert "#include" in ended.err


@pytest.mark.parametrize("name", ["tiled.json", "tiled.json.gz"])
def test_a_graph_is_packed_as_its_name_says(
    onchip: Program, planned: Path, diamond: Path, tmp_path: Path, name: str
) -> None:
    graph = tmp_path / name
    assert onchip("export", planned, diamond, "--to", "graph", "-o", graph).code == 0
    assert (graph.read_bytes()[:2] == b"\x1f\x8b") is name.endswith(".gz")
    assert onchip("check", planned, graph).code == 0


@pytest.mark.parametrize("name", ["tiled.gz", "tiled.yaml", ".json", "json"])
def test_a_graph_that_could_not_be_read_again_is_refused(
    onchip: Program, planned: Path, diamond: Path, tmp_path: Path, name: str
) -> None:
    ended = onchip("export", planned, diamond, "--to", "graph", "-o", tmp_path / name)
    assert (ended.code, (tmp_path / name).exists()) == (2, False)
    assert "expected a name that ends in .json or .json.gz" in ended.err
