"""Tests of `onchip check`, `run` and `time` on plans, schedules, strategies and mappings."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.diamond import Json, Program, diamond_fields
from support.fused_files import CHIP
from support.small_schedules import chip, schedule_text, three


def edit(path: Path, change: Callable[[Json], object]) -> None:
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))


def test_a_plan_of_ours_is_legal_and_every_claim_is_recomputed(onchip: Program, planned: Path, diamond: Path) -> None:
    ended = onchip("check", planned, diamond, "--json")

    assert ended.code == 0
    assert ended.json["legal"] is True
    assert ended.json["violations"] == []
    assert ended.json["recomputed"]["objective_value"] == ended.json["claimed"]["objective_value"] == 100
    assert ended.json["recomputed"]["traffic"]["total"] == 170


def test_optimal_is_reported_as_claimed(onchip: Program, planned: Path, diamond: Path) -> None:
    ended = onchip("check", planned, diamond)

    assert "OPTIMAL, as claimed" in ended.out
    assert "the plan is legal" in ended.out


def test_a_violation_has_rule_step_instruction_tensors_and_addresses(
    onchip: Program, planned: Path, diamond: Path
) -> None:
    def overlap_the_first_operator_s_tensors(fields: Json) -> None:
        first, second = [line["allocate"] for line in fields["instructions"] if "allocate" in line][:2]
        second["offset_bytes"] = first["offset_bytes"]

    edit(planned, overlap_the_first_operator_s_tensors)
    ended = onchip("check", planned, diamond, "--json")

    assert ended.code == 1
    violation = ended.json["violations"][0]
    assert violation["rule"] == "overlap"
    assert violation["step"] == 0
    assert isinstance(violation["instruction"], int)
    assert all(text in violation["detail"] + violation["subject"] for text in ("x", "s", "[0, "))
    assert violation["detail"] in onchip("check", planned, diamond).out.replace("\n", " ")


def test_a_false_claim_is_a_violation(onchip: Program, planned: Path, diamond: Path) -> None:
    edit(planned, lambda fields: fields["result"].update(objective_value=0, lower_bound=0))
    ended = onchip("check", planned, diamond, "--json")

    assert ended.code == 1
    assert [violation["rule"] for violation in ended.json["violations"]] == ["objective-differs"]


def test_a_plan_without_claim_or_hashes_can_be_checked(onchip: Program, planned: Path, diamond: Path) -> None:
    def as_of_another_tool(fields: Json) -> None:
        del fields["result"], fields["graph"]["sha256"], fields["accelerator"]["sha256"]

    edit(planned, as_of_another_tool)
    ended = onchip("check", planned, diamond, "--json")

    assert ended.code == 0
    assert ended.json["claimed"] is None
    assert onchip("check", planned, diamond).code == 0


def test_a_graph_that_differs_is_told(onchip: Program, planned: Path, diamond: Path) -> None:
    edit(diamond, lambda fields: fields["operators"][0].update(kind="Gemm"))
    ended = onchip("check", planned, diamond, "--json")

    assert ended.code == 1
    assert ended.json["graph"]["differs"] is True
    assert "graph differs" in onchip("check", planned, diamond).out


def test_a_plan_for_another_network_is_bad_input(onchip: Program, planned: Path, diamond: Path) -> None:
    diamond.write_text(json.dumps(diamond_fields()).replace('"s"', '"other"'))
    ended = onchip("check", planned, diamond, "--json")

    assert ended.code == 2
    assert "no tensor 's'" in ended.json["error"]
    assert ended.json["place"].startswith("instruction ")


def test_a_wrong_name_in_a_plan_for_this_very_network_is_a_violation(
    onchip: Program, planned: Path, diamond: Path
) -> None:
    def misspell(fields: Json) -> None:
        next(line for line in fields["instructions"] if line.get("compute") == "stem")["compute"] = "steam"

    edit(planned, misspell)
    ended = onchip("check", planned, diamond, "--json")

    assert ended.code == 1
    assert "unknown-operator" in {violation["rule"] for violation in ended.json["violations"]}


@pytest.mark.parametrize(
    ("target", "code"),
    [(("--sram", "130"), 0), (("--sram", "m_r"), 0), (("--sram", "129"), 1), (("--alignment", "64"), 1)],
)
def test_other_memories_can_stand_in_for_the_plan_s_own(
    onchip: Program, planned: Path, diamond: Path, target: tuple[str, ...], code: int
) -> None:
    assert onchip("check", planned, diamond, *target).code == code


@pytest.mark.parametrize("flags", [("--bits", "8"), ("--granularity", "raw"), ("--count", "all"), ("--dim", "n=1")])
def test_flags_that_contradict_the_plan_are_refused(
    onchip: Program, planned: Path, diamond: Path, flags: tuple[str, ...]
) -> None:
    ended = onchip("check", planned, diamond, *flags, "--json")

    assert ended.code == 2
    assert "differs from the reading" in ended.json["error"]


def test_flags_that_say_the_same_are_accepted(onchip: Program, planned: Path, diamond: Path) -> None:
    assert onchip("check", planned, diamond, "--granularity", "fused", "--count", "activations").code == 0


def test_a_violation_stands_on_one_line_however_long(onchip: Program, diamond: Path, tmp_path: Path) -> None:
    fields = diamond_fields()
    long = "x" * 200
    text = json.dumps(fields).replace('"x"', f'"{long}"')
    diamond.write_text(text)
    plan = tmp_path / "long.json"
    assert onchip("plan", diamond, "--sram", "130", "-o", plan).code == 0
    edit(plan, lambda plan: plan["instructions"][0]["allocate"].update(offset_bytes=1000))
    ended = onchip("check", plan, diamond)

    assert ended.code == 1
    first = ended.out.splitlines()[0]
    assert long in first
    assert "beyond the capacity" in first


# `onchip check`, `run` and `time` on schedules, strategies and mappings


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


# Schedules of other networks, unreadable schedules and impossible ones: one line, and the exit code for the kind


Change = Callable[[Json], object]


@pytest.fixture
def layer_by_layer(tmp_path: Path) -> Path:
    path = tmp_path / "schedule.json"
    path.write_text(schedule_text(in_tiles=False))
    return path


def change_file(path: Path, change: Change) -> None:
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))


def rules(ended: Json) -> set[str]:
    return {one["rule"] for one in ended["violations"]}


# Violations: exit 1, with the rule named


def test_another_network(onchip: Program, layer_by_layer: Path, diamond: Path) -> None:
    ended = onchip("check", layer_by_layer, diamond, "--json")
    assert (ended.code, rules(ended.json)) == (1, {"network-differs"})
    assert ended.json["graph"]["differs"] is True
    for verb in ("run", "time"):
        assert onchip(verb, layer_by_layer, diamond).code == 1


def test_another_accelerator(onchip: Program, layer_by_layer: Path) -> None:
    assert onchip("check", layer_by_layer, three(), "--accelerator", chip()).code == 0
    ended = onchip("check", layer_by_layer, three(), "--accelerator", "simba", "--json")
    assert (ended.code, rules(ended.json)) == (1, {"accelerator-differs"})


def longer(fields: Json) -> None:
    mapping = fields["mappings"][0]
    mapping["nest"].append("N2")


def without_its_first_stack(fields: Json) -> None:
    fields["stacks"] = fields["stacks"][1:]
    fields["mappings"] = [{**one, "stack": one["stack"] - 1} for one in fields["mappings"] if one["stack"]]


def not_convex(fields: Json) -> None:
    """Put conv0 and add into one stack, although conv1 lies between them."""
    tile = {"tile": {"columns": 4, "rows": 4}, "mode": "recompute"}
    fields["stacks"] = [{"operators": ["conv0", "add"], **tile}, {"operators": ["conv1"], "tile": None}]
    fields["mappings"] = []


def larger_than_the_map(fields: Json) -> None:
    fields["stacks"][0] |= {"tile": {"columns": 9, "rows": 4}, "mode": "recompute"}


def out_of_order(fields: Json) -> None:
    fields["stacks"].reverse()


def leave_a_workspace(fields: Json) -> None:
    first = next(one for one in fields["instructions"] if "free" in one and "@workspace" in one["free"]["tensor"])
    fields["instructions"].remove(first)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (longer, "too-many-iterations"),
        (without_its_first_stack, "operator-in-no-stack"),
        (not_convex, "stack-not-convex"),
        (larger_than_the_map, "tile-exceeds-map"),
        (out_of_order, "out-of-order"),
        (lambda fields: fields["mappings"].pop(), "mapping-missing"),
        (leave_a_workspace, "workspace-stays"),
        (lambda fields: fields["result"].update(lower_bound=10**18), "bound-above-objective"),
        (lambda fields: fields["result"].update(status="INFEASIBLE"), "answer-denied"),
    ],
)
def test_what_is_illegal_has_a_rule(onchip: Program, layer_by_layer: Path, change: Change, rule: str) -> None:
    change_file(layer_by_layer, change)
    ended = onchip("check", layer_by_layer, three(), "--json")
    assert ended.code == 1
    assert rule in rules(ended.json)


def test_each_violation_is_a_line(onchip: Program, layer_by_layer: Path) -> None:
    change_file(layer_by_layer, longer)
    ended = onchip("check", layer_by_layer, three())
    assert ended.code == 1
    lines = [line for line in ended.out.splitlines() if line.startswith("too-many-iterations: ")]
    assert len(lines) == 1
    assert "2 iterations for a bound of 1" in lines[0]


# Bad input: exit 2, one line with file, place and the expected value


def _no_level_for_outputs(fields: Json) -> None:
    for memory in fields["accelerator"]["memories"]:
        memory["serves"] = ["OX"]


def _no_array(fields: Json) -> None:
    del fields["accelerator"]["array"]


@pytest.mark.parametrize(
    ("change", "place", "expected"),
    [
        (lambda fields: fields.update(version=2), "version", "1"),
        (lambda fields: fields.pop("stacks"), "stacks", "a value"),
        (lambda fields: fields["stacks"][0].update(mode="recompute"), "stacks[0]", "both or none"),
        (lambda fields: fields["mappings"][0].update(stack=9), "mappings[0].stack", "0 to 2"),
        (
            lambda fields: fields["accelerator"].pop("array"),
            "accelerator (memory 'register')",
            "an array with fixed dimensions",
        ),
        (_no_level_for_outputs, "accelerator 'chip'", "at least one to address"),
    ],
)
def test_what_cannot_be_read_or_used(
    onchip: Program, layer_by_layer: Path, change: Change, place: str, expected: str
) -> None:
    change_file(layer_by_layer, change)
    ended = onchip("check", layer_by_layer, three(), "--json")
    assert ended.code == 2
    assert ended.json["file"] == str(layer_by_layer)
    assert (ended.json["place"], ended.json["expected"]) == (place, expected)
    assert len(onchip("check", layer_by_layer, three()).err.splitlines()) == 1


def test_flags_that_contradict_the_file(onchip: Program, layer_by_layer: Path) -> None:
    assert onchip("check", layer_by_layer, three(), "--bits", "8", "--count", "all").code == 0
    for flags in (("--bits", "16"), ("--count", "activations"), ("--dim", "n=2"), ("--sram", "1KiB")):
        assert onchip("check", layer_by_layer, three(), *flags).code == 2


def test_a_scheduled_accelerator_needs_a_level_for_each_operand(onchip: Program, tmp_path: Path) -> None:
    without_outputs = CHIP.replace("capacity: 512B,", "capacity: 512B, holds: [input],").replace(
        "capacity: 1KiB,", "capacity: 1KiB, holds: [input],"
    )
    none = CHIP.replace("capacity: 512B,", "capacity: 512B, serves: [OX],").replace(
        "capacity: 1KiB,", "capacity: 1KiB, serves: [OX],"
    )
    for text, code in ((none, 2), (without_outputs, 0)):
        path = tmp_path / "other.yaml"
        path.write_text(text)
        ended = onchip("schedule", three(), "--accelerator", path, "--groups", "layers", "--placements", "dram")
        assert ended.code == code, ended.err
        assert len(ended.err.splitlines()) == (code == 2)


def test_what_dram_costs_is_said_by_the_accelerators_file(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("".join(line for line in CHIP.splitlines(keepends=True) if not line.startswith("dram")))
    ended = onchip("schedule", three(), "--accelerator", path, "--json")
    assert (ended.code, ended.json["file"]) == (2, str(path))
    assert "read_energy_pj and write_energy_pj of dram" in ended.err


def test_a_memory_may_have_room_for_anything(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "roomy.yaml"
    path.write_text(CHIP.replace("capacity: 1KiB", f"capacity: {2**63 - 1}"))
    for verb in ("schedule", "map", "fuse"):
        assert onchip(verb, three(), "--accelerator", path, "--time-limit", 0.5, "--no-cache").code == 0


def test_random_weights_are_a_models(onchip: Program, layer_by_layer: Path) -> None:
    ended = onchip("run", layer_by_layer, three(), "--random-weights", "1")
    assert ended.code == 2
    assert "--random-weights" in ended.err
