"""The least that boundaries cost together, and the least product of two such costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np

from onchip.arch.memory import Operand
from onchip.native import least_chain
from onchip.solve.mapping.wide.lattice import Along, Lattice

Boundaries: TypeAlias = Mapping[tuple[Operand, int], Along]
"""Costs by operand, and by number from the units upwards; infinite where there is no room."""
SLOPES: Final = (0.5, 1.0, 2.0)


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


def least_product(first: float, second: float, slope: float, least_sum: float) -> float:
    """Return what no product is below: of numbers not below `first` and `second`, nor `slope` times one plus the other.

    The least product is at a corner of what these three leave.
    """
    if slope * first + second >= least_sum:
        return first * second
    return min(first * (least_sum - slope * first), (least_sum - second) / slope * second)
