"""The exact mapper compiled: for one way to use the array, the least cost of every chain of tiles.

docs/mapping.md says why that is exact. A criterion is what is added up over boundaries: energy, or a bound on cycles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from onchip.cost.layer_tables import Flags, Integers, Machine, Reals, Shape
from onchip.solve.mapping.exact_tables import NO_CLASS, Sides, Space
from onchip.solve.mapping.exact_work import Work

F = TypeVar("F", bound=Callable[..., Any])

INPUT, WEIGHT, OUTPUT = range(3)
READ_FOR_BELOW, WRITE_FROM_ABOVE, READ_FOR_ABOVE, WRITE_FROM_BELOW = range(4)
N, K, C, P, Q, R, S, G = range(8)
# Shares of the units: elements of one tile, those of tiles beside it, of other tiles; how many have the same.
INSIDE, BESIDE, OUTSIDE, COPIES, COPIES_ABOVE = range(5)
# Kinds of criteria: energy; cycles that single transfers at a port wait; what the port is busy beyond the loops.
ENERGY, NO_STALL, WAITING, BUSY = range(4)
FIRST_PORT = 3  # of preloading: an operand, or this plus a port
CLOSED = 0


jit: Any = numba.njit


def compiled(function: F) -> F:
    """Compile, release the interpreter lock while running; to be called from compiled code only."""
    return cast("F", jit(nogil=True, error_model="numpy")(function))


def compiled_entry(function: F) -> F:
    """The same with all it calls, cached on disk; to be called from Python."""
    return cast("F", jit(cache=True, nogil=True, error_model="numpy")(function))


# The array


@compiled
def axis_loop(at: int) -> int:
    return (P, R, Q, S)[at]


@compiled
def choose(space: Space, machine: Machine, sides: Sides, w: Work) -> bool:
    """Works out what the ways in `w.way` mean at each boundary; False where loops run out."""
    for loop in range(8):
        side = 1
        for along in range(w.way.size):
            side *= sides.sizes[w.way[along], loop]
        if side > 1 and space.bounds[loop] % side:
            return False
        w.side[loop] = side
    for operand in range(3):
        for boundary in range(space.above.shape[1]):
            if space.above[operand, boundary] >= 0:
                share(space, machine, sides, w, operand, boundary)
    return True


@compiled
def share(space: Space, machine: Machine, sides: Sides, w: Work, operand: int, boundary: int) -> None:
    upper = space.above[operand, boundary]
    part = w.share[operand, boundary]
    part[:] = 1
    if operand == INPUT:
        w.axis_inside[boundary], w.axis_beside[boundary] = 1, 1
    for along in range(w.way.size):
        way = w.way[along]
        relevant, copies = sides.relevant[way, operand], sides.copies[way, operand]
        if boundary > 0 and machine.serves[boundary - 1, along]:
            part[INSIDE] *= relevant
            if operand == INPUT:
                for at in range(4):
                    w.axis_inside[boundary, at] *= sides.axis[way, at]
            continue
        part[COPIES] *= copies
        if machine.serves[upper, along]:
            part[BESIDE] *= relevant
            if operand == INPUT:
                for at in range(4):
                    w.axis_beside[boundary, at] *= sides.axis[way, at]
        else:
            part[OUTSIDE] *= relevant
            part[COPIES_ABOVE] *= copies


@compiled
def list_tiles(space: Space, w: Work) -> None:
    """All tiles of the temporal loops, in the order of their digits."""
    count = 1
    for digit in range(space.digit_loop.size):
        left, copies = w.side[space.digit_loop[digit]], space.copies[digit]
        while left % space.digit_prime[digit] == 0:
            left //= space.digit_prime[digit]
            copies -= 1
        w.radix[digit], w.stride[digit] = copies + 1, count
        count *= copies + 1
    w.tiles[0] = count
    w.loops[:, 0] = 1
    filled = 1
    for digit in range(space.digit_loop.size):
        for more in range(1, w.radix[digit]):
            for tile in range(filled):
                target = tile + more * filled
                for loop in range(8):
                    w.loops[loop, target] = w.loops[loop, target - filled]
                w.loops[space.digit_loop[digit], target] *= space.digit_prime[digit]
        filled *= w.radix[digit]
    for tile in range(count):
        w.volume[tile] = 1
        w.relevant[:, tile] = 1
        for loop in range(8):
            size = w.loops[loop, tile]
            w.volume[tile] *= size
            for operand in range(3):
                if space.class_of[loop] != operand:
                    w.relevant[operand, tile] *= size


# Tiles


@compiled
def words(machine: Machine, level: int, bits: float) -> float:
    return float(np.ceil(bits / machine.shortest[level]))


@compiled
def channels(w: Work, tile: int) -> float:
    return float(w.loops[N, tile] * w.loops[C, tile] * w.loops[G, tile])


@compiled
def entry(space: Space, w: Work, boundary: int, tile: int, axis: int, beside: bool) -> int:
    outputs, taps = 2 * axis, 2 * axis + 1
    inside = w.axis_inside[boundary]
    more, more_taps = (w.axis_beside[boundary, outputs], w.axis_beside[boundary, taps]) if beside else (1, 1)
    return int(
        space.blocks.entry[
            axis,
            space.blocks.place[outputs, w.loops[axis_loop(outputs), tile] * inside[outputs]],
            space.blocks.place[outputs, more],
            space.blocks.place[taps, w.loops[axis_loop(taps), tile] * inside[taps]],
            space.blocks.place[taps, more_taps],
        ]
    )


@compiled
def block_words(space: Space, machine: Machine, level: int, height: int, width: int, bits: float) -> float:
    """Over all places, of blocks with so many bits a position."""
    shortest = machine.shortest[level]
    if bits % shortest == 0:
        return float(space.blocks.total[height] * space.blocks.total[width] * (bits / shortest))
    found = 0.0
    for tall in range(space.blocks.start[height], space.blocks.stop[height]):
        for wide in range(space.blocks.start[width], space.blocks.stop[width]):
            size = float(space.blocks.size[tall] * space.blocks.size[wide])
            found += np.ceil(size * bits / shortest) * (space.blocks.times[tall] * space.blocks.times[wide])
    return found


@compiled
def largest(space: Space, w: Work, operand: int, boundary: int, tile: int, beside: bool) -> float:
    """Elements of the largest tile, with those of the tiles beside it."""
    part = w.share[operand, boundary]
    joint = part[INSIDE] * (part[BESIDE] if beside else 1.0)
    if operand != INPUT:
        return float(joint * w.relevant[operand, tile])
    height, width = entry(space, w, boundary, tile, 0, beside), entry(space, w, boundary, tile, 1, beside)
    return float(joint * channels(w, tile) * space.blocks.largest[height] * space.blocks.largest[width])


@compiled
def is_pending(w: Work, boundary: int, tile: int) -> bool:
    """Whether sums of a tile have something to come."""
    last = w.tiles[0] - 1
    repeats = w.volume[last] / w.relevant[OUTPUT, last]
    return bool(w.volume[tile] / w.relevant[OUTPUT, tile] < repeats or w.share[OUTPUT, boundary, COPIES_ABOVE] > 1)


# Energy of one boundary


@compiled
def energy_of_reads(
    space: Space, machine: Machine, shape: Shape, w: Work, operand: int, boundary: int, tile: int
) -> float:
    upper, lower, last = space.above[operand, boundary], boundary - 1, w.tiles[0] - 1
    part, bits = w.share[operand, boundary], float(shape.bits[operand])
    episodes = w.volume[last] / w.volume[tile]
    if operand == WEIGHT:
        size = w.relevant[WEIGHT, tile] * part[INSIDE]
        times = episodes * part[OUTSIDE]
        energy = words(machine, upper, size * part[BESIDE] * bits) * times * part[COPIES_ABOVE] * machine.read_pj[upper]
        if lower >= 0:
            energy += words(machine, lower, size * bits) * times * part[BESIDE] * part[COPIES] * machine.write_pj[lower]
        return float(energy)
    again = episodes / (w.relevant[INPUT, last] / w.relevant[INPUT, tile])
    size = channels(w, tile) * part[INSIDE]
    outside = channels(w, last) / channels(w, tile) * part[OUTSIDE] * again
    height, width = entry(space, w, boundary, tile, 0, True), entry(space, w, boundary, tile, 1, True)
    units = block_words(space, machine, upper, height, width, size * part[BESIDE] * bits)
    energy = units * outside * part[COPIES_ABOVE] * machine.read_pj[upper]
    if lower >= 0:
        height, width = entry(space, w, boundary, tile, 0, False), entry(space, w, boundary, tile, 1, False)
        units = block_words(space, machine, lower, height, width, size * bits)
        energy += units * outside * part[BESIDE] * part[COPIES] * machine.write_pj[lower]
    return float(energy)


@compiled
def energy_of_sums(
    space: Space, machine: Machine, shape: Shape, w: Work, boundary: int, tile: int, own_bits: float, saved_pj: float
) -> float:
    """As if all sums above had begun; `saved_pj` is what a sum added up between memories saves below."""
    upper, lower, last = space.above[OUTPUT, boundary], boundary - 1, w.tiles[0] - 1
    part = w.share[OUTPUT, boundary]
    bits = float(shape.partial_bits if is_pending(w, boundary, tile) else shape.bits[OUTPUT])
    own_size = w.relevant[OUTPUT, tile] * part[INSIDE]
    size = own_size * part[BESIDE]
    times = w.volume[last] / w.volume[tile] * part[OUTSIDE] * part[COPIES_ABOVE]
    returned = size * times - shape.elements[OUTPUT]
    unit = words(machine, upper, size * bits)
    energy = unit * (times * machine.write_pj[upper] + returned / size * machine.read_pj[upper])
    if lower >= 0:
        arrived = size * times / part[COPIES_ABOVE] * part[COPIES]
        unit = words(machine, lower, own_size * own_bits) / own_size
        energy += unit * (arrived * machine.read_pj[lower] + returned * machine.write_pj[lower])
        energy -= saved_pj * (arrived - size * times)
    return float(energy)


@compiled
def price_of_return(space: Space, machine: Machine, shape: Shape, w: Work, boundary: int, own_bits: float) -> float:
    """What reading one sum back costs at a boundary: exactly at the units, at most elsewhere."""
    upper = space.above[OUTPUT, boundary]
    if boundary == 0:
        size = w.share[OUTPUT, 0, BESIDE]
        return float(words(machine, upper, size * own_bits) / size * machine.read_pj[upper])
    partial = float(shape.partial_bits)
    lower = boundary - 1
    return float(
        words(machine, upper, partial) * machine.read_pj[upper]
        + words(machine, lower, partial) * machine.write_pj[lower]
    )


# Cycles of one boundary


@compiled
def cycles_of(
    space: Space, machine: Machine, shape: Shape, w: Work,
    kind: int, port: int, preload: int, operand: int, boundary: int, tile: int, own_bits: float,
) -> float:  # fmt: skip
    """At most what the boundary adds to a criterion: waiting or business of a port, preloading, offloading."""
    upper, lower, last = space.above[operand, boundary], boundary - 1, w.tiles[0] - 1
    bits = float(shape.bits[operand])
    lower_bits = bits
    if operand == OUTPUT:
        bits = float(shape.partial_bits if is_pending(w, boundary, tile) else shape.bits[OUTPUT])
        lower_bits = own_bits
    upper_bits = largest(space, w, operand, boundary, tile, True) * bits
    lower_bits = largest(space, w, operand, boundary, tile, False) * lower_bits if lower >= 0 else 0.0
    keeps = 1.0 if lower >= 0 else 0.0
    times = w.volume[last] / w.volume[tile] - keeps
    returned = times + keeps - w.relevant[operand, last] / w.relevant[operand, tile]
    window = w.volume[tile]
    if lower >= 0 and w.relevant[operand, tile] == 1 and not machine.double_buffered[lower]:
        window = 1.0
    found, slowest = 0.0, 0.0
    for end in range(2):
        level, moved = (upper, upper_bits) if end == 0 else (lower, lower_bits)
        if level < 0 or moved == 0:
            continue
        for back in range(2 if operand == OUTPUT else 1):
            upwards = operand == OUTPUT and back == 0
            move = (WRITE_FROM_BELOW, READ_FOR_ABOVE)[end] if upwards else (READ_FOR_BELOW, WRITE_FROM_ABOVE)[end]
            used = machine.port[level, move]
            if used < 0:
                continue
            busy = np.ceil(moved / machine.bits_per_cycle[used])
            often = returned if operand == OUTPUT and back else times
            if used == port:
                found += max(busy - window, 0.0) * often if kind == WAITING else 0.0
                found += busy * often if kind == BUSY else 0.0
            if keeps and not (operand == OUTPUT and back):
                slowest = max(slowest, busy)
                found += busy if operand != OUTPUT and preload == FIRST_PORT + used else 0.0
    if operand == OUTPUT or preload == operand:
        found += slowest
    return found


# Chains of tiles


@compiled
def sums_bits(space: Space, shape: Shape, w: Work, level: int, complete_from: int) -> float:
    """Of an output in a memory: sums are complete above cut `complete_from` of the output's memories, from 1."""
    number = 0
    for below in range(level):
        number += 1 if space.holds[OUTPUT, below] else 0
    if number == 0:
        return float(shape.partial_bits if is_pending(w, 0, 0) else shape.bits[OUTPUT])
    return float(shape.bits[OUTPUT] if number >= complete_from else shape.partial_bits)


