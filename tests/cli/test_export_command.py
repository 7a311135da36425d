"""Tests of `onchip export`: plans, schedules and mappings as traces, tables, C, kernels and C projects."""

from __future__ import annotations

import csv
import ctypes
import json
import shutil
import subprocess
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest

from support.c_projects import made_and_run, needs_a_compiler, saved
from support.diamond import Json, Program, diamond_fields
from support.lanes import LANES
from support.onnx_networks import make_node, model, value
from support.onnx_operators import fused_chain
from support.series import series
from support.small_schedules import document, outcome, schedule_text, three

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


# `onchip export --to c-project`: its output, and its refusals in one line


pytest.importorskip("onnxruntime")


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    return saved(fused_chain(Random(4)), tmp_path)


@pytest.fixture
def plan(onchip: Program, chain: Path, tmp_path: Path) -> Path:
    path = tmp_path / "chain.plan.json"
    assert onchip("plan", chain, "--objective", "peak", "--alignment", "8", "-o", path).code == 0
    return path


def test_a_project_is_written_and_its_sizes_are_printed(
    onchip: Program, chain: Path, plan: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    ended = onchip("export", plan, chain, "--to", "c-project", "-o", folder)
    assert (ended.code, ended.err) == (0, "")
    first, arenas, hint = ended.out.splitlines()
    assert first == str(folder)
    assert arenas.startswith("arenas: sram 32,768 bytes; DRAM 3,120, constants ")
    assert "make run" in hint
    assert (folder / "network.c").exists()


def test_json_says_what_it_takes(onchip: Program, chain: Path, plan: Path, tmp_path: Path) -> None:
    ended = onchip("export", plan, chain, "--to", "c-project", "-o", tmp_path / "project", "--json")
    found: Json = ended.json
    assert found["to"] == "c-project"
    assert found["check"]["legal"] is True
    assert set(found["project"]) == {"arena_bytes", "dram_bytes", "constant_bytes"}
    assert str(tmp_path / "project" / "network.c") in found["files"]


@pytest.mark.slow
@needs_a_compiler
def test_an_input_s_own_value_is_checked(onchip: Program, chain: Path, plan: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 3, 16, 16), 0.5, np.float32))
    options = ("--input", tmp_path / "x.npy", "--random-weights", "3")
    assert onchip("export", plan, chain, "--to", "c-project", "-o", tmp_path / "project", *options).code == 0
    assert "0.5f, 0.5f, 0.5f" in (tmp_path / "project" / "values.h").read_text()
    assert made_and_run(tmp_path / "project")[1] == 0


