"""Pools of workers, on this machine or in a Dask cluster."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.pool import Pool, ThreadPool
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from onchip.errors import CacheWarning, InputError, UsageError
from onchip.search.strategy.start import NoAnswerError

if TYPE_CHECKING:
    from distributed import Client, Future

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


SECONDS_TO_CONNECT = 10
WITHIN_A_PROCESS = "inproc://"
"""Scheme of addresses without host and port."""
LOST = ("cancelled", "lost")
GONE = ("closed", "closing")


@dataclass(slots=True)
class _PendingTask(Generic[AnswerT]):
    """A task at the scheduler, submitted again if a restarted scheduler has lost it."""

    ask: Callable[[], Future]
    client: Client
    future: Future

    def ready(self) -> bool:
        """Return True if the answer is available.

        Raises NoAnswerError if the scheduler has ended and does not come back.
        """
        if self.client.status in GONE:
            raise NoAnswerError("the scheduler of Dask is gone", place="`dask`", expected="one that stays")
        if self.future.status in LOST:
            self.future = self.ask()
        return bool(self.future.done())

    def wait(self, seconds: float, /) -> None:
        """Wait for the answer, at most `seconds`."""
        from distributed import wait

        with suppress(Exception):  # not available in time; `ready` checks the state
            wait([self.future], timeout=seconds)

    def get(self) -> AnswerT:
        """Return the answer, or raise the exception of its task."""
        return cast("AnswerT", self.future.result())


@dataclass(slots=True)
class DaskPool:
    """The workers of a scheduler, which reassigns the tasks of a lost worker."""

    client: Client
    is_here: bool = False

    @property
    def room(self) -> int:
        """Return the number of the workers' threads, or 1 if there is no worker yet."""
        return max(1, sum(self.client.nthreads().values())) if self.client.status == "running" else 1

    def submit(self, answer: Callable[[QuestionT], AnswerT], question: QuestionT) -> Pending[AnswerT]:
        """Submit a task to the scheduler."""

        def ask() -> Future:
            return self.client.submit(answer, question, pure=False)

        return _PendingTask(ask, self.client, ask())


@contextmanager
def dask_pool(address: str | None) -> Iterator[DaskPool | None]:
    """Connect to a scheduler for the duration of the context, then drop pending tasks; the cluster keeps running.

    Yields None without an address. Raises UsageError if Dask is not installed, InputError if no scheduler answers.
    """
    if address is None:
        yield None
        return
    client = connected(address)
    try:
        yield DaskPool(client)
    finally:
        with suppress(Exception):  # nothing to close if the scheduler is gone
            client.close()


def connected(address: str) -> Client:
    """Connect to a scheduler; raises UsageError if Dask is not installed, InputError if no scheduler answers."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        expected = "the extra `dask`: pip install 'onchip[dask]'"
        raise UsageError("dask.distributed is not installed", place="`dask`", expected=expected) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # lost connections are reported in our own messages
    try:
        if not address.startswith(WITHIN_A_PROCESS):
            get_address_host_port(address)  # a client that never connected hangs at exit
        return Client(address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        what = f"no scheduler of Dask answers at {address!r} ({reason})"
        raise InputError(what, place="`dask`", expected="an address such as tcp://10.0.0.1:8786") from None
