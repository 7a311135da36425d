"""What running an answer on real bytes showed, in words and as an object: values, bytes that moved, outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from onchip.simulate.machine_run import Difference, MachineRun

GREATEST_RELATIVE_DIFFERENCE: Final = 1e-5
"""Allowed between outputs a of the run and b of the whole model: the greatest |a - b| over the greatest |b|."""


def has_right_values(run: MachineRun, relative_difference: float | None) -> bool:
    """Whether no tensor differs, and outputs are close to the model's, if there is one to compare with."""
    if run.difference is not None:
        return False
    return relative_difference is None or relative_difference <= GREATEST_RELATIVE_DIFFERENCE


def difference_object(difference: Difference | None) -> dict[str, object] | None:
    """The first tensor that is not what it should be, and where that was seen; None where all are."""
    if difference is None:
        return None
    return {
        "tensor": difference.tensor,
        "found": difference.found,
        "operator": difference.operator,
        "step": difference.step,
        "instruction": difference.instruction,
    }


def relative_object(relative_difference: float | None) -> float | str | None:
    """JSON has no infinity: it is a word."""
    return relative_difference if relative_difference != float("inf") else "inf"


def values_text(run: MachineRun) -> str:
    """How many tensors are as they should be, or the first that is not."""
    return f"{run.compared:,} tensors equal bit for bit" if run.difference is None else str(run.difference)


def relative_text(relative_difference: float) -> str:
    """How far outputs are from the model's, and how far they may be."""
    return f"greatest relative difference {relative_difference:.3g} (allowed {GREATEST_RELATIVE_DIFFERENCE:g})"


def moved_text(moved_bytes: int, planned_bytes: int, answer: str) -> str:
    """Bytes that moved, held against what the answer, a plan or a schedule, says."""
    if moved_bytes == planned_bytes:
        return f"{moved_bytes:,} bytes, as planned"
    return f"{moved_bytes:,} bytes, the {answer} says {planned_bytes:,}"
