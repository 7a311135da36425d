"""Settings of all tests, and the program run in this process."""

from __future__ import annotations

import pytest
from hypothesis import settings

from onchip.cli import run
from support.diamond import Ended, Program

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


@pytest.fixture
def onchip(capsys: pytest.CaptureFixture[str]) -> Program:
    def run_it(*arguments: object) -> Ended:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return Ended(code, *capsys.readouterr())

    return run_it