@compiled
def measure(space: Space, machine: Machine, shape: Shape, w: Work, complete_from: int) -> None:
    """Which tiles fit at which level."""
    last = w.tiles[0] - 1
    for level in range(w.fits.shape[0]):
        own_bits = sums_bits(space, shape, w, level, complete_from)
        for tile in range(w.tiles[0]):
            need = 0.0
            for operand in range(3):
                if space.holds[operand, level]:
                    bits = own_bits if operand == OUTPUT else float(shape.bits[operand])
                    changes = w.relevant[operand, last] > w.relevant[operand, tile]
                    copies = 2.0 if machine.double_buffered[level] and changes else 1.0
                    need += copies * bits * largest(space, w, operand, level + 1, tile, False)
            w.fits[level, tile] = need <= machine.capacity_bits[level]


@compiled
def price(
    space: Space, machine: Machine, shape: Shape, w: Work, complete_from: int, criterion: int,
    kind: int, port: int, preload: int,
) -> None:  # fmt: skip
    """What the boundary above each level costs for each tile, and those at the units."""
    fixed, saved = shape.mac_energy_pj if kind == ENERGY else 0.0, 0.0
    last = w.tiles[0] - 1
    for operand in range(3):
        if operand == WEIGHT and not shape.has_weight:
            continue
        fixed += price_one(space, machine, shape, w, kind, port, preload, operand, 0, 0, 0.0, 0.0)
    if kind != ENERGY:
        fixed += w.volume[last]
    if kind == BUSY:
        fixed -= w.volume[last]
    w.fixed[criterion] = fixed
    own_bits = sums_bits(space, shape, w, 0, complete_from)
    saved = price_of_return(
        space, machine, shape, w, 0, float(shape.partial_bits if is_pending(w, 0, 0) else shape.bits[OUTPUT])
    )
    number = 0
    for level in range(w.fits.shape[0]):
        for operand in range(3):
            if not space.holds[operand, level]:
                continue
            own_bits = sums_bits(space, shape, w, level, complete_from)
            number += 1 if operand == OUTPUT else 0
            for tile in range(w.tiles[0]):
                is_late = operand == OUTPUT and number >= complete_from and is_pending(w, level + 1, tile)
                w.term[criterion, operand, level, tile] = (
                    np.inf
                    if is_late
                    else price_one(
                        space, machine, shape, w, kind, port, preload, operand, level + 1, tile, own_bits, saved
                    )
                )
            if operand == OUTPUT:
                saved += price_of_return(space, machine, shape, w, level + 1, own_bits)


