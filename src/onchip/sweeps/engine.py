"""The sweep engine: points are answered by workers and stored as they arrive; known points are not recomputed.

More capacity never costs more: a plan that fits a memory fits a larger one, and costs the same there. The cost at a
capacity between two others is therefore at most that of the smaller one, and at least the bound of the larger one. If
these are equal, all points between are settled. The computed points depend on values alone, not on the order of
answers: an interrupted chain continues as it would have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from onchip.errors import UsageError
from onchip.search.budget.clock import Stopwatch
from onchip.sweeps.expression import Value
from onchip.sweeps.point import NeighbourAnswers, Number, PointAnswer, PointStatus, SweepPoint
from onchip.sweeps.store import Store

UNPROVEN = (PointStatus.FEASIBLE, PointStatus.UNKNOWN)


@dataclass(slots=True)
class Bisection:
    """A chain of points by key; `answers` are the known ones, `settled` those implied by others.

    Points for which `is_beyond` returns True, given a lower bound on their values, are `spared` and have no answer.
    `between` maps a computed point to the two points around it, whose answers are known then.
    """

    keys: Sequence[str]
    is_beyond: Callable[[Sequence[str], Number], bool] | None = None
    answers: dict[str, PointAnswer] = field(default_factory=dict)
    settled: dict[str, PointAnswer] = field(default_factory=dict)
    spared: set[str] = field(default_factory=set)
    between: dict[str, tuple[str, str]] = field(default_factory=dict)
    _waiting: list[tuple[int, int]] = field(default_factory=list)
    _asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._waiting.append((0, len(self.keys) - 1))

    def take(self, key: str, answer: PointAnswer) -> None:
        """Record the answer of a point."""
        self.answers[key] = answer

    def next_keys(self) -> Iterator[str]:
        """Yield the points to be computed next, each once; intervals with two known ends are bisected further."""
        waiting, self._waiting = self._waiting, []
        while waiting:
            low, high = waiting.pop()
            missing = [self.keys[end] for end in dict.fromkeys((low, high)) if self.keys[end] not in self.answers]
            if missing:
                self._waiting.append((low, high))
                yield from (key for key in missing if key not in self._asked)
                self._asked.update(missing)
            elif high - low > 1:
                waiting += self._parts(low, high)

    @property
    def is_over(self) -> bool:
        """Return True if every point has an answer, or is settled."""
        return not self._waiting

    def tightened(self) -> dict[str, PointAnswer]:
        """Return the answers improved by others of the chain: by a smaller memory's plan, or a larger one's bound."""
        best: tuple[str, PointAnswer] | None = None
        found: dict[str, PointAnswer] = {}
        bounds = self._bounds()
        for key in self.keys:
            answer = self.answers.get(key)
            if answer is None or answer.status not in UNPROVEN:
                best = _better(best, key, answer)
                continue
            tight = _with_bound(_with_plan(answer, best), bounds[key])
            if tight != answer:
                found[key] = self.answers[key] = tight
            best = _better(best, key, tight)
        return found

    def _bounds(self) -> dict[str, Number]:
        """Return for each point the greatest bound of it and all larger memories; 0 if nothing is proven."""
        bounds: dict[str, Number] = {}
        greatest: Number = 0
        for key in reversed(self.keys):
            answer = self.answers.get(key)
            if answer is not None and answer.lower_bound is not None:
                greatest = max(greatest, answer.lower_bound)
            bounds[key] = greatest
        return bounds

    def _parts(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the two halves of an interval; none if its ends settle the points between."""
        follows = answer_between(
            self.keys[low], self.answers[self.keys[low]], self.keys[high], self.answers[self.keys[high]]
        )
        if follows is None:
            bound, between = self.answers[self.keys[high]].lower_bound, self.keys[low + 1 : high]
            if self.is_beyond is not None and bound is not None and self.is_beyond(between, bound):
                self.spared.update(key for key in between if key not in self.answers)
                return []
            middle = (low + high) // 2
            self.between[self.keys[middle]] = self.keys[low], self.keys[high]
            return [(low, middle), (middle, high)]
        for key in self.keys[low + 1 : high]:
            if key not in self.answers:
                self.answers[key] = self.settled[key] = follows
        return []


def _better(
    best: tuple[str, PointAnswer] | None, key: str, answer: PointAnswer | None
) -> tuple[str, PointAnswer] | None:
    """Return the plan of least value so far, the first of equals, with the key of its point."""
    if answer is None or answer.objective_value is None:
        return best
    if best is not None and best[1].objective_value is not None and best[1].objective_value <= answer.objective_value:
        return best
    return answer.settled_by or key, answer


