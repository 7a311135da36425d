"""Packing for backends: the smallest arena, and checks of buffers that another tool has placed in one memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.errors import InternalError
from onchip.memory.allocate.exact import least_arena_bytes
from onchip.memory.allocate.pack import least_capacity
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits
from onchip.search.strategy.start import silent_run
from onchip.verify.packing import ALL_BUFFERS, verify_packing
from onchip.verify.rules import Rule, Violation

__all__ = ["PlacedBuffers", "Rule", "Violation", "smallest_arena", "verify_packing"]

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