@compiled
def price_one(
    space: Space, machine: Machine, shape: Shape, w: Work, kind: int, port: int, preload: int,
    operand: int, boundary: int, tile: int, own_bits: float, saved: float,
) -> float:  # fmt: skip
    if kind != ENERGY:
        return cycles_of(space, machine, shape, w, kind, port, preload, operand, boundary, tile, own_bits)
    if operand == OUTPUT:
        return energy_of_sums(space, machine, shape, w, boundary, tile, own_bits, saved)
    return energy_of_reads(space, machine, shape, w, operand, boundary, tile)


@compiled
def spread(space: Space, w: Work, values: Reals, loops_of: int) -> None:
    """To each tile the least value of those inside it, by loops of one class (NO_CLASS: any loops)."""
    count = w.tiles[0]
    for digit in range(space.digit_loop.size):
        if w.radix[digit] == 1 or loops_of not in (NO_CLASS, space.class_of[space.digit_loop[digit]]):
            continue
        stride, block = w.stride[digit], w.stride[digit] * w.radix[digit]
        for start in range(0, count, block):
            for tile in range(start + stride, start + block):
                if values[tile - stride] < values[tile]:
                    values[tile] = values[tile - stride]


@compiled
def link(space: Space, w: Work, criterion: int) -> float:
    """Fills stage, run, ended and best, level by level; returns the least cost of a whole chain."""
    count, levels = w.tiles[0], w.fits.shape[0]
    for level in range(levels):
        w.exists[level] = False
        w.exists[level, CLOSED] = True
        closed = w.stage[criterion, level, CLOSED]
        for tile in range(count):
            before = w.best[criterion, level - 1, tile] if level else 0.0
            closed[tile] = before if w.fits[level, tile] else np.inf
        for operand in range(3):
            if space.holds[operand, level]:
                open_run(w, criterion, level, operand, level, closed)
        for operand in range(3):
            for first in range(level):
                if w.exists[level - 1, state_of(operand, first, levels)]:
                    open_run(
                        w,
                        criterion,
                        level,
                        operand,
                        first,
                        w.run[criterion, level - 1, state_of(operand, first, levels)],
                    )
        pay(space, w, criterion, level)
        close(space, w, criterion, level)
    if levels == 0:
        return float(w.fixed[criterion])
    return float(w.fixed[criterion] + w.best[criterion, levels - 1, count - 1])


