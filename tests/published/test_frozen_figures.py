"""Tests of the frozen figures: the cheapest table runs again, and each kind of difference is reported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from frozen import rows

    return rows


@pytest.mark.slow
def test_packings_are_those_that_are_kept() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(BENCHMARKS), *sys.path))}
    command = (sys.executable, "-m", "frozen", "packing")
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_table_has_kept_rows(rows: ModuleType) -> None:
    from frozen.__main__ import EVEN, FOLDER, TABLES, kept_proofs

    for table in TABLES.keys() - {"proofs"}:
        kept = rows.read_rows(FOLDER / f"{table}.json")
        assert kept
        assert all(row.command.startswith("python ") and row.values for row in kept)
    proofs = kept_proofs()
    assert (len(proofs), sum(row.values["among"] != EVEN for row in proofs)) == (61, 44)


@pytest.mark.parametrize(
    ("kept", "found", "count"),
    [
        ({"status": "OPTIMAL", "value": 3}, {"status": "OPTIMAL", "value": 3}, 0),
        ({"status": "OPTIMAL", "value": 3}, {"status": "OPTIMAL", "value": 4}, 1),
        ({"status": "OPTIMAL", "value": 3}, {"status": "FEASIBLE"}, 2),
        ({"status": "FEASIBLE"}, {"status": "OPTIMAL", "value": 3}, 0),
        ({"energy": [1.0, 2]}, {"energy": (1.0 + 1e-12, 2)}, 0),
        ({"energy": [1.0, 2]}, {"energy": (1.0 + 1e-6, 2)}, 1),
    ],
)
def test_every_changed_figure_is_told_and_a_new_proof_is_none(
    rows: ModuleType, kept: dict[str, Any], found: dict[str, Any], count: int
) -> None:
    assert len(rows.differences([rows.Row("a", "python", kept)], [rows.Row("a", "python", found)])) == count


def test_missing_and_new_rows_are_told(rows: ModuleType) -> None:
    one, other = (rows.Row(name, "python", {"value": 1}) for name in "ab")
    assert len(rows.differences([one], [other])) == 2


@pytest.mark.parametrize(
    ("earlier", "later", "count"),
    [([100, 50], [101, 50], 0), ([100, 50], [102, 50], 1), ([100, 50], [None, 49], 2), ([None, 0], [90, 1], 0)],
)
def test_anytime_points_more_than_one_percent_worse_are_told(
    rows: ModuleType, earlier: list[Any], later: list[Any], count: int
) -> None:
    from frozen.anytime import worse

    before, after = (rows.Row("a", "python", {"status": "FEASIBLE", "5": one}) for one in (earlier, later))
    assert len(list(worse(before, after))) == count
