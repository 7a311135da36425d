"""Bisection of a chain of points: ascending capacities, everything else equal.

More capacity never costs more: a plan that fits a memory fits a larger one, and costs the same there. The cost at a
capacity between two others is therefore at most that of the smaller one, and at least the bound of the larger one. If
these are equal, all points between are settled. The computed points depend on values alone, not on the order of
answers: an interrupted chain continues as it would have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from onchip.sweeps.point import Number, PointAnswer, PointStatus

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
