"""The best plan so far and the bound proven so far: what makes a method anytime."""

from __future__ import annotations

from collections.abc import Sequence

from onchip.answer.program import Plan
from onchip.answer.result import Result, Status, Stop
from onchip.memory.decisions.compose import OperatorSchedule, compose
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run


class Incumbent:
    """Collects plans and bounds, reports each improvement, and ends as a Result."""

    def __init__(self, indexed: IndexedProblem, run: Run) -> None:
        self.indexed = indexed
        self.run = run
        self.value: int | None = None
        self.lower_bound = 0
        self.stopped_by = Stop.COMPLETED
        self.is_infeasible = False
        self.schedule: OperatorSchedule | None = None
        self._offsets_bytes: tuple[int, ...] = ()
        self._plan: Plan | None = None
        known = run.warm_start
        if known is not None and known.is_of(indexed.problem):
            self.raise_bound(known.lower_bound)
            if known.plan is not None and known.value is not None:
                self.offer_plan(known.plan, known.value, "known before")

    @property
    def is_proven(self) -> bool:
        """Whether the best plan attains the bound."""
        return self.value is not None and self.value <= self.lower_bound

    def offer(self, schedule: OperatorSchedule, offsets_bytes: Sequence[int], value: int, phase: str) -> None:
        """Keep the schedule, which is written down as a plan at the end, if it is the best so far."""
        if self.value is None or value < self.value:
            self.value, self.schedule, self._plan = value, schedule, None
            self._offsets_bytes = tuple(offsets_bytes)
            self.run.report(value, self.lower_bound, phase)

    def offer_plan(self, plan: Plan, value: int, phase: str) -> None:
        """Keep a plan that is no schedule, or not yet one, if it is the best so far."""
        if self.value is None or value < self.value:
            self.value, self.schedule, self._plan = value, None, plan
            self.run.report(value, self.lower_bound, phase)

    def raise_bound(self, lower_bound: int) -> None:
        """Keep the bound if it is the best so far."""
        if lower_bound > self.lower_bound:
            self.lower_bound = lower_bound
            self.run.report(self.value, lower_bound, "bound")

    def result(self, method: str) -> Result[Plan]:
        """Return what is known now."""
        if self._plan is None and self.schedule is not None:
            self._plan = compose(self.indexed, self.schedule, self._offsets_bytes)
        seconds = self.run.seconds
        if self._plan is None or self.value is None:
            status = Status.INFEASIBLE if self.is_infeasible else Status.UNKNOWN
            return Result(status, None, None, self.lower_bound, seconds, method, self.stopped_by)
        status = Status.OPTIMAL if self.is_proven else Status.FEASIBLE
        stopped_by = Stop.COMPLETED if self.is_proven else self.stopped_by
        return Result(status, self._plan, self.value, self.lower_bound, seconds, method, stopped_by)
