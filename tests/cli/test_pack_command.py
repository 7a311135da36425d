"""Tests of `onchip pack` and of the drop-in for MiniMalloc."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from onchip.answer.packing import Overflow, Packing, PackingProblem
from onchip.commands.minimalloc import PROGRAM
from onchip.formats.minimalloc import read_buffers
from onchip.verify.packing import verify_overflow, verify_packing
from support.diamond import Program

INSTANCES = Path(__file__).parent.parent / "data" / "minimalloc"
EXAMPLE = INSTANCES / "input.12.csv"
EXECUTORCH = INSTANCES.parent / "executorch"


def test_buffers_that_fit_get_offsets(onchip: Program) -> None:
    ended = onchip("pack", EXAMPLE, "--capacity", "12", "--json")

    assert ended.code == 0
    answer = ended.json
    assert (answer["status"], answer["capacity_bytes"], answer["lower_bound"]) == ("OPTIMAL", 12, 12)
    assert (answer["arena_bytes"], answer["buffers"], answer["gap"]) == (12, 5, 0.0)
    table = read_buffers(EXAMPLE)
    offsets = tuple(answer["offsets"][name] for name in table.ids)
    assert verify_packing(PackingProblem(table.buffers, 12), Packing(offsets)) == ()
    assert answer["seconds"] >= 0


def test_buffers_that_do_not_fit_end_with_3(onchip: Program) -> None:
    ended = onchip("pack", EXAMPLE, "--capacity", "11", "--json")

    assert ended.code == 3
    assert (ended.json["status"], ended.json["offsets"], ended.json["arena_bytes"]) == ("INFEASIBLE", None, None)
    assert ended.json["lower_bound"] == 12


def test_the_least_capacity(onchip: Program) -> None:
    ended = onchip("pack", EXAMPLE, "--minimize", "--json")

    assert ended.code == 0
    assert (ended.json["status"], ended.json["arena_bytes"], ended.json["capacity_bytes"]) == ("OPTIMAL", 12, None)


def facts_in(text: str) -> dict[str, str]:
    """Return the facts of a table by name."""
    return dict(re.split(r" {2,}", line, maxsplit=1) for line in text.splitlines())


def test_facts_for_people(onchip: Program) -> None:
    fits = facts_in(onchip("pack", EXAMPLE, "--capacity", "12").out)
    assert (fits["buffers"], fits["capacity"], fits["status"], fits["objective"]) == (
        "5",
        "12 bytes",
        "OPTIMAL",
        "arena 12 bytes",
    )
    too_small = facts_in(onchip("pack", EXAMPLE, "--capacity", "1").out)
    assert (too_small["status"], too_small["capacity"]) == ("INFEASIBLE", "1 byte")
    assert too_small["infeasible"] == "the buffers need at least 12 bytes"


def test_alignment_is_obeyed(onchip: Program) -> None:
    ended = onchip("pack", EXAMPLE, "--minimize", "--alignment", "16", "--json")

    assert ended.json["arena_bytes"] == 36
    assert all(offset % 16 == 0 for offset in ended.json["offsets"].values())


def test_the_file_written_has_the_offsets(onchip: Program, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"

    ended = onchip("pack", EXAMPLE, "--capacity", "12", "-o", out, "--json")

    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["id"]: int(row["offset"]) for row in rows} == ended.json["offsets"]


def test_nothing_is_written_where_nothing_fits(onchip: Program, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"

    assert onchip("pack", EXAMPLE, "--capacity", "11", "-o", out).code == 3
    assert not out.exists()


@pytest.mark.slow
def test_no_answer_in_time_ends_with_4(onchip: Program) -> None:
    ended = onchip("pack", INSTANCES / "D.1048576.csv", "--capacity", "987000", "--time-limit", "0.6", "--json")

    assert ended.code == 4
    assert (ended.json["status"], ended.json["stopped_by"]) == ("UNKNOWN", "time limit")


def test_overflow_says_what_is_outside_and_where_the_others_are(onchip: Program) -> None:
    ended = onchip("pack", EXECUTORCH / "resnet50.csv", "--capacity", "2408448", "--overflow", "--json")

    assert ended.code == 0
    answer = ended.json
    assert (answer["status"], answer["stopped_by"], answer["gap"]) == ("OPTIMAL", "completed", 0.0)
    assert (answer["capacity_bytes"], answer["outside_bytes"]) == (2408448, answer["lower_bound"])
    table = read_buffers(EXECUTORCH / "resnet50.csv")
    assert {*answer["outside"]} | {*answer["kept"]} == {*table.ids}
    assert len(answer["outside"]) + len(answer["kept"]) == answer["buffers"] == 177
    assert list(answer["offsets"]) == answer["kept"]
    overflow = Overflow(tuple(answer["offsets"].get(name) for name in table.ids))
    assert verify_overflow(PackingProblem(table.buffers, 2408448), overflow, answer["outside_bytes"]) == ()
    assert answer["outside_share"] == pytest.approx(0.491, abs=0.0005)


def test_overflow_where_all_fits_leaves_nothing_outside(onchip: Program) -> None:
    ended = onchip("pack", EXAMPLE, "--capacity", "12", "--overflow")

    found = facts_in(ended.out)
    assert (ended.code, found["buffers"], found["objective"]) == (0, "5, 5 kept", "bytes outside 0 bytes")
    assert "outside" not in found


def test_overflow_in_words_names_what_is_outside(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    path.write_text("id,lower,upper,size\nlarge,0,4,6\nsmall,1,2,3\n")

    found = facts_in(onchip("pack", path, "--capacity", "8", "--overflow").out)

    assert found["buffers"] == "2, 1 kept"
    assert found["outside"] == "3 bytes (33.3%): small"


def test_the_file_written_has_no_offset_for_what_is_outside(onchip: Program, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"

    ended = onchip("pack", EXAMPLE, "--capacity", "8", "--overflow", "-o", out, "--json")

    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows if not row["offset"]] == ended.json["outside"] != []
    assert {row["id"]: int(row["offset"]) for row in rows if row["offset"]} == ended.json["offsets"]
    read_again = tuple(replace(one, offset_bytes=None) for one in read_buffers(out).buffers)
    assert read_again == read_buffers(EXAMPLE).buffers


def test_overflow_obeys_the_alignment(onchip: Program) -> None:
    ended = onchip("pack", EXAMPLE, "--capacity", "20", "--alignment", "16", "--overflow", "--json")

    assert {*ended.json["offsets"].values()} <= {0, 16}
    assert ended.json["outside"] != []


@pytest.mark.slow
def test_overflow_out_of_time_is_an_answer_too(onchip: Program) -> None:
    ended = onchip(
        "pack", INSTANCES / "A.1048576.csv", "--capacity", "838860", "--overflow", "--time-limit", "1", "--json"
    )

    assert ended.code == 0
    assert (ended.json["status"], ended.json["stopped_by"]) == ("FEASIBLE", "time limit")
    assert ended.json["gap"] > 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([EXAMPLE], "onchip: --capacity: "),
        ([EXAMPLE, "--capacity", "much"], "onchip: --capacity: 'much' is not a size"),
        ([EXAMPLE, "--overflow"], "onchip: --capacity: "),
        ([EXAMPLE, "--overflow", "--minimize", "--capacity", "8"], "onchip: --overflow: "),
        (["absent.csv", "--capacity", "1"], "onchip: absent.csv does not exist"),
        ([EXAMPLE, "--capacity", "1", "--time-limit", "0"], "onchip: --time-limit: 0 "),
        ([EXAMPLE, "--capacity", "1", "-o", EXAMPLE], f"onchip: {EXAMPLE} is an input"),
    ],
)
def test_bad_input_ends_with_2_and_one_line(onchip: Program, arguments: list[object], line: str) -> None:
    ended = onchip("pack", *arguments)

    assert ended.code == 2
    assert ended.err.startswith(line)
    assert len(ended.err.splitlines()) == 1


def test_a_bad_line_is_named(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("id,lower,upper,size\na,0,1,none\n")

    ended = onchip("pack", path, "--capacity", "1", "--json")

    assert ended.code == 2
    assert (ended.json["file"], ended.json["place"]) == (str(path), "line 2, size")


def test_an_alignment_that_contradicts_the_file_is_refused(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "aligned.csv"
    path.write_text("id,lower,upper,size,alignment\na,0,1,4,8\n")

    assert onchip("pack", path, "--capacity", "64", "--alignment", "4").code == 2
    assert onchip("pack", path, "--capacity", "64", "--alignment", "8").code == 0


@pytest.mark.slow
def test_an_interruption_leaves_the_best_packing() -> None:
    """The first run compiles the native code, so that the interruption reaches the search of the second."""
    instance = INSTANCES / "J.1048576.csv"
    command = [sys.executable, "-m", "onchip", "pack", str(instance), "--json"]
    subprocess.run([*command, "--capacity", "1048576"], check=True, stdout=subprocess.DEVNULL)
    command.append("--minimize")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)

    answer = json.loads(out)
    assert process.returncode == 0
    assert (answer["status"], answer["stopped_by"]) == ("FEASIBLE", "interrupted")
    assert answer["lower_bound"] <= answer["arena_bytes"]
    table = read_buffers(instance)
    offsets = tuple(answer["offsets"][name] for name in table.ids)
    assert verify_packing(PackingProblem(table.buffers, answer["arena_bytes"]), Packing(offsets)) == ()


# The drop-in for MiniMalloc: its flags, files and exit codes


BUFFERS = "id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\nd,9,21,4\ne,0,21,4\n"


def ended(*arguments: object) -> tuple[int, str]:
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.fixture
def buffers(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text(BUFFERS)
    return path


def test_buffers_that_fit_are_written_with_offsets(buffers: Path) -> None:
    out = buffers.with_name("out.csv")
    code, err = ended("--capacity=12", f"--input={buffers}", f"--output={out}", "--validate", "--timeout=60s")
    elapsed, validated = err.splitlines()
    assert code == 0
    assert elapsed.startswith("Elapsed time ")
    assert validated == "Validation PASS, height 12"
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["id"] for row in rows] == list("abcde")
    assert max(int(row["offset"]) + int(row["size"]) for row in rows) == 12


def test_buffers_that_do_not_fit_end_with_1_and_no_file(buffers: Path) -> None:
    out = buffers.with_name("out.csv")
    code, err = ended("--capacity", 11, "--input", buffers, "--output", out)
    assert (code, out.exists()) == (1, False)
    assert "NOT_FOUND: the buffers do not fit" in err


@pytest.mark.parametrize(("capacity", "code"), [((), 0), (("--capacity=12",), 0), (("--capacity=11",), 1)])
def test_the_least_capacity_may_have_a_limit(buffers: Path, capacity: tuple[str, ...], code: int) -> None:
    out = buffers.with_name("out.csv")
    flags = ("--minimize_capacity", "--nocanonical_only", "--no-section-inference", "--preordering_heuristics=WAT")
    assert ended(*flags, *capacity, f"--input={buffers}", f"--output={out}")[0] == code
    assert out.exists() is (code == 0)


@pytest.mark.parametrize("timeout", ["60s", "500ms", "1h30m", "2.5s", "inf"])
def test_a_timeout_is_a_duration(buffers: Path, timeout: str) -> None:
    assert ended("--capacity=12", f"--input={buffers}", f"--timeout={timeout}")[0] == 0


def test_gaps_alignments_and_other_columns_are_read_and_written(tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("buffer_id,start,end,size,alignment,hint,gaps\na,0,8,4,4,-1,3-4\nb,3,4,4,2,-1,\nc,0,8,3,1,-1,\n")
    assert ended("--minimize_capacity", f"--input={path}", f"--output={out}", "--validate=true")[0] == 0
    assert out.read_text().splitlines() == [
        "id,lower,upper,size,alignment,hint,gaps,offset",
        "a,0,9,4,4,-1,3-5,0",
        "b,3,5,4,2,-1,,0",
        "c,0,9,3,1,-1,,4",
    ]


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["--capacity=many", "--input={}"], "--capacity"),
        (["--timeout=soon", "--input={}"], "--timeout"),
        (["--capacity=4"], "--input"),
        (["--inputs=a.csv"], "--inputs=a.csv"),
        (["--input={}", "--capacity"], "--capacity"),
        (["--capacity=4", "--input=nowhere.csv"], "nowhere.csv"),
        (["a.csv"], "a.csv"),
    ],
)
def test_a_wrong_flag_is_named(buffers: Path, arguments: list[str], place: str) -> None:
    code, err = ended(*(one.format(buffers) for one in arguments))
    assert code == 1
    assert err.startswith(place) or place in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,lower,upper\na,0,3\n", "column 'size' is missing"),
        ("id,lower,upper,size\na,0,3\n", "line 2: it has 3 fields"),
        ("id,lower,upper,size\na,0,3,x\n", "'x' is no number"),
        ("id,lower,upper,size\na,3,3,4\n", "buffer 0 ends before it starts"),
        ("id,lower,upper,size,gaps\na,0,3,4,1-2@0:1\n", "has a window"),
        ("id,lower,upper,size,gaps\na,0,3,4,1-5\n", "gaps that overlap or leave its lifetime"),
        ("id,lower,upper,size,size\na,0,3,4,4\n", "is there twice"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "in.csv"
    path.write_text(text)
    code, err = ended("--capacity=12", f"--input={path}")
    assert code == 1
    assert message in err
