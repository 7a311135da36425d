"""`onchip export` of schedules: traces in time, and tables, with workspaces."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from support.diamond import Program
from support.small_schedules import document, outcome, schedule_text, three

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
