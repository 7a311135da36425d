"""`--method naive`: each operator loads what it reads and writes back what it wrote; nothing stays."""

from __future__ import annotations

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result
from onchip.memory.baselines.pinned import solve_by_pinning_whole_lives
from onchip.search.budget.limits import Run


def solve_naively(problem: Problem, run: Run) -> Result[Plan]:
    """Keep nothing on chip between operators: every operand is streamed."""
    return solve_by_pinning_whole_lives(problem, run, "naive", lambda _pins, _run: ())