def test_what_cannot_be_exported_is_refused_in_one_line(
    onchip: Program, chain: Path, plan: Path, planned: Path, diamond: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    occupied = tmp_path / "file"
    occupied.write_text("")
    refusals = (
        ((planned, diamond, "--to", "c-project", "-o", folder), "a C project needs a model's weights"),
        ((plan, chain, "--to", "c-project", "-o", occupied), "is a file"),
        ((plan, chain, "--to", "c-project", "-o", tmp_path / "no" / "where"), "there is no directory"),
        ((plan, chain, "--to", "csv", "-o", tmp_path / "x.csv", "--seed", "1"), "c-project"),
        ((planned, chain, "--to", "c-project", "-o", folder), "the network has no tensor"),
    )
    for arguments, expected in refusals:
        ended = onchip("export", *arguments)
        assert ended.code in (1, 2), ended.out
        assert expected in ended.err + ended.out
        assert "Traceback" not in ended.err
    assert not folder.exists()


# `onchip export MAPPING --to cuda|opencl`: kernels of the bundled GPUs


WORDS = {
    "cuda": (".cu", "__launch_bounds__(THREADS, 1) nest_gemm_m64n64k32("),
    "opencl": (".cl", "reqd_work_group_size(THREADS,"),
}


@pytest.mark.parametrize("form", WORDS)
@pytest.mark.parametrize("gpu", series(["h100-like", "k80-like"], 1))
def test_a_mapping_for_a_bundled_gpu_is_exported_as_a_kernel(
    form: str, gpu: str, onchip: Program, tmp_path: Path
) -> None:
    mapping, (ending, head) = tmp_path / "mapping.yaml", WORDS[form]
    bits = ("--bits", "32", "--partial-bits", "32")
    ended = onchip("map", "gemm:m64n64k32", "--accelerator", gpu, *bits, "--time-limit", "2", "-o", mapping)
    assert ended.code == 0
    target = tmp_path / f"product{ending}"
    ended = onchip("export", mapping, "--to", form, "-o", target)
    assert (ended.code, ended.out.strip()) == (0, str(target))
    source = target.read_text()
    threads = source.partition(" blocks of ")[2].partition(" threads")[0]
    assert 1 < int(threads) <= 256
    assert head.replace("THREADS", threads) in source


def test_a_plan_is_not_exported_as_a_kernel(onchip: Program, planned: Path, diamond: Path, tmp_path: Path) -> None:
    ended = onchip("export", planned, diamond, "--to", "cuda", "-o", tmp_path / "plan.cu")
    assert ended.code == 2
    assert "'cuda'" in ended.err


# Mappings exported as C, compiled and run


@pytest.fixture
def lanes(tmp_path: Path) -> Path:
    path = tmp_path / "lanes.yaml"
    path.write_text(LANES)
    return path


def mapping_of(layer: str, bits: int, onchip: Program, lanes: Path, tmp_path: Path) -> Path:
    path = tmp_path / "mapping.yaml"
    options = ("--accelerator", lanes, "--bits", bits, "--partial-bits", 32, "--no-cache", "-o", path)
    assert onchip("map", layer, *options).code == 0
    return path


def test_a_mapping_that_is_not_legal_is_not_written(onchip: Program, lanes: Path, tmp_path: Path) -> None:
    mapping = mapping_of("gemm:m24n40k30", 32, onchip, lanes, tmp_path)
    lanes.write_text(LANES.replace("96B", "4B"))
    ended = onchip("export", mapping, "--to", "c", "--accelerator", lanes, "-o", tmp_path / "out.c")
    assert ended.code == 1
    assert "beyond-capacity" in ended.out or "sums" in ended.out
    assert not (tmp_path / "out.c").exists()


@pytest.mark.slow
def test_an_exported_mapping_is_a_function_that_multiplies(onchip: Program, lanes: Path, tmp_path: Path) -> None:
    mapping = mapping_of("gemm:m24n40k30", 32, onchip, lanes, tmp_path)
    source, library = tmp_path / "product.c", tmp_path / "product.so"
    ended = onchip("export", mapping, "--to", "c", "--accelerator", lanes, "-o", source)
    assert (ended.code, ended.out.strip()) == (0, str(source))
    compiler = shutil.which("cc") or "gcc"
    options = ("-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    subprocess.run([compiler, *options, str(source), "-o", str(library)], check=True)

    first, second = np.arange(720, dtype=np.float32).reshape(24, 30), np.ones((30, 40), np.float32)
    made = np.empty((24, 40), np.float32)
    function = ctypes.CDLL(str(library)).nest_gemm_m24n40k30
    function.argtypes, function.restype = [ctypes.c_void_p] * 3, None
    function(first.ctypes.data, second.ctypes.data, made.ctypes.data)
    assert np.array_equal(made, first @ second)


@pytest.mark.slow
def test_several_mappings_are_a_file_each(onchip: Program, lanes: Path, tmp_path: Path) -> None:
    mapping = mapping_of("lenet5", 8, onchip, lanes, tmp_path)
    ended = onchip("export", mapping, "--to", "c", "--accelerator", lanes, "-o", tmp_path / "lenet.c")
    files = [Path(line) for line in ended.out.splitlines()]
    assert ended.code == 0
    assert len(files) > 1
    assert all(file.name.startswith("lenet.") and "tile(" in file.read_text() for file in files)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--to", "trace", "-o", "out.json"), "--to c"),
        (("--to", "c", "-o", "out.h"), "ends in .c"),
        (("--to", "cuda", "-o", "out.c"), "ends in .cu"),
        (("--to", "opencl", "-o", "out.cu"), "ends in .cl"),
        (("--to", "cuda", "-o", "out.cu"), "expected thread or block"),
    ],
)
def test_a_mapping_is_exported_as_one_file_of_a_language_that_its_machine_has(
    arguments: tuple[str, ...], expected: str, onchip: Program, lanes: Path, tmp_path: Path
) -> None:
    mapping = mapping_of("gemm:m4n8k4", 32, onchip, lanes, tmp_path)
    ended = onchip("export", mapping, "--accelerator", lanes, *arguments)
    assert ended.code == 2
    assert expected in ended.err


