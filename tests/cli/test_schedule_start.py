"""`schedule --start` reads an earlier schedule of the network, and refuses other files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.schedule import Schedule
from onchip.api.schedule import ScheduleRequest, read_schedule_question
from onchip.formats.own.accelerator_yaml import accelerator_to_yaml
from onchip.formats.own.graph_json import write_graph
from onchip.formats.own.schedule_json import read_schedule
from support.diamond import Program
from support.small_schedules import skip_chip, skip_network


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return the paths of the network, the machine, and the schedule to write."""
    network, chip = tmp_path / "skip.json", tmp_path / "chip.yaml"
    write_graph(skip_network(), network)
    chip.write_text(accelerator_to_yaml(skip_chip(40, 400)))
    return network, chip, tmp_path / "first.json"


@pytest.fixture
def start(onchip: Program, files: tuple[Path, Path, Path]) -> Path:
    network, chip, answer = files
    ended = onchip("schedule", network, "--accelerator", chip, "--groups", "layers", "--no-cache", "-o", answer)
    assert ended.code == 0
    return answer


def options_start(network: Path, chip: Path, start: Path) -> Schedule | None:
    return read_schedule_question(
        ScheduleRequest(str(network), str(chip), reading=Reading(bits=8), start_file=start)
    ).options.start


def test_the_start_is_handed_to_the_search_also_of_another_machine(files: tuple[Path, Path, Path], start: Path) -> None:
    network, chip, _ = files
    known = read_schedule(start).answer
    assert options_start(network, chip, start) == known
    chip.write_text(accelerator_to_yaml(skip_chip(30, 600)))
    assert options_start(network, chip, start) == known
    assert options_start(network, Path("simba"), start) == known


@pytest.mark.slow
def test_a_start_changes_neither_space_nor_bound(
    onchip: Program, files: tuple[Path, Path, Path], start: Path, tmp_path: Path
) -> None:
    network, chip, _ = files
    asked = ("schedule", network, "--accelerator", chip, "--groups", "layers", "--no-cache", "--json")
    found = [onchip(*asked, *more).json for more in ((), ("--start", start, "-o", tmp_path / "second.json"))]
    for name in ("lower_bound", "space"):
        assert found[0][name] == found[1][name]
    assert onchip("check", tmp_path / "second.json", network).code == 0


def test_a_start_of_another_network_or_of_an_illegal_schedule_is_refused(
    onchip: Program, files: tuple[Path, Path, Path], start: Path, tmp_path: Path
) -> None:
    network, chip, _ = files
    other = tmp_path / "other.json"
    write_graph(skip_network(6, 4), other)
    asked = ("--accelerator", chip, "--groups", "layers", "--start", start)
    ended = onchip("schedule", other, *asked)
    assert ended.code == 2
    assert "first.json" in ended.err
    assert "network-differs" in ended.err
    read_otherwise = onchip("schedule", network, *asked, "--bits", "16")
    assert read_otherwise.code == 2
    assert "first.json: graph: " in read_otherwise.err
    fields = json.loads(start.read_text())
    fields["instructions"] = fields["instructions"][1:]
    start.write_text(json.dumps(fields))
    illegal = onchip("schedule", network, *asked)
    assert illegal.code == 2
    assert "violations, the first" in illegal.err


def test_the_start_is_not_overwritten(onchip: Program, files: tuple[Path, Path, Path], start: Path) -> None:
    network, chip, _ = files
    before = start.read_text()
    ended = onchip("schedule", network, "--accelerator", chip, "--start", start, "-o", start)
    assert ended.code == 2
    assert start.read_text() == before


@pytest.mark.parametrize("text", ["", "{}", '{"format": "onchip-plan", "version": 1}'])
def test_what_is_no_schedule_is_no_start(onchip: Program, files: tuple[Path, Path, Path], text: str) -> None:
    network, chip, answer = files
    answer.write_text(text)
    ended = onchip("schedule", network, "--accelerator", chip, "--start", answer)
    assert ended.code == 2
    assert "first.json" in ended.err
