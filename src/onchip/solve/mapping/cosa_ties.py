"""Among schedules that CoSA finds equally good, one that is good for something else.

CoSA's objective does not see which of two loops gives a factor of 2 to a place that counts for both alike, nor the
order of loops outside the global buffer. The real costs of its optima differ by tens of per cent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import combinations, pairwise
from math import log2
from typing import Final

from onchip.plan.mapping import Mapping
from onchip.solve.mapping.cosa_machine import WINDOWS, CosaMachine, Place
from onchip.solve.mapping.cosa_objective import (
    TRAFFIC_WEIGHT,
    UTILISATION_WEIGHT,
    added_by,
    fits,
    objective_of,
)
from onchip.solve.mapping.cosa_placement import Factor, Placement

Change = tuple[Factor, Place, Place]
"""One copy of a factor leaves the first place for the second."""
MOST_TIES: Final = 500
"""How many schedules are looked at."""
SAME: Final = 1e-9
"""Objectives that differ by less are equal: only the order of summation differs."""


def best_of_equals(
    machine: CosaMachine, placement: Placement, tie_break: Callable[[Mapping], float], most: int = MOST_TIES
) -> Placement:
    """The least `tie_break` of up to `most` placements with the same objective, each one exchange from another."""
    objective = objective_of(machine, placement).total
    best, least = placement, tie_break(placement.mapping(machine))
    heap = [(least, 0, placement)]
    seen = {_key(placement)}
    looked_at = 1
    while heap and looked_at < most:
        _, _, near = heappop(heap)
        for other in _neighbours(machine, near):
            if (key := _key(other)) in seen or looked_at >= most:
                continue
            seen.add(key)
            if abs(objective_of(machine, other).total - objective) > SAME or not fits(machine, other):
                continue
            cost = tie_break(other.mapping(machine))
            if cost < least:
                best, least = other, cost
            heappush(heap, (cost, looked_at, other))
            looked_at += 1
    return best


def _neighbours(machine: CosaMachine, placement: Placement) -> Iterator[Placement]:
    """Two copies of one prime change places, one copy moves, or two loops of a level change order."""
    held = [key for key in placement.counts if key[0][1] > 1]
    moves = [((factor, place, other),) for factor, place in held for other in machine.places if other != place]
    exchanges = [
        ((factor, place, there), (factor_there, there, place))
        for (factor, place), (factor_there, there) in combinations(held, 2)
        if factor[1] == factor_there[1] and factor != factor_there and place != there
    ]
    for change in (*moves, *exchanges):
        if all(machine.may_hold(target, *factor) for factor, _, target in change) and _may_be_equal(
            machine, placement, change
        ):
            yield _moved(placement, change)
    for level in range(machine.dram + 1):
        sizes, order = placement.sizes((Place(level),)), placement.order(level)
        for left, right in pairwise(loop for loop in order if sizes[loop] > 1):
            swap = {left: right, right: left}
            swapped = tuple(swap.get(loop, loop) for loop in order)
            yield Placement(placement.counts, {**placement.orders, level: swapped})


def _may_be_equal(machine: CosaMachine, placement: Placement, change: Sequence[Change]) -> bool:
    """What is linear in the objective stays the same, or changes by no more than what is not can make up for."""
    added = sum(
        added_by(machine, factor, target) - added_by(machine, factor, place) for factor, place, target in change
    )
    room = SAME
    for (loop, prime), place, target in change:
        if Place(machine.shared) in (place, target):
            room += 2 * TRAFFIC_WEIGHT * log2(prime)
        edge = machine.shared if loop in WINDOWS else machine.input_level if loop in WINDOWS.values() else None
        if edge is not None and (place.level <= edge) is not (target.level <= edge):
            taps = ((f[1], count) for (f, _), count in placement.counts.items() if f[0] in WINDOWS)
            room += UTILISATION_WEIGHT * sum(count * max(1, log2(tap)) for tap, count in taps)
    return abs(added) <= room


def _moved(placement: Placement, change: Sequence[Change]) -> Placement:
    counts = dict(placement.counts)
    for factor, source, target in change:
        counts[factor, source] -= 1
        counts[factor, target] = counts.get((factor, target), 0) + 1
    return Placement({key: count for key, count in counts.items() if count}, placement.orders)


def _key(placement: Placement) -> tuple[frozenset[object], frozenset[object]]:
    return frozenset(placement.counts.items()), frozenset(placement.orders.items())
