"""Progress line, start time and warnings of commands; Ctrl-C ends a search with the best answer so far."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from onchip.api.phases import phases_told_to
from onchip.errors import CacheWarning, NetworkWarning
from onchip.reports.shared.output import ProgressLine, write_line
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


_began: ContextVar[Deadline | None] = ContextVar("began", default=None)


def verb_begins(seconds_ago: float = 0.0) -> None:
    """Record that a command begins, or began `seconds_ago`."""
    _began.set(Deadline.after(None, seconds_ago=seconds_ago))


def seconds_since_start() -> float:
    """Return the seconds since the command began; 0 without a command."""
    began = _began.get()
    return 0.0 if began is None else began.seconds


@contextmanager
def warnings_said_once() -> Iterator[None]:
    """Write the first CacheWarning, and each distinct NetworkWarning once, to standard error.

    Other warnings are shown as usual.
    """
    said: set[str] = set()
    show_others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, CacheWarning | NetworkWarning):
            show_others(message, category, filename, lineno, file, line)
            return
        text = " ".join(str(message).split())
        key = "cache" if issubclass(category, CacheWarning) else text
        if key not in said:
            said.add(key)
            write_line(f"onchip: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", CacheWarning)
        warnings.simplefilter("always", NetworkWarning)
        warnings.showwarning = show
        yield
