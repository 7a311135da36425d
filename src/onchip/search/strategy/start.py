"""Start of a search with a share of the time, and its stages."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import FrameType
from typing import TypeAlias

from onchip.errors import OnchipError
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Progress, Run


class NoAnswerError(OnchipError):
    """An error raised if no answer was found in time."""


class StoppedError(OnchipError):
    """An error raised if no answer was found before an interruption."""


RunStarter: TypeAlias = Callable[[Limits, Deadline], AbstractContextManager[Run]]


@contextmanager
def silent_run(limits: Limits, deadline: Deadline) -> Iterator[Run]:
    """Start a run without progress reports and interrupts."""
    yield Run(limits, deadline=deadline)


@contextmanager
def interruptible_run(limits: Limits, deadline: Deadline, listener: Callable[[Progress], None]) -> Iterator[Run]:
    """Start a run that ends with its best answer at Ctrl-C; a second Ctrl-C ends the program."""
    run = Run(limits, listener, deadline=deadline)

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if run.interrupt.is_set():
            raise KeyboardInterrupt
        run.interrupt.set()

    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield run
        return
    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield run
    finally:
        signal.signal(signal.SIGINT, previous)


def without_bound(run: Run) -> Run:
    """Return the same run for a stage over a subset of the answers: its answers are valid, its bound is not."""
    return replace(run, listener=lambda heard: run.listener(replace(heard, lower_bound=0)))


def with_bound(run: Run, least: int) -> Run:
    """Return the same run for a stage, with `least` as a lower bound on all of its values."""
    return replace(run, listener=lambda heard: run.listener(replace(heard, lower_bound=max(heard.lower_bound, least))))


def without_figures(run: Run) -> Run:
    """Return the same run for a stage of a different question: only its phase is reported."""
    return replace(run, listener=lambda heard: run.listener(replace(heard, best=None, lower_bound=0)))


def of_one_worker(run: Run) -> Run:
    """Return the same run with one worker; CP-SAT then bounds by its full linear relaxation."""
    return replace(run, limits=replace(run.limits, workers=1))


def started_as_stage(start: RunStarter) -> RunStarter:
    """Return a starter of runs that report only their phase."""

    @contextmanager
    def started(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        with start(limits, deadline) as run:
            yield without_figures(run)

    return started
