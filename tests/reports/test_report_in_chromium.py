"""Pages of plans, fronts, differences and schedules in a browser."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onchip.answer.result import Stop
from onchip.api.run import timeline_of
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.reports.program.html import report_html
from onchip.reports.schedule.html import schedule_html
from onchip.reports.schedule.outcome import FrontOutcome, ShownPoint, front_html
from onchip.scheduling.search.front import FrontAxis
from support.browser import logged, needs_chromium, no_error, open_page, script, time_range, wait_for
from support.diamond import Program, diamond_fields
from support.reports import diamond_graph, facts_of, findings_of, findings_of_outcome, in_two_scratchpads
from support.schedule_outcomes import long_outcome, three_in_tiles
from support.several import LINKED, outcome_of
from support.small_schedules import outcome

# The page in a real browser: it opens at once, hovers, zooms, follows tensors, and loads nothing


if TYPE_CHECKING:
    from selenium.webdriver import Chrome

ACCELERATOR_OF = {"roles": "nvdla-like", "linked": LINKED}

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pages")
    spilled = findings_of(diamond_graph(), 130)
    (directory / "diamond.html").write_text(report_html(spilled))
    for name in ("roles", "linked"):
        outcome = outcome_of(name)
        assert outcome.document is not None
        timed = timeline_of(outcome.problem, outcome.document.answer, load_accelerator(ACCELERATOR_OF[name]))
        page = report_html(replace(findings_of_outcome(outcome), timeline=timed))
        (directory / f"{name}.html").write_text(page)
    (directory / "two.html").write_text(report_html(in_two_scratchpads(spilled)))
    (directory / "hostile.html").write_text(report_html(findings_of(diamond_graph(s="</script><b>s&amp;"), 130)))
    return directory


def long_graph(count: int) -> Graph:
    """Return a chain of `count` operators."""
    names = [f"features.block_{index}.output" for index in range(count)]
    tensors = (Tensor("x", 64, Role.INPUT), *(Tensor(name, 64, Role.ACTIVATION) for name in names))
    tensors = (*tensors[:-1], replace(tensors[-1], role=Role.OUTPUT))
    edges = zip(("x", *names), names, strict=False)
    operators = (Operator(f"conv_{index}", "Conv", (read,), (written,)) for index, (read, written) in enumerate(edges))
    return Graph("long", tensors, tuple(operators))


def press(browser: Chrome, plot: str, *keys: str) -> None:
    from selenium.webdriver.common.by import By

    browser.find_element(By.ID, plot).send_keys(*keys)


def point_at(browser: Chrome, name: str) -> tuple[Any, tuple[int, int]]:
    """Return the mouse position of the middle of a trace's first rectangle in the memory map."""
    from selenium.webdriver.common.by import By

    plot = browser.find_element(By.ID, "map-0")
    script(browser, "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", plot)
    x, y = script(
        browser,
        """const [plot, name] = arguments, trace = plot.data.find((one) => one.name === name);
        const {xaxis, yaxis} = plot._fullLayout, box = plot.getBoundingClientRect();
        const across = xaxis._offset + xaxis.d2p(trace.x[0]);
        const down = yaxis._offset + yaxis.d2p(trace.base[0] + trace.y[0] / 2);
        return [across - box.width / 2, down - box.height / 2];""",
        plot,
        name,
    )
    return plot, (round(x), round(y))


def test_every_section_is_seen_and_every_figure_drawn(browser: Chrome, pages: Path) -> None:
    open_page(browser, pages / "diamond.html")

    seen = script(browser, "return [...document.querySelectorAll('section')].map((s) => [s.id, s.offsetHeight > 60])")
    assert seen == [[name, True] for name in ("summary", "memory-map", "traffic", "timeline")]
    assert script(browser, "return document.querySelectorAll('.js-plotly-plot .main-svg').length > 0")
    assert script(browser, "return document.querySelectorAll('#map-0 .barlayer .point path').length") == 6
    assert no_error(browser)


