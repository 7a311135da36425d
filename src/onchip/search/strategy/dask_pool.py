"""Workers of a Dask cluster that answer the parts of one question: layers of a network, layers of stacks' tiles."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, cast

from onchip.errors import InputError, UsageError
from onchip.search.strategy.pool import AnswerT, Pending, QuestionT
from onchip.search.strategy.start import NoAnswerError

if TYPE_CHECKING:
    from distributed import Client, Future

SECONDS_TO_CONNECT = 10
WITHIN_A_PROCESS = "inproc://"
"""Of addresses that have neither host nor port."""
LOST = ("cancelled", "lost")
GONE = ("closed", "closing")


@dataclass(slots=True)
class _PendingTask(Generic[AnswerT]):
    """A task at the scheduler; it is asked again where a scheduler that was restarted has lost it."""

    ask: Callable[[], Future]
    client: Client
    future: Future

    def ready(self) -> bool:
        """Whether the answer is there; raises NoAnswerError where the scheduler has ended and does not come back."""
        if self.client.status in GONE:
            raise NoAnswerError("the scheduler of Dask is gone", place="--dask", expected="one that stays")
        if self.future.status in LOST:
            self.future = self.ask()
        return bool(self.future.done())

    def wait(self, seconds: float, /) -> None:
        """Wait at most so long for it."""
        from distributed import wait

        with suppress(Exception):  # not there in time; what became of it is asked by `ready`
            wait([self.future], timeout=seconds)

    def get(self) -> AnswerT:
        """Return the answer, or raise what the question raised."""
        return cast("AnswerT", self.future.result())


@dataclass(slots=True)
class DaskPool:
    """A scheduler's workers. Of a worker that is lost the scheduler has its questions answered again."""

    client: Client
    is_here: bool = False

    @property
    def room(self) -> int:
        """How many threads its workers have, 1 where there is none yet."""
        return max(1, sum(self.client.nthreads().values())) if self.client.status == "running" else 1

    def submit(self, answer: Callable[[QuestionT], AnswerT], question: QuestionT) -> Pending[AnswerT]:
        """Hand a question to the scheduler."""

        def ask() -> Future:
            return self.client.submit(answer, question, pure=False)

        return _PendingTask(ask, self.client, ask())


@contextmanager
def dask_pool(address: str | None) -> Iterator[DaskPool | None]:
    """Connect to a scheduler, and give up what is asked of it with the context; the cluster stays as it is.

    Without an address there is none. Raises UsageError without Dask, InputError where no scheduler answers.
    """
    if address is None:
        yield None
        return
    client = connected(address)
    try:
        yield DaskPool(client)
    finally:
        with suppress(Exception):  # of a scheduler that is gone there is nothing to close
            client.close()


def connected(address: str) -> Client:
    """Connect to a scheduler; raises UsageError without Dask, InputError where no scheduler answers."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        expected = "the extra `dask`: pip install 'onchip[dask]'"
        raise UsageError("dask.distributed is not installed", place="--dask", expected=expected) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what is lost is told in words of our own
    try:
        if not address.startswith(WITHIN_A_PROCESS):
            get_address_host_port(address)  # a client that was never able to connect hangs when the process ends
        return Client(address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        what = f"no scheduler of Dask answers at {address!r} ({reason})"
        raise InputError(what, place="--dask", expected="an address such as tcp://10.0.0.1:8786") from None
