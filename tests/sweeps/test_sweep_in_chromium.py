"""The page of a store in a real browser: fluid with 10,000 points, safe with hostile names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onchip.sweeps.store import shown_store
from onchip.sweeps.stored_row import sweep_html
from support.browser import logged, needs_chromium, no_error, open_page, script
from support.swept_points import hostile, many_points, write_store

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

MOST_MILLISECONDS = 1_000
HOSTILE = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>\" onload=\"x"

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    store = write_store(folder / "many.db", many_points(10_000))
    path = folder / "many.html"
    path.write_text(sweep_html(shown_store(store), "onchip report many.db"))
    return path


def painted_pixels(browser: Chrome, plot: str) -> int:
    found = script(
        browser,
        """const canvas = document.getElementById(arguments[0]);
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let count = 0;
        for (let at = 3; at < data.length; at += 4) if (data[at]) count += 1;
        return count;""",
        plot,
    )
    assert isinstance(found, int)
    return found


@pytest.mark.slow
def test_every_figure_of_10000_points_is_drawn_and_nothing_loaded(browser: Chrome, page: Path) -> None:
    open_page(browser, page)

    for plot in ("curves-plot", "heat-plot", "front-plot", "parallel-plot"):
        assert painted_pixels(browser, plot) > 5000, plot
    assert script(browser, "return document.querySelectorAll('#rows tbody tr').length") == 100
    messages = [json.loads(line["message"])["message"] for line in logged(browser, "performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [page.as_uri()]
    assert no_error(browser)


INTERACTIONS = {
    "filter": "const box = document.getElementById('filter'); box.value = arguments[0] ? 'densenet' : ''; "
    "box.dispatchEvent(new Event('input'));",
    "sort": "document.querySelectorAll('#rows thead button')[arguments[0] ? 8 : 1].click();",
    "another axis": "const choice = document.getElementById('curve-y'); choice.selectedIndex = arguments[0] ? 2 : 0; "
    "choice.dispatchEvent(new Event('change'));",
    "choose": "document.querySelectorAll('#rows tbody tr')[arguments[0] ? 3 : 0].click();",
}


@pytest.mark.parametrize("name", INTERACTIONS)
def test_what_the_reader_does_is_answered_at_once(browser: Chrome, page: Path, name: str) -> None:
    open_page(browser, page)
    times = [
        script(
            browser, f"const begun = performance.now(); {INTERACTIONS[name]} return performance.now() - begun;", again
        )
        for again in (True, False, True, False, True)
    ]
    assert sorted(times)[2] < MOST_MILLISECONDS, times
    assert no_error(browser)


def test_a_click_on_a_point_says_what_to_type(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    script(
        browser,
        """const canvas = document.getElementById("curves-plot"), [x, y] = canvas.found[777];
        const box = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new MouseEvent("click", { clientX: box.left + x, clientY: box.top + y }));""",
    )
    commands = script(browser, "return [...document.querySelectorAll('#picked pre')].map((one) => one.textContent)")
    assert [command.split()[1] for command in commands] == ["sweep", "report"]
    assert "--store many.db --answer" in commands[0]


def test_the_filter_and_the_sorting_show_the_right_rows(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    script(browser, INTERACTIONS["filter"], True)
    cells = "return [...document.querySelectorAll('#rows tbody tr')].map((row) => row.cells[3].textContent)"
    assert set(script(browser, cells)) == {"densenet"}
    assert "of 2000 rows" in script(browser, "return document.getElementById('rows-shown').textContent")


def test_hostile_names_are_names(browser: Chrome, tmp_path: Path) -> None:
    store = write_store(tmp_path / "hostile.db", hostile(HOSTILE))
    path = tmp_path / "page.html"
    path.write_text(sweep_html(shown_store(store), HOSTILE))

    open_page(browser, path)

    script(browser, "document.querySelector('#rows tbody tr').click()")
    assert script(browser, "return window.broken === undefined")
    assert HOSTILE in script(browser, "return document.querySelector('#rows tbody tr').cells[3].textContent")
    assert no_error(browser)
