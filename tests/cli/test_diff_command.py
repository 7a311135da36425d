"""`onchip diff`, and `onchip check --against`: exit codes for continuous integration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onchip.formats.files import SQLITE
from onchip.reports.explain.difference import AnswerDifference, difference_lines
from support.diamond import Program
from support.fused_files import CHIP
from support.series import series


@pytest.fixture
def roomy(onchip: Program, diamond: Path, tmp_path: Path) -> Path:
    path = tmp_path / "roomy.json"
    assert onchip("plan", diamond, "--sram", "200", "-o", path).code == 0
    return path


def test_an_answer_equals_itself(onchip: Program, planned: Path, diamond: Path) -> None:
    for network in ([], [diamond]):
        ended = onchip("diff", planned, planned, *network, "--json")
        assert (ended.code, ended.json["equal"], ended.json["tensors"]) == (0, True, [])


def test_what_differs_is_said_with_its_cause(onchip: Program, planned: Path, roomy: Path, diamond: Path) -> None:
    ended = onchip("diff", roomy, planned, diamond, "--json")

    figures = {one["name"]: (one["before"], one["after"], one["change"]) for one in ended.json["figures"]}
    assert ended.code == 1
    assert figures["traffic_bytes"] == (70, 170, 100)
    assert figures["non_compulsory_bytes"] == (0, 100, 100)
    spilled = [one for one in ended.json["tensors"] if one["what"] == "now moves to DRAM and back"]
    assert [one["tensor"] for one in spilled] in (["l"], ["r"])
    assert "stays with 160 bytes" in spilled[0]["why"]
    text = onchip("diff", roomy, planned, diamond).out
    assert "now moves to DRAM and back" in text
    assert "+142.86 %" in text


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("traffic > 1 %", 1),
        ("traffic > 150 %", 0),
        ("traffic > 100", 0),
        ("traffic >= 100", 1),
        ("traffic > 99B", 1),
        ("arena > 0", 0),
        ("any > 0 %", 1),
        ("objective > 50 %", 1),
    ],
)
def test_only_what_grows_too_much_fails(
    onchip: Program, planned: Path, roomy: Path, diamond: Path, condition: str, code: int
) -> None:
    ended = onchip("diff", roomy, planned, diamond, "--fail-if", condition)
    assert ended.code == code
    assert (condition in ended.err) is bool(code)


def test_a_baseline_is_held_against_what_is_checked(onchip: Program, planned: Path, roomy: Path, diamond: Path) -> None:
    assert onchip("check", planned, diamond, "--against", planned).code == 0
    worse = onchip("check", planned, diamond, "--against", roomy, "--fail-if", "traffic > 1 %")
    assert worse.code == 1
    assert "objective_value: 0 in the baseline, 100 now" in worse.err
    assert onchip("check", roomy, diamond, "--against", planned, "--fail-if", "traffic > 1 %").code == 0
    assert onchip("check", roomy, diamond, "--against", planned).code == 1


@pytest.mark.slow
def test_two_stores_are_compared_point_by_point(onchip: Program, diamond: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    onchip("sweep", diamond, "--sram", "130B,140B,160B", "--store", first)
    onchip("sweep", diamond, "--sram", "140B,160B,170B", "--store", second)

    assert onchip("diff", first, first).code == 0
    found = onchip("diff", first, second, "--json").json
    differing = [one["name"].rpartition("=")[2] for one in found["figures"] if one["before"] != one["after"]]
    assert differing == ["130", "170"]


@pytest.mark.parametrize("verb", series(["map", "schedule", "fuse"], 1))
def test_mappings_stand_side_by_side(onchip: Program, network: Path, chip: Path, tmp_path: Path, verb: str) -> None:
    suffix = "yaml" if verb == "map" else "json"
    files = [tmp_path / f"{objective}.{suffix}" for objective in ("energy", "latency")]
    for file in files:
        asked = (verb, network, "--accelerator", chip, "--objective", file.stem, "--time-limit", "3", "-o", file)
        assert onchip(*asked).code == 0

    assert onchip("diff", files[0], files[0]).code == 0
    found = onchip("diff", *files, "--json")
    assert found.code == 1
    assert found.json["mappings"]
    assert all(one["before"] != one["after"] for one in found.json["mappings"])


def test_the_page_has_both_maps(onchip: Program, planned: Path, roomy: Path, diamond: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    onchip("diff", roomy, planned, diamond, "--report", page)

    text = page.read_text()
    start = text.index('id="facts">') + len('id="facts">')
    figures = json.loads(text[start : text.index("</script>", start)])["figures"]
    assert list(figures) == ["map-0"]
    bars = [trace for trace in figures["map-0"]["traces"] if trace["type"] == "bar"]
    assert {trace["name"].partition(",")[0] for trace in bars} == {"first", "second"}


@pytest.mark.slow
def test_bad_input_of_diff_is_one_line(onchip: Program, planned: Path, diamond: Path, tmp_path: Path) -> None:
    store = tmp_path / "points.db"
    onchip("sweep", diamond, "--sram", "200B", "--store", store)
    for words, said in (
        ((planned, tmp_path / "nowhere.json"), "nowhere.json does not exist"),
        ((planned, store), "two answers of one kind"),
        ((planned, planned, "--fail-if", "traffic"), "--fail-if"),
        ((planned, planned, "--fail-if", "beauty > 1"), "neither has a figure 'beauty'"),
        ((planned, planned, "lenet5"), "lenet5"),
    ):
        ended = onchip("diff", *words)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), words
        assert said in ended.err or said == "lenet5"
    assert onchip("check", planned, diamond, "--fail-if", "traffic > 1").code == 2


def test_kinds_that_differ_are_named_in_words(onchip: Program, planned: Path, chip: Path, tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.yaml"
    assert onchip("map", "gemm:m2n2k2", "--accelerator", chip, "-o", mapping).code == 0
    ended = onchip("diff", planned, mapping)
    assert (ended.code, f"{mapping}: the file is a mapping, and {planned} is a plan" in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("chip.yaml", CHIP, 'format is "onchip-accelerator"'),
        ("empty.yaml", "", "line 1 is empty"),
        ("points.db", SQLITE.decode(), "expected a store"),
    ],
)
def test_what_is_no_answer_is_not_taken_for_one_of_another_kind(
    onchip: Program, planned: Path, tmp_path: Path, name: str, content: str, said: str
) -> None:
    other = tmp_path / name
    other.write_text(content)
    for files in ((planned, other), (other, planned)):
        ended = onchip("diff", *files)
        assert (ended.code, ended.err.count("\n"), said in ended.err) == (2, 1, True), ended.err
        assert ended.err.startswith(f"onchip: {other}")


def test_a_network_in_tiles_is_the_same_read_in_another_way(onchip: Program, tmp_path: Path) -> None:
    whole, split, other = (tmp_path / f"{name}.json" for name in ("whole", "split", "other"))
    for path, words in (
        (whole, ("lenet5", "--sram", "80128")),
        (split, ("lenet5", "--sram", "64KiB", "--tiles", "auto")),
        (other, ("minerva", "--sram", "1MiB")),
    ):
        assert onchip("plan", *words, "-o", path).code == 0
    assert onchip("diff", whole, split, "--json").json["notes"] == ["their network is read in different ways: tiles"]
    assert onchip("diff", whole, other, "--json").json["notes"] == ["they are of different networks"]


def test_two_strategies_are_spelled_as_they_are() -> None:
    nothing = AnswerDifference("strategy", "a", "b", (), None, (), ())
    assert [str(line) for line in difference_lines(nothing)] == ["the two strategies are equal"]
