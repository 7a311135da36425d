"""Packing for backends: the smallest arena, and checks of buffers that another tool has placed in one memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from onchip.answer.packing import Buffer, Packing, PackingProblem, StaticPacking, StaticPackingProblem
from onchip.answer.result import SearchResult
from onchip.errors import InternalError
from onchip.memory.allocate.exact import least_arena_bytes
from onchip.memory.allocate.pack import least_capacity
from onchip.memory.allocate.pools import least_cost, least_static_arena
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.start import silent_run
from onchip.verify.packing import ALL_BUFFERS, verify_packing, verify_static_packing
from onchip.verify.rules import Rule, Violation

__all__ = ["Limits", "PlacedBuffers", "Rule", "Violation", "smallest_arena", "static_packing", "verify_packing"]

PACKING_SECONDS: Final = 10.0


def smallest_arena(problem: PackingProblem) -> tuple[tuple[int, ...], int, int]:
    """Return the offsets of the lowest packing found in ten seconds, at any capacity, its end, and a lower bound.

    All are in the unit of the sizes. Raises InternalError if the packing is not legal.
    """
    problem = replace(problem, capacity_bytes=max(problem.roomy_bytes, 1))
    with silent_run(Limits(time_limit_seconds=PACKING_SECONDS), Deadline.after(PACKING_SECONDS)) as run:
        result = least_capacity(problem, run)
    if result.answer is None or result.objective_value is None:
        raise InternalError("the buffers do not pack in an arena of their total size", place="packing")
    if violations := verify_packing(problem, result.answer, result.objective_value):
        raise InternalError(f"the packing is not legal: {violations[0]}", place="packing")
    return result.answer.offsets_bytes, result.objective_value, result.lower_bound


def static_packing(problem: StaticPackingProblem, limits: Limits, *, is_arena: bool) -> SearchResult[StaticPacking]:
    """Return verified places of buffers in memories, of least cost or, with `is_arena`, in the smallest arena.

    Raises InternalError if the packing is not legal.
    """
    run = Run(limits, deadline=Deadline.after(limits.time_limit_seconds))
    result = (least_static_arena if is_arena else least_cost)(problem, run)
    if result.answer is not None and (violations := verify_static_packing(problem, result.answer)):
        what = f"its places have {len(violations)} violations, the first: {violations[0]}"
        raise InternalError(what, place=f"method {result.method}")
    return result


@dataclass(frozen=True, slots=True)
class PlacedBuffers:
    """Buffers of one memory with their offsets in bytes, and the names of the tensors in each buffer."""

    name: str
    buffers: tuple[Buffer, ...]
    offsets_bytes: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]

    @property
    def end_bytes(self) -> int:
        """Highest end address of a buffer."""
        return max((at + one.size_bytes for at, one in zip(self.offsets_bytes, self.buffers, strict=True)), default=0)

    def violations(
        self, capacity_bytes: int, alignment_bytes: int = 1, peak_bytes: int | None = None
    ) -> list[Violation]:
        """Return the violations of a packing, and of a claimed peak, with tensors in place of numbers of buffers."""
        problem = PackingProblem(self.buffers, capacity_bytes, alignment_bytes)
        return [self._named(one) for one in verify_packing(problem, Packing(self.offsets_bytes), peak_bytes)]

    def least_bytes(self, alignment_bytes: int = 1) -> int:
        """Return a lower bound on the end of any packing of the buffers."""
        return least_arena_bytes(PackingProblem(self.buffers, 0, alignment_bytes))

    def figures(self) -> dict[str, object]:
        """Return the number of tensors, the end and the lower bound of the arena, for JSON."""
        return {
            "names": self.name,
            "tensors": sum(map(len, self.names)),
            "arena_bytes": self.end_bytes,
            "most_live_bytes": self.least_bytes(),
        }

    def _named(self, violation: Violation) -> Violation:
        def name(match: re.Match[str]) -> str:
            return self.names[int(match[1])][0]

        subject = self.name if violation.subject == ALL_BUFFERS else re.sub(r"buffer (\d+)", name, violation.subject)
        detail = re.sub(r"buffer (\d+)", lambda match: repr(name(match)), violation.detail)
        return replace(violation, subject=subject, detail=detail)
