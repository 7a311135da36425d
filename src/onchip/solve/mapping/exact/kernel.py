"""The exact mapper compiled: what Python calls. docs/mapping.md says why the sums over boundaries are exact."""

from __future__ import annotations

import numpy as np

from onchip.cost.layer.tables import Flags, Integers, Machine, Reals, Shape
from onchip.solve.mapping.exact.array import choose, list_ends, list_tiles
from onchip.solve.mapping.exact.compiled import ENERGY, NO_STALL, compiled, compiled_entry, inlined
from onchip.solve.mapping.exact.descent import begin, descend
from onchip.solve.mapping.exact.floor import floor_of_cycles, floor_of_energy
from onchip.solve.mapping.exact.link import link
from onchip.solve.mapping.exact.price import measure, price_cycles, price_reads, price_sums, time_moves
from onchip.solve.mapping.exact.room import DescentState
from onchip.solve.mapping.exact.tables import Space, UnrollingWays
from onchip.solve.mapping.exact.work import Work


@inlined
def copy(source: Integers, target: Integers) -> None:
    for at in range(target.size):
        target[at] = source[at]


@compiled
def find_least(
    space: Space, machine: Machine, shape: Shape, w: Work, complete_from: int, criterion: int,
    kind: int, port: int, preload: int,
) -> float:  # fmt: skip
    if kind == ENERGY:
        price_reads(space, machine, shape, w, criterion)
        price_sums(space, machine, shape, w, complete_from, criterion)
    else:
        price_cycles(space, machine, w, complete_from, criterion, kind, port, preload)
    return link(space, w, criterion)


@compiled
def may_take_less(space: Space, machine: Machine, shape: Shape, w: Work, first: int, last: int, limit: float) -> bool:
    """Whether a chain may take less energy than the limit, its sums complete from a cut of `first` to `last` on."""
    reads = price_reads(space, machine, shape, w, 0)
    for complete_from in range(first, last + 1):
        if reads + price_sums(space, machine, shape, w, complete_from, 0) < limit:
            measure(space, machine, shape, w, complete_from)
            if link(space, w, 0) < limit:
                return True
    return False


@compiled_entry
def prepare(
    space: Space, machine: Machine, shape: Shape, sides: UnrollingWays, w: Work, room: DescentState, complete_from: int,
    criteria: Integers, used: Integers, value: Reals, kept: int, limit: float,
) -> int:  # fmt: skip
    """Makes ready for a descent: lists the tiles for the ways in `w.way` and the least values of `used` criteria.

    Those are the first `kept`; if there are none, they are chosen anew. Returns how many, 0 if they rule all out.
    Tiles stay listed for the next `complete_from`; each way begins with 1.
    """
    if complete_from == 1:
        choose(space, machine, sides, w)
        list_tiles(space, w)
    begin(w, room)
    if not is_about_time(criteria):
        return 1 if may_take_less(space, machine, shape, w, complete_from, complete_from, limit) else 0
    measure(space, machine, shape, w, complete_from)
    time_moves(space, machine, shape, w, complete_from)
    count = kept if kept else select(space, machine, shape, w, complete_from, criteria, used, value)
    energy, cycles = 1.0, 0.0
    for one in range(count):
        kind, port, preload = used[one, 0], used[one, 1], used[one, 2]
        found = find_least(space, machine, shape, w, complete_from, one, kind, port, preload)
        if kind == ENERGY:
            energy = found
        else:
            cycles = max(cycles, found)
    return 0 if energy * cycles >= limit else count


@compiled
def select(
    space: Space, machine: Machine, shape: Shape, w: Work, complete_from: int,
    criteria: Integers, used: Integers, value: Reals,
) -> int:  # fmt: skip
    """An energy, if there is one, and the highest of the others, with the one preloading that takes longest."""
    scratch, longest, highest = w.fixed.size - 1, -1, 0.0
    for one in range(criteria.shape[0]):
        kind, port, preload = criteria[one, 0], criteria[one, 1], criteria[one, 2]
        value[one] = np.inf if kind == ENERGY else -1.0
        if kind == NO_STALL or (kind != ENERGY and preload == longest):
            value[one] = find_least(space, machine, shape, w, complete_from, scratch, kind, port, preload)
            if kind == NO_STALL and value[one] > highest:
                longest, highest = preload, value[one]
    count = 0
    while count < used.shape[0]:
        best = np.argmax(value)
        if value[best] < 0:
            break
        copy(criteria[best], used[count])
        value[best] = -1.0
        count += 1
    return count


