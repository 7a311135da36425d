from __future__ import annotations

import builtins
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from onchip.answer.program import Allocate
from onchip.answer.result import Status
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Dma
from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.timeline.activity import Activity
from onchip.model.timeline.plan_timeline import Energy, Timeline
from onchip.reports.program.html import most_expensive, report_html
from onchip.reports.program.outcome import BaselinePlan, Findings, findings_rows
from support.diamond import Json
from support.reports import diamond_graph, facts_of, findings_of, findings_of_outcome, in_two_scratchpads
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
