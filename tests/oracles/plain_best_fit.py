"""Best fit as it is told: each buffer goes into the smallest gap between those that live with it, else above them."""

from __future__ import annotations

from collections.abc import Sequence

from onchip.answer.packing import Buffer


def best_fit(buffers: Sequence[Buffer], order: Sequence[int], alignment: int) -> list[int]:
    """The offset of each buffer; there is room for all."""
    offsets: dict[int, int] = {}
    for index in order:
        beside = sorted(
            (offsets[one], buffers[one].size_bytes) for one in offsets if buffers[one].overlaps(buffers[index])
        )
        gaps, top = list[tuple[int, int]](), 0
        for offset, size in beside:
            if offset - top >= buffers[index].size_bytes:
                gaps.append((offset - top, top))
            top = max(top, -(-(offset + size) // alignment) * alignment)
        offsets[index] = min(gaps)[1] if gaps else top
    return [offsets[index] for index in range(len(buffers))]
