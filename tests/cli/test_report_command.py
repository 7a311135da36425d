"""Tests of `onchip report` for plans and schedules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from onchip.reports.schedule.outcome import schedule_object
from support.diamond import Program
from support.reports import facts_of
from support.small_schedules import outcome, schedule_text, three


def spoil(plan: Path) -> None:
    fields = json.loads(plan.read_text())
    del fields["instructions"][0]
    plan.write_text(json.dumps(fields))


def test_a_report_is_written_and_its_name_printed(
    onchip: Program, diamond: Path, planned: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"

    ended = onchip("report", planned, diamond, "-o", page)

    assert (ended.code, ended.out, ended.err) == (0, f"{page}\n", "")
    assert f"onchip report {planned} {diamond} -o {page}" in page.read_text()


def test_json_says_what_was_written(onchip: Program, diamond: Path, planned: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"

    ended = onchip("report", planned, diamond, "-o", page, "--json")

    assert ended.json == {"network": "diamond", "report": str(page), "bytes": page.stat().st_size}


def test_compare_draws_the_baselines_in_both_orders(
    onchip: Program, diamond: Path, planned: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    assert onchip("report", planned, diamond, "-o", page, "--compare").code == 0

    rows = facts_of(page.read_text())["figures"]["traffic-plot"]["traces"][0]["x"]
    orders = ("given order", "min-peak order")
    assert rows == ["this plan", *(f"{method}, {order}" for method in ("belady", "greedy") for order in orders)]


def test_an_accelerator_adds_the_timeline(onchip: Program, diamond: Path, planned: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert onchip("report", planned, diamond, "-o", page, "--accelerator", "meta-prototype-df").code == 0

    assert "timeline-plot" in facts_of(page.read_text())["figures"]


def test_an_illegal_plan_is_not_drawn(onchip: Program, diamond: Path, planned: Path, tmp_path: Path) -> None:
    spoil(planned)
    page = tmp_path / "report.html"

    ended = onchip("report", planned, diamond, "-o", page)

    assert ended.code == 1
    assert "violation" in ended.out
    assert not page.exists()


def test_the_report_does_not_replace_what_it_reads(onchip: Program, diamond: Path, planned: Path) -> None:
    before = planned.read_bytes()

    assert onchip("report", planned, diamond, "-o", planned).code == 2
    assert planned.read_bytes() == before


def test_plan_draws_on_the_way(onchip: Program, diamond: Path, tmp_path: Path) -> None:
    page, figure = tmp_path / "report.html", tmp_path / "map.svg"

    ended = onchip("plan", diamond, "--sram", "130", "--report", page, "--figure", figure)

    assert ended.code == 0
    assert "Lower bound" in page.read_text()
    assert ET.fromstring(figure.read_text()).tag.endswith("svg")


@pytest.mark.parametrize("name", ["map.png", "map"])
def test_only_svg_is_drawn_and_it_is_said_before_planning(
    onchip: Program, diamond: Path, tmp_path: Path, name: str
) -> None:
    ended = onchip("plan", diamond, "--sram", "130", "--figure", tmp_path / name)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("onchip: --figure: ")
    assert ended.err.count("\n") == 1


def test_nothing_is_drawn_where_there_is_no_plan(onchip: Program, diamond: Path, tmp_path: Path) -> None:
    page, figure = tmp_path / "report.html", tmp_path / "map.svg"

    assert onchip("plan", diamond, "--sram", "129", "--report", page, "--figure", figure).code == 3
    assert not page.exists()
    assert not figure.exists()


def test_the_network_of_a_bundled_plan_may_be_left_out(onchip: Program, tmp_path: Path) -> None:
    plan, page = tmp_path / "plan.json", tmp_path / "page.html"
    assert onchip("plan", "lenet5", "--sram", "128KiB", "-o", plan).code == 0
    assert (onchip("report", plan, "-o", page).code, page.exists()) == (0, True)


def test_what_is_no_plan_is_said_before_its_network_is_asked_for(
    onchip: Program, planned: Path, tmp_path: Path
) -> None:
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text("format: onchip-mapping\nversion: 1\n")
    for words in ([mapping], [mapping, "lenet5"]):
        ended = onchip("report", *words, "-o", tmp_path / "page.html")
        assert (ended.code, "mapping.yaml: " in ended.err, "`onchip map --report`" in ended.err) == (2, True, True)
    assert "'diamond', is not bundled" in onchip("report", planned, "-o", tmp_path / "page.html").err


# `onchip report SCHEDULE NETWORK`: the page of a schedule file equals that of the schedule when it was found


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
