"""Worker processes with memory and time limits per point, on this machine or in a Dask cluster."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from onchip.errors import InputError, InternalError, UsageError
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.strategy.start import NoAnswerError
from onchip.sweeps.point import PointAnswer, PointStatus, SweepPoint
from onchip.sweeps.study import PointLimits

if TYPE_CHECKING:
    from distributed import Client, Future

SET_DEATH_SIGNAL: Final = 1
"""Linux's PR_SET_PDEATHSIG."""
OUT_OF_MEMORY: Final = "the point exceeds its memory limit"


def main() -> None:
    """Answer the points of a connection; the arguments are its descriptor and the parent's process id."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep handles Ctrl-C and ends its workers
    warnings.simplefilter("ignore")  # networks' warnings were shown by the parent; the cache's cost only time
    _die_with(int(sys.argv[2]))
    connection = Connection(int(sys.argv[1]))
    with suppress(EOFError, OSError):
        sys.path[:] = connection.recv()  # to find the function to call
        prepare, answer_point, memory_bytes = connection.recv()
        prepare()
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        connection.send(None)  # ready: the start does not count as time of a point
        while True:
            connection.send(answered(answer_point, connection.recv()))


def answered(answer_point: Callable[[SweepPoint], PointAnswer], point: SweepPoint) -> PointAnswer:
    """Return the answer of a point, or a failed one: no error of one point ends a sweep."""
    try:
        return answer_point(point)
    except MemoryError:
        return PointAnswer(PointStatus.FAILED, reason=OUT_OF_MEMORY)
    except Exception as error:  # a defect of one point must not end the others
        reason = " ".join(str(error).split()) or type(error).__name__
        return PointAnswer(PointStatus.FAILED, reason=f"{type(error).__name__}: {reason}")


def _die_with(parent: int) -> None:
    """Ask the system to end this process when its parent ends for any reason."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call
        os._exit(1)


SERVE: Final = "from onchip.sweeps.processes import main; main()"
MOST_WAITING: Final = 64
SECONDS_OF_WAITING: Final = 0.2
"""Work queued at a worker in seconds, so that it never waits for the next point."""
SECONDS_BETWEEN_LOOKS: Final = 0.5
OF_THE_PAST: Final = 0.9
"""Weight of the past in the moving average of the time per point."""


@dataclass(slots=True)
class _Worker:
    """A process; it answers the first of its points. `watch` runs since it could begin with that one."""

    process: subprocess.Popen[bytes]
    connection: Connection
    points: list[SweepPoint] = field(default_factory=list)
    watch: Stopwatch = field(default_factory=Stopwatch)
    is_ready: bool = False

    def end(self) -> None:
        """End the process at once."""
        self.connection.close()
        self.process.kill()
        self.process.wait()


def _nothing() -> None:
    """Do nothing; the default preparation."""


