"""Among schedules that CoSA finds equally good, one that is good for something else.

CoSA's objective does not see which of two loops gives a factor of 2 to a place that counts for both alike, nor the
order of loops outside the global buffer. The real costs of its optima differ by tens of per cent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final

from onchip.plan.mapping import Mapping
from onchip.solve.mapping.cosa_machine import CosaMachine, Place
from onchip.solve.mapping.cosa_objective import fits, objective_of
from onchip.solve.mapping.cosa_placement import Factor, Placement

MOST_TIES: Final = 500
"""How many schedules are looked at."""
SAME: Final = 1e-9
"""Objectives that differ by less are equal: only the order of summation differs."""


def best_of_equals(
    machine: CosaMachine, placement: Placement, tie_break: Callable[[Mapping], float], most: int = MOST_TIES
) -> Placement:
    """The least `tie_break` of up to `most` placements with the same objective, each one exchange from another."""
    objective = objective_of(machine, placement).total
    best = placement
    least = tie_break(placement.mapping(machine))
    heap = [(least, 0, placement)]
    seen = {_key(machine, placement)}
    while heap and len(seen) < most:
        _, _, near = heappop(heap)
        for other in _neighbours(machine, near):
            key = _key(machine, other)
            if key in seen or abs(objective_of(machine, other).total - objective) > SAME or not fits(machine, other):
                continue
            cost = tie_break(other.mapping(machine))
            if cost < least:
                best, least = other, cost
            heappush(heap, (cost, len(seen), other))
            seen.add(key)
            if len(seen) >= most:
                break
    return best


def _neighbours(machine: CosaMachine, placement: Placement) -> Iterator[Placement]:
    """Two copies of one prime change places, one copy moves, or two loops of a level change order."""
    held = [key for key in placement.counts if key[0][1] > 1]
    for factor, place in held:
        for other in machine.places:
            if other != place and machine.may_hold(other, *factor):
                yield _moved(placement, (factor, place, other))
    for index, (factor, place) in enumerate(held):
        for factor_there, there in held[index + 1 :]:
            alike = factor[1] == factor_there[1] and factor != factor_there and place != there
            if alike and machine.may_hold(there, *factor) and machine.may_hold(place, *factor_there):
                yield _moved(placement, (factor, place, there), (factor_there, there, place))
    for level in range(machine.dram + 1):
        sizes, order = placement.sizes((Place(level),)), placement.order(level)
        loops = [loop for loop in order if sizes[loop] > 1]
        for left, right in pairwise(loops):
            swap = {left: right, right: left}
            swapped = tuple(swap.get(loop, loop) for loop in order)
            yield Placement(placement.counts, {**placement.orders, level: swapped})


def _moved(placement: Placement, *moves: tuple[Factor, Place, Place]) -> Placement:
    counts = dict(placement.counts)
    for factor, source, target in moves:
        counts[factor, source] -= 1
        counts[factor, target] = counts.get((factor, target), 0) + 1
    return Placement({key: count for key, count in counts.items() if count}, placement.orders)


def _key(machine: CosaMachine, placement: Placement) -> str:
    return str(placement.mapping(machine))
