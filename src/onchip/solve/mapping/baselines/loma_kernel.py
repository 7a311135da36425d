"""LOMA compiled: one order of the factors after the other, each filled into the memories from the units up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba

from onchip.cost.layer.tables import Chosen, Flags, Integers, Reals

F = TypeVar("F", bound=Callable[..., Any])

OUTPUT = 2


class LevelFilling(NamedTuple):
    """What decides how far a memory is filled; tiles are numbered as in `tiles`."""

    kind_loop: Integers
    kind_size: Integers
    kind_step: Integers
    iterations: Integers  # of each tile
    sums_are_left: Flags  # of each tile
    is_left: Flags  # operand, tile: whether another tile follows it
    elements: Reals  # operand, level, tile
    bits: Integers  # of each operand
    partial_bits: int
    sums_beside: Flags  # of each level: whether sums of several of its instances are added up above it
    capacity_bits: Integers
    double_buffered: Flags
    held: Integers  # level, slot: operand; -1 for none
    is_home: Flags  # operand, level
    input_levels: Integers  # of each spatial loop: the last level of inputs that does not serve it, or -1


class Desk(NamedTuple):
    """What is written on the way."""

    order: Integers  # kinds, innermost first; all orders are found by rising from the sorted one
    started: Integers
    tile: Integers  # of each place
    cut: Integers  # of each operand
    room: Reals  # slot, further loops: bits, or as many as do not fit
    fitting: Integers  # of each slot: how many numbers of further loops fit
    first: Integers  # of each slot: the least number of further loops
    best: Integers  # of each slot


def compiled(function: F) -> F:
    """Compile into the caller, cache on disk, release the interpreter lock while running."""
    return cast("F", numba.njit(cache=True, nogil=True, _nrt=False, forceinline=True)(function))  # type: ignore[call-overload]


@compiled
def fill_orders(filling: LevelFilling, desk: Desk, chosen: Chosen) -> int:
    """Writes the next mappings into the rows of `chosen`; returns how many, fewer than rows only at the end."""
    row, rows = 0, chosen.temporal_count.size
    while row < rows:
        if desk.started[0] and not next_order(desk.order):
            return row
        desk.started[0] = 1
        if fill(filling, desk, chosen, row):
            row += 1
    return row


@compiled
def next_order(order: Integers) -> bool:
    """The next one in dictionary order; False, and nothing changed, after the last."""
    at = order.size - 2
    while at >= 0 and order[at] >= order[at + 1]:
        at -= 1
    if at < 0:
        return False
    other = order.size - 1
    while order[other] <= order[at]:
        other -= 1
    order[at], order[other] = order[other], order[at]
    low, high = at + 1, order.size - 1
    while low < high:
        order[low], order[high] = order[high], order[low]
        low, high = low + 1, high - 1
    return True


@compiled
def fill(filling: LevelFilling, desk: Desk, chosen: Chosen, row: int) -> bool:
    """Whether everything fits: a memory holds at least the loops of the one below, a home all of them."""
    loops = desk.order.size
    desk.tile[0] = 0
    for at in range(loops):
        kind = desk.order[at]
        desk.tile[at + 1] = desk.tile[at] + filling.kind_step[kind]
        chosen.temporal_loop[row, at] = filling.kind_loop[kind]
        chosen.temporal_size[row, at] = filling.kind_size[kind]
    chosen.temporal_count[row] = loops
    desk.cut[:] = 0
    for level in range(filling.capacity_bits.size):
        if not fill_level(filling, desk, level):
            return False
        for slot in range(3):
            operand = filling.held[level, slot]
            if operand >= 0:
                desk.cut[operand] += desk.best[slot]
                if not filling.is_home[operand, level]:
                    chosen.cut[row, operand, level] = desk.cut[operand]
    for at in range(chosen.spatial_count[row]):
        level = filling.input_levels[at]
        chosen.spatial_at[row, at] = chosen.cut[row, 0, level] if level >= 0 else 0
    return True


@compiled
def fill_level(filling: LevelFilling, desk: Desk, level: int) -> bool:
    """As many more loops of each operand as move least from above; of equal ones the last."""
    for slot in range(3):
        if not measure(filling, desk, level, slot):
            return False
    capacity, least, found = float(filling.capacity_bits[level]), 0.0, False
    for one in range(desk.first[0], desk.fitting[0]):
        for two in range(desk.first[1], desk.fitting[1]):
            for three in range(desk.first[2], desk.fitting[2]):
                if desk.room[0, one] + desk.room[1, two] + desk.room[2, three] > capacity:
                    is_least = (one, two, three) == (desk.first[0], desk.first[1], desk.first[2])
                    if is_least and not filling.double_buffered[level]:
                        return False
                    continue
                moved = traffic(filling, desk, level, 0, one) + traffic(filling, desk, level, 1, two)
                moved += traffic(filling, desk, level, 2, three)
                if not found or moved <= least:
                    found, least = True, moved
                    desk.best[0], desk.best[1], desk.best[2] = one, two, three
    return found


@compiled
def measure(filling: LevelFilling, desk: Desk, level: int, slot: int) -> bool:
    """Bits of an operand's tiles with more and more loops, up to the largest that fits; whether any may be chosen.

    In a double-buffered memory the last tile, which none follows, may fit where a smaller one does not.
    """
    operand = filling.held[level, slot]
    desk.first[slot], desk.fitting[slot], desk.room[slot, 0] = 0, 1, 0.0
    if operand < 0:
        return True
    cut, loops = desk.cut[operand], desk.order.size
    bits = filling.bits[operand]
    if operand == OUTPUT and (filling.sums_are_left[desk.tile[cut]] or filling.sums_beside[level]):
        bits = filling.partial_bits
    fitting = 0
    for more in range(loops - cut + 1):
        room = filling.elements[operand, level, desk.tile[cut + more]] * bits
        if filling.double_buffered[level] and filling.is_left[operand, desk.tile[cut + more]]:
            room *= 2
        desk.room[slot, more] = room
        if room <= filling.capacity_bits[level]:
            fitting = more + 1
    desk.fitting[slot] = fitting
    if filling.is_home[operand, level]:
        desk.first[slot] = loops - cut
    return bool(fitting > desk.first[slot])


@compiled
def traffic(filling: LevelFilling, desk: Desk, level: int, slot: int, more: int) -> float:
    """Bits that come from above in all, as the tile and the loops outside it say."""
    operand = filling.held[level, slot]
    if operand < 0 or filling.is_home[operand, level]:
        return 0.0
    tile, last = desk.tile[desk.cut[operand] + more], desk.tile[desk.order.size]
    return float(desk.room[slot, more] * (filling.iterations[last] // filling.iterations[tile]))