def _with_plan(answer: PointAnswer, best: tuple[str, PointAnswer] | None) -> PointAnswer:
    """Return the answer, or a cheaper plan of a smaller memory with the answer's bound."""
    if best is None or best[1].objective_value is None:
        return answer
    key, plan = best
    if answer.objective_value is not None and answer.objective_value <= best[1].objective_value:
        return answer
    feasible = replace(plan, status=PointStatus.FEASIBLE, lower_bound=answer.lower_bound, seconds=answer.seconds)
    return replace(feasible, document=None, settled_by=key)


def _with_bound(answer: PointAnswer, bound: Number) -> PointAnswer:
    """Return the answer with the greater bound, as optimal if its value equals that bound."""
    if answer.status is PointStatus.INFEASIBLE:
        return answer
    greater = bound if answer.lower_bound is None else max(bound, answer.lower_bound)
    status = PointStatus.OPTIMAL if answer.objective_value == greater else answer.status
    return replace(answer, lower_bound=greater, status=status)


def answer_between(low_key: str, low: PointAnswer, high_key: str, high: PointAnswer) -> PointAnswer | None:
    """Return the answer at any capacity between two others if it is implied by their answers, else None."""
    if high.status is PointStatus.INFEASIBLE:
        return replace(high, seconds=0.0, document=None, settled_by=high.settled_by or high_key)
    if not low.has_value or high.lower_bound is None or low.objective_value != high.lower_bound:
        return None
    key = low.settled_by or low_key
    return replace(
        low,
        status=PointStatus.OPTIMAL,
        lower_bound=low.objective_value,
        seconds=0.0,
        document=None,
        settled_by=key,
    )


VALUE = "objective_value"
RowT = TypeVar("RowT")


def front_of(rows: Sequence[RowT], records: Sequence[Mapping[str, Value]], names: Sequence[str]) -> tuple[RowT, ...]:
    """Return the rows that no other of the same network, verb and objective dominates in `names`.

    Of rows that are equal in all columns the first is kept; rows without a value are omitted.
    """
    groups: dict[Hashable, list[tuple[tuple[Number, ...], int]]] = {}
    for at, record in enumerate(records):
        values = tuple(value for name in names if isinstance(value := record.get(name), int | float))
        if len(values) == len(names):
            group = record.get("verb"), record.get("network"), record.get("objective")
            groups.setdefault(group, []).append((values, at))
    chosen: set[int] = set()
    for members in groups.values():
        best: list[tuple[Number, ...]] = []
        for values, at in sorted(members):
            if not any(_is_at_most(one, values) for one in best):
                best.append(values)
                chosen.add(at)
    return tuple(row for at, row in enumerate(rows) if at in chosen)


def _is_at_most(one: Sequence[Number], other: Sequence[Number]) -> bool:
    return all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


def names_of_front(text: str) -> tuple[str, ...]:
    """Return the columns of a text such as `AREA,LATENCY`; raises UsageError for fewer than two."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if len(names) < 2:
        raise UsageError(
            f"{text!r} names fewer than two columns",
            place="pareto",
            expected="two columns or more: area,objective_value",
        )
    return names


def ensure_columns(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError for a column of a front that no row has."""
    for name in names:
        if name not in known:
            raise UsageError(f"there is no column {name!r}", place="pareto", expected=f"some of {', '.join(known)}")


@dataclass(slots=True)
class SoughtFront:
    """The known points of the fronts of cost against value during a sweep, one front for each network and objective.

    A point cannot be on a front if another costs at most as much, and its value is at most the point's bound.
    """

    cost: str
    points: Mapping[str, SweepPoint]
    _known: dict[tuple[str, str], list[tuple[Number, Number]]] = field(default_factory=dict)

    def take(self, key: str, answer: PointAnswer) -> None:
        """Add the value of a point."""
        if answer.objective_value is not None:
            point = self.points[key]
            self._known.setdefault(_front(point), []).append((point.costs[self.cost], answer.objective_value))

    def is_beyond(self, keys: Sequence[str], bound: Number) -> bool:
        """Return True if none of these points, whose values are at least the bound, can be on its front."""
        return all(self._is_dominated(self.points[key], bound) for key in keys)

    def _is_dominated(self, point: SweepPoint, bound: Number) -> bool:
        cost = point.costs[self.cost]
        return any(one <= cost and value <= bound for one, value in self._known.get(_front(point), ()))


def _front(point: SweepPoint) -> tuple[str, str]:
    return point.network_sha256, point.objective


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
