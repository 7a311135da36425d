"""Faults of packing."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

OVERFLOW = "src/onchip/solve/allocation/overflow.py"
ATTEMPT = "src/onchip/solve/allocation/attempt.py"
KEPT = "src/onchip/solve/allocation/kept_buffers.py"

FAULTS: Final = (
    Planted(
        "the least arena pads the topmost buffer, too",
        ATTEMPT,
        "bound = max(bound, live - most_padding)",
        "bound = max(bound, live)",
        "pack",
    ),
    Planted(
        "bytes surely outside forget that one step's excess is not all steps'",
        OVERFLOW,
        "return too_large + max(0, most - problem.capacity_bytes)",
        "return too_large + max(0, most + 1 - problem.capacity_bytes)",
        "pack",
    ),
    Planted(
        "what ends in the last, partial unit does not count as short",
        KEPT,
        "short = [index for index in indices if 0 < buffers[index].size_bytes % alignment <= partial]",
        "short = [index for index in indices if 0 < buffers[index].size_bytes % alignment < partial]",
        "pack",
    ),
    Planted(
        "a conflict forbids one part fewer than it has",
        KEPT,
        "yield range(start, stop), size_bytes, sizes.index(size_bytes) + count",
        "yield range(start, stop), size_bytes, max(1, sizes.index(size_bytes) + count - 1)",
        "pack",
    ),
)
