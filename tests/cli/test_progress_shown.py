"""The progress line in a terminal: phases and time limit while a verb works, and nothing once the answer is printed."""

from __future__ import annotations

import io
import re
import time

import pytest

from onchip.cli import run
from onchip.reports.shared import output as progress
from onchip.reports.shared.output import CLEAR_LINE

WORDS = ("plan", "resnet18", "--bits", "8", "--sram", "m_r", "--time-limit", "30")


SECONDS_TO_DRAW = 60.0


class Terminal(io.StringIO):
    """Standard output and standard error of one terminal."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *words: str, seconds_ago: float = 0.0) -> str:
    """Run a verb and return its output on the stream; a terminal shows the reading phase before the verb goes on."""

    def be_seen(_graph: object) -> None:
        deadline = time.perf_counter() + SECONDS_TO_DRAW
        while stream.isatty() and "reading" not in stream.getvalue() and time.perf_counter() < deadline:
            time.sleep(0.001)

    monkeypatch.setattr(progress, "SECONDS_BETWEEN_TICKS", 0.0001)
    monkeypatch.setattr("onchip.api.networks._total_is_in_range", be_seen)
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("sys.stdout", stream)
    assert run(words, seconds_ago) == 0
    return stream.getvalue()


def test_a_terminal_sees_phases_with_time_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.search(r"\d\.\d s of 30 s  reading\r", shown(monkeypatch, Terminal(), *WORDS))


def test_the_answer_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    *drawn, answer = shown(monkeypatch, Terminal(), *WORDS).split(CLEAR_LINE)

    assert drawn
    assert not any("\n" in line for line in drawn)
    assert "resnet18, 31 operators" in answer.splitlines()[0]


def test_time_counts_from_the_start_of_the_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock starts with the verb although a separate thread draws the line."""
    drawn = shown(monkeypatch, Terminal(), "info", "resnet18", seconds_ago=100.0)

    assert re.search(r" 1\d\d\.\d s of 10 s  reading\r", drawn)
