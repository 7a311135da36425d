"""A plan as it stands in a TFLite file, as it is shown: what the arena takes, and what became of the plan's offsets."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.result import Status
from onchip.reports.shared.words import counted, printable


@dataclass(frozen=True, slots=True)
class ArenaExport:
    """The arena's head as TFLite Micro fills it, in bytes; `greedy_bytes` is the head by its own planner.

    `tensors_bytes` is the end of the highest tensor, `most_scratch_bytes` what one kernel asks for beside tensors.
    `lower_bound_bytes` holds for the file's tensors in the order written, whatever their offsets. `changes` say how the
    file differs from the plan, `not_modelled` names operators of which it is not known what they ask for.
    """

    arena_bytes: int
    tensors_bytes: int
    most_scratch_bytes: int
    lower_bound_bytes: int
    greedy_bytes: int
    moved_operators: int
    changes: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """OPTIMAL where no smaller arena holds these tensors in this order."""
        return Status.OPTIMAL if self.arena_bytes == self.lower_bound_bytes else Status.FEASIBLE


def arena_export_object(export: ArenaExport) -> dict[str, object]:
    """Say what the arena takes as a JSON object."""
    return {
        "arena_bytes": export.arena_bytes,
        "tensors_bytes": export.tensors_bytes,
        "most_scratch_bytes": export.most_scratch_bytes,
        "lower_bound_bytes": export.lower_bound_bytes,
        "status": export.status,
        "greedy_bytes": export.greedy_bytes,
        "moved_operators": export.moved_operators,
        "changes": list(export.changes),
        "not_modelled": list(export.not_modelled),
    }


def arena_export_lines(export: ArenaExport) -> list[str]:
    """Say it in a few lines of words."""
    proof = "proven least in this order" if export.status is Status.OPTIMAL else "not proven least"
    scratch = f", up to {export.most_scratch_bytes:,} of scratch" if export.most_scratch_bytes else ""
    lines = [
        f"the arena's head takes {export.arena_bytes:,} bytes{scratch}: {proof} "
        f"(the runtime's own planner: {export.greedy_bytes:,})"
    ]
    if export.moved_operators:
        lines.append(f"{counted(export.moved_operators, 'operator')} of the file moved")
    lines += (printable(change) for change in export.changes)
    if export.not_modelled:
        first = printable(export.not_modelled[0])
        others = f" and {len(export.not_modelled) - 1:,} more" if len(export.not_modelled) > 1 else ""
        lines.append(f"not modelled: the scratch buffers of {first}{others}, which may make it larger")
    return lines
