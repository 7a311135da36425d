"""`onchip.sweep`, `capacity` and `diff`: the results of the verbs, as typed rows and tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import onchip
from onchip.errors import InputError, UsageError
from support.diamond import Program, diamond_fields
from support.small_schedules import LAYER_BY_LAYER, chip, three


@pytest.fixture
def diamond(tmp_path: Path) -> Path:
    path = tmp_path / "diamond.json"
    path.write_text(json.dumps({**diamond_fields(), "name": "<b>diamond</b>"}))
    return path


@pytest.mark.slow
def test_rows_are_those_of_the_command(onchip: Program, diamond: Path, tmp_path: Path) -> None:
    import onchip as library

    choices = library.SweepChoices(costs={"area": "sram / 10"}, objectives=["traffic"])
    rows = library.sweep(diamond, store=tmp_path / "here.db", sram=["130B", 160, 200], choices=choices)

    assert [row.answer.objective_value for row in rows] == [100, 0, 0]
    assert [row.costs["area"] for row in rows[1:]] == [16, 20]
    printed = onchip("sweep", diamond, "--sram", "130B,160,200", "--store", tmp_path / "there.db", "--json").json[
        "rows"
    ]
    assert [row["objective_value"] for row in printed] == [100, 0, 0]
    assert "3 points" in rows._repr_html_()
    assert "<b>" not in rows._repr_html_()
    again = library.sweep(diamond, store=tmp_path / "here.db", sram="130B..160B", choices=choices)
    assert len(again) == 20


@pytest.mark.slow
def test_rows_are_a_frame_where_pandas_is(diamond: Path, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    frame = onchip.sweep(diamond, store=tmp_path / "points.db", sram="130B..200B").frame
    assert list(frame["sram"]) == sorted(frame["sram"])
    assert frame["status"].iloc[0] == "OPTIMAL"


def test_a_curve_and_a_difference_show_as_tables(onchip: Program, diamond: Path, tmp_path: Path) -> None:
    import onchip as library

    assert "<td>130</td><td>159</td><td>100</td>" in library.capacity(diamond)._repr_html_()
    for name, size in (("a", 130), ("b", 200)):
        onchip("plan", diamond, "--sram", size, "-o", tmp_path / f"{name}.json")
    found = library.diff(tmp_path / "a.json", tmp_path / "b.json", diamond)
    assert not found.is_equal
    assert "no longer moves to DRAM and back" in found._repr_html_()


def test_a_schedule_shows_its_stacks() -> None:
    found = onchip.schedule(three(), accelerator=chip(), objective="energy", options=LAYER_BY_LAYER)
    assert found.answer is not None
    shown = found.answer._repr_html_()
    assert shown.count("<tr>") == 1 + len(found.answer.stacks)
    assert "<svg" in shown


def test_what_does_not_fit_is_refused(diamond: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no machine"):
        onchip.sweep(diamond, store=tmp_path / "points.db")
    with pytest.raises(InputError):
        onchip.sweep(diamond, store=tmp_path / "points.db", choices=onchip.SweepChoices(verb="dance"))
    with pytest.raises(UsageError, match="a study file says it"):
        onchip.sweep("study.yaml", store=tmp_path / "points.db", sram="1MiB..2MiB")
    with pytest.raises(UsageError, match="order"):
        onchip.capacity(diamond, order="random")
    assert not (tmp_path / "points.db").exists()
