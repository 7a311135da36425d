"""The `pack` use case: read buffers from a file, pack and verify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from onchip.answer.packing import PackingProblem
from onchip.api.phases import phase
from onchip.errors import InputError, InternalError, UsageError
from onchip.formats.minimalloc import BufferTable, read_buffers
from onchip.memory.allocate.overflow import least_overflow
from onchip.memory.allocate.pack import least_capacity, pack
from onchip.reports.packing import OverflowOutcome, PackingOutcome
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits
from onchip.search.strategy.start import RunStarter, silent_run
from onchip.verify.packing import verify_overflow, verify_packing
from onchip.verify.rules import Violation
from onchip.without_collecting import without_collecting

CHECKING_TO_READING: Final = 1.0
"""Verifying and writing take 0.65 times as long as reading 200,000 buffers, and 0.8 times as long as a million."""


@phase("packing")
@without_collecting()
def pack_file(
    buffers: Path | BufferTable,
    capacity_bytes: int | None,
    alignment_bytes: int | None,
    limits: Limits,
    start: RunStarter = silent_run,
    *,
    minimize: bool = False,
) -> PackingOutcome:
    """Pack the buffers of MiniMalloc's CSV or of a table, verify; raises InternalError for an illegal packing.

    Without a capacity all buffers fit side by side.
    """
    deadline = Deadline.after(limits.time_limit_seconds)
    ids, problem = _packing_problem(buffers, capacity_bytes, alignment_bytes)
    with start(limits, _before_checking(deadline)) as run:
        result = (least_capacity if minimize else pack)(problem, run)
        seconds = run.seconds
    if result.answer is not None:
        with phase("verifying"):
            _no_violations(verify_packing(problem, result.answer, result.objective_value), result.method)
    return PackingOutcome(ids, problem, result, capacity_bytes, seconds)


@phase("packing")
@without_collecting()
def overflow_file(
    buffers: Path | BufferTable,
    capacity_bytes: int,
    alignment_bytes: int | None,
    limits: Limits,
    start: RunStarter = silent_run,
) -> OverflowOutcome:
    """Minimise the bytes of the buffers outside the capacity, verify.

    Raises InternalError for an illegal result.
    """
    deadline = Deadline.after(limits.time_limit_seconds)
    ids, problem = _packing_problem(buffers, capacity_bytes, alignment_bytes)
    if problem.has_fixed:
        what, file = (
            "buffers with a fixed offset cannot lie outside",
            None if isinstance(buffers, BufferTable) else str(buffers),
        )
        raise InputError(what, file=file, place="offset", expected="no offsets, or buffers that all fit")
    with start(limits, _before_checking(deadline)) as run:
        result = least_overflow(problem, run)
        seconds = run.seconds
    if result.answer is not None and result.objective_value is not None:
        with phase("verifying"):
            _no_violations(verify_overflow(problem, result.answer, result.objective_value), result.method)
    return OverflowOutcome(ids, problem, result, seconds)


def _before_checking(deadline: Deadline) -> Deadline:
    """Return the deadline less the time for verifying and writing, estimated from the reading time."""
    return deadline.within(deadline.seconds_left - CHECKING_TO_READING * deadline.seconds)


@phase("reading")
def _packing_problem(
    buffers: Path | BufferTable, capacity_bytes: int | None, alignment_bytes: int | None
) -> tuple[tuple[str, ...], PackingProblem]:
    table, file = (buffers, None) if isinstance(buffers, BufferTable) else (read_buffers(buffers), buffers)
    asked = alignment_bytes or table.alignment_bytes or 1
    if table.alignment_bytes not in (None, asked):
        raise UsageError(f"the file says {table.alignment_bytes}", place="alignment", expected="the same or none")
    return table.ids, packing_problem(table, file, capacity_bytes, asked)


def packing_problem(
    table: BufferTable, file: Path | None, capacity_bytes: int | None, alignment_bytes: int
) -> PackingProblem:
    """Return the problem of a file's buffers, by default with a capacity that always suffices.

    Raises InputError for a fixed offset that is not aligned.
    """
    for name, buffer in zip(table.ids, table.buffers, strict=True):
        if (buffer.offset_bytes or 0) % alignment_bytes:
            what = f"buffer {name!r} is fixed at {buffer.offset_bytes}"
            raise InputError(
                what,
                file=None if file is None else str(file),
                place="offset",
                expected=f"a multiple of {alignment_bytes}",
            )
    problem = PackingProblem(table.buffers, 1, alignment_bytes)
    return replace(problem, capacity_bytes=capacity_bytes or max(problem.roomy_bytes, 1))


def _no_violations(violations: Sequence[Violation], method: str) -> None:
    if violations:
        raise InternalError(
            f"its packing has {len(violations)} violations, the first: {violations[0]}",
            place=f"method {method}",
        )