@compiled
def state_of(operand: int, first: int, levels: int) -> int:
    """The run of an operand's loops right above the tiles of its levels from `first` on has not ended."""
    return 1 + operand * levels + first


@compiled
def open_run(w: Work, criterion: int, level: int, operand: int, first: int, before: Reals) -> None:
    state = state_of(operand, first, w.fits.shape[0])
    w.exists[level, state] = True
    values = w.stage[criterion, level, state]
    for tile in range(w.tiles[0]):
        values[tile] = before[tile] if w.fits[level, tile] else np.inf


@compiled
def pay(space: Space, w: Work, criterion: int, level: int) -> None:
    """At its cut each operand whose run is not open."""
    for state in range(w.exists.shape[1]):
        if w.exists[level, state]:
            values = w.stage[criterion, level, state]
            for operand in range(3):
                is_open = state != CLOSED and (state - 1) // w.fits.shape[0] == operand
                if space.holds[operand, level] and not is_open:
                    for tile in range(w.tiles[0]):
                        values[tile] += w.term[criterion, operand, level, tile]


@compiled
def close(space: Space, w: Work, criterion: int, level: int) -> None:
    """Ends runs: what was open is paid where they end."""
    count, levels = w.tiles[0], w.fits.shape[0]
    ended = w.ended[criterion, level]
    for tile in range(count):
        ended[tile] = w.stage[criterion, level, CLOSED, tile]
    for state in range(1, w.exists.shape[1]):
        if not w.exists[level, state]:
            continue
        operand, first = (state - 1) // levels, (state - 1) % levels
        run = w.run[criterion, level, state]
        for tile in range(count):
            run[tile] = w.stage[criterion, level, state, tile]
        spread(space, w, run, operand)
        for tile in range(count):
            cost = run[tile]
            for one in range(first, level + 1):
                if space.holds[operand, one]:
                    cost += w.term[criterion, operand, one, tile]
            if cost < ended[tile]:
                ended[tile] = cost
    best = w.best[criterion, level]
    for tile in range(count):
        best[tile] = ended[tile]
    spread(space, w, best, NO_CLASS)


