"""The page of a difference in a real browser: both memory maps are drawn, and hostile names stay names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.browser import needs_chromium, no_error, open_page, script
from support.diamond import Program, diamond_fields

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

HOSTILE = "</script><script>window.broken = 1</script>"

pytestmark = needs_chromium


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
