"""Addresses at any price: where a schedule does not pack, tensors leave more often until it does."""

from __future__ import annotations

from bisect import bisect_left

from onchip.analysis.indexed import IndexedProblem
from onchip.plan.packing import Buffer, PackingProblem
from onchip.solve.allocation.best_fit import BestFit
from onchip.solve.compose import Residency, Schedule


def packing_problem(indexed: IndexedProblem, schedule: Schedule, capacity_bytes: int | None = None) -> PackingProblem:
    """Return the packing that gives the schedule its addresses, a buffer per residency."""
    buffers = tuple(Buffer(r.start, r.stop, indexed.sizes_bytes[r.tensor]) for r in schedule.residencies)
    memory = indexed.memory
    return PackingProblem(buffers, capacity_bytes or memory.capacity_bytes, memory.alignment_bytes)


def place_or_cut(indexed: IndexedProblem, schedule: Schedule) -> tuple[Schedule, tuple[int, ...]]:
    """Return a schedule that packs, and its offsets in bytes.

    Best fit in order of time. Where a residency finds no gap, the cheapest of the residencies in
    its way is cut at its idle stretch. If nothing is left to cut, all that is resident begins in
    this very step; it is one operator's operands, placed with the most padding last, which fits.
    """
    uses = _uses(indexed, schedule.order)
    padding = indexed.room.padding_bytes
    residencies = list(schedule.residencies)
    while True:
        residencies.sort(key=lambda r: (r.start, padding[r.tensor], -indexed.sizes_bytes[r.tensor], r.tensor))
        current = Schedule(schedule.order, tuple(residencies))
        fit = BestFit(packing_problem(indexed, current))
        offsets, unplaced = fit.place(range(len(residencies)))
        if unplaced is None:
            return current, tuple(offsets)
        step = residencies[unplaced].start
        cuttable = [i for i in fit.blockers(unplaced, offsets) if residencies[i].start < step]
        cut = min(cuttable, key=lambda i: indexed.load_costs[residencies[i].tensor])
        residencies[cut : cut + 1] = _cut(residencies[cut], uses[residencies[cut].tensor], step)


def _uses(indexed: IndexedProblem, order: tuple[int, ...]) -> list[list[int]]:
    """Return per tensor the steps that need it, ascending."""
    uses: list[list[int]] = [[] for _ in indexed.tensors]
    for step, operator in enumerate(order):
        for tensor in indexed.operand_lists[operator]:
            uses[tensor].append(step)
    return uses


def _cut(residency: Residency, uses: list[int], step: int) -> tuple[Residency, Residency]:
    """Return the parts before and after the idle stretch that ends at the first use from `step` on."""
    following = bisect_left(uses, step)
    return (
        Residency(residency.tensor, residency.start, uses[following - 1] + 1),
        Residency(residency.tensor, uses[following], residency.stop),
    )
