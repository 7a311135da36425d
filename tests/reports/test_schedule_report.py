from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from onchip.answer.program import Allocate
from onchip.answer.schedule import WORKSPACE
from onchip.errors import InternalError
from onchip.reports.mapping.outcome import loop_nest
from onchip.reports.schedule.explanation import figures_of_operators, mapped_nests
from onchip.reports.schedule.html import DrawnSchedule, schedule_html
from onchip.reports.schedule.outcome import ScheduleOutcome, schedule_object
from onchip.reports.shared import figures as charts
from onchip.reports.shared.figures import RESIDENCY_PAINTS
from onchip.reports.shared.words import PART_WORDS
from support.diamond import Json
from support.reports import facts_of
from support.schedule_outcomes import history_of, long_outcome, three_in_tiles, three_streamed

MOST_BYTES = 8_000_000
TYPED = "onchip schedule <three> --accelerator chip"
STACKED = ("stacks-by-memory", "stacks-by-cause")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scheduled")


@pytest.fixture(scope="module", params=[three_in_tiles, three_streamed], ids=["in tiles", "streamed"])
def outcome(request: pytest.FixtureRequest) -> ScheduleOutcome:
    found = request.param()
    assert isinstance(found, ScheduleOutcome)
    return found


@pytest.fixture(scope="module")
def page(outcome: ScheduleOutcome) -> str:
    return schedule_html(outcome, TYPED)


@pytest.fixture(scope="module")
def figures(page: str) -> Json:
    found = facts_of(page)["figures"]
    assert isinstance(found, dict)
    return found


def heights(figure: Json) -> dict[str, dict[str, float]]:
    """Map each part to the height of each bar."""
    return {trace["name"]: dict(zip(trace["x"], trace["y"], strict=True)) for trace in figure["traces"]}


def total(figure: Json) -> float:
    return float(sum(sum(part.values()) for part in heights(figure).values()))


def rectangles(outcome: ScheduleOutcome, memory: str) -> list[tuple[str, range, range]]:
    """Return kind of residency, steps and addresses, as the history has them."""
    history = history_of(outcome)
    return [
        (history.role(one.tensor), range(one.start_step, one.stop_step), range(one.offset_bytes, one.end_bytes))
        for one in history.residencies
        if one.memory == memory
    ]


def test_the_page_holds_what_json_says(outcome: ScheduleOutcome, page: str) -> None:
    assert facts_of(page)["answer"] == json.loads(json.dumps(schedule_object(outcome)))


def test_bars_of_energy_are_those_of_json_by_memory_and_cause(outcome: ScheduleOutcome, figures: Json) -> None:
    energies: Any = schedule_object(outcome)["energies"]
    bars = heights(figures["energy-plot"])

    assert bars["MACs"]["MACs"] == pytest.approx(energies["macs"])
    for memory, operands in energies["computes"].items():
        for operand, energy_pj in operands.items():
            assert bars.get(operand, {}).get(memory, 0.0) == pytest.approx(energy_pj)
    for memory, energy_pj in energies["copies"].items():
        assert bars["copies"][memory] == pytest.approx(energy_pj)


def test_bars_of_stacks_add_up_to_the_schedule(outcome: ScheduleOutcome, figures: Json) -> None:
    found: Any = schedule_object(outcome)

    for name in ("energy-plot", *STACKED):
        assert total(figures[name]) == pytest.approx(found["energy_pj"])
    assert total(figures["cycles-plot"]) == found["latency_cycles"]
    assert total(figures["traffic-of-stacks"]) == found["traffic"]["total"]
    by_part = {part: sum(bars.values()) for part, bars in heights(figures["traffic-of-stacks"]).items()}
    names = {"loads": "loads", "write_backs": "write-backs", "streamed_reads": "streamed in"}
    for field, part in (names | {"streamed_writes": "streamed out"}).items():
        assert by_part.get(part, 0) == found["traffic"][field]
    waits = {part: sum(bars.values()) for part, bars in heights(figures["cycles-plot"]).items()}
    parts = found["latency_parts"]
    assert {name: waits.get(words, 0) for name, words in PART_WORDS.items()} == parts


