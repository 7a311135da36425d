"""How many accesses of a memory an element takes on average, at least: a tile's last access may be used in part only.

Two things are known of tiles. Any tile has a multiple of the elements that it has of dimensions which are whole in all
of them. And of all tiles that move once it may be known how many there are at most: if the largest takes so many
accesses, a smaller one spares one only where it is smaller by what the last access has, and by a whole access for each
further one. So what all tiles together lack of the largest spares no more than that, and what they take is a whole
number. Where a dimension's parts are all known, full ones and the last, tiles with the one and tiles with the other
are sets of their own; and where the parts of a set lack only a few indices, each combination of parts is a tile that
takes what it takes.
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
"""Times what any tile has a multiple of: in more at once a part of an access more or less is not counted."""
MOST_LACKING: Final = 16
"""Indices that all parts of a dimension lack; of more nothing is said of each."""
ROUNDING: Final = 1e-12
"""Of sums and products of real numbers, more than they are off."""
FEW: Final = 4
"""Accesses that a smaller tile spares, looked at one by one."""


def shortest_of(access: Access) -> int:
    """Return the bits of the shortest access."""
    return access.shortest_access_bits or access.access_bits


@asked_once
def element_accesses(
    chain: OperandChain, served: Served, bits: int, shortest: int, counts_tiles: bool, below: Served | None = None
) -> Along:
    """Return shortest accesses by cell, for an instance of so many units; with `counts_tiles` of whole sets of tiles.

    Each of the elements that `OperandChain.moved` says of the same instances `below` takes so many.
    Where tiles may stay as loops end short no set is whole. Of several ways at once sets are not counted: their tiles
    are too many to say more than `least_share` does, and half of all nodes are never looked into again.
    """
    whole = chain.whole_size(served)
    found = least_share(chain.at_once(served), whole, bits, shortest)
    if not (counts_tiles and chain.way.is_one) or chain.lattice.shares_out:
        return found
    least = _of_all_tiles(chain, served, bits, shortest, below) / np.maximum(chain.elements(served, below), 1.0)
    return np.where(chain.may_stay, found, np.maximum(found, least))


@asked_once_of_any
def _of_all_tiles(chain: OperandChain, served: Served, bits: int, shortest: int, below: Served | None) -> Along:
    """Return what all tiles take if each moves once: each set of tiles that are alike by itself."""
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
    """Return what tiles take that lack a few indices along some dimensions, of each combination; zero where unknown.

    However many each part of a dimension lacks of those that all lack: together they spare no more than the best do.
    """
    elements, times, is_known = alike.longest, alike.parts, np.ones(1, np.bool_)
    for side in alike.sides:
        elements, times = elements / np.maximum(side.longest, 1.0), times / np.maximum(side.parts, 1.0)
        is_known = is_known & (side.lacks <= MOST_LACKING)
    if not is_known.any():
        return np.zeros(1)
    return np.where(is_known, times * _least_of_sides(alike.sides, elements, bits, shortest), 0.0)


def _least_of_sides(sides: Sequence[LackingSide], elements: Along, bits: int, shortest: int) -> Along:
    """Return what all parts of these dimensions take, of so many elements for each combination of their indices."""
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
    """Return how many accesses tiles take that take so many at least: each takes a whole number."""
    return np.ceil(found * (1 - ROUNDING))


def least_accesses(
    most: Along, tiles: Along, elements: Along, whole: Along, none_is_empty: NDArray[np.bool_], bits: int, shortest: int
) -> Along:
    """Return what at most so many tiles take that have so many elements together, none counted beyond `most` of a tile.

    Sizes are multiples of `whole`. Below zero if tiles may be too many to say anything. Where none of so many is empty
    each takes an access.
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
    """Return what an element takes of any tile of at most so many, a multiple of `whole`."""
    times = most / whole
    found = np.full(np.broadcast_shapes(most.shape, whole.shape), bits / shortest)
    for one in np.unique(whole) if whole.size > 1 else whole.flat:
        shares = _shares(int(one), bits, shortest)[np.minimum(times, MOST_AT_ONCE).astype(np.int64) - 1]
        found = np.where((whole == one) & (times <= MOST_AT_ONCE), shares, found)
    return found


@lru_cache(maxsize=1 << 10)
def _shares(whole: int, bits: int, shortest: int) -> Along:
    """By how many times `whole` elements move at once at most, from one on: the accesses that each takes at least."""
    counts = np.arange(1, MOST_AT_ONCE + 1) * whole
    found: Along = np.minimum.accumulate(-(-counts * bits // shortest) / counts)
    return found
