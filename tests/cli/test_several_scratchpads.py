"""Output for plans with several scratchpads, links, other objectives and static placement."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from support.diamond import Program
from support.several import LINKED

LENET = ("lenet5", "--bits", "8", "--accelerator", LINKED)
STATIC = ("minerva", "--bits", "8", "--count", "all", "--tiles", "auto", "--accelerator", "nvdla-like")


@pytest.fixture
def linked(onchip: Program, tmp_path: Path) -> Path:
    """Write a plan in which conv1's output moves over a link."""
    path = tmp_path / "plan.json"
    assert onchip("plan", *LENET, "-o", path).code == 0
    return path


def words_of(text: str) -> str:
    return " ".join(text.split())


def scratchpads(path: Path, *memories: str) -> Path:
    """Write an accelerator file with these scratchpads."""
    path.write_text("\n".join(("format: onchip-accelerator", "version: 1", "name: chip", "memories:", *memories)))
    return path


def test_json_says_what_scratchpads_hold_what_links_them_and_what_moved(onchip: Program) -> None:
    said = onchip("plan", *LENET, "--json").json

    assert [(memory["name"], memory["holds"]) for memory in said["memories"]] == [
        ("left", ["input", "weight", "output"]),
        ("right", ["output"]),
    ]
    assert said["links"] == [{"source": "right", "target": "left"}, {"source": "left", "target": "right"}]
    assert (said["placement"], said["outside_bytes"], said["objective_unit"]) == ("dynamic", None, "bytes")
    # the pool reads conv1's 32x24x24 bytes from the other scratchpad
    assert said["traffic"]["moved"] == said["objective_value"] == 32 * 24 * 24
    assert said["traffic"]["non_compulsory"] == 0
    assert said["arenas"].keys() == said["peaks"].keys() == {"left", "right"}
    assert sum(said["arenas"].values()) == said["arena_bytes"]
    assert all(said["peaks"][name] <= said["arenas"][name] for name in said["arenas"])


def test_a_person_reads_what_scratchpads_hold_what_links_them_and_what_moved(onchip: Program) -> None:
    words = words_of(onchip("plan", *LENET).out)

    assert "scratchpad left of 24,576 bytes (aligned to 8)" in words
    assert "scratchpad right of 24,576 bytes (aligned to 16, holds output)" in words
    assert "links right -> left, left -> right" in words
    assert "non-compulsory cost 18,432 bytes" in words
    assert "non-compulsory traffic 0 bytes" in words
    assert "between scratchpads 18,432 bytes" in words


@pytest.mark.parametrize(
    ("objective", "unit", "value", "words"),
    [
        # 10 cycles of set-up, then 32 bits in each cycle
        ("dma-cycles", "cycles", 4_618, "4,618 cycles"),
        # 64 bits are read at 1.5 pJ and written at 2.
        ("dma-energy", "fJ", 8_064_000, "8.06 nJ"),
    ],
)
def test_an_objective_that_is_no_traffic_is_said_in_its_unit(
    onchip: Program, tmp_path: Path, objective: str, unit: str, value: int, words: str
) -> None:
    plan = tmp_path / "plan.json"
    said = onchip("plan", *LENET, "--objective", objective, "-o", plan, "--json").json
    shown = words_of(onchip("plan", *LENET, "--objective", objective).out)
    checked = onchip("check", plan, "lenet5", "--json").json["recomputed"]

    assert said["objective_unit"] == checked["objective_unit"] == unit
    assert said["objective_value"] == checked["objective_value"] == value
    assert f"{words} lower bound {words}" in shown
    assert f"objective ({objective}) {value:,} {unit}" in words_of(onchip("check", plan, "lenet5").out)


def test_check_says_the_same_of_scratchpads_and_moves(onchip: Program, linked: Path) -> None:
    said = onchip("check", linked, "lenet5", "--json").json

    assert [memory["holds"] for memory in said["memories"]] == [["input", "weight", "output"], ["output"]]
    assert said["links"] == [{"source": "right", "target": "left"}, {"source": "left", "target": "right"}]
    assert said["recomputed"]["traffic"]["moved"] == 18_432
    assert sum(said["recomputed"]["arenas"].values()) == said["recomputed"]["arena_bytes"]
    words = words_of(onchip("check", linked, "lenet5").out)
    assert "between scratchpads 18,432 bytes" in words
    assert "arena of right 18,432 bytes" in words


