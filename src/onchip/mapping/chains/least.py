"""Minimum total cost of memory boundaries, and lower bounds on a maximum or product of two costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from onchip.arch.memory import Operand
from onchip.mapping.chains.lattice import Along, Lattice
from onchip.native import highest_mean as native_highest_mean
from onchip.native import least_chain

Boundaries: TypeAlias = Mapping[tuple[Operand, int], Along]
"""Costs by operand and boundary number, from the MACs upwards; infinite if a tile does not fit."""
Criterion: TypeAlias = tuple[float, Boundaries]
"""A fixed cost and the costs of boundaries."""
SLOPES: Final = (1.0, 0.5, 2.0)
"""Weights of energy against cycles, relative to the ratio of both minima."""


def least_of(lattice: Lattice, *tables: Boundaries) -> float:
    """Return the minimum over all chains of the sum of the tables."""
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
    """Return a lower bound over all chains on the greatest criterion, or `enough` if reached; and weights.

    The weights give a mean of the criteria that attains the bound. With `slope`, the bound is on `slope` times the
    first criterion plus the greatest of the others. The search stops early if some chain's value is not above `vain`.
    """
    operands = list(Operand)
    places = sorted(room, key=lambda at: (operands.index(at[0]), at[1]))
    rows = [(fixed, [costs.get(at) for at in places]) for fixed, costs in criteria]
    of_operands = [operands.index(at[0]) for at in places]
    return native_highest_mean(lattice.shape, of_operands, [room[at] for at in places], rows, slope, enough, vain)


def least_product(first: float, second: float, slope: float, least_sum: float) -> float:
    """Return a lower bound on x * y for x >= `first`, y >= `second` and `slope` * x + y >= `least_sum`.

    The minimum is at a corner of the region that these three constraints define.
    """
    if slope * first + second >= least_sum:
        return first * second
    return min(first * (least_sum - slope * first), (least_sum - second) / slope * second)
