"""Progress of commands: a progress line, a time limit, and Ctrl-C for the best answer so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from onchip.api.phases import phases_told_to
from onchip.commands.started import seconds_since_start
from onchip.reports.shared.output import ProgressLine
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.start import interruptible_run

_line: ContextVar[ProgressLine | None] = ContextVar("line", default=None)


@contextmanager
def progress_of_verb() -> Iterator[None]:
    """Show each phase of a command, and the progress of its search, on a terminal."""
    line = ProgressLine(seconds=seconds_since_start)
    token = _line.set(line)
    try:
        with phases_told_to(line.during):
            yield
    finally:
        _line.reset(token)


def show_limit(seconds: float) -> None:
    """Set the time limit shown in the progress line."""
    if (line := _line.get()) is not None:
        line.limit_seconds = seconds


def say(text: str) -> None:
    """Replace the phase in the progress line by another text."""
    if (line := _line.get()) is not None:
        line.say(text)


@contextmanager
def watched_run(limits: Limits, deadline: Deadline) -> Iterator[Run]:
    """Start a run that shows its progress on a terminal."""
    line = _line.get() or ProgressLine()
    with line.during("searching"), interruptible_run(limits, deadline, line.hear) as run:
        yield run
