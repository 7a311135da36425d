"""Starters of runs, silent by default, and the errors of runs that end without an answer."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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
