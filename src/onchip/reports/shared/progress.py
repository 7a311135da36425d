"""How far a job is, in one line that is written over itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TextIO

from onchip.search.budget.clock import Stopwatch
from onchip.search.budget.limits import Progress

SECONDS_BETWEEN_UPDATES = 0.1
SECONDS_BETWEEN_TICKS = 0.25
CLEAR_LINE = "\r\x1b[K"
COLUMNS = 120


def _seconds_from_now() -> Callable[[], float]:
    watch = Stopwatch()
    return lambda: watch.seconds


@dataclass(slots=True)
class ProgressLine:
    """Shown on a terminal alone, while a phase lasts; work that tells nothing is seen to go on by its seconds.

    `seconds` says how long the job has taken, `limit_seconds` how long it may take in all. What is heard of a search
    is one question's: the best answer never gets worse, and the bound never falls, whoever tells of it.
    """

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    seconds: Callable[[], float] = field(default_factory=_seconds_from_now)
    limit_seconds: float | None = None
    best: int | None = field(default=None, init=False)
    lower_bound: int = field(default=0, init=False)
    _phase: str | None = field(default=None, init=False)
    _has_figures: bool = field(default=False, init=False)
    _last_update: Stopwatch | None = field(default=None, init=False)
    _is_shown: bool = field(default=False, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Show a phase while it lasts; one within another stands in its place. Then the terminal is as before."""
        before, self._phase = self._phase, phase
        try:
            if before is None:
                with self._ticking():
                    yield
            else:
                yield
        finally:
            self._phase = before

    def hear(self, progress: Progress) -> None:
        """Take what a search tells; a phase that knows no answer of its own does not hide that there is one."""
        known = [value for value in (self.best, progress.best) if value is not None]
        self.best = min(known, default=None)
        self.lower_bound = max(self.lower_bound, progress.lower_bound)
        self._phase, self._has_figures = progress.phase, True
        if self._last_update is None or self._last_update.seconds >= SECONDS_BETWEEN_UPDATES:
            self._draw()

    def say(self, phase: str) -> None:
        """Show a text in place of the phase, until the next."""
        self._phase = phase
        if self._last_update is None or self._last_update.seconds >= SECONDS_BETWEEN_UPDATES:
            self._draw()

    @property
    def text(self) -> str:
        """The line: phase, best answer, bound, gap, and time of the limit."""
        limit = "" if self.limit_seconds is None else f" of {self.limit_seconds:g} s"
        head, figures = f"{self.seconds():7.1f} s{limit}  ", f": {self._figures}" if self._has_figures else ""
        room = _columns(self.stream) - len(head) - len(figures) - 1
        phase = "".join(one if one.isprintable() else "?" for one in self._phase or "")  # names come from files
        return head + (phase if len(phase) <= room else f"{phase[: max(0, room - 1)]}…") + figures

    @property
    def _figures(self) -> str:
        best, bound = self.best, self.lower_bound
        if best is None:
            return f"no answer yet, bound {bound:,}" if bound else "no answer yet"
        gap = max(0.0, (best - bound) / best) if best else 0.0
        return f"best {best:,}, bound {bound:,}, gap {gap:.1%}"

    @contextmanager
    def _ticking(self) -> Iterator[None]:
        """Draw the line now and then in a thread of its own, and take it off the terminal in the end."""
        if not self.stream.isatty():
            yield
            return
        is_over = Event()

        def tick() -> None:
            while not is_over.wait(SECONDS_BETWEEN_TICKS):
                self._draw()

        ticking = Thread(target=copy_context().run, args=(tick,), daemon=True)  # `seconds` may look there
        ticking.start()
        try:
            yield
        finally:
            is_over.set()
            ticking.join()
            self._clear()

    def _draw(self) -> None:
        if not self.stream.isatty():
            return
        with self._lock:
            self._last_update, self._is_shown = Stopwatch(), True
            self._write(CLEAR_LINE + self.text)

    def _clear(self) -> None:
        if self._is_shown:
            self._write(CLEAR_LINE)
            self._is_shown = False

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a terminal that went away takes no answer with it
            print(text, end="", file=self.stream, flush=True)


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or COLUMNS
    except (OSError, ValueError):
        return COLUMNS
