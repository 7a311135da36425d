"""Points computed by a Dask cluster, whose workers SLURM, PBS, Kubernetes and clouds start with their own launchers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from onchip.search.budget.clock import Deadline
from onchip.search.strategy.dask_pool import connected
from onchip.search.strategy.start import NoAnswerError
from onchip.sweeps.point import PointAnswer, PointStatus, SweepPoint
from onchip.sweeps.worker import answered

if TYPE_CHECKING:
    from distributed import Client, Future

LEAST_ROOM = 4
"""Number of points submitted while there is no worker."""


@dataclass(slots=True)
class DaskCluster:
    """The workers of a scheduler, which all call `answer_point`; only this process receives the answers.

    The scheduler reassigns the points of a lost worker; this class resubmits the points lost by a restarted scheduler.
    """

    answer_point: Callable[[SweepPoint], PointAnswer]
    client: Client
    _ended: SimpleQueue[tuple[SweepPoint, Future]] = field(default_factory=SimpleQueue)
    _futures: dict[str, Future] = field(default_factory=dict)

    @classmethod
    def at(cls, address: str, answer_point: Callable[[SweepPoint], PointAnswer]) -> DaskCluster:
        """Connect to a scheduler; raises UsageError if Dask is not installed, InputError if no scheduler answers."""
        return cls(answer_point, connected(address))

    @property
    def room(self) -> int:
        """Return the number of points that can be submitted now: two for each thread of a worker."""
        threads = sum(self.client.nthreads().values()) if self.client.status == "running" else 0
        return max(2 * threads, LEAST_ROOM) - len(self._futures)

    def begin(self, points: int) -> None:
        """Do nothing, because the workers exist."""

    def submit(self, point: SweepPoint) -> None:
        """Submit a point to the scheduler."""
        future = self.client.submit(answered, self.answer_point, point, key=f"onchip-{point.key}", pure=False)
        self._futures[point.key] = future
        future.add_done_callback(lambda ended: self._ended.put((point, ended)))

    def finished(self, seconds: float) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """Wait at most `seconds` for answers, and yield the available ones.

        Raises NoAnswerError if the scheduler has ended and does not come back.
        """
        deadline = Deadline.after(seconds)
        if self.client.status in ("closed", "closing"):
            what = "the scheduler of Dask is gone; what was answered is in the store"
            raise NoAnswerError(what, place="--dask", expected="the same command, once there is a scheduler")
        while True:
            try:
                point, future = self._ended.get(timeout=max(0.0, deadline.seconds_left))
            except Empty:
                return
            if self._futures.get(point.key) is not future:
                continue  # it was resubmitted
            answer = _answer_of(future)
            if answer is None:
                if self.client.status not in ("closed", "closing"):
                    self.submit(point)
                continue
            del self._futures[point.key]
            yield point, answer
            deadline = Deadline.after(0)  # yield other available answers without waiting

    def close(self) -> None:
        """Cancel all pending points; the cluster keeps running."""
        with suppress(Exception):  # nothing to cancel if the scheduler is gone
            self.client.cancel(list(self._futures.values()), force=True)
        with suppress(Exception):
            self.client.close()


def _answer_of(future: Any) -> PointAnswer | None:  # noqa: ANN401 - the library has no types
    """Return the result of a task; None if it was lost with its scheduler, and must be resubmitted."""
    if future.status in ("cancelled", "lost"):
        return None
    if future.status == "error":
        reason = " ".join(str(future.exception()).split())
        return PointAnswer(PointStatus.FAILED, reason=f"it was lost with several workers: {reason}")
    answer = future.result()
    return answer if isinstance(answer, PointAnswer) else None
