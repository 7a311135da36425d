"""What is known of a problem before it is solved: answers at other capacities are answers and bounds at this one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onchip.answer.problem import Problem
from onchip.answer.program import Plan


@dataclass(frozen=True, slots=True)
class WarmStart:
    """A legal plan of `problem` with its value, if any, and a bound on all of its plans.

    A plan of a smaller scratchpad is one of a larger, and costs the same there; what holds for a larger one holds for a
    smaller. It says nothing of any other problem, such as those that a method makes of this one.
    """

    problem: Problem
    plan: Plan | None
    value: int | None
    lower_bound: int

    @classmethod
    def of(cls, problem: Problem, plan: Plan | None, value: int | None, lower_bound: int) -> WarmStart:
        """Return what a plan of a smaller scratchpad and a bound of a larger one say of a problem."""
        return cls(problem, None if plan is None else _within(problem, plan), value, lower_bound)

    def is_of(self, problem: Problem) -> bool:
        """Whether this very problem is solved, and none that was made of it."""
        return self.problem is problem


def _within(problem: Problem, plan: Plan) -> Plan:
    """The plan in the problem's own scratchpads; operators that it has in bands stay in them."""
    planned = plan.problem and replace(problem, graph=plan.problem.graph)
    return replace(plan, memories=problem.memories, problem=planned)
