"""What `pack` found, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.plan.packing import Packing, PackingProblem
from onchip.plan.result import Result


@dataclass(frozen=True, slots=True)
class PackingOutcome:
    """`ids[i]` is the name of `problem.buffers[i]`; `capacity_bytes` is None where none was given."""

    ids: tuple[str, ...]
    problem: PackingProblem
    result: Result[Packing]
    capacity_bytes: int | None
    seconds: float

    @property
    def words(self) -> str:
        """One line for people."""
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
    """Return what `--json` prints."""
    result = outcome.result
    offsets = None
    if result.answer is not None:
        offsets = dict(zip(outcome.ids, result.answer.offsets_bytes, strict=True))
    return {
        "status": result.status,
        "stopped_by": result.stopped_by,
        "capacity_bytes": outcome.capacity_bytes,
        "alignment_bytes": outcome.problem.alignment_bytes,
        "buffers": len(outcome.ids),
        "lower_bound": result.lower_bound,
        "arena_bytes": result.objective_value,
        "gap": result.gap,
        "offsets": offsets,
        "seconds": outcome.seconds,
    }
