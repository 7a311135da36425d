"""The result of a method: status, bound and answer, and separately the reason why it stopped."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from onchip.errors import InternalError

AnswerT_co = TypeVar("AnswerT_co", covariant=True)


class Status(StrEnum):
    """The claimed status of an answer. A problem without a found answer is UNKNOWN, and INFEASIBLE only if proven."""

    OPTIMAL = "OPTIMAL"
    FEASIBLE = "FEASIBLE"
    INFEASIBLE = "INFEASIBLE"
    UNKNOWN = "UNKNOWN"


class Stop(StrEnum):
    """The reason why a method stopped: completion, a limit, or the user."""

    COMPLETED = "completed"
    TIME_LIMIT = "time limit"
    NODE_LIMIT = "node limit"
    MEMORY_LIMIT = "memory limit"
    INTERRUPTED = "interrupted"
    NO_PACKING = "its residencies have no addresses"


@dataclass(frozen=True, slots=True)
class SearchResult(Generic[AnswerT_co]):
    """The result of a method; `answer` and `objective_value` are None if the status is INFEASIBLE or UNKNOWN.

    `space` names the set of answers for which status and bound hold, if that is not the set of all answers.
    `optimal_among` names a smaller set in which the answer is proven optimal, and `bound_among` is the greater lower
    bound proven for the searched set. `why_not` is the reason why there is no answer.

    Raises InternalError if the claims contradict each other: a bound above the objective, or below it though the answer
    is OPTIMAL, or `bound_among` below the lower bound.
    """

    status: Status
    answer: AnswerT_co | None
    objective_value: int | None
    lower_bound: int
    seconds: float
    method: str
    stopped_by: Stop = Stop.COMPLETED
    space: str | None = None
    why_not: str | None = None
    optimal_among: str | None = None
    bound_among: int | None = None

    def __post_init__(self) -> None:
        has_answer = self.status in (Status.OPTIMAL, Status.FEASIBLE)
        if has_answer is not (self.answer is not None and self.objective_value is not None):
            what = f"a result {self.status} {'needs' if has_answer else 'has no'} answer and objective value"
            raise InternalError(what, place=f"method {self.method}")
        if self.objective_value is not None and self.lower_bound > self.objective_value:
            what = f"its lower bound {self.lower_bound} is above its objective {self.objective_value}"
            raise InternalError(what, place=f"method {self.method}")
        if self.status is Status.OPTIMAL and self.lower_bound != self.objective_value:
            what = f"it is OPTIMAL at {self.objective_value}, and its lower bound is {self.lower_bound}"
            raise InternalError(what, place=f"method {self.method}")
        if self.bound_among is not None:
            self._ensure_between(self.bound_among)

    def _ensure_between(self, bound_among: int) -> None:
        if bound_among < self.lower_bound or (self.objective_value is not None and bound_among > self.objective_value):
            between = f"{self.lower_bound} and its objective {self.objective_value}"
            what = f"its bound among some answers, {bound_among}, is not between its lower bound {between}"
            raise InternalError(what, place=f"method {self.method}")

    @property
    def bound(self) -> int | None:
        """Return the lower bound on the objective; None if INFEASIBLE, since no plan has an objective value."""
        return None if self.status is Status.INFEASIBLE else self.lower_bound

    @property
    def gap(self) -> float | None:
        """Return (objective - bound) / objective; 0 if the objective is 0; None without an answer."""
        return self._gap_to(self.lower_bound)

    @property
    def gap_among(self) -> float | None:
        """Return the gap to `bound_among`; None without an answer or without that bound."""
        return None if self.bound_among is None else self._gap_to(self.bound_among)

    def _gap_to(self, bound: int) -> float | None:
        if self.objective_value is None:
            return None
        return (self.objective_value - bound) / self.objective_value if self.objective_value else 0.0
