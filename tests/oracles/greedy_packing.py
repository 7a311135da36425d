"""Greedy packings in plain code: one buffer after another in a gap between all buffers live at the same time.

A buffer is (start, stop, bytes). Nothing is shared with the solver.
"""

from __future__ import annotations

from collections.abc import Sequence

Buffer = tuple[int, int, int]


def arena_of_order(buffers: Sequence[Buffer], order: Sequence[int], alignment: int, *, in_smallest_gap: bool) -> int:
    """Return the highest end of a buffer, each in the lowest or the smallest gap that fits it, else on top."""
    offsets: dict[int, int] = {}
    for index in order:
        start, stop, size = buffers[index]
        taken = sorted(
            (offset, offset + buffers[other][2])
            for other, offset in offsets.items()
            if buffers[other][0] < stop and start < buffers[other][1]
        )
        gaps, top = [], 0
        for low, high in taken:
            if low - top >= size:
                gaps.append((low - top, top))
            top = max(top, -(-high // alignment) * alignment)
        offsets[index] = (min(gaps) if in_smallest_gap else gaps[0])[1] if gaps else top
    return max(offset + buffers[index][2] for index, offset in offsets.items())


def arenas_of_baselines(buffers: Sequence[Buffer], alignment: int) -> dict[str, int]:
    """Return the arena by name: best fit by size and by lifetime, TFLite's and TFLite Micro's."""
    last = max(stop for _, stop, _ in buffers)
    throughout = {index for index, (start, stop, _) in enumerate(buffers) if start == 0 and stop == last}

    def arena(key: object, *, in_smallest_gap: bool = True) -> int:
        order = sorted(range(len(buffers)), key=key)  # type: ignore[call-overload]
        return arena_of_order(buffers, order, alignment, in_smallest_gap=in_smallest_gap)

    return {
        "best fit by size": arena(lambda i: (-buffers[i][2], buffers[i][0])),
        "best fit by life": arena(lambda i: (buffers[i][0] - buffers[i][1], -buffers[i][2])),
        "TFLite": arena(lambda i: (i not in throughout, 0 if i in throughout else -buffers[i][2], buffers[i][0], i)),
        "TFLite Micro": arena(lambda i: (-buffers[i][2], -i), in_smallest_gap=False),
    }
