"""Pages and pictures of plans, and words of messages."""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import onchip as oc
from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Plan
from onchip.answer.result import Status
from onchip.answer.words import amount, short_amount
from onchip.api.plan import plan_problem
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Dma, Memory
from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.timeline.activity import Activity, PlaceUse, array_waits
from onchip.model.timeline.plan_timeline import Energy, Timeline
from onchip.model.timeline.schedule_timeline import ScheduleTimeline
from onchip.reports.pictures import memory_maps
from onchip.reports.program.html import most_expensive, report_html
from onchip.reports.program.outcome import BaselinePlan, Findings, findings_rows
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
from support.reports import diamond_graph, facts_of, findings_of, findings_of_outcome, in_two_scratchpads
from support.schedule_outcomes import three_in_tiles
from support.series import in_one_test
from support.several import REQUESTS, outcome_of

SECTIONS = ["summary", "memory-map", "traffic", "timeline"]
MOST_BYTES = 8_000_000
FETCHING = {"src", "srcset", "data", "action", "poster"}


class Page(HTMLParser):
    """The elements of a page, and all URLs that it would fetch or follow."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.headings: list[str] = []
        self.links: list[str] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        fields = dict(attributes)
        self._open.append(tag)
        if tag == "section":
            self.sections.append(fields["id"] or "")
        names = FETCHING | ({"href"} if tag in {"link", "a", "use", "image"} else set())
        self.links += [value or "" for name, value in fields.items() if name in names]

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "h2" and data.strip():
            self.headings.append(data)


@pytest.fixture(scope="module")
def spilled() -> Findings:
    return findings_of(diamond_graph(), 130)


def bars(facts: Json, figure: str) -> list[Json]:
    return [trace for trace in facts["figures"].get(figure, {"traces": []})["traces"] if trace["type"] == "bar"]


def test_every_section_is_there_and_nothing_is_fetched_from_anywhere(spilled: Findings) -> None:
    text = report_html(spilled)
    page = Page(text)

    assert page.sections == SECTIONS
    assert page.headings == ["Summary", "Memory map", "Traffic", "Timeline"]
    assert "No timeline" in text
    assert [link for link in page.links if not link.startswith(("#", "data:"))] == []
    assert re.findall(r"@import|url\(", text[: text.index("plotly.js v")].split("</style>")[0]) == []


def test_every_residency_is_one_rectangle_where_the_plan_puts_it(spilled: Findings) -> None:
    facts = facts_of(report_html(spilled))
    drawn = [
        (facts_tensor, base, base + height, x - width / 2, x + width / 2)
        for trace in bars(facts, "map-0")
        for x, width, base, height, index in zip(
            *(trace[name] for name in ("x", "width", "base", "y", "customdata")), strict=True
        )
        for facts_tensor in [facts["tensors"][facts["residencies"][int(index)][0]]["name"]]
    ]
    allocated = [one for one in spilled.document.answer.instructions if isinstance(one, Allocate)]
    size = {tensor.name: tensor.size_bytes for tensor in spilled.problem.graph.tensors}

    assert sorted((tensor, base, end) for tensor, base, end, _, _ in drawn) == sorted(
        (one.tensor, one.offset_bytes, one.offset_bytes + size[one.tensor]) for one in allocated
    )
    for a in drawn:
        for b in drawn:
            shares_bytes_and_steps = a[1] < b[2] and b[1] < a[2] and a[3] < b[4] and b[3] < a[4]
            assert a == b or not shares_bytes_and_steps


def test_what_came_back_has_a_colour_of_its_own_and_its_costs(spilled: Findings) -> None:
    facts = facts_of(report_html(spilled))

    reloaded = [trace for trace in bars(facts, "map-0") if trace["name"] == "reloaded"]
    assert [len(trace["x"]) for trace in reloaded] == [1]
    costs = [tuple(one[-3:]) for one in facts["residencies"] if any(one[-3:])]
    assert sorted(costs) == [(0, 50, 0), (50, 0, 0)]


def test_each_scratchpad_in_use_has_a_map_and_a_footprint(spilled: Findings) -> None:
    figures = facts_of(report_html(in_two_scratchpads(spilled)))["figures"]

    assert set(figures) == {"map-0", "footprint-0", "traffic-plot"}


def test_the_footprint_marks_the_step_that_forces_the_spill_capacity_peak_and_bound(spilled: Findings) -> None:
    traces = facts_of(report_html(spilled))["figures"]["footprint-0"]["traces"]

    (forced,) = (trace for trace in traces if trace["name"] == "forces a spill")
    assert (forced["x"], forced["y"]) == ([2.5], [110])
    levels = {trace["name"].split(" (")[0]: trace["y"][0] for trace in traces if trace["mode"] == "lines"}
    assert levels["capacity"] == 130
    assert levels["peak"] == spilled.figures.peak_bytes
    assert levels["largest working set M_R"] == 130


def test_the_parts_of_the_traffic_add_up(spilled: Findings) -> None:
    parts = {trace["name"]: trace["y"] for trace in bars(facts_of(report_html(spilled)), "traffic-plot")}

    assert parts == {"compulsory": [70], "spilled": [50], "reloaded": [50]}


def test_baselines_stand_beside_the_plan_and_those_without_a_plan_are_named(spilled: Findings) -> None:
    baselines = (BaselinePlan("slow", Status.FEASIBLE, spilled.figures), BaselinePlan("late", Status.UNKNOWN, None))
    text = report_html(replace(spilled, baselines=baselines))

    assert bars(facts_of(text), "traffic-plot")[0]["x"] == ["this plan", "slow"]
    assert "Baseline late found no plan: UNKNOWN" in text


def test_the_most_expensive_tensor_comes_first(spilled: Findings) -> None:
    costs = most_expensive(spilled)

    assert (costs[0].spilled, costs[0].reloaded, costs[0].total) == (50, 50, 100)
    assert sum(cost.total for cost in costs) == spilled.figures.total


def test_the_summary_has_the_claim_the_exact_figures_and_the_command(spilled: Findings) -> None:
    rows, text = dict(findings_rows(spilled)), report_html(spilled)

    assert (rows["status"], rows["claim"].split(";")[0]) == ("OPTIMAL", "by method exact")
    assert rows["lower bound"] == "100 bytes (gap 0.0%)"
    said = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    assert said["traffic bytes total"] == f"{spilled.figures.total:,}"
    assert said["command"] == "onchip report plan.json diamond.json"
    unclaimed = replace(spilled, document=replace(spilled.document, claim=None))
    assert dict(findings_rows(unclaimed))["status"].startswith("unknown")


def test_with_a_timeline_it_has_a_lane_for_the_array_and_for_each_queue(spilled: Findings) -> None:
    activities = (Activity(1, "x", 0, 5, 1, "dram", "sram"), Activity(3, "stem", 5, 9, waited_on=0))
    energy = Energy(1.0, 1.0, 1.0, 1.0, 1.0)
    timed = Timeline(activities, 8, ComputeArray(free=2).macs, Dma(queues=2), energy)
    figure = facts_of(report_html(replace(spilled, timeline=timed)))["figures"]["timeline-plot"]

    assert figure["lanes"] == ["array", "DMA 0", "DMA 1", "DRAM"]
    drawn = {trace["name"]: (trace["y"], trace["base"], trace["x"]) for trace in figure["traces"]}
    assert drawn == {
        "compute": (["array"], [5], [4]),
        "preload": (["array"], [0], [5]),
        "load": (["DMA 1"], [0], [5]),
        "DRAM transfer": (["DRAM"], [0], [5]),
    }


def test_names_cannot_break_out_of_the_page() -> None:
    name = "</script><script>alert(1)</script>&"
    text = report_html(findings_of(diamond_graph(s=name), 1000))

    assert name not in text
    assert name in [tensor["name"] for tensor in facts_of(text)["tensors"]]


def test_a_network_of_1000_operators_makes_a_page_below_8_mb() -> None:
    sizes = [
        Tensor(f"features.block_{index}.a_long_name_as_exporters_give/output", 64, Role.ACTIVATION)
        for index in range(1000)
    ]
    tensors = (Tensor("x", 64, Role.INPUT), *sizes[:-1], replace(sizes[-1], role=Role.OUTPUT))
    operators = tuple(
        Operator(f"operator_{index}", "Conv", (tensors[index].name,), (tensors[index + 1].name,))
        for index in range(1000)
    )
    text = report_html(findings_of(Graph("long", tensors, operators), 128, "belady"))

    assert len(text.encode()) < MOST_BYTES


def test_a_missing_package_is_one_line_that_names_the_extra(spilled: Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_plotly(name: str, *rest: object) -> object:
        if name.startswith("plotly"):
            raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
        return imported(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without_plotly)

    with pytest.raises(UsageError, match=r"plotly is not installed"):
        report_html(spilled)


def test_a_page_of_a_plan_with_moves_says_what_scratchpads_hold_what_links_them_and_what_moved() -> None:
    findings = findings_of_outcome(outcome_of("linked"))
    text = report_html(findings)
    facts, rows = facts_of(text), findings_rows(findings)

    left, right = (value for name, value in rows if name == "scratchpad")
    assert left.startswith("left of 24,576 bytes (aligned to 8")
    assert right == "right of 24,576 bytes (aligned to 16, holds output)"
    said = dict(rows)
    assert said["links"] == "right -> left, left -> right"
    assert said["objective"] == "non-compulsory cost 18,432 bytes"
    assert said["between scratchpads"] == "18,432 bytes"
    assert said["arena"].endswith(": left 23,040, right 18,432")
    assert {trace["name"]: trace["y"] for trace in bars(facts, "traffic-plot")}["moved"] == [18_432]
    (moved,) = (trace for trace in bars(facts, "map-0") if trace["name"] == "moved from another memory")
    (index,) = moved["customdata"]
    assert facts["tensors"][facts["residencies"][index][0]]["name"] == "conv1.relu"
    assert facts["residencies"][index][-1] == 18_432


@pytest.mark.parametrize("name", REQUESTS)
def test_every_residency_of_a_real_plan_is_in_the_map_of_its_scratchpad(name: str) -> None:
    findings = findings_of_outcome(outcome_of(name))
    facts = facts_of(report_html(findings))

    for number, memory in enumerate(findings.problem.memories):
        drawn = sorted(index for trace in bars(facts, f"map-{number}") for index in trace["customdata"])
        assert drawn == [at for at, one in enumerate(findings.history.residencies) if one.memory == memory.name]
    costs = sum(cost for one in facts["residencies"] for cost in one[-3:])
    assert costs == findings.figures.non_compulsory_cost
    assert facts["unit"] == findings.problem.objective.unit


def test_costs_stand_in_the_unit_of_the_objective() -> None:
    rows = dict(findings_rows(findings_of_outcome(outcome_of("linked, least energy"))))

    assert rows["objective"] == "non-compulsory DMA energy 8.06 nJ"
    assert rows["lower bound"].startswith("8.06 nJ ")


def test_static_placement_is_said_with_what_has_a_place_and_what_has_none() -> None:
    rows = dict(findings_rows(findings_of_outcome(outcome_of("static, in tiles"))))

    assert rows["static placement"].endswith("(768 bytes) have none")


def test_detours_are_not_said_to_be_for_want_of_room() -> None:
    text = report_html(findings_of_outcome(outcome_of("roles")))

    assert "Spilled tensors go through DRAM" in text


def test_what_most_tensors_cost_has_moves_beside_traffic() -> None:
    findings = findings_of_outcome(outcome_of("linked"))
    costs = most_expensive(findings)

    assert (costs[0].tensor.name, costs[0].moved, costs[0].beyond_compulsory) == ("conv1.relu", 18_432, 18_432)
    assert sum(cost.total for cost in costs) == findings.figures.total + findings.figures.moved


@pytest.mark.parametrize(
    ("value", "unit", "exact", "short"),
    [
        (1, "bytes", "1 byte", "1 byte"),
        (3_932_160, "bytes", "3,932,160 bytes", "3.75 MiB"),
        (1, "cycles", "1 cycle", "1 cycle"),
        (4_618, "cycles", "4,618 cycles", "4,618 cycles"),
        (12_345_678, "cycles", "12,345,678 cycles", "12.3 Mcycles"),
        (0, "fJ", "0 fJ (0 pJ)", "0 fJ"),
        (1_500, "fJ", "1,500 fJ (1.5 pJ)", "1.5 pJ"),
        (1_000_010, "fJ", "1,000,010 fJ (1,000.01 pJ)", "1 nJ"),
        (123_456_789_000, "fJ", "123,456,789,000 fJ (123,456,789 pJ)", "123 uJ"),
    ],
)
def test_amounts_have_their_unit(value: int, unit: str, exact: str, short: str) -> None:
    assert amount(value, unit) == exact
    assert short_amount(value, unit) == short


# Figures of memory maps, bars and timelines, and their SVG


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
