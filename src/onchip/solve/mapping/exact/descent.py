"""From all loops down to the units: the chains of tiles, and orders of loops, that no criterion rules out."""

from __future__ import annotations

from onchip.cost.layer.tables import Flags, Integers, Machine, Reals
from onchip.solve.mapping.exact.compiled import (
    BUSY,
    ENERGY,
    FIRST_PORT,
    INPUT,
    NO_STALL,
    OUTPUT,
    WAITING,
    WEIGHT,
    compiled,
    inlined,
)
from onchip.solve.mapping.exact.link import state_of
from onchip.solve.mapping.exact.orders import NO_LOOPS, is_inner, is_outer, lengthens, narrows, sole_run
from onchip.solve.mapping.exact.room import DescentState
from onchip.solve.mapping.exact.stall import account, stall
from onchip.solve.mapping.exact.tables import NO_CLASS, Space
from onchip.solve.mapping.exact.work import Work

# How a descent ends.
FINISHED, LEAF, PAUSED = range(3)
# What bounds are joined to.
OF_ENERGY, OF_LATENCY, OF_PRODUCT = range(3)


@inlined
def begin(w: Work, room: DescentState) -> None:
    """Stands above the first memory, with all to try."""
    levels = w.fits.shape[0]
    room.depth[0] = 0
    room.tile[levels + 1], room.run_class[levels + 1] = w.tiles[0] - 1, -1
    room.listed[:] = -1


