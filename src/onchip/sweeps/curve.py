"""Bounds on the minimum cost as a function of capacity: upper bounds from plans, and lower bounds.

A plan whose highest address is a costs the same in every memory of at least a bytes; a lower bound at a capacity holds
at every smaller one. Where both are equal, the curve is known. Every proven answer closes the interval from its plan's
highest address to its capacity, so finitely many answers determine the whole curve.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from onchip.answer.program import Plan


@dataclass(frozen=True, slots=True)
class CurveStep:
    """A range of capacities from `first` to `last` bytes, both included, with bounds on the minimum cost.

    A `last` of None is unbounded. The cost is at least `lower_bound` and at most `value`, which is None if no plan is
    known.
    """

    first: int
    last: int | None
    value: int | None
    lower_bound: int

    @property
    def is_proven(self) -> bool:
        """Return True if the value is proven to be the minimum."""
        return self.value == self.lower_bound


@dataclass(slots=True)
class Curve:
    """The curve from `first` up to `last` bytes in steps of `unit`, constant beyond `last`.

    No capacity between two multiples of the unit, counted from `first`, allows more than the lower of them. With a
    `finest` ratio, intervals with a smaller ratio of their ends stay open, and the widest interval comes first: if
    proofs are rare, each answer would leave another open interval.
    """

    first: int
    last: int
    unit: int = 1
    finest: float | None = None
    plans: dict[int, tuple[int, Plan | None]] = field(default_factory=dict)
    bounds: dict[int, int] = field(default_factory=dict)
    given_up: set[tuple[int, int | None]] = field(default_factory=set)
    _looks_at_the_end: bool = True

    def add(self, capacity: int, value: int | None, end: int | None, bound: int, plan: Plan | None = None) -> None:
        """Add the result at a capacity: a bound, and a plan of that value up to the address `end` if one was found."""
        if value is not None and end is not None:
            reached = self._up(end)
            if reached not in self.plans or value < self.plans[reached][0]:
                self.plans[reached] = value, plan
        self.bounds[capacity] = max(bound, self.bounds.get(capacity, bound))

    def next_capacity(self) -> int | None:
        """Return the capacity to be planned next; None once every interval is known or given up."""
        waiting = [step for step in reversed(tuple(self.steps())) if self._is_open(step)]
        if not waiting:
            return None
        step = waiting[0] if self.finest is None else max(waiting, key=lambda one: self._last_of(one) / one.first)
        self._looks_at_the_end = not self._looks_at_the_end
        if self._looks_at_the_end:
            return self._down(self._last_of(step))
        return self._down((step.first + self._last_of(step)) // 2)

    def _is_open(self, step: CurveStep) -> bool:
        if step.is_proven or (step.first, step.last) in self.given_up:
            return False
        return self.finest is None or self._last_of(step) >= self.finest * step.first

    def _last_of(self, step: CurveStep) -> int:
        return self.last if step.last is None else min(step.last, self.last)

    def give_up(self, capacity: int) -> None:
        """Mark the interval that holds a capacity as given up, after a result without proof."""
        for step in self.steps():
            if step.first <= capacity and (step.last is None or capacity <= step.last) and not step.is_proven:
                self.given_up.add((step.first, step.last))

    def steps(self) -> Iterator[CurveStep]:
        """Yield the intervals of constant bounds, smallest capacity first, with equal neighbours merged."""
        cuts = {self.first, *self.plans, *(capacity + self.unit for capacity in self.bounds)}
        starts = sorted(cut for cut in cuts if self.first <= cut <= self.last)
        before: CurveStep | None = None
        for first, following in zip(starts, [*starts[1:], None], strict=True):
            step = CurveStep(
                first, None if following is None else following - 1, self._value(first), self._bound(first)
            )
            if before is not None and (before.value, before.lower_bound) == (step.value, step.lower_bound):
                before = replace(before, last=step.last)
                continue
            if before is not None:
                yield before
            before = step
        if before is not None:
            yield before

    def known_at(self, capacity: int) -> tuple[Plan | None, int | None, int]:
        """Return the best plan that fits a capacity, its value, and the bound there."""
        fitting = [(value, end) for end, (value, _) in self.plans.items() if end <= capacity]
        value, end = min(fitting, default=(None, None))
        return None if end is None else self.plans[end][1], value, self._bound(capacity)

    def _value(self, capacity: int) -> int | None:
        return min((value for end, (value, _) in self.plans.items() if end <= capacity), default=None)

    def _bound(self, capacity: int) -> int:
        return max((bound for at, bound in self.bounds.items() if at >= capacity), default=0)

    def _up(self, capacity: int) -> int:
        """Return the least capacity of the grid that is at least `capacity`."""
        return max(self.first, self.first - (self.first - capacity) // self.unit * self.unit)

    def _down(self, capacity: int) -> int:
        """Return the greatest capacity of the grid that is at most `capacity`."""
        return self.first + (capacity - self.first) // self.unit * self.unit
