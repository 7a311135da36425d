"""Where to cut a network: break nodes, chosen so that few live bytes cross (COSMA, IV)."""

from __future__ import annotations

from itertools import pairwise

from onchip.model.lifetimes.indexed import IndexedProblem


def crossing_bytes(indexed: IndexedProblem) -> tuple[int, ...]:
    """Return per position p the bytes in use on both sides of it: before operator p, and from p on.

    Positions 0 (before all) to n (after all), in the order in which the operators are indexed.
    """
    count = indexed.operator_count
    change = [0] * (count + 2)
    for tensor, size in enumerate(indexed.sizes_bytes):
        readers, producer = indexed.reader_lists[tensor], indexed.producer[tensor]
        if not readers:
            continue
        first, last = producer if producer >= 0 else readers[0], readers[-1]
        change[first + 1] += size
        change[last + 1] -= size
    live, crossing = 0, []
    for position in range(count + 1):
        live += change[position]
        crossing.append(live)
    return tuple(crossing)


def regions(indexed: IndexedProblem, largest: int) -> tuple[range, ...]:
    """Split the operators into stretches of at most `largest`, with the least sum of bytes crossing."""
    crossing = crossing_bytes(indexed)
    count = indexed.operator_count
    least = [(0, 0)]
    for stop in range(1, count + 1):
        starts = range(max(0, stop - largest), stop)
        sums = min((least[start][0] + crossing[start], start) for start in starts)
        least.append(sums)
    cuts = [count]
    while cuts[-1]:
        cuts.append(least[cuts[-1]][1])
    cuts.reverse()
    return tuple(range(start, stop) for start, stop in pairwise(cuts))