def test_the_summary_has_every_figure_of_json_exactly(outcome: ScheduleOutcome, page: str) -> None:
    found: Any = schedule_object(outcome)
    said = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))

    for name in ("objective_value", "lower_bound", "energy_pj", "latency_cycles", "macs", "tile_operators"):
        assert float(said[name.replace("_", " ")].replace(",", "")) == found[name]
    for group in ("traffic", "latency_parts", "peak_bytes", "arena_bytes"):
        for name, value in found[group].items():
            assert said[f"{group} {name}".replace("_", " ")] == f"{value:,}"
    assert said["status"] == found["status"]


def test_every_residency_is_one_rectangle_and_workspaces_are_among_them(outcome: ScheduleOutcome, page: str) -> None:
    facts = facts_of(page)
    drawn: Counter[tuple[str, str, int, int]] = Counter()
    for number, memory in enumerate(facts["memories"]):
        for trace in facts["figures"].get(f"map-{number}", {"traces": []})["traces"]:
            if trace["type"] == "bar":
                for base, height, index in zip(trace["base"], trace["y"], trace["customdata"], strict=True):
                    tensor = facts["tensors"][facts["residencies"][index][0]]
                    drawn[tensor["name"], memory, base, height] += 1
    assert outcome.document is not None
    allocated = [one for one in outcome.document.answer.program.instructions if isinstance(one, Allocate)]
    history = history_of(outcome)
    assert drawn == Counter(
        (one.tensor, one.memory, one.offset_bytes, history.size_bytes(one.tensor, one.memory)) for one in allocated
    )
    assert any(one.tensor.endswith(WORKSPACE) for one in allocated)


def test_rectangles_of_one_memory_share_no_byte_in_any_step(outcome: ScheduleOutcome) -> None:
    for level in outcome.accelerator.addressed:
        taken: set[tuple[int, int]] = set()
        for _, steps, addresses in rectangles(outcome, level.memory.name):
            cells = {(step, address) for step in steps for address in addresses}
            assert not cells & taken
            taken |= cells


def test_footprints_are_the_heights_of_the_rectangles_and_reach_no_more_than_the_peak(outcome: ScheduleOutcome) -> None:
    history, page = history_of(outcome), DrawnSchedule(outcome)
    for level in outcome.accelerator.addressed:
        expected: dict[str, list[int]] = defaultdict(lambda: [0] * history.step_count)
        for kind, steps, addresses in rectangles(outcome, level.memory.name):
            for step in steps:
                expected[kind][step] += len(addresses)
        peak_bytes = page.figures.memories[level.memory.name].peak_bytes
        figure: Any = page.footprint(level.memory)
        areas = {trace["name"]: trace["y"] for trace in figure["traces"] if "stackgroup" in trace}
        assert areas == {kind: [*sizes, sizes[-1]] for kind, sizes in expected.items() if any(sizes)}
        assert max((sum(sizes) for sizes in zip(*areas.values(), strict=True)), default=0) <= peak_bytes


def test_a_coarse_map_shows_in_each_cell_what_takes_most_of_it() -> None:
    outcome = three_in_tiles()
    history, kinds = history_of(outcome), list(RESIDENCY_PAINTS)
    (memory,) = (level.memory for level in outcome.accelerator.addressed if level.memory.name == "buffer")
    drawn = DrawnSchedule(outcome).drawn.map(memory)
    figure: Any = drawn.coarse_figure()
    heat = figure["traces"][0]
    bytes_in: dict[tuple[int, int], Counter[int | None]] = defaultdict(Counter)
    places: dict[tuple[int, int], int] = {}
    exact: Any = drawn.figure()
    for trace in exact["traces"]:
        for x, width, base, height in zip(*(trace.get(name, []) for name in ("x", "width", "base", "y")), strict=False):
            for step in range(round(x - width / 2), round(x + width / 2)):
                places |= {(step, address): kinds.index(trace["name"]) for address in range(base, base + height)}
    for row, (low, high) in enumerate(pairwise(heat["y"])):
        for step in range(history.step_count):
            bytes_in[row, step].update(places.get((step, address)) for address in range(low, high))
    assert heat["x"] == list(range(history.step_count + 1))
    assert len({cell for line in heat["z"] for cell in line}) > 2
    for (row, step), counts in bytes_in.items():
        assert counts[heat["z"][row][step]] == max(counts.values())


