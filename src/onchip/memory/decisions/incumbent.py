"""The best plan so far and the bound proven so far: what makes a method anytime."""

from __future__ import annotations

from collections.abc import Sequence

from onchip.answer.program import Plan
from onchip.answer.result import Result
from onchip.memory.decisions.compose import OperatorSchedule, compose
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.search.strategy import incumbent


class PlanIncumbent(incumbent.Incumbent[Plan]):
    """Collects plans, or schedules with offsets; only the best schedule is written down as a plan, at the end."""

    def __init__(self, indexed: IndexedProblem, run: Run) -> None:
        super().__init__(run)
        self.indexed = indexed
        self.schedule: OperatorSchedule | None = None
        self._offsets_bytes: tuple[int, ...] = ()
        known = run.warm_start
        if known is not None and known.is_of(indexed.problem):
            self.raise_bound(known.lower_bound)
            if known.plan is not None and known.value is not None:
                self.keep(known.plan, known.value, "known before")

    def keep(self, answer: Plan | None, value: int, phase: str) -> bool:
        """Keep a plan if it is better than the best so far, and forget the schedule."""
        is_better = super().keep(answer, value, phase)
        if is_better:
            self.schedule = None
        return is_better

    def offer(self, schedule: OperatorSchedule, offsets_bytes: Sequence[int], value: int, phase: str) -> None:
        """Keep a schedule with its offsets if it is better than the best so far."""
        if self.keep(None, value, phase):
            self.schedule, self._offsets_bytes = schedule, tuple(offsets_bytes)

    def result(self, method: str) -> Result[Plan]:
        """Return the state of the search as a result."""
        if self.answer is None and self.schedule is not None:
            self.answer = compose(self.indexed, self.schedule, self._offsets_bytes)
        return super().result(method)
