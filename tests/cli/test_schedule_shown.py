"""`onchip report SCHEDULE NETWORK`: the page of a schedule file equals that of the schedule when it was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onchip.reports.schedule.outcome import schedule_object
from support.diamond import Program
from support.reports import facts_of
from support.small_schedules import outcome, schedule_text, three

BOTH = pytest.mark.parametrize("in_tiles", [False, True])
ABOUT_THE_SEARCH = ("weighed", "value_of_stages", "stages_cut", "seconds", "stopped_by")
Json = dict[str, Any]


def written(folder: Path, fields: Json) -> Path:
    path = folder / "schedule.json"
    path.write_text(json.dumps(fields))
    return path


def fields_of(*, in_tiles: bool) -> Json:
    found: Json = json.loads(schedule_text(in_tiles=in_tiles))
    return found


def answer_of(page: Path) -> Json:
    found: Json = facts_of(page.read_text())["answer"]
    return found


@BOTH
def test_the_page_of_a_file_says_what_the_search_said(onchip: Program, tmp_path: Path, in_tiles: bool) -> None:
    schedule, page = written(tmp_path, fields_of(in_tiles=in_tiles)), tmp_path / "page.html"
    ended = onchip("report", schedule, three(), "-o", page, "--json")

    assert ended.code == 0
    assert ended.json == {"network": "three", "report": str(page), "bytes": len(page.read_bytes())}
    shown, found = answer_of(page), json.loads(json.dumps(schedule_object(outcome(in_tiles=in_tiles))))
    assert shown["stopped_by"] is None
    assert {**shown, **dict.fromkeys(ABOUT_THE_SEARCH)} == {**found, **dict.fromkeys(ABOUT_THE_SEARCH)}
    assert "claimed by the file" in page.read_text()


def test_a_schedule_that_claims_nothing_is_shown_with_the_bound_over_everything(
    onchip: Program, tmp_path: Path
) -> None:
    fields = fields_of(in_tiles=True)
    claimed = fields.pop("result")
    page = tmp_path / "page.html"
    assert onchip("report", written(tmp_path, fields), three(), "-o", page).code == 0

    shown = answer_of(page)
    assert (shown["status"], shown["objective"], shown["method"]) == ("FEASIBLE", "energy", "not said")
    assert set(shown["space"].values()) == {"any"}
    assert shown["energy_pj"] == claimed["energy_pj"]
    assert 0 < shown["lower_bound"] <= claimed["lower_bound"]
    assert "the file makes no claim" in page.read_text()


def test_a_page_of_an_illegal_schedule_is_not_drawn(onchip: Program, tmp_path: Path) -> None:
    fields = fields_of(in_tiles=False)
    fields["result"]["energy_pj"] += 1
    page = tmp_path / "page.html"
    ended = onchip("report", written(tmp_path, fields), three(), "-o", page)

    assert ended.code == 1
    assert "figure-differs" in ended.out
    assert not page.exists()


def test_a_schedule_is_compared_with_no_baselines(onchip: Program, tmp_path: Path) -> None:
    schedule = written(tmp_path, fields_of(in_tiles=False))
    ended = onchip("report", schedule, three(), "-o", tmp_path / "page.html", "--compare")

    assert ended.code == 2
    assert "--compare: " in ended.err


def test_a_schedule_is_for_the_accelerator_that_it_holds(onchip: Program, tmp_path: Path) -> None:
    schedule = written(tmp_path, fields_of(in_tiles=False))
    page = tmp_path / "page.html"
    ended = onchip("report", schedule, three(), "-o", page, "--accelerator", "simba")

    assert ended.code == 1
    assert "accelerator-differs" in ended.out
    assert not page.exists()


def test_schedules_are_not_audited(onchip: Program, tmp_path: Path) -> None:
    schedule = written(tmp_path, fields_of(in_tiles=False))
    ended = onchip("audit", schedule, three())

    assert ended.code == 2
    assert f"{schedule}: " in ended.err
    assert "`onchip check`" in ended.err