# Ways to use the array


@compiled_entry
def prepare(space: Space, machine: Machine, shape: Shape, sides: Sides, w: Work, complete_from: int) -> None:
    """Lists the tiles for the ways in `w.way`, and which of them fit."""
    choose(space, machine, sides, w)
    list_tiles(space, w)
    measure(space, machine, shape, w, complete_from)


@compiled_entry
def least(
    space: Space, machine: Machine, shape: Shape, w: Work, complete_from: int, criterion: int,
    kind: int, port: int, preload: int,
) -> float:  # fmt: skip
    """The least value of a criterion over all chains of the tiles that are listed; it is kept in place `criterion`."""
    price(space, machine, shape, w, complete_from, criterion, kind, port, preload)
    return link(space, w, criterion)


@compiled
def list_ends(space: Space, w: Work) -> None:
    """The smallest and the largest tile only, numbered 0 and 1."""
    w.tiles[0] = 2
    for loop in range(8):
        w.loops[loop, 0], w.loops[loop, 1] = 1, space.bounds[loop] // w.side[loop]
    for tile in range(2):
        w.volume[tile] = 1
        w.relevant[:, tile] = 1
        for loop in range(8):
            w.volume[tile] *= w.loops[loop, tile]
            for operand in range(3):
                if space.class_of[loop] != operand:
                    w.relevant[operand, tile] *= w.loops[loop, tile]