@compiled_entry
def floors(
    space: Space, machine: Machine, shape: Shape, sides: UnrollingWays, w: Work, is_exact: bool, is_timed: bool,
    from_ways: Integers, chosen: Integers, energy: Reals, cycles: Reals,
) -> int:  # fmt: skip
    """Lists ways to use the array with their floors, from `from_ways` on, until done or no room is left."""
    along, found = w.way.size, 0
    copy(from_ways, w.way)
    while found < energy.size:
        if choose(space, machine, sides, w):
            list_ends(space, w)
            copy(w.way, chosen[found])
            energy[found] = floor_of_energy(space, machine, shape, w, is_exact)
            cycles[found] = floor_of_cycles(space, machine, shape, w) if is_timed else 0.0
            found += 1
        one = 0
        while one < along and w.way[one] + 1 == sides.first[one + 1]:
            w.way[one] = sides.first[one]
            one += 1
        if one == along:
            from_ways[0] = -1
            return found
        w.way[one] += 1
    copy(w.way, from_ways)
    return found


@compiled_entry
def next_below(
    space: Space, machine: Machine, shape: Shape, sides: UnrollingWays, w: Work, patterns: int, chosen: Integers,
    floor: Reals, cycles: Reals, start: int, limit: float, criteria: Integers, stop: Flags,
) -> int:  # fmt: skip
    """The first way from `start` on with no criterion at the limit; how many there are, if none or floors end it.

    `criteria` has a kind, a port and a preloading in each row; the one that ruled out the last way comes first, but an
    energy stays first: with others, the limit is for energy times cycles.
    """
    times_energy = criteria[0, 0] == ENERGY and criteria.shape[0] > 1
    for at in range(start, floor.size):
        if floor[at] >= limit:
            return floor.size
        if stop[0]:
            return at
        copy(chosen[at], w.way)
        choose(space, machine, sides, w)
        list_tiles(space, w)
        if not is_about_time(criteria):
            if may_take_less(space, machine, shape, w, 1, patterns, limit):
                return at
            continue
        for complete_from in range(1, patterns + 1):
            measure(space, machine, shape, w, complete_from)
            time_moves(space, machine, shape, w, complete_from)
            if may_be_below(space, machine, shape, w, complete_from, criteria, limit, cycles[at], times_energy):
                return at
    return floor.size


@inlined
def is_about_time(criteria: Integers) -> bool:
    """Whether any criterion is about cycles."""
    return bool(criteria.shape[0] > 1 or criteria[0, 0] != ENERGY)


@compiled
def may_be_below(
    space: Space, machine: Machine, shape: Shape, w: Work, complete_from: int,
    criteria: Integers, limit: float, cycles: float, times_energy: bool,
) -> bool:  # fmt: skip
    factor = 1.0
    for one in range(criteria.shape[0]):
        kind, port, preload = criteria[one, 0], criteria[one, 1], criteria[one, 2]
        value = find_least(space, machine, shape, w, complete_from, 0, kind, port, preload)
        if times_energy and one == 0:
            factor, value = value, cycles
        if value * factor >= limit:
            first = 1 if times_energy else 0
            while one > first:
                for part in range(3):
                    criteria[one, part], criteria[one - 1, part] = criteria[one - 1, part], criteria[one, part]
                one -= 1
            return False
    return True


@compiled_entry
def next_chain(
    space: Space, machine: Machine, w: Work, room: DescentState, criteria: Integers, objective: int,
    limit: float, most_nodes: int, stop: Flags,
) -> int:  # fmt: skip
    """Leaves in `room` the next chain whose bound is below the limit; FINISHED, LEAF or PAUSED."""
    return descend(space, machine, w, room, criteria, objective, limit, most_nodes, stop)
