from __future__ import annotations

from pathlib import Path

import pytest

from support.diamond import Program
from support.reports import facts_of

LAYERS = ("--groups", "layers", "--no-cache")


@pytest.mark.slow
def test_each_point_of_a_front_is_a_schedule_that_check_believes(
    onchip: Program, network: Path, chip: Path, tmp_path: Path
) -> None:
    folder, page = tmp_path / "front", tmp_path / "front.html"
    asked = ("schedule", network, "--accelerator", chip, *LAYERS, "--pareto", "energy,latency")
    ended = onchip(*asked, "-o", folder, "--report", page, "--json")

    assert ended.code == 0
    front = ended.json
    assert front["pareto"] == ["energy", "latency"]
    files = sorted(folder.iterdir())
    assert len(files) == len(front["points"]) >= 1
    for path, point in zip(files, front["points"], strict=True):
        checked = onchip("check", path, network, "--json")
        assert checked.code == 0
        recomputed = checked.json["recomputed"]
        assert recomputed["energy_pj"] * 1000 == pytest.approx(point["energy"])
        assert recomputed["latency_cycles"] == point["latency"] == point["schedule"]["latency_cycles"]
        bounds = front["lower_bounds"]
        least = min(1 - bounds[axis] / point[axis] for axis in ("energy", "latency"))
        assert point["gap"] == pytest.approx(least)
    (shown, *_) = facts_of(page.read_text())["figures"]["front-0"]["traces"]
    assert [*zip(shown["x"], shown["y"], strict=True)] == [(one["energy"], one["latency"]) for one in front["points"]]


@pytest.mark.slow
def test_a_front_is_shown_as_a_table(onchip: Program, network: Path, chip: Path) -> None:
    asked = ("schedule", network, "--accelerator", chip, *LAYERS, "--pareto", "traffic,peak", "--points", "2")
    ended = onchip(*asked)

    assert ended.code == 0
    assert "traffic, bytes" in ended.out
    assert "lower bounds: traffic" in ended.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pareto", "energy"), "two axes or more"),
        (("--pareto", "energy,energy"), "two axes or more"),
        (("--pareto", "energy,area"), "energy, latency, traffic, peak"),
        (("--pareto", "energy,latency,peak", "--points", "2"), "at least 3"),
        (("--pareto", "energy,latency", "--objective", "edp"), "--objective: "),
        (("--points", "3"), "--points: "),
    ],
)
def test_axes_that_are_none_are_refused_in_a_line(
    options: tuple[str, ...], said: str, onchip: Program, network: Path, chip: Path
) -> None:
    ended = onchip("schedule", network, "--accelerator", chip, *options)

    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_file_is_no_folder_for_a_front(onchip: Program, network: Path, chip: Path, tmp_path: Path) -> None:
    place = tmp_path / "front"
    place.write_text("kept")
    ended = onchip("schedule", network, "--accelerator", chip, "--pareto", "energy,latency", "-o", place)

    assert (ended.code, place.read_text()) == (2, "kept")
    assert "is a file" in ended.err


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no folder that nobody can write into")
@pytest.mark.parametrize("place", ["/proc/front", "/proc/self"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(
    onchip: Program, network: Path, chip: Path, place: str
) -> None:
    ended = onchip("schedule", network, "--accelerator", chip, "--pareto", "energy,latency", "-o", place)

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"onchip: {place} cannot be written (")
