"""Schedules of other networks, unreadable schedules and impossible ones: one line, and the exit code for the kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.diamond import Json, Program
from support.fused_files import CHIP
from support.small_schedules import chip, schedule_text, three

Change = Callable[[Json], object]


@pytest.fixture
def scheduled(tmp_path: Path) -> Path:
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


def test_another_network(onchip: Program, scheduled: Path, diamond: Path) -> None:
    ended = onchip("check", scheduled, diamond, "--json")
    assert (ended.code, rules(ended.json)) == (1, {"network-differs"})
    assert ended.json["graph"]["differs"] is True
    for verb in ("run", "time"):
        assert onchip(verb, scheduled, diamond).code == 1


def test_another_accelerator(onchip: Program, scheduled: Path) -> None:
    assert onchip("check", scheduled, three(), "--accelerator", chip()).code == 0
    ended = onchip("check", scheduled, three(), "--accelerator", "simba", "--json")
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
def test_what_is_illegal_has_a_rule(onchip: Program, scheduled: Path, change: Change, rule: str) -> None:
    change_file(scheduled, change)
    ended = onchip("check", scheduled, three(), "--json")
    assert ended.code == 1
    assert rule in rules(ended.json)


def test_each_violation_is_a_line(onchip: Program, scheduled: Path) -> None:
    change_file(scheduled, longer)
    ended = onchip("check", scheduled, three())
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
    onchip: Program, scheduled: Path, change: Change, place: str, expected: str
) -> None:
    change_file(scheduled, change)
    ended = onchip("check", scheduled, three(), "--json")
    assert ended.code == 2
    assert ended.json["file"] == str(scheduled)
    assert (ended.json["place"], ended.json["expected"]) == (place, expected)
    assert len(onchip("check", scheduled, three()).err.splitlines()) == 1


def test_flags_that_contradict_the_file(onchip: Program, scheduled: Path) -> None:
    assert onchip("check", scheduled, three(), "--bits", "8", "--count", "all").code == 0
    for flags in (("--bits", "16"), ("--count", "activations"), ("--dim", "n=2"), ("--sram", "1KiB")):
        assert onchip("check", scheduled, three(), *flags).code == 2


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


def test_random_weights_are_a_models(onchip: Program, scheduled: Path) -> None:
    ended = onchip("run", scheduled, three(), "--random-weights", "1")
    assert ended.code == 2
    assert "--random-weights" in ended.err
