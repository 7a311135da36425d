"""A study's points, answered by workers and kept in a store as they come: what is known is never asked again."""

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
"""How long it waits for an answer before it looks whether it is to stop."""
SECONDS_BETWEEN_WRITES = 0.25
"""How old an answer gets before it is kept: a kill loses no more."""


class Workers(Protocol):
    """Who answers points: processes of this machine, or a cluster."""

    @property
    def room(self) -> int:
        """How many points it would take now."""

    def begin(self, points: int) -> None:
        """Get ready for so many points."""

    def submit(self, point: SweepPoint) -> None:
        """Hand over a point to be answered."""

    def finished(self, seconds: float) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """Wait at most so long for answers, and yield those that there are."""

    def close(self) -> None:
        """End whatever they are at."""


@dataclass(slots=True)
class SweepProgress:
    """How many different points there are, and what has become of them."""

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
        """How many points are over by now."""
        return self.computed + self.failed + self.settled + self.kept_before + self.spared

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at the pace so far; None before any point is over."""
        over = self.computed + self.failed + self.settled
        return None if not over else self.watch.seconds / over * (self.points - self.done)


@dataclass(slots=True)
class Sweep:
    """Points, in chains whose ends may settle what lies between, or alone.

    `tell` hears of the progress, `is_stopped` says when to give up what is in flight. With a `front` points are spared
    that cannot be on it.
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
        """Answer all points but those known; returns whether it came to the end. The workers end with it."""
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
        """A point with what its neighbours say of it, whose answers it follows from, so a later sweep asks the same."""
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
        """The compressed file of a point's answer, kept by now or not."""
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
        """Queue what a chain needs next, and keep what it settles."""
        before, spared = len(chain.settled), len(chain.spared)
        self._queue += chain.next_keys()
        self.progress.spared += len(chain.spared) - spared
        if len(chain.settled) > before:
            new = dict(list(chain.settled.items())[before:])
            self.progress.settled += len(new)
            self._unkept |= new
        self._tighten(chain)

    def _tighten(self, chain: Bisection) -> None:
        """Keep what the points of a whole chain prove of each other."""
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
