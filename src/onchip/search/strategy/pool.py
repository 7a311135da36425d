"""Workers that answer questions of one kind: threads of this process, processes of this machine, or a cluster's."""

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
    """An answer that may not be there yet."""

    def ready(self) -> bool:
        """Say whether it is there."""

    def wait(self, seconds: float, /) -> None:
        """Wait for it, at most so long."""

    def get(self) -> ToldT:
        """Return it, or raise what the question raised, once it is there."""


class TaskPool(Protocol):
    """Who answers questions; unless that is here, what is asked and who answers can be pickled."""

    @property
    def is_here(self) -> bool:
        """Whether questions are answered in this process."""

    @property
    def room(self) -> int:
        """How many questions are answered at once, at least 1."""

    def submit(self, answer: Callable[[QuestionT], AnswerT], question: QuestionT) -> Pending[AnswerT]:
        """Hand over a question; it waits where there is no room."""


@dataclass(frozen=True, slots=True)
class LocalPool:
    """So many threads of this process (`is_here`), or processes of this machine."""

    room: int
    pool: Pool
    is_here: bool

    def submit(self, answer: Callable[[QuestionT], AnswerT], question: QuestionT) -> Pending[AnswerT]:
        """Hand over a question to whichever is free first."""
        return self.pool.apply_async(answer, (question,))


@contextmanager
def threads(count: int) -> Iterator[LocalPool]:
    """Start so many threads, for work that releases the interpreter lock; whoever ends the context lets them end."""
    with ThreadPool(count) as pool:
        yield LocalPool(count, pool, is_here=True)


@contextmanager
def processes(count: int) -> Iterator[LocalPool]:
    """Start so many processes, which end with the context, whatever they are at."""
    with get_context("spawn").Pool(count, _begin) as pool:
        yield LocalPool(count, pool, is_here=False)


def _begin() -> None:
    """Ctrl-C is for the process that has the pool, and so is what is wrong with kept mappings."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore", CacheWarning)
