"""The least that boundaries cost together, and the least product of two such costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from onchip.arch.memory import Operand
from onchip.mapping.chains.lattice import Along, Lattice
from onchip.native import highest_mean as native_highest_mean
from onchip.native import least_chain

Boundaries: TypeAlias = Mapping[tuple[Operand, int], Along]
"""Costs by operand, and by number from the units upwards; infinite where there is no room."""
Criterion: TypeAlias = tuple[float, Boundaries]
"""What is fixed, and what boundaries cost."""
SLOPES: Final = (1.0, 0.5, 2.0)
"""What energy weighs beside cycles, in what is least of these by what is least of energy."""


def least_of(lattice: Lattice, *tables: Boundaries) -> float:
    """Return the least of the tables' sum over all orders of loops."""
    summed: dict[tuple[Operand, int], Along] = {}
    for table in tables:
        for at, own in table.items():
            summed[at] = summed[at] + own if at in summed else own
    of_operands = [
        [np.ascontiguousarray(summed[at]) for at in sorted(summed) if at[0] is operand] for operand in Operand
    ]
    return least_chain(lattice.shape, of_operands)


def highest_mean(
    lattice: Lattice,
    room: Boundaries,
    criteria: Sequence[Criterion],
    enough: float,
    slope: float | None = None,
    vain: float = 0.0,
) -> tuple[float, list[float]]:
    """Return what the greatest of some criteria is at least over all orders of loops, or what is enough; and weights.

    These are of a mean of the criteria that is at least that. With a slope, it is of so many times the first criterion
    plus the greatest of the others. No more is looked for where that of some order is not above `vain`.
    """
    operands = list(Operand)
    places = sorted(room, key=lambda at: (operands.index(at[0]), at[1]))
    rows = [(fixed, [costs.get(at) for at in places]) for fixed, costs in criteria]
    of_operands = [operands.index(at[0]) for at in places]
    return native_highest_mean(lattice.shape, of_operands, [room[at] for at in places], rows, slope, enough, vain)


def least_product(first: float, second: float, slope: float, least_sum: float) -> float:
    """Return what no product is below: of numbers not below `first` and `second`, nor `slope` times one plus the other.

    The least product is at a corner of what these three leave.
    """
    if slope * first + second >= least_sum:
        return first * second
    return min(first * (least_sum - slope * first), (least_sum - second) / slope * second)
