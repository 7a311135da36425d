"""The page of a schedule in a real browser: all figures are drawn, a click opens a mapping, time is in cycles too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onchip.reports.schedule.html import schedule_html
from support.browser import logged, needs_chromium, no_error, open_page, script, time_range, wait_for
from support.schedule_outcomes import long_outcome, three_in_tiles

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


pytestmark = needs_chromium


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def test_every_section_is_seen_every_figure_drawn_and_nothing_loaded(browser: Chrome, pages: Path, name: str) -> None:
    open_page(browser, pages / f"{name}.html")

    seen = script(browser, "return [...document.querySelectorAll('section')].map((s) => [s.id, s.offsetHeight > 60])")
    sections = ("summary", "network", "energy", "latency", "traffic", "memory-map", "mappings")
    assert seen == [[section, True] for section in sections]
    drawn = "return [...document.querySelectorAll('.plot')].every((plot) => plot.querySelector('.main-svg'))"
    assert script(browser, drawn)
    messages = [json.loads(line["message"])["message"] for line in logged(browser, "performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [(pages / f"{name}.html").as_uri()]
    assert no_error(browser)


def test_a_click_on_an_operator_of_the_network_opens_its_mapping(browser: Chrome, pages: Path) -> None:
    open_page(browser, pages / "tiles.html")
    opened = "[...document.querySelectorAll('#mappings details')].map((one) => one.open)"
    assert script(browser, f"return {opened}") == [False, False, False]

    click_on(browser, "network-plot", 1, 0)

    wait_for(browser, f"{opened}[1]")
    assert script(browser, f"return {opened}") == [False, True, False]
    words = script(browser, "return document.querySelector('#operator-1').innerText")
    assert words.startswith("conv1 (Conv), group 0, 4x4")
    assert "output[n, k, p, q] += input[n, c, height, width] * weight[k, c, r, s]" in words
    assert no_error(browser)


def test_a_workspace_says_whose_it_is_and_how_large(browser: Chrome, pages: Path) -> None:
    open_page(browser, pages / "tiles.html")
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
def test_maps_and_footprints_run_in_steps_or_in_cycles(browser: Chrome, pages: Path, name: str) -> None:
    open_page(browser, pages / f"{name}.html")
    last = "const {cycles} = JSON.parse(document.getElementById('facts').textContent); return [cycles.length - 1, "
    steps, cycles = script(browser, f"{last} cycles[cycles.length - 1]]")
    assert time_range(browser, "map-0") == time_range(browser, "footprint-0") == [0, steps]

    script(browser, "document.querySelector('[data-axis]').click()")

    wait_for(browser, "document.getElementById('footprint-0').layout.xaxis.range[1] === arguments[0]", cycles)
    assert time_range(browser, "map-0") == [0, cycles]
    farthest = "return Math.max(...document.getElementById('footprint-0').data[0].x)"
    assert script(browser, farthest) == cycles
    assert no_error(browser)


def test_the_theme_of_every_figure_can_be_switched(browser: Chrome, pages: Path) -> None:
    open_page(browser, pages / "long.html")
    marks = "['network-plot', 'energy-plot', 'timeline-plot'].map((id) => document.getElementById(id).data[0])"
    cells = "document.getElementById('map-0').data[0].colorscale.map(String)"
    colours = f"return {marks}.map((one) => one.marker.color).concat({cells})"
    before = script(browser, colours)

    script(browser, "document.getElementById('theme').click()")

    after = script(browser, colours)
    assert len(before) == len(after)
    assert all(one != other for one, other in zip(before, after, strict=True))
    assert no_error(browser)
