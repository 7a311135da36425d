from __future__ import annotations

import io

from onchip.reports.shared.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_the_phase_the_best_and_the_bound() -> None:
    terminal = Terminal()
    ProgressLine(terminal).update(1.25, 4096, 1024, "search")

    assert "1.2 s  search: best 4,096, bound 1,024" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()


def test_a_phase_without_a_plan_of_its_own_does_not_hide_that_there_is_one() -> None:
    terminal = Terminal()
    line = ProgressLine(terminal)
    line.update(0.0, 4096, 0, "first plan")
    line._last_update = 0.0  # long ago
    line.update(9.0, None, 1024, "search")

    assert "search: best 4,096, bound 1,024" in terminal.getvalue()


def test_updates_in_quick_succession_are_not_all_shown() -> None:
    terminal = Terminal()
    line = ProgressLine(terminal)
    for best in range(1000):
        line.update(0.0, best, 0, "search")

    assert terminal.getvalue().count("search") < 20


def test_the_line_is_taken_away_in_the_end() -> None:
    terminal = Terminal()
    line = ProgressLine(terminal)
    line.update(0.0, None, 0, "search")
    line.clear()

    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_file_sees_nothing() -> None:
    file = io.StringIO()
    line = ProgressLine(file)
    line.update(0.0, None, 0, "search")
    line.clear()

    assert file.getvalue() == ""
