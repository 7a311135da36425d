"""The incumbent of an anytime search: the best answer and the best lower bound so far."""

from __future__ import annotations

from typing import Generic, TypeVar

from onchip.answer.result import Result, Status, Stop
from onchip.search.budget.limits import Run

AnswerT = TypeVar("AnswerT")


class Incumbent(Generic[AnswerT]):
    """The best answer and bound of a minimisation; reports each improvement, and ends as a Result."""

    def __init__(self, run: Run, lower_bound: int = 0) -> None:
        self.run = run
        self.answer: AnswerT | None = None
        self.value: int | None = None
        self.lower_bound = lower_bound
        self.stopped_by = Stop.COMPLETED
        self.is_infeasible = False

    @property
    def is_proven(self) -> bool:
        """Return True if the best answer attains the bound."""
        return self.value is not None and self.value <= self.lower_bound

    @property
    def is_settled(self) -> bool:
        """Return True if the best answer is proven optimal, or the problem is proven infeasible."""
        return self.is_proven or self.is_infeasible

    def keep(self, answer: AnswerT | None, value: int, phase: str) -> bool:
        """Keep and report an answer if it improves on the incumbent; return True if it does.

        The answer may be None if it is built later.
        """
        if self.value is not None and value >= self.value:
            return False
        self.answer, self.value = answer, value
        self.run.report(value, self.lower_bound, phase)
        return True

    def raise_bound(self, lower_bound: int) -> None:
        """Keep and report a bound if it is higher than the best so far."""
        if lower_bound > self.lower_bound:
            self.lower_bound = lower_bound
            self.run.report(self.value, lower_bound, "bound")

    def result(self, method: str) -> Result[AnswerT]:
        """Return the state of the search as a result."""
        seconds = self.run.seconds
        if self.answer is None or self.value is None:
            status = Status.INFEASIBLE if self.is_infeasible else Status.UNKNOWN
            return Result(status, None, None, self.lower_bound, seconds, method, self.stopped_by)
        status = Status.OPTIMAL if self.is_proven else Status.FEASIBLE
        stopped_by = Stop.COMPLETED if self.is_proven else self.stopped_by
        return Result(status, self.answer, self.value, self.lower_bound, seconds, method, stopped_by)
