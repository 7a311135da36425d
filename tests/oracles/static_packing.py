"""The fewest bytes outside of several memories, by trying every memory for every buffer, with every packing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from oracles.packing import Buffer, fits


def fewest_bytes_outside(
    buffers: Sequence[Buffer], capacities: Sequence[tuple[int, int]], pinned: Sequence[int | None]
) -> int | None:
    """Return the fewest bytes left out; each capacity is (first free byte, end), aligned to 1.

    The memory number after the last means left out. Returns None if the pinned buffers do not fit.
    """
    outside = len(capacities)
    choices = [range(outside + 1) if pin is None else (pin,) for pin in pinned]
    best: int | None = None
    for choice in product(*choices):
        value = sum(size for (_, _, size), memory in zip(buffers, choice, strict=True) if memory == outside)
        if best is not None and value >= best:
            continue
        inside = [[b for b, at in zip(buffers, choice, strict=True) if at == memory] for memory in range(outside)]
        if all(fits(part, stop - start, 1) for part, (start, stop) in zip(inside, capacities, strict=True) if part):
            best = value
    return best
