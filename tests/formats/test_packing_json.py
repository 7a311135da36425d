"""The JSON file of a packing problem and of its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import onchip as oc
from onchip.errors import OnchipError
from support.diamond import Program

PROBLEM: dict[str, Any] = {
    "format": "onchip-packing",
    "version": 1,
    "memories": [{"name": "fast", "capacity": 8}, {"name": "slow", "capacity": 16, "alignment": 4}],
    "buffers": [
        {"id": "a", "start": 0, "stop": 9, "size": 8, "gaps": [[3, 5]]},
        {"id": "b", "start": 3, "stop": 5, "size": 8, "alignment": 2},
        {"id": "c", "start": 0, "stop": 9, "size": 6, "memories": ["slow"]},
    ],
}


def written(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps(PROBLEM | changes))
    return path


def test_memories_are_filled_and_written(tmp_path: Path, onchip: Program) -> None:
    out = tmp_path / "out.json"
    ended = onchip("pack", written(tmp_path / "in.json"), "-o", out, "--json")
    assert (ended.code, ended.json["status"], ended.json["objective_value"]) == (0, "OPTIMAL", 0)
    assert ended.json["memories"] == {"a": "fast", "b": "fast", "c": "slow"}
    buffers = json.loads(out.read_text())["buffers"]
    assert [(one["memory"], one["offset"]) for one in buffers] == [("fast", 0), ("fast", 0), ("slow", 0)]


def test_groups_lie_together_or_apart(tmp_path: Path, onchip: Program) -> None:
    apart = onchip("pack", written(tmp_path / "in.json", apart=[["a", "b"]]), "--json").json
    assert {apart["memories"]["a"], apart["memories"]["b"]} == {"fast", "slow"}
    together = onchip("pack", written(tmp_path / "in.json", together=[["a", "c"]]), "--json").json
    assert together["memories"]["a"] == together["memories"]["c"] == "slow"


def test_a_file_without_memories_has_one_capacity(tmp_path: Path, onchip: Program) -> None:
    path = written(tmp_path / "in.json", memories=[], buffers=PROBLEM["buffers"][:2])
    assert onchip("pack", path, "--minimize", "--json").json["arena_bytes"] == 8
    ended = onchip("pack", path, "--capacity", "7")
    assert ended.code == 3
    assert "conflict" in ended.out
    assert onchip("pack", path, "--capacity", "8", "--split", "--json").json["objective_value"] == 1
    assert oc.pack(path).arena_bytes == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buffers": [{"id": "a", "start": 3, "stop": 3, "size": 8}]}, r"buffers\[0\]"),
        ({"buffers": PROBLEM["buffers"][:1] * 2}, "two buffers have one id"),
        ({"colour": 3}, "colour"),
        ({"apart": [["a", "z"]]}, "no buffer 'z'"),
    ],
)
def test_a_bad_file_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "in.json", **changes)
    with pytest.raises(OnchipError, match=message):
        oc.pack(path, memories=[oc.Memory("fast", 8), oc.Memory("slow", 16)])