@pytest.mark.parametrize("groups", [1, 4, 5])
def test_of_too_many_steps_a_footprint_shows_the_fullest_of_each_group(
    monkeypatch: pytest.MonkeyPatch, groups: int
) -> None:
    outcome = three_in_tiles()
    history, memory = history_of(outcome), outcome.accelerator.addressed[0].memory
    sizes = [sum(each) for each in zip(*history.footprint(memory.name).values(), strict=True)]
    monkeypatch.setattr(charts, "MOST_FOOTPRINT_STEPS", groups)

    figure: Any = DrawnSchedule(outcome).footprint(memory)

    areas = [trace for trace in figure["traces"] if "stackgroup" in trace]
    edges = areas[0]["x"]
    assert edges == [12 * group // groups for group in range(groups + 1)]
    shown = [sum(each) for each in zip(*(area["y"] for area in areas), strict=True)]
    assert shown[:-1] == [max(sizes[start:stop]) for start, stop in pairwise(edges)]
    assert len(set(sizes)) > 2


def test_a_map_has_at_most_ten_traces(figures: Json) -> None:
    assert all(len(figure["traces"]) <= 10 for name, figure in figures.items() if name != "timeline-plot")
    assert len(figures["timeline-plot"]["traces"]) <= 15  # what each engine does, and for each memory the roles


def test_lines_of_the_network_say_which_maps_stay_on_the_chip() -> None:
    def ends(outcome: ScheduleOutcome, name: str) -> set[tuple[float, float]]:
        traces = facts_of(schedule_html(outcome, TYPED))["figures"]["network-plot"]["traces"]
        (lines,) = (trace for trace in traces if trace["name"].startswith(name))
        points = "".join("|" if x is None else f"{x} " for x in lines["x"]).split("|")
        return {(float(one.split()[0]), float(one.split()[-1])) for one in points if one}

    inside = {(0.0, 1.0), (0.0, 2.0), (1.0, 2.0)}
    outside = {(-0.4, 0.0), (2.0, 2.4)}
    assert ends(three_in_tiles(), "feature maps kept") == inside
    assert ends(three_in_tiles(), "feature maps spilled") == outside
    assert ends(three_streamed(), "feature maps kept") == set()
    assert ends(three_streamed(), "feature maps spilled") == inside | outside


def test_each_mapping_of_the_schedule_stands_under_its_operator(outcome: ScheduleOutcome, page: str) -> None:
    assert outcome.document is not None
    shown = [
        (nest.problem.layer, nest.problem.homes, nest.times, loop_nest(nest.problem, nest.mapping))
        for one in figures_of_operators(outcome.network, history_of(outcome))
        for nest in mapped_nests(one, history_of(outcome))
    ]
    mappings = outcome.document.answer.mappings
    assert {(layer, homes) for layer, homes, _, _ in shown} == {(one.layer, one.homes) for one in mappings}
    assert sum(times for _, _, times, _ in shown) == len(history_of(outcome).operators)
    nests = re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)
    assert sorted(nests) == sorted(text for _, _, _, text in shown)


def test_a_mark_of_the_network_opens_the_operator_of_its_name(outcome: ScheduleOutcome, page: str) -> None:
    traces = facts_of(page)["figures"]["network-plot"]["traces"]
    names = [one.name for one in outcome.network.operators]
    for trace in traces:
        for place, opened in zip(trace["x"], trace["meta"].get("opens", []), strict=False):
            assert f'id="{opened}"><summary>{names[place]} (' in page
    assert sorted(one for trace in traces for one in trace["meta"].get("opens", [])) == [
        f"operator-{place}" for place in range(len(names))
    ]


def test_the_page_loads_nothing_and_escapes_what_was_typed(page: str) -> None:
    head = page.split('<script type="application/json"', 1)[0]
    assert "onchip schedule &lt;three&gt;" in head
    assert "src=" not in head
    assert re.findall(r"@import|url\(", head) == []


@pytest.mark.slow
def test_15360_tile_operators_make_a_page_below_8_mb_with_coarse_maps(folder: Path) -> None:
    page = schedule_html(long_outcome(folder, 15_360), TYPED)
    figures = facts_of(page)["figures"]

    assert len(page.encode()) < MOST_BYTES
    assert figures["map-0"]["kind"] == "coarse"
    assert "46,080 residencies are too many" in page
    assert all(len(figure["traces"]) <= 10 for name, figure in figures.items() if name != "timeline-plot")
    assert len(figures["timeline-plot"]["traces"]) <= 15  # what each engine does, and for each memory the roles


def test_an_outcome_without_a_schedule_has_no_page() -> None:
    with pytest.raises(InternalError, match="there is no schedule to draw"):
        schedule_html(replace(three_streamed(), document=None), TYPED)