def test_static_placement_says_how_many_tensors_have_a_place_for_life(onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    asked = ("plan", *STATIC, "--placement", "static", "--method", "onsram", "-o", plan)
    said = onchip(*asked, "--json").json
    words = words_of(onchip(*asked).out)

    # The activations between four layers, of 256 bytes each, are written in one scratchpad and read in another.
    assert (said["placement"], said["outside_bytes"]) == ("static", 3 * 256)
    lines = json.loads(plan.read_text())["instructions"]
    times = Counter(line["allocate"]["tensor"] for line in lines if "allocate" in line)
    once = [name for name, count in times.items() if count == 1]
    assert 0 < len(once) < len(times) == said["tensors"]
    kept_bytes = 784 * 256 + 2 * 256 * 256 + 256 * 10 + 784 + 10  # weights, network input and output
    assert f"static placement {len(once)} tensors ({kept_bytes:,} bytes) have a static offset" in words
    assert onchip("explain", plan, "minerva").code == 0


def test_a_tensor_larger_than_every_scratchpad_that_may_hold_it_is_named(onchip: Program) -> None:
    ended = onchip("plan", "minerva", "--count", "all", "--accelerator", "nvdla-like", "--json")

    assert ended.code == 3
    assert (
        ended.json.items()
        >= {
            "status": "INFEASIBLE",
            "operator": "fc0",
            "tensor": "fc0.weight",
            "tensor_bytes": 2 * 784 * 256,
            "largest_scratchpad": "input_0",
            "largest_scratchpad_bytes": 131_072,
            "expected": "--tiles auto",
        }.items()
    )
    assert ended.json["excess_bytes"] == ended.json["need_bytes"] - ended.json["capacity_bytes"] > 0
    words = words_of(onchip("plan", "minerva", "--count", "all", "--accelerator", "nvdla-like").out)
    assert ended.json["error"] in words
    assert "weight fc0.weight (401,408 bytes) is larger than input_0 (131,072 bytes)" in words
    assert "--tiles auto" in words


def test_a_tensor_too_large_where_the_sum_fits_exceeds_by_its_own_bytes(
    onchip: Program, diamond: Path, tmp_path: Path
) -> None:
    chip = scratchpads(
        tmp_path / "chip.yaml",
        "  - {name: one, capacity: 59, scratchpad: true}",
        "  - {name: two, capacity: 59, scratchpad: true}",
        "  - {name: three, capacity: 59, scratchpad: true}",
    )
    said = onchip("plan", diamond, "--accelerator", chip, "--json").json

    assert (said["tensor"], said["tensor_bytes"], said["largest_scratchpad_bytes"]) == ("s", 60, 59)
    assert said["need_bytes"] <= said["capacity_bytes"]
    assert said["excess_bytes"] == 1


def test_operands_without_places_together_are_listed(onchip: Program, diamond: Path, tmp_path: Path) -> None:
    chip = scratchpads(
        tmp_path / "chip.yaml",
        "  - {name: one, capacity: 75, scratchpad: true}",
        "  - {name: two, capacity: 75, scratchpad: true}",
    )
    ended = onchip("plan", diamond, "--accelerator", chip, "--json")

    assert ended.code == 3
    assert (ended.json["operator"], ended.json["tensor"], ended.json["excess_bytes"]) == ("join", None, 0)
    assert ended.json["error"] == (
        "operator join needs 130 bytes of 150, but its operands have no places together: "
        "l (input, 50), r (input, 50), y (output, 30)"
    )
    assert ended.json["error"] in words_of(onchip("plan", diamond, "--accelerator", chip).out)


def test_an_operand_that_no_scratchpad_holds_is_named(onchip: Program, diamond: Path, tmp_path: Path) -> None:
    chip = scratchpads(tmp_path / "chip.yaml", "  - {name: one, capacity: 1KiB, scratchpad: true, holds: [input]}")
    said = onchip("plan", diamond, "--accelerator", chip, "--json").json

    assert (said["largest_scratchpad"], said["largest_scratchpad_bytes"]) == (None, 0)
    assert said["excess_bytes"] == said["tensor_bytes"] > 0
    assert "fits in no scratchpad" in said["error"]


def test_without_spills_what_has_no_places_in_several_scratchpads_does_not_say_how_much_is_missing(
    onchip: Program, diamond: Path, tmp_path: Path
) -> None:
    chip = scratchpads(
        tmp_path / "chip.yaml",
        "  - {name: one, capacity: 100, scratchpad: true}",
        "  - {name: two, capacity: 59, scratchpad: true}",
    )
    ended = onchip("plan", diamond, "--accelerator", chip, "--objective", "peak", "--json")

    assert ended.code == 3
    assert ended.json["tensor"] is None
    assert ended.json["excess_bytes"] >= 0
    assert ended.json["error"].startswith("without spills: ")


def test_a_plan_with_moves_runs_and_says_that_they_are_as_planned(onchip: Program, linked: Path) -> None:
    ended = onchip("run", linked, "lenet5", "--json")

    assert (ended.code, ended.json["right"]) == (0, True)
    assert ended.json["run"]["moved"] == ended.json["run"]["planned"]
    assert ended.json["run"]["moved"]["moved"] == 18_432
    assert "between scratchpads 18,432 bytes, as planned" in words_of(onchip("run", linked, "lenet5").out)


def test_a_move_is_explained_and_is_no_absence(onchip: Program, linked: Path) -> None:
    said = onchip("explain", linked, "lenet5", "--json").json
    words = words_of(onchip("explain", linked, "lenet5").out)

    assert said["absences"] == []
    (move,) = said["moves"]
    assert (move["bytes"], move["source"], move["target"], move["step"]) == (18_432, "right", "left", 2)
    assert "All tensors stay in the scratchpads until their last use." in words
    assert "1 tensor moved between scratchpads, 1 time, at a cost of 18,432" in words
    assert "conv1.relu (18,432 bytes) from right to left before step 2, 18,432" in words


def test_what_has_to_go_through_dram_is_explained_as_that(onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert onchip("plan", "lenet5", "--accelerator", "nvdla-like", "-o", plan).code == 0

    said = onchip("explain", plan, "lenet5", "--json").json
    words = words_of(onchip("explain", plan, "lenet5").out)

    assert [absence["way"] for absence in said["absences"]] == ["detour"] * 4
    assert said["spill_free_bytes"]["any_order"] is None
    assert "scratchpad output of 131,072 bytes (holds output)" in words
    assert "moved through DRAM between steps 0 and 1: " in words
    assert "Without spills" not in words


def test_a_plan_in_tiles_is_timed_with_the_operators_multiply_accumulates(onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    asked = ("plan", "lenet5", "--accelerator", "hifi4-like", "--tiles", "auto", "--method", "onsram")
    assert onchip(*asked, "-o", plan).code == 0
    assert '"conv1#1"' in plan.read_text()

    timed = onchip("time", plan, "lenet5", "--accelerator", "hifi4-like", "--json").json

    convolutions = 32 * 26 * 26 * 9 + 32 * 32 * 24 * 24 * 9
    assert timed["macs"] == convolutions + 32 * 12 * 12 * 128 + 128 * 10


@pytest.mark.parametrize("form", ["trace", "c", "csv"])
def test_a_plan_with_moves_is_exported(onchip: Program, linked: Path, tmp_path: Path, form: str) -> None:
    target = tmp_path / {"trace": "x.json", "c": "x.h", "csv": "x.csv"}[form]
    more = ("--accelerator", LINKED) if form == "trace" else ()

    assert onchip("export", linked, "--to", form, "-o", target, *more).code == 0


def test_an_accelerator_that_holds_something_twice_is_refused_in_plain_words(onchip: Program, tmp_path: Path) -> None:
    chip = scratchpads(
        tmp_path / "chip.yaml", "  - {name: one, capacity: 1KiB, scratchpad: true, holds: [input, input]}"
    )
    ended = onchip("plan", "lenet5", "--accelerator", chip, "--json")

    assert ended.code == 2
    assert json.loads(ended.out)["error"] == "holds lists 'input' 2 times"
