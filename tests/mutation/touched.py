"""Lines of the verifier by test: only tests that run a line can detect a mutant of it."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, TypeAlias

LinesByModule: TypeAlias = dict[str, list[int]]
"""The numbers of the lines that ran, by the module's path in `verify`."""


@contextmanager
def lines_run(modules: Mapping[str, str]) -> Iterator[LinesByModule]:
    """Trace the lines run in this context; the result is complete afterwards. `modules` maps file names to modules."""
    tracer, found = _LineTracer(modules), LinesByModule()
    sys.settrace(tracer.enter)
    try:
        yield found
    finally:
        sys.settrace(None)
        found.update({module: sorted(lines) for module, lines in tracer.lines.items()})


MOST_CALLS = 60
"""Number of calls in one test after which the remaining lines count as run, as tracing a function takes time."""


class _LineTracer:
    """A tracer of the modules' functions until each of their lines has run, or counts as run."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self.lines: dict[str, set[int]] = defaultdict(set)
        self._modules = modules
        self._missing: dict[CodeType, set[int]] = {}
        self._calls: Counter[CodeType] = Counter()

    def enter(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        """Begin to trace a function."""
        code = frame.f_code
        module = self._modules.get(code.co_filename)
        if module is None:
            return None
        if code not in self._missing:
            self._missing[code] = {line for _, _, line in code.co_lines() if line is not None}
        missing, lines = self._missing[code], self.lines[module]
        if not missing:
            return None
        self._calls[code] += 1
        self._has_run(code.co_firstlineno, missing, lines)
        if self._calls[code] > MOST_CALLS:
            lines |= missing
            missing.clear()

        def step(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
            self._has_run(frame.f_lineno, missing, lines)
            return step

        return step if missing else None

    def _has_run(self, line: int, missing: set[int], lines: set[int]) -> None:
        missing.discard(line)
        lines.add(line)
