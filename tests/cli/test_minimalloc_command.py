"""The drop-in for MiniMalloc: its flags, files and exit codes."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from onchip.commands.minimalloc import MiniMallocRequest, main
from onchip.errors import UsageError

BUFFERS = "id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\nd,9,21,4\ne,0,21,4\n"


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["onchip-minimalloc", *map(str, arguments)])
    return main()


@pytest.fixture
def buffers(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text(BUFFERS)
    return path


def test_buffers_that_fit_are_written_with_offsets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], buffers: Path
) -> None:
    out = buffers.with_name("out.csv")
    code = ended(monkeypatch, "--capacity=12", f"--input={buffers}", f"--output={out}", "--validate", "--timeout=60s")
    printed = capsys.readouterr()
    assert (code, printed.out) == (0, "")
    elapsed, validated = printed.err.splitlines()
    assert elapsed.startswith("Elapsed time ")
    assert validated == "Validation PASS, height 12"
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["id"] for row in rows] == list("abcde")
    assert max(int(row["offset"]) + int(row["size"]) for row in rows) == 12


def test_buffers_that_do_not_fit_end_with_1_and_no_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], buffers: Path
) -> None:
    out = buffers.with_name("out.csv")
    assert ended(monkeypatch, "--capacity", 11, "--input", buffers, "--output", out) == 1
    assert "NOT_FOUND: the buffers do not fit in 11 bytes" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(("capacity", "code"), [((), 0), (("--capacity=12",), 0), (("--capacity=11",), 1)])
def test_the_least_capacity_may_have_a_limit(
    monkeypatch: pytest.MonkeyPatch, buffers: Path, capacity: tuple[str, ...], code: int
) -> None:
    out = buffers.with_name("out.csv")
    flags = ("--minimize_capacity", "--nocanonical_only", "--no-section-inference", "--preordering_heuristics=WAT")
    assert ended(monkeypatch, *flags, *capacity, f"--input={buffers}", f"--output={out}") == code
    assert out.exists() is (code == 0)


@pytest.mark.parametrize(
    ("text", "seconds"), [("60s", 60.0), ("500ms", 0.5), ("1h30m", 5400.0), ("2.5s", 2.5), ("inf", None)]
)
def test_a_timeout_is_a_duration(text: str, seconds: float | None) -> None:
    request = MiniMallocRequest.of_arguments(["--input=a.csv", f"--timeout={text}"])
    assert request.time_limit_seconds == seconds


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["--capacity=many", "--input=a.csv"], "--capacity"),
        (["--timeout=soon", "--input=a.csv"], "--timeout"),
        (["--capacity=4"], "--input"),
        (["--inputs=a.csv"], "--inputs=a.csv"),
        (["--capacity"], "--capacity"),
    ],
)
def test_a_wrong_flag_is_named(arguments: list[str], place: str) -> None:
    with pytest.raises(UsageError) as raised:
        MiniMallocRequest.of_arguments(arguments)
    assert raised.value.place == place
