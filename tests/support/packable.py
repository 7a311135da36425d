"""Whether buffers can be packed, by trying every place, as hypothesis's examples ask it."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import reject

from onchip.answer.packing import Buffer, PackingProblem
from oracles.packing import TooLargeError, fits


def is_packable(problem: PackingProblem, kept: Iterable[Buffer] | None = None) -> bool:
    """Whether the buffers, or those that are kept, fit; rejects an example too large to try every place of."""
    buffers = [(b.start, b.stop, b.size_bytes) for b in (problem.buffers if kept is None else kept)]
    try:
        return fits(buffers, problem.capacity_bytes, problem.alignment_bytes)
    except TooLargeError:
        reject()
