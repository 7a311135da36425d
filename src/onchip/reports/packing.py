"""Results of `pack` as lines and JSON objects."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.packing import Overflow, Packing, PackingProblem
from onchip.answer.result import Result
from onchip.answer.words import counted, exact_bytes, picked


@dataclass(frozen=True, slots=True)
class PackingOutcome:
    """A packing; `ids[i]` names `problem.buffers[i]`, and `capacity_bytes` is None if none was given."""

    ids: tuple[str, ...]
    problem: PackingProblem
    result: Result[Packing]
    capacity_bytes: int | None
    seconds: float

    @property
    def words(self) -> str:
        """Say in one line whether the buffers fit, and how high they reach."""
        result = self.result
        capacity = "" if self.capacity_bytes is None else f" in {self.capacity_bytes:,} bytes"
        if result.answer is not None:
            found = f"{result.status}: {len(self.ids)} buffers fit{capacity}; arena {result.objective_value:,} bytes"
        elif result.status == "INFEASIBLE":
            found = f"{result.status}: {len(self.ids)} buffers do not fit{capacity}"
        else:
            found = f"{result.status}: no answer{capacity} ({result.stopped_by})"
        return f"{found}, lower bound {result.lower_bound:,} bytes, {self.seconds:.3f} seconds"


def packing_object(outcome: PackingOutcome) -> dict[str, object]:
    """Return what `--json` prints of a packing."""
    result = outcome.result
    offsets = None
    if result.answer is not None:
        offsets = dict(zip(outcome.ids, result.answer.offsets_bytes, strict=True))
    return {
        **picked(result, "status", "stopped_by"),
        "capacity_bytes": outcome.capacity_bytes,
        "alignment_bytes": outcome.problem.alignment_bytes,
        "buffers": len(outcome.ids),
        "lower_bound": result.lower_bound,
        "arena_bytes": result.objective_value,
        "gap": result.gap,
        "offsets": offsets,
        "seconds": outcome.seconds,
    }


@dataclass(frozen=True, slots=True)
class OverflowOutcome:
    """A packing with buffers outside; `ids[i]` names `problem.buffers[i]`."""

    ids: tuple[str, ...]
    problem: PackingProblem
    result: Result[Overflow]
    seconds: float

    @property
    def outside(self) -> list[str]:
        """Return the names of the buffers that have no place."""
        return [self.ids[index] for index in self.result.answer.outside] if self.result.answer else []

    @property
    def outside_share(self) -> float:
        """Share of all bytes that is outside, 0 without buffers."""
        total = sum(buffer.size_bytes for buffer in self.problem.buffers)
        return (self.result.objective_value or 0) / total if total else 0.0

    @property
    def words(self) -> str:
        """Return the result in a line, and a line of the buffers outside."""
        result, outside = self.result, self.outside
        line = (
            f"{result.status}: {len(self.ids) - len(outside)} of {counted(len(self.ids), 'buffer')} kept"
            f" in {exact_bytes(self.problem.capacity_bytes)};"
            f" {exact_bytes(result.objective_value or 0)} outside ({self.outside_share:.1%}),"
            f" lower bound {exact_bytes(result.lower_bound)}, {self.seconds:.3f} seconds"
        )
        return f"{line}\noutside: {', '.join(outside)}" if outside else line


def overflow_object(outcome: OverflowOutcome) -> dict[str, object]:
    """Return what `--overflow --json` prints; `offsets` has the kept buffers only."""
    result, ids = outcome.result, outcome.ids
    answer = result.answer or Overflow((None,) * len(ids))
    return {
        **picked(result, "status", "stopped_by"),
        "capacity_bytes": outcome.problem.capacity_bytes,
        "alignment_bytes": outcome.problem.alignment_bytes,
        "buffers": len(ids),
        "outside_bytes": result.objective_value,
        "outside_share": outcome.outside_share,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "outside": outcome.outside,
        "kept": [ids[index] for index in answer.kept],
        "offsets": {ids[index]: answer.offsets_bytes[index] for index in answer.kept},
        "seconds": outcome.seconds,
    }