@dataclass(slots=True)
class LocalProcesses:
    """A pool of `count` worker processes, which all call `answer_point`, a picklable function.

    Each first calls `prepare`, whose time counts for no point. The system enforces the memory limit; a point that
    exceeds it, or its time limit, has failed.
    """

    answer_point: Callable[[SweepPoint], PointAnswer]
    count: int
    limits: PointLimits
    prepare: Callable[[], None] = _nothing
    _workers: list[_Worker] = field(default_factory=list)
    _mean_seconds: float = SECONDS_OF_WAITING

    @property
    def room(self) -> int:
        """Return the number of points that can be submitted now: more points queue at a worker the shorter they are."""
        waiting = min(MOST_WAITING, int(SECONDS_OF_WAITING / max(self._mean_seconds, 1e-6)))
        return self.count * (1 + max(1, waiting)) - sum(len(worker.points) for worker in self._workers)

    def submit(self, point: SweepPoint) -> None:
        """Send a point to the worker with the fewest; a dead worker is noticed when its answers are read."""
        worker = min(self._workers, key=lambda one: len(one.points), default=None)
        if worker is None or (worker.points and len(self._workers) < self.count):
            worker = self._started()
        if not worker.points:
            worker.watch = Stopwatch()
        worker.points.append(point)
        with suppress(OSError):
            worker.connection.send(point)

    def begin(self, points: int) -> None:
        """Start the workers for that many points, so that they are ready for the first."""
        while len(self._workers) < min(self.count, points):
            self._started()

    def finished(self, seconds: float) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """Wait at most `seconds` for answers, and yield the available ones.

        Raises InternalError if a worker ends before it is ready.
        """
        busy = [worker for worker in self._workers if worker.points]
        limit = self.limits.seconds
        left = (limit - worker.watch.seconds for worker in busy if limit is not None and worker.is_ready)
        ready = wait([worker.connection for worker in busy], max(0.0, min((seconds, *left))))
        for worker in busy:
            if worker.connection in ready:
                yield from self._received(worker)
            elif limit is not None and worker.is_ready and worker.watch.seconds > limit:
                yield from self._ended(worker, f"the point exceeds its time limit of {limit:g} s")

    def close(self) -> None:
        """End all workers at once."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def _started(self) -> _Worker:
        ours, theirs = Pipe()
        with theirs:
            program = sys.executable, "-c", SERVE, str(theirs.fileno()), str(os.getpid())
            process = subprocess.Popen(program, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=2)
        worker = _Worker(process, ours)
        ours.send(sys.path)
        ours.send((self.prepare, self.answer_point, self.limits.memory_bytes))
        self._workers.append(worker)
        return worker

    def _received(self, worker: _Worker) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """Yield the answers of a worker, and handle its readiness and its end."""
        try:
            while True:
                answer = worker.connection.recv()
                worker.watch, worker.is_ready = Stopwatch(), True
                if answer is not None:
                    self._mean_seconds += (1 - OF_THE_PAST) * (answer.seconds - self._mean_seconds)
                    yield worker.points.pop(0), answer
                if not worker.connection.poll():
                    return
        except (EOFError, OSError):
            code = worker.process.wait()
            if not worker.is_ready:
                raise InternalError(f"a worker cannot begin: {_why(code)}", place="sweep") from None
            yield from self._ended(worker, _why(code))

    def _ended(self, worker: _Worker, reason: str) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """End a worker; its first point has failed, and other workers get the others."""
        worker.end()
        self._workers.remove(worker)
        for point in worker.points[1:]:
            self.submit(point)
        if worker.points:
            yield worker.points[0], PointAnswer(PointStatus.FAILED, reason=reason)


def _why(code: int) -> str:
    """Return the reason why a worker ended during a point."""
    if code == -signal.SIGKILL:
        return f"the worker was killed: {OUT_OF_MEMORY}, or it was ended from outside"
    name = signal.Signals(-code).name if code < 0 else f"code {code}"
    return f"the worker ended ({name})"


_own = threading.local()


def answer_in_own_process(
    answer_point: Callable[[SweepPoint], PointAnswer],
    limits: PointLimits,
    prepare: Callable[[], None],
    point: SweepPoint,
) -> PointAnswer:
    """Answer a point in a limited process, one for each thread, which lives as long as its thread."""
    asked = answer_point, limits, prepare
    if getattr(_own, "asked", None) != asked:
        _own.asked, _own.workers = asked, LocalProcesses(answer_point, 1, limits, prepare)
    workers: LocalProcesses = _own.workers
    workers.submit(point)
    answers: list[PointAnswer] = []
    while not answers:
        answers += [answer for _, answer in workers.finished(SECONDS_BETWEEN_LOOKS)]
    return answers[0]


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
            raise NoAnswerError(what, place="`dask`", expected="the same command, once there is a scheduler")
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
        return PointAnswer(PointStatus.FAILED, reason=f"the point was lost with several workers: {reason}")
    answer = future.result()
    return answer if isinstance(answer, PointAnswer) else None


SECONDS_TO_CONNECT = 10
WITHIN_A_PROCESS = "inproc://"
"""Scheme of addresses without host and port."""


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
