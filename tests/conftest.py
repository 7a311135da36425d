"""Settings of all tests, and the program run in the test process."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import settings

from onchip.cli import run
from support.browser import started
from support.diamond import Ended, Program

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

# A busy machine is no failure; CI draws the same cases every time, so that a commit fails for its own changes.
settings.register_profile("untimed", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("untimed")

QUARTERS = 4
SMOKE_SHARE = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quarter",
        type=int,
        choices=range(QUARTERS),
        help="run one quarter of the selected tests, chosen by their names",
    )
    parser.addoption(
        "--torch-smoke", action="store_true", help="run one tenth of the tests marked `torch`, chosen by their names"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that --quarter and --torch-smoke ask for."""
    quarter, is_smoke = config.getoption("--quarter"), config.getoption("--torch-smoke")

    def is_kept(item: pytest.Item) -> bool:
        number = crc32(item.nodeid.encode())
        is_in_smoke = not is_smoke or item.get_closest_marker("torch") is None or number % SMOKE_SHARE == 0
        return is_in_smoke and quarter in (None, number % QUARTERS)

    kept = [item for item in items if is_kept(item)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if not is_kept(item)])
        items[:] = kept


def pytest_collection_finish() -> None:
    """Exempt the collected items from garbage collection, and collect less often: tests make few cycles."""
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.fixture
def onchip(capsys: pytest.CaptureFixture[str]) -> Program:
    def run_it(*arguments: object) -> Ended:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return Ended(code, *capsys.readouterr())

    return run_it


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    yield from started(tmp_path_factory.mktemp("chromium"))
