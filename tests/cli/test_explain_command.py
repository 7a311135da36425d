from __future__ import annotations

import json
from pathlib import Path

from support.diamond import Program


def test_the_diamond_s_spill_is_explained(onchip: Program, diamond: Path, planned: Path) -> None:
    ended = onchip("explain", planned, diamond)

    assert (ended.code, ended.err) == (0, "")
    words = " ".join(ended.out.split())
    assert "130 bytes, set by join (Conv) with l (50), r (50), y (30)" in words
    assert "full steps 2: 2 (" in words
    assert "costs 100: spill 50 + reload 50" in words
    assert "evicted in step 2" in words
    assert "capacity needed to stay: 160 bytes, 30 more" in words
    assert "this order needs at least 160 bytes; the best order needs 160 bytes (M_P)" in words


def test_json_has_the_same(onchip: Program, diamond: Path, planned: Path) -> None:
    said = onchip("explain", planned, diamond, "--json").json

    assert (said["required_bytes"], said["required_by"]) == (130, [{"operator": "join", "step": 3}])
    assert [full["step"] for full in said["full_steps"]] == [2, 3]
    assert said["spill_free_bytes"] == {"this_order": 160, "any_order": 160}
    (absence,) = said["absences"]
    assert (absence["cost"], absence["spill_cost"], absence["reload_cost"]) == (100, 50, 50)
    assert (absence["tightest_step"], absence["forced"], absence["stays_with_bytes"]) == (2, True, 160)
    assert {one["tensor"]: one["bytes"] for one in absence["pushed_out_by"]}["s"] == 60
    assert all(one["operand"] for one in absence["pushed_out_by"])


def test_a_plan_without_spills_has_nothing_to_explain_and_asks_for_no_m_p(
    onchip: Program, diamond: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    assert onchip("plan", diamond, "--sram", "160", "-o", plan).code == 0

    assert "All tensors stay in the scratchpad until their last use." in onchip("explain", plan, diamond).out
    assert onchip("explain", plan, diamond, "--json").json["spill_free_bytes"] == {"this_order": 160, "any_order": None}


def test_an_illegal_plan_is_not_explained(onchip: Program, diamond: Path, planned: Path) -> None:
    fields = json.loads(planned.read_text())
    del fields["instructions"][0]
    planned.write_text(json.dumps(fields))

    ended = onchip("explain", planned, diamond)

    assert ended.code == 1
    assert "violation" in ended.out
