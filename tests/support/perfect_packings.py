"""Packings with a known least arena: a rectangle of steps and bytes, cut into buffers."""

from __future__ import annotations

import heapq
from random import Random

from onchip.answer.packing import Buffer


def cut_rectangle(count: int, steps: int, size_bytes: int, seed: int) -> tuple[Buffer, ...]:
    """Cut the largest piece at a random point along time or memory until there are `count`; shuffle them.

    All of the rectangle is used, so the least arena is `size_bytes`. Needs `steps * size_bytes >= count`.
    """
    chance = Random(seed)
    pieces = [(-steps * size_bytes, 0, steps, 0, size_bytes)]
    while len(pieces) < count:
        _, start, stop, low, high = heapq.heappop(pieces)
        cuts_time = stop - start > 1 and (high - low == 1 or chance.random() < 0.5)
        if cuts_time:
            cut = chance.randint(start + 1, stop - 1)
            parts = [(start, cut, low, high), (cut, stop, low, high)]
        else:
            cut = chance.randint(low + 1, high - 1)
            parts = [(start, stop, low, cut), (start, stop, cut, high)]
        for part in parts:
            heapq.heappush(pieces, ((part[0] - part[1]) * (part[3] - part[2]), *part))
    buffers = [Buffer(start, stop, high - low) for _, start, stop, low, high in pieces]
    chance.shuffle(buffers)
    return tuple(buffers)


def drawn_windows(count: int, most_life: int, seed: int) -> tuple[Buffer, ...]:
    """Return buffers with random starts and lifetimes, of a few sizes, like a compiler's temporaries."""
    chance = Random(seed)
    sizes = [kibi * 1024 for kibi in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)]
    starts = [chance.randrange(count) for _ in range(count)]
    return tuple(Buffer(start, start + chance.randint(1, most_life), chance.choice(sizes)) for start in starts)
