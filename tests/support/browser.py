"""Pages in a real browser, and the queries that tests make."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)

needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="chromium and chromium-driver are not installed"
)


def started(profile: Path) -> Iterator[Chrome]:
    """Yield a browser that keeps its profile in a folder until the tests are over."""
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER))
    yield driver
    driver.quit()


def script(browser: Chrome, text: str, *arguments: object) -> Any:  # noqa: ANN401 (what the script gives)
    return browser.execute_script(text, *arguments)


def open_page(browser: Chrome, page: Path, theme: str = "light") -> None:
    """Wait until everything is drawn; log lines of earlier pages are dropped."""
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    open_address(browser, page.as_uri())


def open_address(browser: Chrome, url: str) -> None:
    """Wait until everything is drawn; an earlier page, which may ask a server that has ended, is left first."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get("about:blank")
    logged(browser, "browser")
    logged(browser, "performance")
    browser.get(url)
    WebDriverWait(browser, 20).until(lambda _: script(browser, "return document.documentElement.dataset.ready"))


def logged(browser: Chrome, kind: str) -> list[dict[str, str]]:
    """Return the lines of a log since the last call."""
    lines: list[dict[str, str]] = browser.get_log(kind)  # type: ignore[no-untyped-call]
    return lines


def no_error(browser: Chrome) -> bool:
    return [line for line in logged(browser, "browser") if line["level"] != "INFO"] == []


def time_range(browser: Chrome, plot: str) -> list[float]:
    found = script(browser, "return document.getElementById(arguments[0]).layout.xaxis.range", plot)
    assert isinstance(found, list)
    return found


def wait_for(browser: Chrome, condition: str, *arguments: object) -> Any:  # noqa: ANN401 (what the condition gives)
    """Wait until a condition in JavaScript holds, and return its value."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 10).until(lambda _: script(browser, f"return {condition}", *arguments))
