"""Lower bound on the average number of memory accesses per element: a tile's last access may be partly used.

The bound uses two facts. First, the size of every tile is a multiple of its extent in the dimensions that it covers
whole. Second, the maximum number of different tiles may be known. Let the largest tile take a given number of accesses.
A smaller tile saves one access only if it lacks the elements of the last access. It saves one more for each further
access width. So the tiles save at most what their missing elements allow, and the total is a whole number. If
all parts of a dimension are known (full ones and the last), tiles with each kind of part form separate sets. If the
parts of a set lack only a few indices, the accesses of each combination of parts are computed exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from onchip.arch.memory import Access, Operand
from onchip.ir.layer import LOOPS
from onchip.mapping.chains.chain import OperandChain, asked_once, asked_once_of_any
from onchip.mapping.chains.lattice import Along, Served
from onchip.mapping.prove.parts_alike import LackingSide, PartsAlike
from onchip.mapping.prove.turn_accesses import accesses_of_turns

MOST_AT_ONCE: Final = 256
"""Largest number of multiples in one transfer; above it, a partly used access is negligible."""
MOST_LACKING: Final = 16
"""Maximum number of indices missing along a dimension; above it, combinations are not computed."""
ROUNDING: Final = 1e-12
"""Relative tolerance that covers the rounding of sums and products."""
FEW: Final = 4
"""Number of saved accesses that are examined one by one."""


def shortest_of(access: Access) -> int:
    """Return the width of the shortest access, in bits."""
    return access.shortest_access_bits or access.access_bits


@asked_once
def element_accesses(
    chain: OperandChain, served: Served, bits: int, shortest: int, counts_tiles: bool, below: Served | None = None
) -> Along:
    """Return by cell the number of shortest accesses per element, for an instance of the given units.

    The number applies to each element that `OperandChain.moved` counts for the same instances `below`. With
    `counts_tiles`, whole sets of tiles are counted. No set is whole if tiles may stay where loops end short. Sets are
    not counted for several unrollings at once: they rarely improve on `least_share`, and half of all nodes are never
    expanded.
    """
    whole = chain.whole_size(served)
    found = least_share(chain.at_once(served), whole, bits, shortest)
    if not (counts_tiles and chain.way.is_one) or chain.lattice.shares_out:
        return found
    least = _of_all_tiles(chain, served, bits, shortest, below) / np.maximum(chain.elements(served, below), 1.0)
    return np.where(chain.may_stay, found, np.maximum(found, least))


@asked_once_of_any
def _of_all_tiles(chain: OperandChain, served: Served, bits: int, shortest: int, below: Served | None) -> Along:
    """Return the accesses of all tiles if each moves once, summed over sets of equal tiles."""
    sets, elements = chain.tiles_alike(served, below), chain.elements(served, below)
    none_is_empty = chain.has_as_many(sum((one.parts for one in sets), np.zeros(1)), served)
    total: Along = np.zeros((1,) * len(LOOPS))
    for one in sets:
        least = least_accesses(one.longest, one.parts, one.together, one.whole, none_is_empty, bits, shortest)
        least = np.maximum(least, least_of_grid(one, bits, shortest))
        total = total + whole_accesses(np.maximum(least, one.together * bits / shortest))
    if chain.operand is Operand.INPUT and chain.lattice is chain.way.at_units:
        total = np.maximum(total, accesses_of_turns(chain, served, bits, shortest))
    return np.maximum(total, whole_accesses(elements * bits / shortest))


def least_of_grid(alike: PartsAlike, bits: int, shortest: int) -> Along:
    """Return the accesses of tiles that lack a few indices along some dimensions, by combination; zero if unknown.

    The missing indices of a dimension are distributed over its parts so that they save the most accesses.
    """
    elements, times, is_known = alike.longest, alike.parts, np.ones(1, np.bool_)
    for side in alike.sides:
        elements, times = elements / np.maximum(side.longest, 1.0), times / np.maximum(side.parts, 1.0)
        is_known = is_known & (side.lacks <= MOST_LACKING)
    if not is_known.any():
        return np.zeros(1)
    return np.where(is_known, times * _least_of_sides(alike.sides, elements, bits, shortest), 0.0)


def _least_of_sides(sides: Sequence[LackingSide], elements: Along, bits: int, shortest: int) -> Along:
    """Return the accesses of all parts of these dimensions, with `elements` for each combination of indices."""
    if not sides:
        return np.ceil(np.round(elements) * bits / shortest)
    side = sides[0]
    few = np.where(side.lacks <= MOST_LACKING, side.lacks, 0.0)
    lengths = (np.maximum(side.longest - lacking, 0.0) for lacking in range(int(few.max()) + 1))
    each = [_least_of_sides(sides[1:], elements * length, bits, shortest) for length in lengths]
    found, spared = side.parts * each[0], [0.0 * each[0]]
    for lacking in range(1, len(each)):
        spared.append(np.maximum.reduce([spared[lacking - one] + each[0] - each[one] for one in range(1, lacking + 1)]))
        found = np.where(few == lacking, side.parts * each[0] - spared[lacking], found)
    return found


def whole_accesses(found: Along) -> Along:
    """Round up to a whole number of accesses."""
    return np.ceil(found * (1 - ROUNDING))


def least_accesses(
    most: Along, tiles: Along, elements: Along, whole: Along, none_is_empty: NDArray[np.bool_], bits: int, shortest: int
) -> Along:
    """Return a lower bound on the accesses of at most `tiles` tiles, with `elements` in all and `most` per tile.

    Sizes are multiples of `whole`. The result is negative if there may be too many tiles for a bound. If none is empty,
    each tile takes at least one access.
    """
    of_the_largest = np.ceil(most * bits / shortest)
    unused, most_spared = of_the_largest * shortest - most * bits, np.where(none_is_empty, of_the_largest - 1, np.inf)
    spares_one: Along = np.where(most_spared > FEW, (shortest - unused / (FEW + 1)) / bits, np.inf)
    for spared in range(1, FEW + 1):
        fewer = np.ceil((spared * shortest - unused) / (bits * whole)) * whole
        spares_one = np.minimum(spares_one, np.where(spared <= most_spared, fewer / spared, np.inf))
    found: Along = tiles * of_the_largest - (tiles * most - elements) / spares_one
    return found


def least_share(most: Along, whole: Along, bits: int, shortest: int) -> Along:
    """Return the minimum accesses per element of a tile of at most `most` elements, a multiple of `whole`."""
    times = most / whole
    found = np.full(np.broadcast_shapes(most.shape, whole.shape), bits / shortest)
    for one in np.unique(whole) if whole.size > 1 else whole.flat:
        shares = _shares(int(one), bits, shortest)[np.minimum(times, MOST_AT_ONCE).astype(np.int64) - 1]
        found = np.where((whole == one) & (times <= MOST_AT_ONCE), shares, found)
    return found


@lru_cache(maxsize=1 << 10)
def _shares(whole: int, bits: int, shortest: int) -> Along:
    """Return the minimum accesses per element by the maximum multiple of `whole` in one transfer, from one on."""
    counts = np.arange(1, MOST_AT_ONCE + 1) * whole
    found: Along = np.minimum.accumulate(-(-counts * bits // shortest) / counts)
    return found
