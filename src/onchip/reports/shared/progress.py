"""How far a search is, in one line that is written over itself."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TextIO

SECONDS_BETWEEN_UPDATES = 0.1
CLEAR_LINE = "\r\x1b[K"


@dataclass(slots=True)
class ProgressLine:
    """Writes only to a terminal. A phase that knows no plan of its own does not hide that there is one."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _best: int | None = field(default=None, init=False)
    _last_update: float = field(default=float("-inf"), init=False)
    _is_shown: bool = field(default=False, init=False)

    def update(self, seconds: float, best: int | None, lower_bound: int, phase: str) -> None:
        """Show the best objective value so far and the bound, unless just done."""
        self._best = self._best if best is None else best
        now = time.perf_counter()
        if not self.stream.isatty() or now - self._last_update < SECONDS_BETWEEN_UPDATES:
            return
        self._last_update, self._is_shown = now, True
        found = "no plan yet" if self._best is None else f"best {self._best:,}"
        self._write(f"{CLEAR_LINE}{seconds:7.1f} s  {phase}: {found}, bound {lower_bound:,}")

    def clear(self) -> None:
        """Take the line off the terminal."""
        if self._is_shown:
            self._write(CLEAR_LINE)
            self._is_shown = False

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a terminal that went away takes no answer with it
            print(text, end="", file=self.stream, flush=True)