@compiled
def descend(
    space: Space, machine: Machine, w: Work, room: DescentState, criteria: Integers, objective: int,
    limit: float, most_nodes: int, stop: Flags,
) -> int:  # fmt: skip
    """Goes on to the next whole chain whose bound is below the limit, best first at each place."""
    levels = w.fits.shape[0]
    while room.depth[0] >= 0:
        depth = room.depth[0]
        if room.listed[depth] < 0:
            if stop[0] or room.nodes[0] >= most_nodes:
                return PAUSED
            room.nodes[0] += 1
            expand(space, machine, w, room, criteria, objective, limit)
        at = room.following[depth]
        if at >= room.listed[depth] or room.bound[depth, at] >= limit:
            room.listed[depth] = -1
            room.depth[0] -= 1
            continue
        room.following[depth] += 1
        code = room.code[depth, at]
        put(space, w, room, levels - depth, code // 25, code // 5 % 5, code % 5)
        if depth == levels:
            return LEAF
        room.depth[0] += 1
    return FINISHED


@compiled
def expand(
    space: Space, machine: Machine, w: Work, room: DescentState, criteria: Integers, objective: int, limit: float
) -> None:
    """Lists what may stand at the next place, in the order of the bounds."""
    depth = room.depth[0]
    place = w.fits.shape[0] - depth
    if objective != OF_ENERGY:
        account(space, machine, w, room, place + 1)
    for one in range(criteria.shape[0]):
        room.paid[one] = paid(space, w, room, criteria, one, place)
    room.listed[depth], room.following[depth] = 0, 0
    around, tile = room.tile[place + 1], 0
    for digit in range(room.most.size):
        room.most[digit] = around // w.stride[digit] % w.radix[digit] if place else 0
        room.exponent[digit] = 0
    while tile >= 0:
        if place == 0 or w.fits[place - 1, tile]:
            try_orders(space, machine, w, room, criteria, objective, limit, place, tile)
        tile = next_inside(w, room, tile)
    sort(room.bound[depth], room.code[depth], room.listed[depth])


@inlined
def sort(bound: Reals, code: Integers, count: int) -> None:
    """Ascending by bound (Shell's sort: numpy's makes new arrays)."""
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap:
        for at in range(gap, count):
            one, own, place = bound[at], code[at], at
            while place >= gap and bound[place - gap] > one:
                bound[place], code[place] = bound[place - gap], code[place - gap]
                place -= gap
            bound[place], code[place] = one, own
        gap //= 3


@inlined
def next_inside(w: Work, room: DescentState, tile: int) -> int:
    """The next tile that divides the one around it; -1 after the last."""
    for digit in range(room.most.size):
        if room.exponent[digit] < room.most[digit]:
            room.exponent[digit] += 1
            return int(tile + w.stride[digit])
        tile -= room.exponent[digit] * w.stride[digit]
        room.exponent[digit] = 0
    return -1


@inlined
def put(space: Space, w: Work, room: DescentState, place: int, tile: int, inner: int, outer: int) -> None:
    """A tile at a place, with the orders of the loops above it."""
    around = room.tile[place + 1]
    room.tile[place], room.inner[place], room.outer[place] = tile, inner, outer
    room.run_class[place], room.run_end[place] = -1, tile
    if tile == around:
        room.run_class[place], room.run_end[place] = room.run_class[place + 1], room.run_end[place + 1]
    elif inner < NO_CLASS:
        room.run_class[place] = inner
        room.run_end[place] = tile - w.part[inner, tile] + w.part[inner, around]
        if room.run_end[place] == around and room.run_class[place + 1] == inner:
            room.run_end[place] = room.run_end[place + 1]
    if place:
        for operand in range(3):
            if space.holds[operand, place - 1]:
                is_kept = room.run_class[place] == operand
                room.cut[operand, place - 1] = room.run_end[place] if is_kept else tile


# Orders


@inlined
def try_orders(
    space: Space, machine: Machine, w: Work, room: DescentState, criteria: Integers, objective: int, limit: float,
    place: int, tile: int,
) -> None:  # fmt: skip
    """Each pair of classes innermost and outermost that makes a difference."""
    around, seen = room.tile[place + 1], 0
    sole = sole_run(space, w, room, place)
    if sole >= 0 and w.part[sole, tile] == w.part[sole, around]:
        return
    for inner in range(NO_LOOPS + 1):
        if not is_inner(w, inner, tile, around):
            continue
        has_free = objective == OF_ENERGY
        for outer in range(NO_LOOPS + 1):
            if is_outer(w, inner, outer, tile, around) and not narrows(space, machine, w, room, place, outer):
                has_free = True
        for outer in range(NO_LOOPS + 1):
            if outer == sole or not is_outer(w, inner, outer, tile, around):
                continue
            narrow = objective != OF_ENERGY and narrows(space, machine, w, room, place, outer)
            effect = (inner if lengthens(space, place, inner) else NO_LOOPS) * 5 + (outer if narrow else NO_LOOPS)
            if (narrow and has_free) or seen >> effect & 1:
                continue
            seen |= 1 << effect
            consider(space, machine, w, room, criteria, objective, limit, place, tile, inner, outer)


# Bounds


@inlined
def consider(
    space: Space, machine: Machine, w: Work, room: DescentState, criteria: Integers, objective: int, limit: float,
    place: int, tile: int, inner: int, outer: int,
) -> None:  # fmt: skip
    """Lists a tile with an order if its bound is below the limit: by sums first, then by its ports."""
    put(space, w, room, place, tile, inner, outer)
    levels = w.fits.shape[0]
    for one in range(criteria.shape[0]):
        room.rest[one] = rest(space, w, room, one, place)
        added = room.paid[one] + room.rest[one]
        if place:
            for operand in range(3):
                if space.holds[operand, place - 1]:
                    added += w.term[one, operand, place - 1, room.cut[operand, place - 1]]
        room.value[one] = added
    bound = joint(room, criteria, objective)
    if bound >= limit:
        return
    if objective != OF_ENERGY:
        account(space, machine, w, room, place)
        waits = stall(space, machine, w, room, place)
        longest = max(room.chained[INPUT], room.chained[WEIGHT])
        for port in range(room.first.size):
            longest = max(longest, room.first[port])
        cycles = w.volume[w.tiles[0] - 1] + waits + longest + room.chained[OUTPUT]
        for one in range(criteria.shape[0]):
            if criteria[one, 0] != ENERGY:
                found = paid(space, w, room, criteria, one, place - 1) + room.rest[one]
                if criteria[one, 0] == NO_STALL:
                    found += waits
                room.value[one] = max(room.value[one], found, cycles)
        bound = joint(room, criteria, objective)
        if bound >= limit:
            return
    depth = levels - place
    at = room.listed[depth]
    room.code[depth, at], room.bound[depth, at] = tile * 25 + inner * 5 + outer, bound
    room.listed[depth] = at + 1


@inlined
def joint(room: DescentState, criteria: Integers, objective: int) -> float:
    """One number of all criteria: energy, the most cycles, or their product."""
    energy, cycles = 1.0, 0.0
    for one in range(criteria.shape[0]):
        if criteria[one, 0] == ENERGY:
            energy = room.value[one]
        else:
            cycles = max(cycles, room.value[one])
    return energy if objective == OF_ENERGY else energy * cycles


@compiled
def paid(space: Space, w: Work, room: DescentState, criteria: Integers, one: int, lowest: int) -> float:
    """What the boundaries above the levels from `lowest` on come to; of cycles after `account`."""
    kind, port, preload = criteria[one, 0], criteria[one, 1], criteria[one, 2]
    if kind == ENERGY:
        found = w.fixed[one]
        for operand in range(3):
            for level in range(lowest, w.fits.shape[0]):
                if space.holds[operand, level]:
                    found += w.term[one, operand, level, room.cut[operand, level]]
        return float(found)
    found = 0.0 if kind == BUSY else w.volume[w.tiles[0] - 1]
    if kind == WAITING:
        found += room.alone[port]
    elif kind == BUSY:
        found += room.busy[port]
    found += room.chained[preload] if preload < FIRST_PORT else room.first[preload - FIRST_PORT]
    return float(found + room.chained[OUTPUT])


@inlined
def rest(space: Space, w: Work, room: DescentState, one: int, place: int) -> float:
    """The least that the levels below the place's own can add, whether its run goes on or not."""
    level = place - 2
    if level < 0:
        return 0.0
    tile, found = room.tile[place], w.best[one, level, room.tile[place]]
    operand, more, levels = room.run_class[place], 0.0, w.fits.shape[0]
    if operand >= 0:
        for first in range(level, -1, -1):
            if space.holds[operand, first]:
                more += w.term[one, operand, first, room.run_end[place]]
                found = min(found, w.run[one, level, state_of(operand, first, levels), tile] + more)
    return float(found)
