"""Requirements of an accelerator for a schedule; kept apart from the search, so that the check does not import it."""

from __future__ import annotations

from onchip.answer.schedule import ScheduleError
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import ensure_energies
from onchip.errors import InputError


def ensure_usable(accelerator: Accelerator, objective: str) -> None:
    """Raise ScheduleError if no memory can be addressed, InputError if the array or a needed energy is missing."""
    if not accelerator.addressed:
        place = f"accelerator {accelerator.name!r}"
        raise ScheduleError("no memory serves the whole array", place=place, expected="at least one to address")
    if accelerator.array is None:
        raise InputError("it has no array", place=f"accelerator {accelerator.name!r}", expected="`array` in its file")
    ensure_energies(accelerator, objective)
