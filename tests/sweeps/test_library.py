"""`onchip.sweep`, `capacity` and `diff`: the results of the verbs, as typed rows and tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import onchip
from onchip.errors import InputError, UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.sweeps.point import SweepPoint, SweptVerb
from onchip.sweeps.processes import answer_point
from onchip.sweeps.study import machine_of
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

    costs = {"area": "sram / 10"}
    rows = library.sweep([diamond], store=tmp_path / "here.db", sram=["130B", 160, 200], costs=costs)

    assert [row.answer.objective_value for row in rows] == [100, 0, 0]
    assert [row.costs["area"] for row in rows[1:]] == [16, 20]
    printed = onchip("sweep", diamond, "--sram", "130B,160,200", "--store", tmp_path / "there.db", "--json").json[
        "rows"
    ]
    assert [row["objective_value"] for row in printed] == [100, 0, 0]
    assert "3 points" in rows._repr_html_()
    assert "<b>" not in rows._repr_html_()
    again = library.sweep([diamond], store=tmp_path / "here.db", sram="130B..160B", costs=costs)
    assert len(again) == 20


@pytest.mark.slow
def test_rows_are_a_frame_where_pandas_is(diamond: Path, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    frame = onchip.sweep([diamond], sram="130B..200B").to_pandas()
    assert list(frame["sram"]) == sorted(frame["sram"])
    assert frame["status"].iloc[0] == "OPTIMAL"


def test_a_curve_and_a_difference_show_as_tables(diamond: Path) -> None:
    assert "<td>130</td><td>159</td><td>100</td>" in onchip.capacity(diamond)._repr_html_()
    tight, roomy = (onchip.plan(diamond, size) for size in ("130B", "200B"))
    found = onchip.diff(tight, roomy)
    assert not found.is_equal
    assert found.change("traffic_bytes") == -100
    assert "no longer moves to DRAM and back" in found._repr_html_()


def test_a_curve_starts_at_the_required_bytes(diamond: Path) -> None:
    curve = onchip.capacity(onchip.load_network(diamond), options=onchip.CapacityOptions(order=onchip.Order.GIVEN))
    assert curve.status is onchip.Status.OPTIMAL
    assert curve.required_bytes == curve.steps[0].first == 130
    assert repr(curve).startswith("OPTIMAL  2 steps  traffic: 100 from 130 bytes")


@pytest.mark.slow
def test_a_sweep_takes_objects(diamond: Path, tmp_path: Path) -> None:
    """A changed graph and a resized accelerator are written next to the store, for its processes."""
    network = replace(onchip.load_network(diamond), name="a/b")
    machine = onchip.load_accelerator("simba").resized(global_buffer="1KiB")
    rows = onchip.sweep([network], [machine], store=tmp_path / "s.db")
    assert [row.answer.objective_value for row in rows] == [onchip.plan(network, machine).objective]
    assert sorted(path.name for path in (tmp_path / "s.inputs").iterdir()) == ["a_b.json", "simba.yaml"]
    with pytest.raises(UsageError, match="read in different ways"):
        onchip.sweep([onchip.load_network("lenet5", bits=8), "lenet5"], sram=[65536])


def test_a_schedule_shows_its_figures_and_pictures() -> None:
    found = onchip.schedule(three(), chip(), minimize="energy", options=LAYER_BY_LAYER)
    assert found.answer is not None
    shown = found._repr_html_()
    for name in ("energy_pj", "latency_cycles", "traffic_bytes"):
        assert f"<td>{name}</td>" in shown
    assert "<svg" in shown


def test_what_does_not_fit_is_refused(diamond: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="accelerators: "):
        onchip.sweep([diamond], store=tmp_path / "points.db")
    with pytest.raises(InputError):
        onchip.sweep([diamond], store=tmp_path / "points.db", verb="dance")
    with pytest.raises(UsageError, match="a study file defines all other choices"):
        onchip.sweep("study.yaml", store=tmp_path / "points.db", sram="1MiB..2MiB")
    with pytest.raises(UsageError, match="minimize: 'random'"):
        onchip.capacity(diamond, minimize="random")
    assert not (tmp_path / "points.db").exists()


def test_a_layer_without_a_mapping_has_a_reason_and_no_answer() -> None:
    machine, options = machine_of(load_accelerator("simba")), {"time_limit": 1e-9, "method": "hybrid"}
    point = SweepPoint("k", SweptVerb.MAP, "lenet5", "", "simba", machine, None, "energy", options, {})

    answer = answer_point(point)

    assert (answer.objective_value, answer.document, answer.reason) == (None, None, "a layer has no mapping")
