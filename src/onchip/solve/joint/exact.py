"""`--method exact`."""

from __future__ import annotations

from onchip.plan.plan import Plan
from onchip.plan.problem import Problem
from onchip.plan.result import Result
from onchip.solve.limits import Run


def solve_exactly(problem: Problem, run: Run) -> Result[Plan]:
    """Solve a problem to proven optimality, as far as the limits allow."""
    raise NotImplementedError
