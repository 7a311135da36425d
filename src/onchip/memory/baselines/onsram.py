"""`--method onsram`: OnSRAM-Static's greedy pinning (Pal et al., TECS 2022), for any number of scratchpads.

Tensors in the order of a weighted sum of size, reuses and lifetime; each is pinned for its whole life unless it
then obstructs an operator. `docs/rivals.md` says what the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result
from onchip.memory.baselines.pinned import Pins, solve_by_pinning_whole_lives
from onchip.search.budget.limits import Run


@dataclass(frozen=True, slots=True)
class Weights:
    """Of the logarithms of what a tensor saves when pinned, of its bytes and of the steps of its life."""

    saved: float
    size: float
    lifetime: float


WEIGHTS = (Weights(1, -1, -1), Weights(1, 0, -1), Weights(1, -1, 0), Weights(1, 0, 0))


def solve_as_onsram(problem: Problem, run: Run) -> Result[Plan]:
    """All weightings are tried; the cheapest plan counts."""
    return solve_by_pinning_whole_lives(problem, run, "onsram", _pin_by_each_weighting)


def _pin_by_each_weighting(unpinned: Pins, run: Run) -> Iterable[Pins]:
    for weights in WEIGHTS:
        pins = Pins(unpinned.indexed, unpinned.order)
        for tensor in by_rank(pins, weights):
            if run.stop is not None:
                return
            pin_where_it_fits_best(pins, tensor)
        yield pins


def by_rank(pins: Pins, weights: Weights) -> list[int]:
    """Return the tensors that save something when pinned, the highest weighted sum first."""
    ranks: dict[int, float] = {}
    for tensor, size_bytes in enumerate(pins.indexed.sizes_bytes):
        saved = max((pins.saved(tensor, memory) for memory in pins.homes(tensor)), default=0)
        if saved > 0 and len(pins.uses[tensor]) > 1:
            steps = len(pins.life(tensor))
            ranks[tensor] = weights.saved * log(saved) + weights.size * log(size_bytes) + weights.lifetime * log(steps)
    return sorted(ranks, key=lambda tensor: (-ranks[tensor], tensor))


def pin_where_it_fits_best(pins: Pins, tensor: int) -> None:
    """Pin it where it saves most, of those where it leaves least room, if every operator still has its own."""
    found: list[tuple[int, int, int]] = []
    for memory in pins.homes(tensor):
        pins.pin(tensor, memory)
        if pins.leave_room(pins.life(tensor)):
            found.append((-pins.saved(tensor, memory), pins.spare_units(memory, pins.life(tensor)), memory))
        pins.unpin(tensor)
    if found:
        pins.pin(tensor, min(found)[-1])
