from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.diamond import Json, Program, diamond_fields


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
