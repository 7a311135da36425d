"""Among schedules that CoSA finds equally good, one that is good for something else.

CoSA's objective does not see which of two loops gives a factor of 2 to a place that counts for both alike, nor the
order of loops outside the global buffer. The real costs of its optima differ by tens of per cent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice, pairwise
from typing import Final

import numpy as np

from onchip.answer.layer_mapping import LayerMapping
from onchip.mapping.cosa.exchanges import CosaSchedule, Exchanges
from onchip.mapping.cosa.machine import CosaMachine, Place
from onchip.mapping.cosa.placement import FactorPlacement

TieBreak = Callable[[Sequence[LayerMapping]], Sequence[float]]
"""The costs of some mappings; infinite for one that does not really fit."""
MOST_TIES: Final = 100
"""How many schedules are looked at; 500 take three times as long and save a thousandth of ResNet-50's cycles."""
SAME: Final = 1e-9
"""Objectives that differ by less are equal: only the order of summation differs."""


def best_of_equals(
    machine: CosaMachine, placement: FactorPlacement, tie_break: TieBreak, most: int = MOST_TIES
) -> FactorPlacement:
    """The least `tie_break` of up to `most` placements with the same objective, each one exchange from another."""
    exchanges = Exchanges.of(machine, placement)
    first = exchanges.schedule(placement)
    objective = exchanges.objectives(first.counts[None], first.order(machine.shared))[0]
    best, least = placement, tie_break([placement.mapping(machine)])[0]
    heap = [(least, 0, first)]
    seen = {first.key}
    while heap and len(seen) < most:
        near = heappop(heap)[2]
        unseen = (one for one in _equals(exchanges, near, objective) if one.key not in seen)
        found = {one.key: one for one in islice(unseen, most - len(seen))}
        placements = [exchanges.placement(one) for one in found.values()]
        costs = tie_break([one.mapping(machine) for one in placements]) if placements else ()
        for schedule, other, cost in zip(found.values(), placements, costs, strict=True):
            seen.add(schedule.key)
            heappush(heap, (cost, len(seen), schedule))
            if cost < least:
                best, least = other, cost
    return best


def _equals(exchanges: Exchanges, near: CosaSchedule, objective: float) -> Iterator[CosaSchedule]:
    """What fits and costs CoSA the same, after an exchange of factors or of two neighbouring loops of a level."""
    shared = exchanges.machine.shared
    moved = exchanges.moved(near.counts)
    is_equal = np.abs(exchanges.objectives(moved, near.order(shared)) - objective) <= SAME
    equal = moved[is_equal]
    for counts in equal[exchanges.fits(equal)]:
        yield CosaSchedule(counts, near.orders)
    placement = exchanges.placement(near)
    for level in range(exchanges.machine.dram + 1):
        sizes, order = placement.sizes((Place(level),)), near.order(level)
        for left, right in pairwise(loop for loop in order if sizes[loop] > 1):
            swap = {left: right, right: left}
            swapped = tuple(swap.get(loop, loop) for loop in order)
            if level == shared:
                value = exchanges.objectives(near.counts[None], swapped)[0]
                if abs(value - objective) > SAME:
                    continue
            yield CosaSchedule(near.counts, {**near.orders, level: swapped})
