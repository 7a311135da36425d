"""Earlier answers to a problem: plans of smaller and bounds of larger scratchpads hold for this one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onchip.answer.problem import Problem
from onchip.answer.program import Plan


@dataclass(frozen=True, slots=True)
class WarmStart:
    """A legal plan of `problem` with its value (None if there is no plan), and a lower bound on all of its plans.

    A plan of a smaller scratchpad is a plan of a larger one at the same cost; a bound of a larger one holds for a
    smaller. It does not hold for any other problem, such as a subproblem that a method derives from this one.
    """

    problem: Problem
    plan: Plan | None
    value: int | None
    lower_bound: int

    @classmethod
    def of(cls, problem: Problem, plan: Plan | None, value: int | None, lower_bound: int) -> WarmStart:
        """Return the warm start of a problem from a plan of a smaller scratchpad and a bound of a larger one."""
        return cls(problem, None if plan is None else _within(problem, plan), value, lower_bound)

    def is_of(self, problem: Problem) -> bool:
        """Return True if `problem` is this problem itself, not one derived from it."""
        return self.problem is problem


def _within(problem: Problem, plan: Plan) -> Plan:
    """Return the plan in the problem's scratchpads; split operators stay split."""
    planned = plan.problem and replace(problem, graph=plan.problem.graph)
    return replace(plan, memories=problem.memories, problem=planned)