def test_nothing_but_the_page_is_loaded(browser: Chrome, pages: Path) -> None:
    open_page(browser, pages / "diamond.html")

    messages = [json.loads(line["message"])["message"] for line in logged(browser, "performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [(pages / "diamond.html").as_uri()]


def test_hovering_tells_tensor_shape_bytes_maker_readers_and_costs(browser: Chrome, pages: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    open_page(browser, pages / "diamond.html")
    plot, (x, y) = point_at(browser, "reloaded")
    ActionChains(browser).move_to_element_with_offset(plot, x, y).perform()

    text = wait_for(browser, "document.querySelector('#map-0 .hoverlayer')?.textContent")
    for words in (
        "(activation)",
        "1\u00d750, 50 bytes",
        "made by: ",
        "read by: join · Conv",
        "reloaded",
        "reload: cost 50",
    ):
        assert words in text
    assert no_error(browser)


def test_a_click_shows_the_tensor_s_other_residencies_and_escape_ends_it(browser: Chrome, pages: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    open_page(browser, pages / "diamond.html")
    plot, (x, y) = point_at(browser, "reloaded")
    ActionChains(browser).move_to_element_with_offset(plot, x, y).pause(0.3).click().perform()

    wait_for(browser, "document.getElementById('map-0-detail').textContent.includes('2 residencies')")
    chosen = "return document.getElementById('map-0').data.map((trace) => (trace.selectedpoints || []).length)"
    assert sum(script(browser, chosen)) == 2
    press(browser, "map-0", Keys.ESCAPE)
    wait_for(browser, "document.getElementById('map-0-detail').textContent.startsWith('Hover')")
    assert no_error(browser)


def test_dragging_zooms_the_map_and_the_footprint_with_it(browser: Chrome, pages: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    open_page(browser, pages / "diamond.html")
    plot = browser.find_element(By.ID, "map-0")
    script(browser, "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", plot)
    drag = ActionChains(browser).move_to_element_with_offset(plot, -200, -60).click_and_hold()
    drag.move_by_offset(150, 60).move_by_offset(150, 60).release().perform()

    wait_for(browser, "document.getElementById('footprint-0').layout.xaxis.range[0] > 0.5")
    low, high = time_range(browser, "map-0")
    assert 0.5 < low < high < 3.5
    assert time_range(browser, "footprint-0") == [low, high]
    script(browser, "document.querySelector('[data-view=map-0][data-action=reset]').click()")
    wait_for(browser, "document.getElementById('map-0').layout.xaxis.range[0] === 0")
    assert time_range(browser, "footprint-0") == [0, 4]
    assert no_error(browser)


def test_the_keyboard_zooms_moves_and_steps_through_residencies(browser: Chrome, pages: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, pages / "diamond.html")
    press(browser, "map-0", "+")
    wait_for(browser, "document.getElementById('map-0').layout.xaxis.range[1] < 4")
    low, high = time_range(browser, "map-0")
    press(browser, "map-0", Keys.ARROW_RIGHT)
    wait_for(browser, "document.getElementById('map-0').layout.xaxis.range[0] > arguments[0]", low)
    assert time_range(browser, "map-0")[1] - time_range(browser, "map-0")[0] == pytest.approx(high - low)
    press(browser, "map-0", "0", "n")
    wait_for(browser, "document.getElementById('map-0-detail').textContent.startsWith('x (input)')")
    assert time_range(browser, "map-0") == [0, 4]
    assert no_error(browser)


@pytest.mark.parametrize(("prefers", "other"), [("light", "dark"), ("dark", "light")])
def test_the_theme_is_the_reader_s_and_can_be_switched(browser: Chrome, pages: Path, prefers: str, other: str) -> None:
    open_page(browser, pages / "diamond.html", prefers)
    colour = (
        "return getComputedStyle(document.body).backgroundColor + document.getElementById('map-0').data[0].marker.color"
    )

    before = script(browser, colour)
    assert script(browser, "return document.documentElement.dataset.theme") == prefers
    script(browser, "document.getElementById('theme').click()")
    assert script(browser, "return document.documentElement.dataset.theme") == other
    assert script(browser, colour) != before
    assert no_error(browser)


def test_an_empty_scratchpad_has_no_map(browser: Chrome, pages: Path) -> None:
    open_page(browser, pages / "two.html")

    assert script(browser, "return document.querySelectorAll('[id^=map-].js-plotly-plot').length") == 1
    assert no_error(browser)


@pytest.mark.parametrize(("name", "maps"), [("roles", 2), ("linked", 2)])
def test_each_used_scratchpad_of_a_real_plan_has_a_map_and_a_footprint(
    browser: Chrome, pages: Path, name: str, maps: int
) -> None:
    open_page(browser, pages / f"{name}.html")

    for kind in ("map", "footprint"):
        drawn = f"return document.querySelectorAll('[id^={kind}-].js-plotly-plot').length"
        assert script(browser, drawn) == maps
    assert script(browser, "return document.querySelectorAll('#timeline-plot.js-plotly-plot').length") == 1
    assert no_error(browser)


@pytest.mark.parametrize("name", ["roles", "linked"])
def test_the_timeline_has_one_axis_of_cycles_for_all_lanes_and_scratchpads(
    browser: Chrome, pages: Path, name: str
) -> None:
    open_page(browser, pages / f"{name}.html")
    maps = len(facts_of((pages / f"{name}.html").read_text())["figures"]["timeline-plot"]["memories"])
    assert maps > 1
    axes = """const {_fullLayout: all} = document.getElementById('timeline-plot');
        return ['yaxis', ...[...Array(arguments[0]).keys()].map((at) => `yaxis${at + 2}`)]
            .map((axis) => [...all[axis].domain, ...all[axis].range]);"""
    cycles = "document.getElementById('timeline-plot')._fullLayout.xaxis.range"
    before, whole = script(browser, axes, maps), script(browser, f"return {cycles}")
    bottoms, tops = [axis[0] for axis in before], [axis[1] for axis in before]
    assert all(bottom >= top for bottom, top in zip(bottoms, tops[1:], strict=False))

    script(browser, "document.querySelector('[data-view=timeline-plot][data-action=in]').click()")
    wait_for(browser, f"{cycles}[0] > 0")

    low, high = script(browser, f"return {cycles}")
    assert whole[0] < low < high < whole[1]
    assert script(browser, axes, maps) == before
    waits = script(
        browser,
        """return document.getElementById('timeline-plot').data
            .filter((trace) => trace.name.startsWith('stall') || trace.name === 'preload')
            .flatMap((trace) => trace.customdata);""",
    )
    assert waits
    assert all("cycles" in words for words in waits)
    assert no_error(browser)


def test_what_a_scratchpad_holds_stands_above_its_map(browser: Chrome, pages: Path) -> None:
    open_page(browser, pages / "roles.html")

    titles = script(browser, "return [...document.querySelectorAll('#memory-map h3')].map((one) => one.textContent)")
    assert titles == [
        "input_0, 128 KiB, for input and weight",
        "input_1, 128 KiB, for input and weight",
        "output, 128 KiB, for output",
    ]


def test_a_moved_tensor_has_a_colour_a_legend_and_its_cost(browser: Chrome, pages: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    open_page(browser, pages / "linked.html")
    plot, (x, y) = point_at(browser, "moved from another memory")
    ActionChains(browser).move_to_element_with_offset(plot, x, y).pause(0.3).click().perform()

    wait_for(browser, "document.getElementById('map-0-detail').textContent.includes('move cost 18,432')")
    text = script(browser, "return document.getElementById('map-0-detail').textContent")
    assert "in right" in text
    assert "left, addresses" in text
    colours = "const {data} = document.getElementById('%s'); return data.find((one) => one.name === '%s').marker.color"
    moved = script(browser, colours % ("map-0", "moved from another memory"))
    assert moved
    assert script(browser, colours % ("timeline-plot", "move")) == moved
    assert script(browser, colours % ("traffic-plot", "moved")) == moved
    legend = script(browser, "return document.querySelector('#map-0 .legend').textContent")
    assert "moved from another memory" in legend
    assert no_error(browser)


def test_names_stay_text(browser: Chrome, pages: Path) -> None:
    open_page(browser, pages / "hostile.html")
    press(browser, "map-0", "n", "n")

    wait_for(
        browser, "document.getElementById('map-0-detail').textContent.startsWith('</script><b>s&amp; (activation)')"
    )
    assert no_error(browser)


@pytest.mark.slow
def test_a_thousand_operators_are_drawn(browser: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "long.html"
    page.write_text(report_html(findings_of(long_graph(1000), 192, "belady")))
    open_page(browser, page)

    assert script(browser, "return document.querySelectorAll('#map-0 .barlayer .point path').length") == 1001
    assert no_error(browser)


# The page of a front in a real browser: a figure for each pair of axes, and a click finds a row


if TYPE_CHECKING:
    from selenium.webdriver import Chrome

HOSTILE = "</script><script>window.broken = 1</script>"
AXES = (FrontAxis.ENERGY, FrontAxis.LATENCY, FrontAxis.PEAK)
VALUES = ((10, 90, 5), (20, 50, 7), (60, 40, 6))


def test_a_click_on_a_mark_finds_its_row(browser: Chrome, tmp_path: Path) -> None:
    one = replace(outcome(in_tiles=False), document=None)
    points = [ShownPoint(values, one) for values in VALUES]
    front = FrontOutcome(HOSTILE, "chip", AXES, (5, 20, 0), points, 3, {}, Stop.COMPLETED, 1.0)
    page = tmp_path / "front.html"
    page.write_text(front_html(front, "onchip schedule"))

    open_page(browser, page)

    assert script(browser, "return document.getElementById('rows').tBodies[0].rows.length") == 3
    assert script(browser, "return document.querySelectorAll('.js-plotly-plot').length") == 3
    click = "const plot = document.getElementById('front-0'); plot.emit('plotly_click', "
    script(browser, click + "{ points: [{ data: plot.data[0], pointNumber: 1 }] })")
    assert script(browser, "return document.querySelector('tr.picked th').textContent") == "2"
    assert script(browser, "return window.broken === undefined")
    assert HOSTILE in script(browser, "return document.querySelector('h1').textContent")
    assert no_error(browser)


# The page of a difference in a real browser: both memory maps are drawn, and hostile names stay names


if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.mark.slow
def test_both_maps_are_drawn_above_one_axis(browser: Chrome, onchip: Program, tmp_path: Path) -> None:
    text = json.dumps(diamond_fields()).replace('"l"', json.dumps(HOSTILE))
    network, page = tmp_path / "diamond.json", tmp_path / "page.html"
    network.write_text(text)
    for name, size in (("a", 130), ("b", 200)):
        assert onchip("plan", network, "--sram", size, "-o", tmp_path / f"{name}.json").code == 0
    onchip("diff", tmp_path / "a.json", tmp_path / "b.json", network, "--report", page)

    open_page(browser, page)

    names = script(browser, "return document.getElementById('map-0').data.map((trace) => trace.name.split(',')[0])")
    assert {"first", "second"} <= set(names)
    assert script(browser, "return document.querySelectorAll('#map-0 .bars path').length") > 4
    assert script(browser, "return window.broken === undefined")
    assert HOSTILE in script(browser, "return document.getElementById('changes').textContent")
    assert no_error(browser)


# The page of a schedule in a real browser: all figures are drawn, a click opens a mapping, time is in cycles too


if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.fixture(scope="module")
def schedule_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "tiles.html").write_text(schedule_html(three_in_tiles(), "onchip schedule three"))
    (folder / "long.html").write_text(schedule_html(long_outcome(folder, 4000), "onchip schedule long"))
    return folder


def click_on(browser: Chrome, plot: str, x: float, y: float) -> None:
    """Click on the point (x, y) of a figure, in data coordinates."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    element = browser.find_element(By.ID, plot)
    script(browser, "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    across, down = script(
        browser,
        """const [plot, x, y] = arguments, {xaxis, yaxis} = plot._fullLayout, box = plot.getBoundingClientRect();
        return [xaxis._offset + xaxis.d2p(x) - box.width / 2, yaxis._offset + yaxis.d2p(y) - box.height / 2];""",
        element,
        x,
        y,
    )
    ActionChains(browser).move_to_element_with_offset(element, round(across), round(down)).pause(0.3).click().perform()


@pytest.mark.parametrize("name", ["tiles", "long"])
def test_every_section_is_seen_every_figure_drawn_and_nothing_loaded(
    browser: Chrome, schedule_pages: Path, name: str
) -> None:
    open_page(browser, schedule_pages / f"{name}.html")

    seen = script(browser, "return [...document.querySelectorAll('section')].map((s) => [s.id, s.offsetHeight > 60])")
    sections = ("summary", "network", "energy", "latency", "traffic", "memory-map", "mappings")
    assert seen == [[section, True] for section in sections]
    drawn = "return [...document.querySelectorAll('.plot')].every((plot) => plot.querySelector('.main-svg'))"
    assert script(browser, drawn)
    messages = [json.loads(line["message"])["message"] for line in logged(browser, "performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [
        (schedule_pages / f"{name}.html").as_uri()
    ]
    assert no_error(browser)


def test_a_click_on_an_operator_of_the_network_opens_its_mapping(browser: Chrome, schedule_pages: Path) -> None:
    open_page(browser, schedule_pages / "tiles.html")
    opened = "[...document.querySelectorAll('#mappings details')].map((one) => one.open)"
    assert script(browser, f"return {opened}") == [False, False, False]

    click_on(browser, "network-plot", 1, 0)

    wait_for(browser, f"{opened}[1]")
    assert script(browser, f"return {opened}") == [False, True, False]
    words = script(browser, "return document.querySelector('#operator-1').innerText")
    assert words.startswith("conv1 (Conv), group 0, 4x4")
    assert "output[n, k, p, q] += input[n, c, height, width] * weight[k, c, r, s]" in words
    assert no_error(browser)


def test_a_workspace_says_whose_it_is_and_how_large(browser: Chrome, schedule_pages: Path) -> None:
    open_page(browser, schedule_pages / "tiles.html")
    find = "const box = document.querySelector('[data-find=map-0]'); box.value = arguments[0];"
    names = script(browser, "return [...document.querySelectorAll('#tensor-names option')].map((one) => one.value)")
    workspace = next(name for name in names if name.endswith("@workspace"))

    script(browser, f"{find} box.dispatchEvent(new Event('input'))", workspace)

    said = wait_for(browser, "document.getElementById('map-0-detail').textContent.includes('(workspace)') && "
                    "document.getElementById('map-0-detail').textContent")  # fmt: skip
    assert workspace in said
    assert f"made by {workspace.removesuffix('@workspace')} · " in said
    assert no_error(browser)


@pytest.mark.parametrize("name", ["tiles", "long"])
def test_maps_and_footprints_run_in_steps_or_in_cycles(browser: Chrome, schedule_pages: Path, name: str) -> None:
    open_page(browser, schedule_pages / f"{name}.html")
    last = "const {cycles} = JSON.parse(document.getElementById('facts').textContent); return [cycles.length - 1, "
    steps, cycles = script(browser, f"{last} cycles[cycles.length - 1]]")
    assert time_range(browser, "map-0") == time_range(browser, "footprint-0") == [0, steps]

    script(browser, "document.querySelector('[data-axis]').click()")

    wait_for(browser, "document.getElementById('footprint-0').layout.xaxis.range[1] === arguments[0]", cycles)
    assert time_range(browser, "map-0") == [0, cycles]
    farthest = "return Math.max(...document.getElementById('footprint-0').data[0].x)"
    assert script(browser, farthest) == cycles
    assert no_error(browser)


def test_the_theme_of_every_figure_can_be_switched(browser: Chrome, schedule_pages: Path) -> None:
    open_page(browser, schedule_pages / "long.html")
    marks = "['network-plot', 'energy-plot', 'timeline-plot'].map((id) => document.getElementById(id).data[0])"
    cells = "document.getElementById('map-0').data[0].colorscale.map(String)"
    colours = f"return {marks}.map((one) => one.marker.color).concat({cells})"
    before = script(browser, colours)

    script(browser, "document.getElementById('theme').click()")

    after = script(browser, colours)
    assert len(before) == len(after)
    assert all(one != other for one, other in zip(before, after, strict=True))
    assert no_error(browser)
