from __future__ import annotations

from pathlib import Path

from support.diamond import Program
from support.reports import facts_of


def test_a_report_is_written_beside_the_answer_and_says_what_json_says(
    onchip: Program, network: Path, chip: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    asked = ("schedule", network, "--accelerator", chip, "--groups", "layers", "--placements", "dram", "--no-cache")
    ended = onchip(*asked, "--report", page, "--json")

    assert ended.code == 0
    assert facts_of(page.read_text())["answer"] == ended.json
    assert f"--report {page}" in page.read_text()


def test_a_report_that_cannot_be_written_is_found_out_before_anything_is_solved(
    onchip: Program, network: Path, chip: Path, tmp_path: Path
) -> None:
    ended = onchip("schedule", network, "--accelerator", chip, "--report", tmp_path / "nowhere" / "page.html")

    assert ended.code == 2
    assert ended.out == ""
    assert "nowhere" in ended.err
