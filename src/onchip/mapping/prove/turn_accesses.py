"""Lower bound on the accesses for the inputs of all iterations, if no taps are spatially unrolled.

In each iteration an instance has some outputs along each axis, one tap per axis, and some channels. Each combination is
a separate input, except in padding. Outputs and channels are partitioned among iterations and instances. At the border
an iteration has fewer inputs, which seldom saves an access.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from onchip.bounds.layer.arrangements import inputs_of_turns
from onchip.ir.layer import LOOPS
from onchip.mapping.chains.chain import OperandChain
from onchip.mapping.chains.lattice import Served
from onchip.mapping.prove.unrolled_ways import CHANNELS

MOST_OUTPUTS: Final = 1024
"""Maximum number of outputs of an instance per iteration; above it, the bound is zero."""
MOST_MISSING: Final = 256
"""Maximum number of missing elements over all groups; above it, savings are bounded in proportion."""


@dataclass(frozen=True)
class Groups:
    """A number of groups with at most `most` elements each and `together` in total."""

    number: int
    most: int
    together: int

    def least(self, costs: NDArray[np.float64]) -> float:
        """Return a lower bound on the total cost, given non-decreasing costs by group size."""
        missing = self.number * self.most - self.together
        spared_by = costs[self.most] - costs[self.most :: -1]
        each = np.arange(1, self.most + 1)
        if missing > MOST_MISSING:
            return max(self.number * float(costs[self.most]) - missing * float((spared_by[1:] / each).max()), 0.0)
        spared = np.zeros(missing + 1)
        for at in range(1, missing + 1):
            fewer = each[: min(at, self.most)]
            spared[at] = (spared[at - fewer] + spared_by[fewer]).max()
        return max(self.number * float(costs[self.most]) - float(spared[missing]), 0.0)


ByTaps = tuple[tuple[int, tuple[Groups, ...]], ...]  # for an axis, numbers of taps with the groups of their outputs


def accesses_of_turns(chain: OperandChain, served: Served, bits: int, shortest: int) -> float:
    """Return a lower bound on the shortest accesses for the inputs of all iterations; zero if unknown."""
    channels = chain.lattice.parts_alike(CHANNELS, served)
    sets = tuple(Groups(int(one.parts.max()), int(one.longest.max()), int(one.together.max())) for one in channels)
    axes = [_by_taps(chain, at, served) for at in range(len(chain.way.rows))]
    if any(not one for one in axes) or prod(own[0][1][0].most for own in axes) > MOST_OUTPUTS:
        return 0.0
    found = _of_grid(sets, axes[0], axes[1], bits, shortest)
    first, second = (_by_arrangement(chain, at, served) for at in range(len(chain.way.rows)))
    if first is None or second is None:
        return found
    accesses = _of_numbers(sets, (first.shape[1] - 1) * (second.shape[1] - 1), bits, shortest)
    each = accesses[np.outer(np.arange(first.shape[1]), np.arange(second.shape[1]))]
    return max(found, float((first @ each @ second.T).min()))


def _by_arrangement(chain: OperandChain, axis: int, served: Served) -> NDArray[np.int64] | None:
    """Return `inputs_of_turns` for one axis."""
    rows = chain.way.rows[axis]
    output = LOOPS.index(rows.axis.output_loop)
    units, beside = chain.way.units[output], chain.way.beside(output, served)
    turns = units.known_turns(rows.outputs)
    return inputs_of_turns(rows.axis, rows.outputs, rows.taps, turns, beside, any_is_idle=units.any_is_idle)


def _by_taps(chain: OperandChain, axis: int, served: Served) -> ByTaps:
    """Return by tap the partition of an axis' outputs among iterations and instances; empty if unknown."""
    rows = chain.way.rows[axis]
    output, tap = LOOPS.index(rows.axis.output_loop), LOOPS.index(rows.axis.filter_loop)
    units = chain.way.units[output]
    turns = units.known_turns(rows.outputs)
    if chain.way.units[tap].most > 1 or turns == 0:
        return ()
    number, most = turns * served.most_apart[output], served.most[output]
    is_full = rows.outputs >= units.most and not units.any_is_idle
    each = zip(rows.stored_through_taps, rows.first_through_taps, strict=True)
    firsts = [first if is_full and stored == rows.outputs - 1 else 0 for stored, first in each]
    alike = Counter(zip(rows.stored_through_taps, firsts, strict=True))
    return tuple((taps, _groups(number, most, *stored)) for stored, taps in alike.items())


def _groups(number: int, most: int, stored: int, first: int) -> tuple[Groups, ...]:
    """Return the groups of `stored` outputs from `first` on; if that is the second, iteration 0 has the one before.

    All units are at work in iteration 0 if there are enough outputs. `first` is nonzero only if no other output is in
    padding.
    """
    if first != 1:
        return (Groups(number, most, stored),)
    return (Groups(1, most, most - 1), Groups(number - 1, most, stored - (most - 1)))


@lru_cache(maxsize=1 << 10)
def _of_grid(sets: Sequence[Groups], first: ByTaps, second: ByTaps, bits: int, shortest: int) -> float:
    """Return a lower bound over the product of both axes' groups, through each tap, and all channels."""
    high, wide = (one[0][1][0].most for one in (first, second))
    of_channels = _of_numbers(sets, high * wide, bits, shortest)
    of_first = _by_number(wide, lambda one: _through_taps(first, of_channels[::one]))
    return _through_taps(second, of_first)


@lru_cache(maxsize=1 << 10)
def _of_numbers(sets: Sequence[Groups], most: int, bits: int, shortest: int) -> NDArray[np.float64]:
    """Return the minimum accesses for all channels, by the number of positions read together."""
    accesses = np.ceil(np.arange(most * max(one.most for one in sets) + 1) * bits / shortest)
    return _by_number(most, lambda one: sum(own.least(accesses[::one][: own.most + 1]) for own in sets))


def _by_number(most: int, costs: Callable[[int], float]) -> NDArray[np.float64]:
    """Return the costs of 0 to `most` elements; 0 elements cost nothing."""
    return np.array([0.0, *map(costs, range(1, most + 1))])


def _through_taps(alike: ByTaps, costs: NDArray[np.float64]) -> float:
    return sum(taps * own.least(costs[: own.most + 1]) for taps, groups in alike for own in groups)
