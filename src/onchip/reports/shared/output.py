"""Standard output, standard error and the progress line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from types import MappingProxyType
from typing import TextIO

from onchip.errors import OnchipError, OutputError
from onchip.search.budget.clock import Stopwatch
from onchip.search.budget.limits import Progress


class NoReaderError(OutputError):
    """A closed pipe on standard output, which needs no message."""


def write(text: str) -> None:
    """Write lines to standard output; raises OutputError if it is full or closed (NoReaderError for a pipe)."""
    try:
        print(text, flush=True)
    except (OSError, ValueError) as error:
        raise stream_error(error) from None


def stream_error(error: OSError | ValueError) -> OutputError:
    """Return the error of standard output, whose buffer is dropped, or Python would write it again at exit."""
    _give_up(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return NoReaderError("the reader of the pipe has ended", place="standard output")
    reason = getattr(error, "strerror", None) or str(error)
    return OutputError(f"it cannot be written ({reason})", "standard output", "a file system with free space")


def write_json(value: Mapping[str, object]) -> None:
    """Write one JSON object to standard output; raises as `write`."""
    write(json.dumps(value, indent=2, allow_nan=False))


def write_error(error: OnchipError, *, as_json: bool, more: Mapping[str, object] = MappingProxyType({})) -> None:
    """Write one line to standard error, and with `as_json` one object to standard output, if these can be written.

    `more` are fields of the object that only such errors have.
    """
    if not isinstance(error, NoReaderError):
        write_line(f"onchip: {error}")
    if as_json:
        fields = {"error": error.what, "file": error.file, "place": error.place, "expected": error.expected}
        with suppress(OutputError):  # the error has been printed
            write_json({**fields, **more})


def write_line(text: str) -> None:
    """Write one line to standard error, if it can be written."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        _give_up(sys.stderr)


def _give_up(stream: TextIO) -> None:
    with suppress(OSError, ValueError):  # one that is no file of the system's
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


SECONDS_BETWEEN_UPDATES = 0.1
SECONDS_BETWEEN_TICKS = 0.25
CLEAR_LINE = "\r\x1b[K"
COLUMNS = 120


def _seconds_from_now() -> Callable[[], float]:
    watch = Stopwatch()
    return lambda: watch.seconds


@dataclass(slots=True)
class ProgressLine:
    """The progress line of a terminal during a phase; its seconds advance even without messages.

    `seconds` gives the elapsed time, `limit_seconds` the limit. Messages concern one question: the best answer never
    gets worse, and the bound never falls.
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
        """Show a phase, which replaces an outer phase; the terminal is cleared at the end."""
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
        """Take a search's message; a phase without an answer keeps the earlier best one."""
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
        """The line: phase, best answer, bound, gap, time and limit."""
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
