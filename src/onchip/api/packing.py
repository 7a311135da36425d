"""Packing for backends: the smallest arena, a lower bound on it, and the check of a packing."""

from __future__ import annotations

from onchip.answer.packing import Packing, PackingProblem
from onchip.answer.result import Result
from onchip.errors import InternalError
from onchip.memory.allocate.exact import least_arena_bytes
from onchip.memory.allocate.pack import least_capacity
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits
from onchip.search.strategy.start import silent_run
from onchip.verify.packing import ALL_BUFFERS, verify_packing
from onchip.verify.rules import Rule, Violation

__all__ = ["ALL_BUFFERS", "Rule", "Violation", "least_arena_bytes", "smallest_arena", "verify_packing"]


def smallest_arena(problem: PackingProblem, seconds: float) -> Result[Packing]:
    """Return the packing with the smallest arena found in `seconds`, and a lower bound in bytes.

    Raises InternalError if the packing is not legal.
    """
    with silent_run(Limits(time_limit_seconds=seconds), Deadline.after(seconds)) as run:
        result = least_capacity(problem, run)
    violations = () if result.answer is None else verify_packing(problem, result.answer, result.objective_value)
    if violations:
        raise InternalError(f"its packing is not legal: {violations[0]}", place="packing")
    return result
