"""Pools of workers: threads of this process, processes of this machine, or a cluster's workers."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.pool import Pool, ThreadPool
from typing import Protocol, TypeVar

from onchip.errors import CacheWarning

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")
ToldT = TypeVar("ToldT", covariant=True)


class Pending(Protocol[ToldT]):
    """A handle of an answer that may not be available yet."""

    def ready(self) -> bool:
        """Return True if the answer is available."""

    def wait(self, seconds: float, /) -> None:
        """Wait for the answer, at most `seconds`."""

    def get(self) -> ToldT:
        """Return the available answer, or raise the exception of its task."""


class TaskPool(Protocol):
    """A pool of workers; unless `is_here`, functions and tasks must be picklable."""

    @property
    def is_here(self) -> bool:
        """Return True if tasks run in this process."""

    @property
    def room(self) -> int:
        """Return the number of tasks that run at once, at least 1."""

    def submit(self, answer: Callable[[QuestionT], AnswerT], question: QuestionT) -> Pending[AnswerT]:
        """Submit a task; it waits while all workers are busy."""


@dataclass(frozen=True, slots=True)
class LocalPool:
    """A pool of `room` threads of this process (`is_here`), or of processes of this machine."""

    room: int
    pool: Pool
    is_here: bool

    def submit(self, answer: Callable[[QuestionT], AnswerT], question: QuestionT) -> Pending[AnswerT]:
        """Submit a task to the next free worker."""
        return self.pool.apply_async(answer, (question,))


@contextmanager
def threads(count: int) -> Iterator[LocalPool]:
    """Start `count` threads, for work that releases the interpreter lock; the context waits for that work."""
    with ThreadPool(count) as pool:
        yield LocalPool(count, pool, is_here=True)


@contextmanager
def processes(count: int) -> Iterator[LocalPool]:
    """Start `count` processes, terminated at the end of the context."""
    with get_context("spawn").Pool(count, _begin) as pool:
        yield LocalPool(count, pool, is_here=False)


def _begin() -> None:
    """Leave Ctrl-C and warnings about the mapping cache to the parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore", CacheWarning)
