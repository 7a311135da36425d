"""Figures of memory maps, bars and timelines, and their SVG."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import onchip as oc
from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.model.timeline.activity import PlaceUse, array_waits
from onchip.model.timeline.schedule_timeline import ScheduleTimeline
from onchip.reports.pictures import memory_maps
from onchip.reports.shared.figures import (
    RESIDENCY_PAINTS,
    address_cells,
    energy_bars,
    powers_of_ten,
    stacked_bars,
    ticks,
    trace,
)
from onchip.reports.shared.svg import svg
from onchip.reports.shared.timeline import HEIGHT, PERIODS, TimelineFigure, TimelineSlice, in_periods
from support.diamond import Json
from support.programs import HELD, TWO_SCRATCHPADS
from support.reports import diamond_graph
from support.schedule_outcomes import three_in_tiles
from support.series import in_one_test

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = Path(__file__).parents[2] / "docs" / "figures"


def diamond_plan(capacity_bytes: int, **renamed: str) -> tuple[Plan, Problem]:
    problem = Problem(diamond_graph(**renamed), (Memory("sram", capacity_bytes),))
    plan = plan_problem(problem).answer
    assert plan is not None
    return plan, problem


def rectangles(picture: str, paint: str = "") -> list[tuple[float, float, float, float]]:
    """Return left, top, right and bottom of each rectangle with a hover text, or of those of one colour."""
    found = []
    for group in ET.fromstring(picture).iter(f"{SVG}g"):
        for one in group.findall(f"{SVG}rect") if paint in group.attrib["class"] else ():
            x, y, width, height = (float(one.attrib[name]) for name in ("x", "y", "width", "height"))
            found.append((x, y, x + width, y + height))
    return found


def test_each_residency_is_a_rectangle_and_none_overlap() -> None:
    drawn = rectangles(svg(memory_maps(*diamond_plan(130))))

    assert len(drawn) == 6  # five tensors, and one of them is reloaded
    for a in drawn:
        for b in drawn:
            assert a == b or not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])


def test_heights_are_in_proportion_to_bytes() -> None:
    figure: Any = next(iter(memory_maps(*diamond_plan(130)).values()))
    sizes = sorted(size for one in figure["traces"] if one["type"] == "bar" for size in one["y"])
    heights = sorted(bottom - top + 0.6 for _, top, _, bottom in rectangles(svg({"map": figure})))

    for size, height in zip(sizes, heights, strict=True):
        assert height / heights[-1] == pytest.approx(size / sizes[-1], rel=0.02)


def test_a_moved_tensor_has_its_own_colour_and_a_second_residency_has_not() -> None:
    assert HELD.problem is not None
    assert len(rectangles(svg(memory_maps(HELD.plan, HELD.problem)), "role-moved")) == 1
    assert rectangles(svg(memory_maps(TWO_SCRATCHPADS.plan, TWO_SCRATCHPADS.problem)), "role-moved") == []


def test_each_scratchpad_has_a_map_whose_title_says_what_it_holds() -> None:
    titles = list(memory_maps(HELD.plan, HELD.problem))

    assert titles == [
        "Memory map of weights, 8 bytes, for weight",
        "Memory map of inputs, 12 bytes, for input",
        "Memory map of outputs, 12 bytes, for output",
    ]


def test_only_colours_that_occur_are_in_the_legend_and_in_the_style() -> None:
    tight, roomy = (svg(memory_maps(*diamond_plan(capacity))) for capacity in (130, 1000))

    assert ">reloaded<" in tight
    assert ">reloaded<" not in roomy
    assert "oc-back-activation{" not in roomy
    assert roomy.count("prefers-color-scheme:dark") == 1


def test_names_are_escaped() -> None:
    ET.fromstring(svg(memory_maps(*diamond_plan(1000, s="<&>"))))


def test_bars_of_one_label_stand_upon_each_other() -> None:
    figure = energy_bars(["a", "b"], {"MACs": [1e6, 2e6], "dram": [3e6, 0.0]}, {"MACs": "good", "dram": "accent"})
    picture = svg({"energy": figure})
    macs, dram = rectangles(picture, "oc-good"), rectangles(picture, "oc-accent")

    assert dram[0][3] == pytest.approx(macs[0][1], abs=1)
    assert (macs[1][3] - macs[1][1]) / (macs[0][3] - macs[0][1]) == pytest.approx(2, rel=0.05)
    assert ">2 uJ<" in picture


@pytest.mark.parametrize("mode", ["lines", "markers", "lines+markers"])
@pytest.mark.parametrize("kind", ["linear", "log"])
def test_points_of_any_scale_lie_within_the_picture(mode: str, kind: str) -> None:
    points = trace(mode, "points", [1.0, 10.0, 1000.0], [2.0, 5.0, 400.0], "accent")
    picture = svg({"points": {"traces": [points], "x": {"type": kind, "title": "x"}, "y": {"type": kind}}})
    root = ET.fromstring(picture)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])

    for left, top, right, bottom in rectangles(picture):
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
    for path in root.iter(f"{SVG}path"):
        numbers = [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", path.attrib["d"])]
        assert all(0 <= one <= max(width, height) for one in numbers)


@pytest.mark.parametrize("unit", ["bytes", "pJ", "fJ", "cycles", "steps", ""])
@pytest.mark.parametrize("high", [1, 3, 130, 1024, 3_928_576, 1.7e12])
def test_ticks_are_few_and_evenly_spaced(high: float, unit: str) -> None:
    found: Any = ticks(0, high, unit)
    values = found["tickvals"]

    assert 1 <= len(values) <= 8
    assert all(0 <= value <= high for value in values)
    steps = [after - before for before, after in pairwise(values)]
    assert all(step == pytest.approx(steps[0]) for step in steps)


def test_ticks_have_readable_units() -> None:
    assert ticks(0, 3 * 2**20, "bytes")["ticktext"] == ["0", "512 KiB", "1 MiB", "1.5 MiB", "2 MiB", "2.5 MiB", "3 MiB"]
    assert ticks(0, 4e8, "pJ")["ticktext"] == ["0", "100 uJ", "200 uJ", "300 uJ", "400 uJ"]
    assert ticks(0, 4e6, "cycles")["ticktext"][1] == "1 Mcycles"  # type: ignore[index]  # a list
    assert powers_of_ten(1000, "elements")["tickvals"] == [1, 10, 100, 1000]


def test_parts_that_are_zero_everywhere_are_left_out() -> None:
    figure: Any = stacked_bars(["a"], {"loads": [5], "stores": [0]}, {"loads": "good", "stores": "fair"}, "bytes")

    assert [one["name"] for one in figure["traces"]] == ["loads"]
    assert figure["traces"][0]["customdata"] == ["5 bytes"]


def test_notebooks_show_a_table_and_pictures() -> None:
    found = oc.plan("lenet5", oc.Memory("sram", "1MiB"), time_limit=5)
    packed = oc.pack([oc.Buffer(0, 3, 40), oc.Buffer(1, 4, 60)])
    tight = oc.plan("lenet5", oc.Memory("sram", "8KiB"), options=oc.PlanOptions(tiles=oc.TilesOption.NEVER))

    for shown in (found, packed):
        html = shown._repr_html_()
        assert "<td>OPTIMAL</td>" in html
        ET.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])
    assert "INFEASIBLE" in tight._repr_html_()
    assert "<svg" not in tight._repr_html_()


def test_the_pictures_of_the_documentation_are_small_and_have_two_themes() -> None:
    pictures = [one for one in sorted(FIGURES.glob("*.svg")) if "oc-surface" in one.read_text()]

    assert len(pictures) >= 12
    for one in pictures:
        text = one.read_text()
        ET.fromstring(text)
        assert len(text) < 200_000, one
        assert "prefers-color-scheme:dark" in text


def random_slices(seed: int, total_cycles: int) -> list[TimelineSlice]:
    """Return two lanes of consecutive slices, some with no length."""
    random, found = Random(seed), list[TimelineSlice]()
    for lane in ("array", "DMA 0"):
        at = random.randint(0, 5)
        while at < total_cycles:
            stop = min(at + random.choice((0, 1, 2, 50, 700)), total_cycles)
            found.append(TimelineSlice(lane, random.choice(("load", "move")), at, stop, "x"))
            at = stop + random.choice((0, 0, 1, 30))
            if stop == at and random.random() < 0.05:
                at += 1
    return found


def figure_of(timeline: ScheduleTimeline, memories: Sequence[Memory] = ()) -> TimelineFigure:
    return TimelineFigure(timeline.activities, timeline.places, memories, 1, lambda _: "activation")


def test_every_compute_copy_turn_at_dram_and_wait_is_drawn_from_its_start_to_its_stop() -> None:
    outcome = three_in_tiles()
    assert outcome.figures is not None
    timeline = outcome.figures.timeline
    figure: Json = figure_of(timeline).figure()
    drawn = Counter(
        (lane, start, start + cycles)
        for trace in figure["traces"]
        for lane, start, cycles in zip(trace["y"], trace["base"], trace["x"], strict=True)
    )
    expected = Counter(("array" if one.queue is None else "DMA 0", one.start, one.stop) for one in timeline.activities)
    expected.update(("DRAM", one.start, one.start + one.dram_cycles) for one in timeline.activities if one.dram_cycles)
    expected.update(("array", one.start, one.stop) for one in array_waits(timeline.activities))
    assert drawn == expected
    assert figure["x"] == [0, timeline.latency_cycles]
    assert {one.kind for one in figure_of(timeline).slices()} >= {"compute", "load", "DRAM transfer", "preload"}


def test_the_array_computes_or_waits_in_every_cycle() -> None:
    outcome = three_in_tiles()
    assert outcome.figures is not None
    timeline = outcome.figures.timeline
    on_array = sorted((one.start, one.stop) for one in figure_of(timeline).slices() if one.lane == "array")
    busy = [one for one in on_array if one[0] < one[1]]
    assert busy[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(busy))
    assert busy[-1][1] == timeline.latency_cycles


def test_each_residency_is_a_rectangle_over_the_cycles_of_its_use() -> None:
    outcome = three_in_tiles()
    assert outcome.figures is not None
    timeline = outcome.figures.timeline
    memories = [level.memory for level in outcome.accelerator.addressed]
    figure: Json = figure_of(timeline, memories).figure()
    axes = {f"y{number}": row["name"] for number, row in enumerate(figure["memories"], start=2)}
    drawn = Counter(
        (axes[trace["yaxis"]], start, start + cycles, middle - width / 2, middle + width / 2)
        for trace in figure["traces"]
        if trace.get("yaxis")
        for start, cycles, middle, width in zip(trace["base"], trace["x"], trace["y"], trace["width"], strict=True)
    )
    expected = Counter(
        (one.memory, one.start, one.stop, one.offset_bytes, one.offset_bytes + one.size_bytes)
        for one in timeline.places
        if one.stop is not None
    )
    assert drawn == expected


@pytest.mark.parametrize("seed", range(10))
def test_cells_of_too_many_residencies_are_of_what_takes_most(seed: int) -> None:
    random = Random(seed)
    uses: dict[str, list[PlaceUse]] = {"input": [], "output": []}
    for address in range(0, 30, 3):
        cycle = 0
        while cycle < 90:
            stop = min(cycle + random.randint(1, 20), 90)
            one = PlaceUse(0, "t", "m", address, random.randint(1, 3), cycle, stop)
            uses[random.choice(["input", "output"])].append(one)
            cycle = stop + random.choice([0, 0, 7])
    boxes = [
        (kind, one.start, one.stop or 0, one.offset_bytes, one.offset_bytes + one.size_bytes)
        for kind, ones in uses.items()
        for one in ones
    ]
    cells: Json = address_cells(boxes, (90, 30), RESIDENCY_PAINTS)
    kinds = list(RESIDENCY_PAINTS)
    for address in range(30):
        for cycle in range(90):
            there = {
                kinds.index(kind)
                for kind, ones in uses.items()
                for one in ones
                if one.start <= cycle < (one.stop or 0) and 0 <= address - one.offset_bytes < one.size_bytes
            }
            found = cells["z"][address][cycle]
            assert ({found} if found is not None else set()) == there


@in_one_test("seed", range(20))
def test_periods_have_as_many_busy_cycles_as_the_slices_cycle_by_cycle(seed: int) -> None:
    total_cycles = Random(seed).choice((3, 499, 500, 1234))
    slices = random_slices(seed, total_cycles)
    periods = list(in_periods(slices, total_cycles))
    busy = Counter((one.lane, one.kind, cycle) for one in slices for cycle in range(one.start, one.stop))
    expected: Counter[tuple[str, str, int, int]] = Counter()
    count = min(PERIODS, total_cycles)
    edges = [total_cycles * number // count for number in range(count + 1)]
    for start, stop in pairwise(edges):
        for (lane, kind, cycle), times in busy.items():
            if start <= cycle < stop:
                expected[lane, kind, start, stop] += times
    found = {(one.lane, one.kind, one.start, one.stop): one.height / HEIGHT * one.cycles for one in periods}
    assert {key: cycles for key, cycles in found.items() if cycles} == pytest.approx(dict(expected))


@in_one_test("seed", range(20))
def test_kinds_of_one_period_stand_upon_each_other_within_their_lane(seed: int) -> None:
    levels: dict[tuple[str, int], float] = {}
    for one in in_periods(random_slices(seed, 5000), 5000):
        assert one.bottom == pytest.approx(levels.get((one.lane, one.start), 0.0))
        levels[one.lane, one.start] = one.bottom + one.height
    assert all(level <= HEIGHT * (1 + 1e-9) for level in levels.values())
