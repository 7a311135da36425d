"""`onchip check`, `run` and `time` on schedules, strategies and mappings."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.diamond import Json, Program
from support.small_schedules import chip, schedule_text, three


@pytest.fixture(params=[False, True], ids=["layer by layer", "in tiles"])
def scheduled(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "schedule.json"
    path.write_text(schedule_text(in_tiles=request.param))
    return path


def test_a_schedule_of_ours_is_legal_and_every_claim_is_recomputed(onchip: Program, scheduled: Path) -> None:
    ended = onchip("check", scheduled, three(), "--json")

    assert ended.code == 0
    assert (ended.json["legal"], ended.json["violations"]) == (True, [])
    claimed, recomputed = ended.json["claimed"], ended.json["recomputed"]
    for name in ("objective_value", "energy_pj", "latency_cycles", "traffic_bytes"):
        assert recomputed[name] == claimed[name]
    assert len(ended.json["not_checked"]) == 3


def test_what_was_not_checked_is_printed(onchip: Program, scheduled: Path) -> None:
    ended = onchip("check", scheduled, three())

    assert ended.code == 0
    assert ended.out.count("not verified: ") == 3
    assert ended.out.strip().endswith("the schedule is legal")


def test_a_packed_schedule_is_unpacked(onchip: Program, scheduled: Path, tmp_path: Path) -> None:
    packed = tmp_path / "schedule.json.gz"
    packed.write_bytes(gzip.compress(scheduled.read_bytes()))
    assert onchip("check", packed, three()).code == 0


def test_a_false_figure_is_a_violation(onchip: Program, scheduled: Path) -> None:
    fields = json.loads(scheduled.read_text())
    fields["result"]["traffic_bytes"] += 1
    scheduled.write_text(json.dumps(fields))
    ended = onchip("check", scheduled, three(), "--json")

    assert ended.code == 1
    assert [one["rule"] for one in ended.json["violations"]] == ["figure-differs"]


def test_the_same_figures_are_said_by_check_run_and_time(onchip: Program, scheduled: Path) -> None:
    checked = onchip("check", scheduled, three(), "--json").json["recomputed"]
    timed = onchip("time", scheduled, three(), "--json").json
    ran = onchip("run", scheduled, three(), "--json").json

    assert timed["total_cycles"] == checked["latency_cycles"] == sum(timed["latency_parts"].values())
    assert timed["energy_pj"]["total"] == checked["energy_pj"]
    parts = [timed["energy_pj"]["mac"], *timed["energy_pj"]["memories"].values()]
    assert sum(parts) == pytest.approx(checked["energy_pj"])
    assert 0 < timed["mac_utilisation"] < 1
    assert 0 <= timed["dma_utilisation"] <= 1
    assert timed["traffic_bytes"] == checked["traffic_bytes"] == ran["run"]["planned"]["total"]
    assert ran["check"]["recomputed"] == checked


def test_time_prints_how_much_of_the_array_and_of_dma_is_in_use(onchip: Program, scheduled: Path) -> None:
    text = onchip("time", scheduled, three()).out
    timed = onchip("time", scheduled, three(), "--json").json
    assert "MAC utilisation" in text
    assert f"{timed['mac_utilisation']:.1%}" in text
    assert f"{timed['dma_utilisation']:.1%}" in text


def test_a_schedule_runs_and_gives_the_right_values(onchip: Program, scheduled: Path) -> None:
    ended = onchip("run", scheduled, three(), "--seed", 3)

    assert ended.code == 0
    assert "tensors equal bit for bit" in ended.out
    assert ended.out.strip().endswith("the schedule runs, and gives the right values")


def test_an_illegal_schedule_is_neither_run_nor_timed(onchip: Program, scheduled: Path) -> None:
    fields = json.loads(scheduled.read_text())
    fields["instructions"] = [
        one for one in fields["instructions"] if "compute" not in one or one["compute"] != "conv1"
    ]
    fields["instructions"] = [one for one in fields["instructions"] if one.get("compute") != "conv1#0"]
    scheduled.write_text(json.dumps(fields))
    for verb, what in (("run", "run"), ("time", "timed")):
        ended = onchip(verb, scheduled, three())
        assert ended.code == 1
        assert "operator-never-run" in ended.out
        assert f"the schedule is not legal: it was not {what}" in ended.out


def test_timing_a_plan_says_what_it_does_not_count(onchip: Program, diamond: Path, planned: Path) -> None:
    ended = onchip("time", planned, diamond, "--accelerator", "meta-prototype-df")
    assert ended.code == 0
    assert "not modelled: transfers within the array" in ended.out


def test_a_plan_is_timed_on_an_accelerator(onchip: Program, diamond: Path, planned: Path) -> None:
    ended = onchip("time", planned, diamond)
    assert ended.code == 2
    assert "--accelerator" in ended.err


# Strategies and mappings


@pytest.fixture
def strategy(onchip: Program, tmp_path: Path) -> Path:
    path = tmp_path / "strategy.json"
    given = ("--groups", "one", "--tile", "4x4", "--mode", "fully-cached", "--method", "loma")
    assert onchip("fuse", three(), "--accelerator", chip(), *given, "-o", path).code == 0
    return path


@pytest.fixture
def mappings(onchip: Program, tmp_path: Path) -> Path:
    path = tmp_path / "mappings.yaml"
    assert onchip("map", three(), "--accelerator", chip(), "-o", path).code == 0
    return path


def test_a_strategy_is_replayed_by_its_own_mappings(onchip: Program, strategy: Path) -> None:
    ended = onchip("check", strategy, three(), "--accelerator", chip(), "--json")

    assert ended.code == 0
    (recomputed,), (claimed,) = ended.json["recomputed"], ended.json["claimed"]
    assert all(recomputed[name] == claimed[name] for name in ("objective_value", "macs", "dram_bits", "peak_bytes"))
    assert recomputed["energy_pj"] == pytest.approx(claimed["energy_pj"])


def test_of_an_older_strategy_without_mappings_only_the_structure_is_checked(onchip: Program, strategy: Path) -> None:
    fields: Json = json.loads(strategy.read_text())
    del fields["mappings"]
    strategy.write_text(json.dumps(fields))
    ended = onchip("check", strategy, three(), "--accelerator", chip(), "--json")

    assert ended.code == 0
    assert ended.json["recomputed"] == []
    assert "the cost: the file has no mappings" in ended.json["not_checked"][0]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda fields: fields["stacks"][0]["tile"].update(columns=9), "tile-exceeds-map"),
        (lambda fields: fields["result"].update(lower_bound=1e18), "bound-above-objective"),
        (lambda fields: fields["network"].update(sha256="0" * 64), "network-differs"),
        (lambda fields: fields["accelerator"].update(sha256="0" * 64), "accelerator-differs"),
    ],
)
def test_what_is_wrong_with_a_strategy_is_a_violation(
    onchip: Program, strategy: Path, change: object, rule: str
) -> None:
    fields: Json = json.loads(strategy.read_text())
    change(fields)  # type: ignore[operator]
    strategy.write_text(json.dumps(fields))
    ended = onchip("check", strategy, three(), "--accelerator", chip(), "--json")

    assert ended.code == 1
    assert rule in {one["rule"] for one in ended.json["violations"]}


def test_mappings_are_legal_and_cost_what_they_claim(onchip: Program, mappings: Path) -> None:
    ended = onchip("check", mappings, three(), "--accelerator", chip(), "--json")

    assert ended.code == 0
    assert [one["names"] for one in ended.json["recomputed"]] == ["conv0, conv1", "add"]
    for recomputed, claimed in zip(ended.json["recomputed"], ended.json["claimed"], strict=True):
        assert round(recomputed["energy_pj"] * 1000) == claimed["objective_value"]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('"objective_value": ', '"objective_value": 1', "objective-differs"),
        ('"K": 4', '"K": 2', "too-many-iterations"),
        ('["conv0", "conv1"]', '["conv0", "conv7"]', "unknown-layer"),
        ('network: "three"', 'network: "four"', "network-differs"),
    ],
)
def test_what_is_wrong_with_mappings_is_a_violation(
    onchip: Program, mappings: Path, old: str, new: str, rule: str
) -> None:
    text = mappings.read_text()
    assert old in text
    mappings.write_text(text.replace(old, new))
    ended = onchip("check", mappings, three(), "--accelerator", chip(), "--json")

    assert ended.code == 1
    assert rule in {one["rule"] for one in ended.json["violations"]}


def test_mappings_of_layers_in_each_others_place_are_violations(onchip: Program, mappings: Path) -> None:
    text = mappings.read_text()
    swapped = text.replace('"conv1"', '"other"').replace('"add"', '"conv1"').replace('"other"', '"add"')
    assert swapped != text
    mappings.write_text(swapped)
    ended = onchip("check", mappings, three(), "--accelerator", chip(), "--json")

    assert ended.code == 1
    assert "layer-differs" in ended.out


def test_the_accelerator_of_a_mapping_is_to_be_given_unless_it_is_bundled(onchip: Program, mappings: Path) -> None:
    ended = onchip("check", mappings, three())
    assert ended.code == 2
    assert "'chip', is not bundled" in ended.err
    other = onchip("check", mappings, three(), "--accelerator", "simba", "--json")
    assert other.code == 1
    assert [one["rule"] for one in other.json["violations"]] == ["accelerator-differs"]


def test_checking_loads_no_solver_and_compiles_nothing(scheduled: Path) -> None:
    program = "import sys; from onchip.cli import run; run(sys.argv[1:]); print(' '.join(sys.modules))"
    command = [sys.executable, "-c", program, "check", str(scheduled), three()]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    loaded = set(ended.stdout.splitlines()[-1].split())
    assert "onchip.verify.schedule.verifier" in loaded
    assert not {"ortools", "onnx", "onchip.scheduling.search.solve"} & loaded
