"""The sweep engine: points are answered by workers and stored as they arrive; known points are not recomputed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from onchip.search.budget.clock import Stopwatch
from onchip.sweeps.bisection import Bisection
from onchip.sweeps.front import SoughtFront
from onchip.sweeps.point import NeighbourAnswers, PointAnswer, PointStatus, SweepPoint
from onchip.sweeps.store import Store

SECONDS_BETWEEN_LOOKS = 0.2
"""Maximum wait for an answer before the next check for a stop."""
SECONDS_BETWEEN_WRITES = 0.25
"""Maximum age of an answer before it is stored, which limits the loss if the process is killed."""


class Workers(Protocol):
    """The workers that answer points: processes of this machine, or a cluster."""

    @property
    def room(self) -> int:
        """Return the number of points that can be submitted now."""

    def begin(self, points: int) -> None:
        """Prepare for that many points."""

    def submit(self, point: SweepPoint) -> None:
        """Submit a point to be answered."""

    def finished(self, seconds: float) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """Wait at most `seconds` for answers, and yield the available ones."""

    def close(self) -> None:
        """End the workers and all running points."""


@dataclass(slots=True)
class SweepProgress:
    """The number of distinct points, by state."""

    points: int = 0
    computed: int = 0
    failed: int = 0
    settled: int = 0
    kept_before: int = 0
    spared: int = 0
    tightened: int = 0
    in_flight: int = 0
    watch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def done(self) -> int:
        """Return the number of finished points."""
        return self.computed + self.failed + self.settled + self.kept_before + self.spared

    @property
    def seconds_left(self) -> float | None:
        """Return the expected time for the other points at the pace so far; None before any point has finished."""
        over = self.computed + self.failed + self.settled
        return None if not over else self.watch.seconds / over * (self.points - self.done)


@dataclass(slots=True)
class Sweep:
    """Points in chains, whose ends may settle the points between, or alone.

    `tell` receives the progress, `is_stopped` returns True to abandon running points. With a `front`, points that
    cannot be on it are spared.
    """

    store: Store
    workers: Workers
    points: Mapping[str, SweepPoint]
    chains: Sequence[Bisection]
    progress: SweepProgress
    tell: Callable[[SweepProgress], None]
    is_stopped: Callable[[], bool]
    front: SoughtFront | None = None
    _chain_of: dict[str, Bisection] = field(default_factory=dict)
    _queue: list[str] = field(default_factory=list)
    _unkept: dict[str, PointAnswer] = field(default_factory=dict)
    _last_write: Stopwatch = field(default_factory=Stopwatch)

    def run(self, known: Mapping[str, PointAnswer]) -> bool:
        """Answer all points except the known ones; return True if all are finished. Closes the workers."""
        try:
            for chain in self.chains:
                self._chain_of |= dict.fromkeys(chain.keys, chain)
                for key in chain.keys:
                    if key in known:
                        self._tell_front(key, known[key])
                        chain.take(key, known[key])
                self._go_on(chain)
            self._queue.reverse()
            return self._loop()
        finally:
            self.workers.close()
            self._keep()

    def _loop(self) -> bool:
        while self._queue or self.progress.in_flight:
            if self.is_stopped():
                return False
            while self._queue and self.workers.room > 0:
                self.workers.submit(self._asked(self._queue.pop()))
                self.progress.in_flight += 1
            for point, answer in self.workers.finished(SECONDS_BETWEEN_LOOKS):
                self._take(point.key, answer)
            if self._last_write.seconds >= SECONDS_BETWEEN_WRITES:
                self._keep()
            self.tell(self.progress)
        return True

    def _asked(self, key: str) -> SweepPoint:
        """Return a point with its neighbours' answers, which determined it, so that a later sweep asks the same."""
        chain = self._chain_of[key]
        if key not in chain.between:
            return self.points[key]
        smaller, larger = chain.between[key]
        below, above = chain.answers[smaller], chain.answers[larger]
        document = None
        if below.has_value:
            document = below.document or self._document(below.settled_by or smaller)
        said = NeighbourAnswers(document, below.objective_value, above.lower_bound or 0)
        return replace(self.points[key], neighbours=said)

    def _document(self, key: str) -> bytes | None:
        """Return the compressed answer file of a point, stored or not."""
        answer = self._unkept.get(key)
        return self.store.packed_document(key) if answer is None else answer.document

    def _take(self, key: str, answer: PointAnswer) -> None:
        self.progress.in_flight -= 1
        if answer.status is PointStatus.FAILED:
            self.progress.failed += 1
        else:
            self.progress.computed += 1
        self._unkept[key] = answer
        self._tell_front(key, answer)
        chain = self._chain_of[key]
        chain.take(key, answer)
        self._go_on(chain)

    def _go_on(self, chain: Bisection) -> None:
        """Queue the next points of a chain, and keep the points that it settles."""
        before, spared = len(chain.settled), len(chain.spared)
        self._queue += chain.next_keys()
        self.progress.spared += len(chain.spared) - spared
        if len(chain.settled) > before:
            new = dict(list(chain.settled.items())[before:])
            self.progress.settled += len(new)
            self._unkept |= new
        self._tighten(chain)

    def _tighten(self, chain: Bisection) -> None:
        """Keep the answers that the points of a complete chain improve."""
        if chain.is_over and len(chain.keys) > 1:
            tighter = chain.tightened()
            self.progress.tightened += len(tighter)
            self._unkept |= tighter

    def _tell_front(self, key: str, answer: PointAnswer) -> None:
        if self.front is not None:
            self.front.take(key, answer)

    def _keep(self) -> None:
        unkept, self._unkept = self._unkept, {}
        if unkept:
            self.store.put(unkept, self.points)
        self._last_write = Stopwatch()
