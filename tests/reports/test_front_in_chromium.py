"""The page of a front in a real browser: a figure for each pair of axes, and a click finds a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onchip.answer.result import Stop
from onchip.reports.schedule.outcome import FrontOutcome, ShownPoint, front_html
from onchip.scheduling.search.front import FrontAxis
from support.browser import needs_chromium, no_error, open_page, script
from support.small_schedules import outcome

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

HOSTILE = "</script><script>window.broken = 1</script>"
AXES = (FrontAxis.ENERGY, FrontAxis.LATENCY, FrontAxis.PEAK)
VALUES = ((10, 90, 5), (20, 50, 7), (60, 40, 6))

pytestmark = needs_chromium


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