@compiled
def floor_of_energy(space: Space, machine: Machine, shape: Shape, w: Work, is_exact: bool) -> float:
    """What no tiles can undercut: what the units move, and each element once at every boundary."""
    energy, out_bits = shape.mac_energy_pj, float(shape.bits[OUTPUT])
    unit_bits = float(shape.partial_bits if is_pending(w, 0, 0) else out_bits)
    saved = price_of_return(space, machine, shape, w, 0, unit_bits)
    for operand in range(3):
        if operand == WEIGHT and not shape.has_weight:
            continue
        for boundary in range(space.above.shape[1]):
            upper = space.above[operand, boundary]
            if upper < 0:
                continue
            if operand == OUTPUT and is_exact:
                own_bits = unit_bits if boundary - 1 == space.above[OUTPUT, 0] else out_bits
                energy += energy_of_sums(space, machine, shape, w, boundary, 1 if boundary else 0, own_bits, saved)
            elif operand != OUTPUT and boundary == 0:
                energy += energy_of_reads(space, machine, shape, w, operand, 0, 0)
            elif operand == OUTPUT:
                continue
            else:
                part, bits = w.share[operand, boundary], space.touched[operand] * shape.bits[operand]
                energy += bits / machine.shortest[upper] * machine.read_pj[upper] * part[COPIES_ABOVE]
                energy += bits / machine.shortest[boundary - 1] * machine.write_pj[boundary - 1] * part[COPIES]
    return energy


@compiled
def floor_of_cycles(space: Space, machine: Machine, shape: Shape, w: Work) -> float:
    """The loops, and what the ports that serve the units need beyond them."""
    cycles = w.volume[1]
    unit_bits = float(shape.partial_bits if is_pending(w, 0, 0) else shape.bits[OUTPUT])
    slowest = 0.0
    for one in range(4):
        port = unit_port(space, machine, shape, one)
        if port < 0:
            continue
        busy, waiting = -cycles, 0.0
        for other in range(4):
            if unit_port(space, machine, shape, other) == port:
                operand = min(other, OUTPUT)
                bits = unit_bits if operand == OUTPUT else float(shape.bits[operand])
                once = np.ceil(bits * largest(space, w, operand, 0, 0, True) / machine.bits_per_cycle[port])
                times = cycles - (w.relevant[OUTPUT, 1] if other == 3 else 0.0)
                busy += once * times
                waiting += max(once - 1.0, 0.0) * times
        slowest = max(slowest, waiting, busy)
    return float(cycles + slowest)


@compiled
def unit_port(space: Space, machine: Machine, shape: Shape, one: int) -> int:
    """Of what the units do: read an input, read a weight, write a sum, read a sum."""
    operand = min(one, OUTPUT)
    if operand == WEIGHT and not shape.has_weight:
        return -1
    return int(machine.port[space.above[operand, 0], WRITE_FROM_BELOW if one == 2 else READ_FOR_BELOW])


@compiled_entry
def floors(
    space: Space, machine: Machine, shape: Shape, sides: Sides, w: Work, is_exact: bool, is_timed: bool,
    from_ways: Integers, chosen: Integers, energy: Reals, cycles: Reals,
) -> int:  # fmt: skip
    """Lists ways to use the array with their floors, from `from_ways` on, until done or no room is left."""
    along, found = w.way.size, 0
    w.way[:] = from_ways
    while found < energy.size:
        if choose(space, machine, sides, w):
            list_ends(space, w)
            chosen[found] = w.way
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
    from_ways[:] = w.way
    return found


@compiled_entry
def next_below(
    space: Space, machine: Machine, shape: Shape, sides: Sides, w: Work, patterns: int, chosen: Integers,
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
        w.way[:] = chosen[at]
        choose(space, machine, sides, w)
        list_tiles(space, w)
        for complete_from in range(1, patterns + 1):
            measure(space, machine, shape, w, complete_from)
            if may_be_below(space, machine, shape, w, complete_from, criteria, limit, cycles[at], times_energy):
                return at
    return floor.size


@compiled
def may_be_below(
    space: Space, machine: Machine, shape: Shape, w: Work, complete_from: int,
    criteria: Integers, limit: float, cycles: float, times_energy: bool,
) -> bool:  # fmt: skip
    factor = 1.0
    for one in range(criteria.shape[0]):
        kind, port, preload = criteria[one, 0], criteria[one, 1], criteria[one, 2]
        value = least(space, machine, shape, w, complete_from, 0, kind, port, preload)
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
