"""How commands start a search: with a time limit, a line of progress, and Ctrl-C for the best so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onchip.clock import Deadline
from onchip.solve.run.limits import Limits, Progress, Run
from onchip.solve.run.start import interruptible_run


@contextmanager
def watched_run(limits: Limits, deadline: Deadline) -> Iterator[Run]:
    """Start a run that shows its progress on a terminal."""
    from onchip.reports.shared.progress import ProgressLine

    line = ProgressLine()

    def show_progress(progress: Progress) -> None:
        line.update(progress.seconds, progress.best, progress.lower_bound, progress.phase)

    try:
        with interruptible_run(limits, deadline, show_progress) as run:
            yield run
    finally:
        line.clear()