@pytest.mark.slow
def test_other_elements_are_refused_in_a_line(onchip: Program, lanes: Path, tmp_path: Path) -> None:
    mapping = mapping_of("gemm:m4n8k4", 16, onchip, lanes, tmp_path)
    ended = onchip("export", mapping, "--to", "c", "--accelerator", lanes, "-o", tmp_path / "out.c")
    assert ended.code == 2
    assert "both 32 (float32) or both 8" in ended.err
    assert len(ended.err.splitlines()) == 1


# `onchip export` of schedules: traces in time, and tables, with workspaces


BOTH = pytest.mark.parametrize("in_tiles", [False, True])


def written(folder: Path, *, in_tiles: bool) -> Path:
    path = folder / "schedule.json"
    path.write_text(schedule_text(in_tiles=in_tiles))
    return path


@BOTH
def test_tables_have_every_residency_and_every_copy(onchip: Program, tmp_path: Path, in_tiles: bool) -> None:
    schedule = written(tmp_path, in_tiles=in_tiles)
    ended = onchip("export", schedule, three(), "--to", "csv", "-o", tmp_path / "x.csv", "--json")

    assert ended.code == 0
    assert ended.json["check"]["legal"] is True
    residencies, copies = (list(csv.DictReader(Path(file).read_text().splitlines())) for file in ended.json["files"])
    text = json.loads(schedule_text(in_tiles=in_tiles))["instructions"]
    assert len(residencies) == sum("allocate" in one for one in text)
    assert [int(one["instruction"]) for one in copies] == [at for at, one in enumerate(text) if "copy" in one]
    assert any("@workspace@" in one["tensor"] for one in residencies)
    for memory in document(in_tiles=in_tiles).accelerator.levels:
        arenas = [int(one["offset_bytes"]) + int(one["size_bytes"]) for one in residencies
                  if one["memory"] == memory.memory.name]  # fmt: skip
        assert max(arenas, default=0) <= memory.memory.capacity_bytes


@BOTH
def test_a_trace_ends_when_the_timeline_does(onchip: Program, tmp_path: Path, in_tiles: bool) -> None:
    schedule, trace = written(tmp_path, in_tiles=in_tiles), tmp_path / "x.json"
    assert onchip("export", schedule, three(), "--to", "trace", "-o", trace).code == 0

    events = [one for one in json.loads(trace.read_text())["traceEvents"] if one.get("ph") == "X"]
    timeline = outcome(in_tiles=in_tiles).figures
    assert timeline is not None
    program = [one for one in events if one["pid"] == 1 and one["cat"] != "wait"]
    last = max(activity.stop for activity in timeline.timeline.activities)
    assert max(one["ts"] + one["dur"] for one in program) == pytest.approx(last)
    assert len(program) == len(timeline.timeline.activities)


def test_schedules_are_not_exported_to_models(onchip: Program, tmp_path: Path) -> None:
    output = tmp_path / "x.tflite"
    ended = onchip("export", written(tmp_path, in_tiles=False), "model.tflite", "--to", "tflite", "-o", output)
    assert ended.code == 2
    assert "a schedule has no tflite yet" in ended.err
    assert not output.exists()


def test_an_illegal_schedule_is_not_exported(onchip: Program, tmp_path: Path) -> None:
    schedule = written(tmp_path, in_tiles=False)
    fields = json.loads(schedule.read_text())
    fields["instructions"] = [one for one in fields["instructions"] if one != {"compute": "add"}]
    schedule.write_text(json.dumps(fields))
    ended = onchip("export", schedule, three(), "--to", "trace", "-o", tmp_path / "x.json")
    assert ended.code == 1
    assert "operator-never-run" in ended.out
    assert not (tmp_path / "x.json").exists()
