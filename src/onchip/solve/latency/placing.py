"""Addresses for an order with its transfers: loads fill all room ahead if that packs, else less and less of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from onchip.answer.packing import Buffer, PackingProblem
from onchip.answer.problem import Problem
from onchip.facts.ways_to_run import WaysToRun
from onchip.native import LatencyBands, LatencyTiming
from onchip.solve.allocation.pack import pack
from onchip.solve.run.limits import Run

SHARES: Final = (1.0, 0.995, 0.99, 0.98, 0.97, 0.95, 0.93, 0.9, 0.87, 0.84, 0.8, 0.7, 0.6, 0.5, 0.25, 0.0)
"""Of the scratchpad, as loads may fill it ahead: less packs sooner, and makes them later."""
QUICK_NODES: Final = 3_000
THOROUGH_NODES: Final = 200_000


@dataclass(frozen=True, slots=True)
class PlacedOrder:
    """An order of pieces with its transfers, and the offset in bytes of each of its stays.

    `ahead_bytes` are what loads ahead could fill.
    """

    order: tuple[int, ...]
    ahead_bytes: int
    timing: LatencyTiming
    offsets_bytes: tuple[int, ...]


def placed(ways: WaysToRun, search: LatencyBands, run: Run) -> PlacedOrder | None:
    """Return the best order with addresses, with as much loaded ahead as packs soon; None if nothing does."""
    for capacity_bytes, ahead_bytes in _rooms(ways.capacity_bytes):
        if run.stop is not None:
            return None
        found = _attempt(ways, search, run, capacity_bytes, ahead_bytes, QUICK_NODES)
        if found is not None:
            return found
    return None


def placed_better(ways: WaysToRun, search: LatencyBands, run: Run, below: int) -> PlacedOrder | None:
    """Return the best order with addresses that ends before `below` without them, sought for longer."""
    for share in SHARES:
        ahead_bytes = int(ways.capacity_bytes * share)
        if run.stop is not None or search.evaluate(ways.capacity_bytes, ahead_bytes).latency >= below:
            return None
        found = _attempt(ways, search, run, ways.capacity_bytes, ahead_bytes, THOROUGH_NODES)
        if found is not None:
            return found
    return None


def _attempt(
    ways: WaysToRun, search: LatencyBands, run: Run, capacity_bytes: int, ahead_bytes: int, nodes: int
) -> PlacedOrder | None:
    timing = search.evaluate(capacity_bytes, ahead_bytes)
    if not timing.fits:
        return None
    sizes_bytes = search.sizes_bytes
    buffers = tuple(Buffer(stay.start, stay.stop, sizes_bytes[stay.tensor]) for stay in timing.stays)
    packing = pack(_packing(ways.problem, buffers), run, nodes).answer
    if packing is None:
        return None
    return PlacedOrder(tuple(search.order), ahead_bytes, timing, packing.offsets_bytes)


def _packing(problem: Problem, buffers: tuple[Buffer, ...]) -> PackingProblem:
    memory = problem.memories[0]
    return PackingProblem(buffers, memory.capacity_bytes, memory.alignment_bytes)


def _rooms(capacity_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield what may stay, and what may be filled ahead: at last less may stay, too."""
    for share in SHARES:
        yield capacity_bytes, int(capacity_bytes * share)
    for share in SHARES[1:]:
        yield int(capacity_bytes * share), 0
