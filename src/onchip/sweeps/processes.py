"""Worker processes on this machine with memory and time limits per point; a dead worker is replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Final

from onchip.errors import InternalError
from onchip.search.budget.clock import Stopwatch
from onchip.sweeps.point import PointAnswer, PointStatus, SweepPoint
from onchip.sweeps.study import PointLimits
from onchip.sweeps.worker import OUT_OF_MEMORY, AnswerCount

SERVE: Final = "from onchip.sweeps.worker import main; main()"
MOST_WAITING: Final = 256
SECONDS_OF_WAITING: Final = 0.2
"""Work queued at a worker in seconds, so that it never waits for the next point."""
SECONDS_BETWEEN_LOOKS: Final = 0.5
OF_THE_PAST: Final = 0.9
"""Weight of the past in the moving average of the time per point."""


@dataclass(slots=True)
class _Worker:
    """A process; `points` are its unanswered points, and `unsent` the last of them, not yet sent to it.

    `taken` of its answers have been received, `seen` have been counted. `watch` runs since its last visible progress.
    """

    process: subprocess.Popen[bytes]
    connection: Connection
    count: AnswerCount
    points: list[SweepPoint] = field(default_factory=list)
    unsent: list[SweepPoint] = field(default_factory=list)
    taken: int = 0
    seen: int = 0
    watch: Stopwatch = field(default_factory=Stopwatch)
    is_ready: bool = False


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
        """Submit a point to the worker with the fewest points."""
        least = min(self._workers, key=lambda worker: len(worker.points), default=None)
        if least is None or (least.points and len(self._workers) < self.count):
            least = self._started()
        if not least.points:
            least.watch = Stopwatch()
        least.points.append(point)
        least.unsent.append(point)

    def begin(self, points: int) -> None:
        """Start the workers for that many points, so that they are ready for the first."""
        while len(self._workers) < min(self.count, points):
            self._started()

    def finished(self, seconds: float) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """Wait at most `seconds` for answers, and yield the available ones.

        Raises InternalError if a worker ends before it is ready.
        """
        for worker in self._workers:
            _send(worker)
        timeout = min((seconds, *self._seconds_left()))
        ready = wait([worker.connection for worker in self._workers if worker.points], max(0.0, timeout))
        for worker in tuple(self._workers):
            if worker.connection in ready:
                yield from self._received(worker)
            elif self._is_late(worker):
                yield from self._ended(worker, f"it takes more than {self.limits.seconds:g} s")

    def close(self) -> None:
        """End all workers at once."""
        for worker in self._workers:
            _end(worker)
        self._workers.clear()

    def _started(self) -> _Worker:
        ours, theirs = Pipe()
        count = AnswerCount.made()
        with theirs:
            descriptors = theirs.fileno(), count.descriptor
            program = sys.executable, "-c", SERVE, *map(str, descriptors), str(os.getpid())
            process = subprocess.Popen(program, pass_fds=descriptors, stdin=subprocess.DEVNULL, stdout=2)
        worker = _Worker(process, ours, count)
        ours.send(sys.path)
        ours.send((self.prepare, self.answer_point, self.limits.memory_bytes))
        self._workers.append(worker)
        return worker

    def _received(self, worker: _Worker) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """Yield the answers of a worker, and handle its readiness and its end."""
        try:
            while True:
                answers = worker.connection.recv()
                worker.watch = Stopwatch()
                worker.is_ready = True
                for answer in answers:
                    self._mean_seconds += (1 - OF_THE_PAST) * (answer.seconds - self._mean_seconds)
                    worker.taken += 1
                    yield worker.points.pop(0), answer
                if not worker.connection.poll():
                    return
        except (EOFError, OSError):
            code = worker.process.wait()
            if not worker.is_ready:
                raise InternalError(f"a worker cannot begin: {_why(code)}", place="sweep") from None
            yield from self._ended(worker, _why(code))

    def _ended(self, worker: _Worker, reason: str) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """End a worker; its current point has failed, and other workers get the rest of its points.

        These include points that it had answered without having sent the answers.
        """
        lost = worker.count.value - worker.taken
        _end(worker)
        self._workers.remove(worker)
        was_at_one = lost < len(worker.points) - len(worker.unsent)
        failed = worker.points[lost : lost + was_at_one]
        for point in (*worker.points[:lost], *worker.points[lost + was_at_one :]):
            self.submit(point)
        for point in failed:
            yield point, PointAnswer(PointStatus.FAILED, reason=reason)

    def _is_late(self, worker: _Worker) -> bool:
        if self.limits.seconds is None or not (worker.is_ready and worker.points):
            return False
        if worker.count.value > worker.seen:
            worker.seen, worker.watch = worker.count.value, Stopwatch()
        return worker.watch.seconds > self.limits.seconds

    def _seconds_left(self) -> Iterator[float]:
        if self.limits.seconds is not None:
            yield from (self.limits.seconds - worker.watch.seconds for worker in self._workers if worker.is_ready)


def _send(worker: _Worker) -> None:
    """Send all unsent points together; a dead worker is noticed when its answers are read."""
    if worker.unsent:
        points, worker.unsent = worker.unsent, []
        with suppress(OSError):
            worker.connection.send(points)


def _end(worker: _Worker) -> None:
    worker.connection.close()
    worker.process.kill()
    worker.process.wait()
    worker.count.close()


def _why(code: int) -> str:
    """Return the reason why a worker ended during a point."""
    if code == -signal.SIGKILL:
        return f"its worker was killed: {OUT_OF_MEMORY}, or somebody ended it"
    name = signal.Signals(-code).name if code < 0 else f"code {code}"
    return f"its worker ended ({name})"


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
