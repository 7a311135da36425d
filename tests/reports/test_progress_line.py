from __future__ import annotations

import io
import time
from dataclasses import dataclass

import pytest

from onchip.reports.shared import output
from onchip.reports.shared.output import CLEAR_LINE, COLUMNS, ProgressLine
from onchip.search.budget.limits import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass
class Clock:
    """A clock that stands still."""

    seconds: float = 1.25

    def __call__(self) -> float:
        return self.seconds


def text_of(*told: Progress, limit_seconds: float | None = None) -> str:
    line = ProgressLine(Terminal(), Clock(), limit_seconds)
    with line.during("searching"):
        for progress in told:
            line.hear(progress)
        return line.text.strip()


def drawn_in(seconds: float, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> str:
    """Return the stream after a phase that reports no progress, with lines drawn every millisecond."""
    monkeypatch.setattr(output, "SECONDS_BETWEEN_TICKS", 0.001)
    line = ProgressLine(stream, Clock())
    with line.during("reading"):
        deadline = time.perf_counter() + seconds
        while "reading" not in stream.getvalue() and time.perf_counter() < deadline:
            time.sleep(0.001)
    return stream.getvalue()


def test_a_terminal_sees_the_phase_the_answer_the_bound_and_the_gap() -> None:
    terminal = Terminal()
    ProgressLine(terminal, Clock()).hear(Progress(0.0, 4096, 1024, "search"))

    assert "1.2 s  search: best 4,096, bound 1,024, gap 75.0%" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()


def test_the_limit_stands_beside_the_time() -> None:
    assert text_of(Progress(0.0, 4, 4, "search"), limit_seconds=60.0).startswith("1.2 s of 60 s  search: best 4")


FOUND = Progress(0.0, 4096, 1024, "search")


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ([], "1.2 s  searching"),
        (
            [Progress(0.0, 4096, 0, "first plan"), Progress(9.0, None, 1024, "search")],
            "best 4,096, bound 1,024, gap 75.0%",
        ),
        ([FOUND, Progress(9.0, 8192, 512, "another")], "another: best 4,096, bound 1,024, gap 75.0%"),
        ([Progress(0.0, None, 0, "search")], "search: no answer yet"),
        ([Progress(0.0, None, 7, "search")], "search: no answer yet, bound 7"),
        ([Progress(0.0, 0, 0, "search")], "best 0, bound 0, gap 0.0%"),
        ([Progress(0.0, 4096, 1024, "x" * 200)], "x…: best 4,096, bound 1,024, gap 75.0%"),
        ([Progress(0.0, 8, 2, "layer 1 of 2, \x1b[2J\n")], "layer 1 of 2, ?[2J?: best 8, bound 2, gap 75.0%"),
    ],
)
def test_the_best_answer_and_bound_of_all_phases_are_shown(told: list[Progress], shown: str) -> None:
    text = text_of(*told)
    assert text.endswith(shown)
    assert len(text) < COLUMNS


def test_a_phase_within_another_stands_in_its_place_while_it_lasts() -> None:
    line = ProgressLine(Terminal(), Clock())
    with line.during("planning"):
        with line.during("searching"):
            line.hear(Progress(0.0, 8, 2, "46 states"))
            assert "46 states: best 8" in line.text
        assert "planning: best 8, bound 2" in line.text


def test_updates_in_quick_succession_are_not_all_shown() -> None:
    terminal = Terminal()
    line = ProgressLine(terminal)
    for best in range(1000):
        line.hear(Progress(0.0, best, 0, "search"))

    assert terminal.getvalue().count("search") < 20


def test_work_that_tells_nothing_is_seen_to_go_on_until_the_line_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = drawn_in(60.0, monkeypatch, Terminal())
    assert "1.2 s  reading" in drawn
    assert drawn.endswith(CLEAR_LINE)


def test_the_line_is_taken_away_where_a_phase_fails() -> None:
    terminal = Terminal()
    with pytest.raises(ValueError, match="nonsense"):
        _fail_while_shown(ProgressLine(terminal))

    assert terminal.getvalue().endswith(CLEAR_LINE)


def test_a_phase_that_is_over_at_once_shows_nothing() -> None:
    terminal = Terminal()
    with ProgressLine(terminal).during("reading"):
        pass

    assert terminal.getvalue() == ""


def test_a_file_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    line = ProgressLine(file)
    with line.during("searching"):
        line.hear(Progress(0.0, 4, 1, "search"))

    assert file.getvalue() == ""
    assert drawn_in(0.02, monkeypatch, file) == ""


def test_a_terminal_that_goes_away_takes_nothing_with_it() -> None:
    terminal = Terminal()
    line = ProgressLine(terminal)
    with line.during("searching"):
        line.hear(Progress(0.0, 4, 1, "search"))
        terminal.write = _gone  # type: ignore[method-assign]


def _gone(_text: str) -> int:
    raise OSError("it went away")


def _fail_while_shown(line: ProgressLine) -> None:
    with line.during("reading"):
        line.hear(Progress(0.0, None, 0, "search"))
        raise ValueError("nonsense")
