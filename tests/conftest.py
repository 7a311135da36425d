"""Settings of all tests, and the program run in this process."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import settings

from onchip.cli import run
from support.diamond import Ended, Program

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")

QUARTERS = 4


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quarter",
        type=int,
        choices=range(QUARTERS),
        help="run one quarter of the selected tests, chosen by their names",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the quarter that --quarter asks for."""
    quarter = config.getoption("--quarter")
    if quarter is None:
        return
    kept = [item for item in items if crc32(item.nodeid.encode()) % QUARTERS == quarter]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


@pytest.fixture
def onchip(capsys: pytest.CaptureFixture[str]) -> Program:
    def run_it(*arguments: object) -> Ended:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return Ended(code, *capsys.readouterr())

    return run_it
