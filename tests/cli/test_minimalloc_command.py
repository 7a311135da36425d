"""The drop-in for MiniMalloc: its flags, files and exit codes."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path

import pytest

from onchip.commands.minimalloc import PROGRAM

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
