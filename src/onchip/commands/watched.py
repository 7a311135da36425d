"""How commands start a search: with a time limit, a line of progress, and Ctrl-C for the best so far."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from onchip.errors import UsageError
from onchip.solve.limits import Limits, Progress, Run
from onchip.solve.start import interruptible_run


@contextmanager
def watched_run(limits: Limits) -> Iterator[Run]:
    """Start a run that shows its progress on a terminal."""
    from onchip.report.progress import ProgressLine

    line = ProgressLine()

    def show_progress(progress: Progress) -> None:
        line.update(progress.seconds, progress.best, progress.lower_bound, progress.phase)

    try:
        with interruptible_run(limits, show_progress) as run:
            yield run
    finally:
        line.clear()


def seconds_of(time_limit: float | None) -> float | None:
    """Return the value of `--time-limit`; raises UsageError."""
    if time_limit is not None and not 0 < time_limit < math.inf:
        raise UsageError(f"it is {time_limit:g}", place="--time-limit", expected="a number of seconds above 0")
    return time_limit
