"""The cost model compiled: `layer.py` once more, over flat arrays, for the millions of mappings of a search.

The reference is `layer.py`; a test holds the two equal. Indices: operands 0 input, 1 weight, 2 output; levels as the
accelerator lists them, then DRAM, and -1 for the MACs; loops by their place in LOOPS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from onchip.cost.layer.tables import Chosen, Costs, Machine, Shape, Table, Workspace

F = TypeVar("F", bound=Callable[..., Any])

INPUT, WEIGHT, OUTPUT = range(3)
READ_FOR_BELOW, WRITE_FROM_ABOVE, READ_FOR_ABOVE, WRITE_FROM_BELOW = range(4)
# Status of a mapping.
COSTED, SIZE_UNKNOWN, INTERLEAVED, OVER_CAPACITY, OVER_ARRAY = range(5)
# Rows of a workspace's visits.
PORT, BUSY, PERIOD, WINDOW, TIMES, FIRST, LAST, OPERAND, CROSSING, EPISODE = range(10)
# Rows of a workspace's boundaries.
LEVEL, CUT, UPPER_SIZE, UPPER_TIMES, LOWER_SIZE, LOWER_TIMES, EPISODES, DISTINCT, REACH, ROOM, BITS = range(11)
# Sums of the two words-and-largest results of a boundary of the input.
UPPER_UNITS, UPPER_LARGEST, LOWER_UNITS, LOWER_LARGEST = range(4)


def compiled(function: F) -> F:
    """Compile into the caller, cache on disk, release the interpreter lock while running.

    Handing so many arrays from function to function took half of the time.
    """
    return cast("F", numba.njit(cache=True, nogil=True, _nrt=False, forceinline=True)(function))  # type: ignore[call-overload]


@compiled
def cost_from(
    first: int, shape: Shape, machine: Machine, chosen: Chosen, table: Table, w: Workspace, costs: Costs
) -> int:
    """Costs one mapping after the other; returns the one for which the table lacks an entry, or how many there are."""
    for row in range(first, chosen.temporal_count.size):
        costs.energy_pj[row], costs.cycles[row] = np.inf, -1
        status = cost_one(shape, machine, chosen, table, w, row, costs)
        costs.status[row] = status
        if status == SIZE_UNKNOWN:
            return row
    return chosen.temporal_count.size


@compiled
def cost_one(shape: Shape, machine: Machine, chosen: Chosen, table: Table, w: Workspace, row: int, costs: Costs) -> int:
    temporal, spatial = chosen.temporal_count[row], chosen.spatial_count[row]
    multiply_temporal(shape, chosen, w, row, temporal)
    if not multiply_spatial(shape, machine, chosen, w, row, spatial):
        return OVER_ARRAY
    reserve_homes(shape, machine, w)
    w.visit_count[0] = 0
    energy = shape.mac_energy_pj
    if shape.has_weight:
        energy += read_weights(shape, machine, w, chain(machine, chosen, w, row, WEIGHT, temporal))
        if is_over_capacity(machine, w):
            return OVER_CAPACITY
    energy += add_sums(shape, machine, w, chain(machine, chosen, w, row, OUTPUT, temporal))
    if is_over_capacity(machine, w):
        return OVER_CAPACITY
    boundaries = chain(machine, chosen, w, row, INPUT, temporal)
    status, part = read_input(shape, machine, chosen, table, w, row, boundaries, temporal, spatial)
    if status != COSTED:
        return status
    if is_over_capacity(machine, w):
        return OVER_CAPACITY
    costs.energy_pj[row] = energy + part
    loops = w.all[temporal]
    costs.cycles[row] = loops + stall(machine, w, loops) + chained(w, FIRST) + chained(w, LAST)
    return COSTED


@compiled
def reserve_homes(shape: Shape, machine: Machine, w: Workspace) -> None:
    """Room for the inputs and weights that lie whole in a memory; how wide outputs are is not known yet."""
    w.needs[:] = 0
    for operand in (INPUT, WEIGHT):
        if machine.home[operand] < machine.capacity_bits.size:
            w.needs[machine.home[operand]] += shape.elements[operand] * shape.bits[operand]


@compiled
def is_over_capacity(machine: Machine, w: Workspace) -> bool:
    for level in range(machine.capacity_bits.size):
        if w.needs[level] > machine.capacity_bits[level]:
            return True
    return False


# Products of loops


@compiled
def multiply_temporal(shape: Shape, chosen: Chosen, w: Workspace, row: int, count: int) -> None:
    """Of the loops inside each place of the nest, and of those outside."""
    w.all[0], w.channels[0] = 1, 1
    for axis in range(4):
        w.axis[axis, 0] = 1
    for operand in range(3):
        w.relevant[operand, 0], w.window[operand, 0] = 1, 1
    for at in range(count):
        loop, size = chosen.temporal_loop[row, at], chosen.temporal_size[row, at]
        w.all[at + 1] = w.all[at] * size
        w.channels[at + 1] = w.channels[at] * (size if shape.is_channel[loop] else 1)
        for axis in range(4):
            w.axis[axis, at + 1] = w.axis[axis, at] * (size if axis == shape.axis_of[loop] else 1)
        for operand in range(3):
            matters = shape.relevant[operand, loop]
            w.relevant[operand, at + 1] = w.relevant[operand, at] * (size if matters else 1)
            w.window[operand, at + 1] = w.all[at + 1] if matters else w.window[operand, at]
    w.all_outside[count], w.channels_outside[count] = 1, 1
    for operand in range(3):
        w.relevant_outside[operand, count], w.next_relevant[operand, count] = 1, count
    for at in range(count - 1, -1, -1):
        loop, size = chosen.temporal_loop[row, at], chosen.temporal_size[row, at]
        w.all_outside[at] = w.all_outside[at + 1] * size
        w.channels_outside[at] = w.channels_outside[at + 1] * (size if shape.is_channel[loop] else 1)
        for operand in range(3):
            matters = shape.relevant[operand, loop]
            w.relevant_outside[operand, at] = w.relevant_outside[operand, at + 1] * (size if matters else 1)
            w.next_relevant[operand, at] = at if matters else w.next_relevant[operand, at + 1]


@compiled
def multiply_spatial(shape: Shape, machine: Machine, chosen: Chosen, w: Workspace, row: int, count: int) -> bool:
    """Of the loops along each dimension of the array; whether it has so many units."""
    w.side_relevant[:] = 1
    w.side_copies[:] = 1
    w.side_channels[:] = 1
    w.side_axis[:] = 1
    w.side_all[:] = 1
    for at in range(count):
        loop, size, along = chosen.spatial_loop[row, at], chosen.spatial_size[row, at], chosen.spatial_along[row, at]
        w.side_all[along] *= size
        place = shape.axis_of[loop]
        if place >= 0:
            w.side_axis[place, along] *= size
        elif shape.is_channel[loop]:
            w.side_channels[along] *= size
        for operand in range(3):
            if shape.relevant[operand, loop]:
                w.side_relevant[operand, along] *= size
            else:
                w.side_copies[operand, along] *= size
    for along in range(machine.units.size):
        if w.side_all[along] > machine.units[along]:
            return False
    return True


@compiled
def chain(machine: Machine, chosen: Chosen, w: Workspace, row: int, operand: int, temporal: int) -> int:
    """Lists who holds the operand, the MACs first; returns how many boundaries there are between them."""
    w.chain[LEVEL, 0], w.chain[CUT, 0] = -1, 0
    count = 1
    for level in range(machine.capacity_bits.size):
        if chosen.cut[row, operand, level] >= 0:
            w.chain[LEVEL, count], w.chain[CUT, count] = level, chosen.cut[row, operand, level]
            count += 1
    w.chain[LEVEL, count], w.chain[CUT, count] = machine.home[operand], temporal
    for at in range(count):
        cut = w.chain[CUT, at]
        reach = cut if at == 0 else w.next_relevant[operand, cut]
        w.chain[REACH, at] = reach
        w.chain[EPISODES, at] = w.all_outside[reach]
        w.chain[DISTINCT, at] = w.relevant_outside[operand, cut]
    return count


@compiled
def units_of(bits: int, unit: int, shift: int) -> int:
    """Rounded up; `shift` is the logarithm of a unit that is a power of two, else -1: division is slow."""
    return (bits + unit - 1) >> shift if shift >= 0 else (bits + unit - 1) // unit


@compiled
def serves(machine: Machine, level: int, along: int) -> bool:
    return level >= 0 and machine.serves[level, along]


# The input


@compiled
def read_input(
    shape: Shape, machine: Machine, chosen: Chosen, table: Table, w: Workspace, row: int,
    boundaries: int, temporal: int, spatial: int,
) -> tuple[int, float]:  # fmt: skip
    energy, may_interleave = 0.0, has_axis_beside(w)
    for at in range(boundaries):
        lower, upper = w.chain[LEVEL, at], w.chain[LEVEL, at + 1]
        if may_interleave and is_interleaved(shape, machine, chosen, w, row, at, temporal, spatial):
            return INTERLEAVED, 0.0
        if not size_input(shape, machine, table, w, at):
            return SIZE_UNKNOWN, 0.0
        energy += w.sums[UPPER_UNITS] * machine.read_pj[upper]
        upper_bits = w.sums[UPPER_LARGEST] * shape.bits[INPUT]
        lower_bits = w.sums[LOWER_LARGEST] * shape.bits[INPUT]
        if lower >= 0:
            energy += w.sums[LOWER_UNITS] * machine.write_pj[lower]
            hold(machine, w, lower, lower_bits, w.chain[EPISODES, at])
        fetch(machine, w, INPUT, at, upper_bits, lower_bits)
    return COSTED, energy


@compiled
def has_axis_beside(w: Workspace) -> bool:
    for along in range(w.side_all.size):
        for axis in range(4):
            if w.side_axis[axis, along] > 1:
                return True
    return False


@compiled
def is_interleaved(
    shape: Shape,
    machine: Machine,
    chosen: Chosen,
    w: Workspace,
    row: int,
    at_boundary: int,
    temporal: int,
    spatial: int,
) -> bool:
    """Whether, along some loop of an axis, a tile is not a row of neighbours, or tiles beside it are not its own."""
    lower, upper = w.chain[LEVEL, at_boundary], w.chain[LEVEL, at_boundary + 1]
    cut = w.chain[CUT, at_boundary]
    for axis in range(4):
        reached, side = 0, 0
        for at in range(temporal + 1):
            while side < spatial and chosen.spatial_at[row, side] <= at:
                if shape.axis_of[chosen.spatial_loop[row, side]] == axis:
                    along = chosen.spatial_along[row, side]
                    kind = 0 if serves(machine, lower, along) else (1 if serves(machine, upper, along) else 2)
                    if kind < reached:
                        return True
                    reached = kind
                side += 1
            if at < temporal and shape.axis_of[chosen.temporal_loop[row, at]] == axis:
                kind = 0 if at < cut else 2
                if kind < reached:
                    return True
                reached = kind
    return False


@compiled
def size_input(shape: Shape, machine: Machine, table: Table, w: Workspace, at: int) -> bool:
    """Sums over all sizes of blocks; False where the table of them has no entry yet."""
    lower, upper, cut = w.chain[LEVEL, at], w.chain[LEVEL, at + 1], w.chain[CUT, at]
    within, joint, outside = w.channels[cut], 1, w.channels_outside[cut]
    copies_lower, copies_upper = 1, 1
    for axis in range(4):
        w.inside[axis], w.beside[axis] = w.axis[axis, cut], 1
    for along in range(machine.units.size):
        if serves(machine, lower, along):
            within *= w.side_channels[along]
            for axis in range(4):
                w.inside[axis] *= w.side_axis[axis, along]
        else:
            copies_lower *= w.side_copies[INPUT, along]
            if serves(machine, upper, along):
                joint *= w.side_channels[along]
                for axis in range(4):
                    w.beside[axis] *= w.side_axis[axis, along]
            else:
                outside *= w.side_channels[along]
                copies_upper *= w.side_copies[INPUT, along]
    again = w.chain[EPISODES, at] // w.chain[DISTINCT, at]
    bits = shape.bits[INPUT]
    height = entry(table, w, 0, w.inside[0], w.beside[0], w.inside[1], w.beside[1])
    width = entry(table, w, 1, w.inside[2], w.beside[2], w.inside[3], w.beside[3])
    if height < 0 or width < 0:
        return False
    units, largest = blocks(machine, table, height, width, within * joint * bits, upper)
    w.sums[UPPER_UNITS], w.sums[UPPER_LARGEST] = units * outside * again * copies_upper, largest * within * joint
    if lower < 0:
        w.sums[LOWER_LARGEST] = 0
        return True
    height = entry(table, w, 0, w.inside[0], 1, w.inside[1], 1)
    width = entry(table, w, 1, w.inside[2], 1, w.inside[3], 1)
    if height < 0 or width < 0:
        return False
    units, largest = blocks(machine, table, height, width, within * bits, lower)
    w.sums[LOWER_UNITS] = units * outside * joint * again * copies_lower
    w.sums[LOWER_LARGEST] = largest * within
    return True


@compiled
def free_slot(table: Table, key: int) -> int:
    """Or the one that has the key."""
    slot = (key * 0x1E3779B97F4A7C15 >> 20) & (table.key.size - 1)
    while table.key[slot] >= 0 and table.key[slot] != key:
        slot = (slot + 1) & (table.key.size - 1)
    return slot


@compiled
def entry(
    table: Table, w: Workspace, axis: int, outputs: int, more_outputs: int, filters: int, more_filters: int
) -> int:
    key = ((outputs * 65536 + more_outputs) * 65536 + filters) * 8192 + more_filters * 2 + axis
    slot = free_slot(table, key)
    if table.key[slot] == key:
        return slot
    w.unknown[0], w.unknown[1], w.unknown[2] = axis, outputs, more_outputs
    w.unknown[3], w.unknown[4], w.unknown[5], w.unknown[6] = filters, more_filters, key, slot
    return -1


@compiled
def blocks(machine: Machine, table: Table, height: int, width: int, bits: int, level: int) -> tuple[int, int]:
    units, largest = 0, 0
    shortest, shift = machine.shortest[level], machine.shortest_shift[level]
    for tall in range(table.start[height], table.stop[height]):
        for wide in range(table.start[width], table.stop[width]):
            area = table.size[tall] * table.size[wide]
            if area:
                times = table.times[tall] * table.times[wide]
                units += units_of(area * bits, shortest, shift) * times
                largest = max(largest, area)
    return units, largest


# Weights and sums


@compiled
def size_tiles(machine: Machine, w: Workspace, operand: int, at: int) -> None:
    """Write the size of the tiles of weights or outputs at boundary `at`: all are alike."""
    lower, upper, cut = w.chain[LEVEL, at], w.chain[LEVEL, at + 1], w.chain[CUT, at]
    within, joint, outside = w.relevant[operand, cut], 1, w.chain[EPISODES, at]
    copies_lower, copies_upper = 1, 1
    for along in range(machine.units.size):
        relevant, copies = w.side_relevant[operand, along], w.side_copies[operand, along]
        if serves(machine, lower, along):
            within *= relevant
            continue
        copies_lower *= copies
        if serves(machine, upper, along):
            joint *= relevant
        else:
            outside *= relevant
            copies_upper *= copies
    w.chain[UPPER_SIZE, at], w.chain[UPPER_TIMES, at] = within * joint, outside * copies_upper
    w.chain[LOWER_SIZE, at], w.chain[LOWER_TIMES, at] = within, outside * joint * copies_lower
    w.chain[ROOM, at] = copies_upper


@compiled
def words(machine: Machine, level: int, bits: int) -> int:
    return units_of(bits, machine.shortest[level], machine.shortest_shift[level])


@compiled
def read_weights(shape: Shape, machine: Machine, w: Workspace, boundaries: int) -> float:
    energy, bits = 0.0, shape.bits[WEIGHT]
    for at in range(boundaries):
        size_tiles(machine, w, WEIGHT, at)
        lower, upper = w.chain[LEVEL, at], w.chain[LEVEL, at + 1]
        upper_size, lower_size = w.chain[UPPER_SIZE, at], w.chain[LOWER_SIZE, at]
        energy += words(machine, upper, upper_size * bits) * w.chain[UPPER_TIMES, at] * machine.read_pj[upper]
        if lower >= 0:
            units = words(machine, lower, lower_size * bits) * w.chain[LOWER_TIMES, at]
            energy += units * machine.write_pj[lower]
            hold(machine, w, lower, lower_size * bits, w.chain[EPISODES, at])
        fetch(machine, w, WEIGHT, at, upper_size * bits, lower_size * bits)
    return energy


@compiled
def add_sums(shape: Shape, machine: Machine, w: Workspace, boundaries: int) -> float:
    for at in range(boundaries):
        size_tiles(machine, w, OUTPUT, at)
        cut = w.chain[CUT, at]
        pending = w.all_outside[cut] > w.relevant_outside[OUTPUT, cut] or w.chain[ROOM, at] > 1
        w.chain[BITS, at] = shape.partial_bits if pending else shape.bits[OUTPUT]
    energy, begun = 0.0, shape.elements[OUTPUT]
    if machine.home[OUTPUT] < machine.capacity_bits.size:
        w.needs[machine.home[OUTPUT]] += begun * w.chain[BITS, boundaries - 1]
    for at in range(boundaries - 1, -1, -1):
        lower, upper, bits = w.chain[LEVEL, at], w.chain[LEVEL, at + 1], w.chain[BITS, at]
        size, times = w.chain[UPPER_SIZE, at], w.chain[UPPER_TIMES, at]
        returned = size * times - begun
        unit = words(machine, upper, size * bits)
        energy += unit * times * machine.write_pj[upper] + unit * (returned // size) * machine.read_pj[upper]
        lower_bits = 0
        if lower >= 0:
            size, times = w.chain[LOWER_SIZE, at], w.chain[LOWER_TIMES, at]
            lower_bits = size * w.chain[BITS, at - 1]
            unit = words(machine, lower, lower_bits)
            energy += unit * times * machine.read_pj[lower] + unit * (returned // size) * machine.write_pj[lower]
            begun = size * times - returned
            hold(machine, w, lower, lower_bits, w.chain[EPISODES, at])
        drain(machine, w, at, w.chain[UPPER_SIZE, at] * bits, lower_bits)
    return energy


@compiled
def hold(machine: Machine, w: Workspace, level: int, bits: int, episodes: int) -> None:
    w.needs[level] += bits * (2 if machine.double_buffered[level] and episodes > 1 else 1)


# Time


@compiled
def fetch(machine: Machine, w: Workspace, operand: int, at: int, upper_bits: int, lower_bits: int) -> None:
    keeps = 1 if at else 0
    times = w.chain[EPISODES, at] - keeps
    visit(machine, w, operand, at, at + 1, READ_FOR_BELOW, upper_bits, times, keeps, 0)
    visit(machine, w, operand, at, at, WRITE_FROM_ABOVE, lower_bits, times, keeps, 0)


@compiled
def drain(machine: Machine, w: Workspace, at: int, upper_bits: int, lower_bits: int) -> None:
    keeps = 1 if at else 0
    times = w.chain[EPISODES, at] - keeps
    visit(machine, w, OUTPUT, at, at + 1, WRITE_FROM_BELOW, upper_bits, times, 0, keeps)
    visit(machine, w, OUTPUT, at, at, READ_FOR_ABOVE, lower_bits, times, 0, keeps)
    returned = w.chain[EPISODES, at] - w.chain[DISTINCT, at]
    visit(machine, w, OUTPUT, at, at + 1, READ_FOR_BELOW, upper_bits, returned, 0, 0)
    visit(machine, w, OUTPUT, at, at, WRITE_FROM_ABOVE, lower_bits, returned, 0, 0)


@compiled
def visit(
    machine: Machine, w: Workspace, operand: int, at: int, end: int, move: int,
    bits: int, times: int, first: int, last: int,
) -> None:  # fmt: skip
    level = w.chain[LEVEL, end]
    if level < 0 or bits == 0 or (times == 0 and first == 0 and last == 0):
        return
    port = machine.port[level, move]
    if port < 0:
        return
    period = w.all[w.chain[REACH, at]]
    lower = w.chain[LEVEL, at]
    holds_two = lower < 0 or machine.double_buffered[lower]
    count = w.visit_count[0]
    w.visits[PORT, count], w.visits[OPERAND, count], w.visits[CROSSING, count] = port, operand, at * 3 + operand
    w.visits[BUSY, count] = units_of(bits, machine.bits_per_cycle[port], machine.port_shift[port])
    w.visits[EPISODE, count] = w.chain[EPISODES, at]
    w.visits[PERIOD, count] = period
    w.visits[WINDOW, count] = period if holds_two else w.window[operand, w.chain[CUT, at]]
    w.visits[TIMES, count], w.visits[FIRST, count], w.visits[LAST, count] = times, first, last
    w.visit_count[0] = count + 1


@compiled
def stall(machine: Machine, w: Workspace, cycles: int) -> int:
    """The port that holds up the loops for longest; a port is looked at closely only where it may be that."""
    ports = machine.bits_per_cycle.size
    w.port_alone[:] = 0
    w.port_busy[:] = 0
    w.port_covered[:] = 0
    for one in range(w.visit_count[0]):
        times = w.visits[TIMES, one]
        if times:
            port, busy, window = w.visits[PORT, one], w.visits[BUSY, one], w.visits[WINDOW, one]
            w.port_alone[port] += max(busy - window, 0) * times
            w.port_busy[port] += busy * times
            least = cycles if w.visits[PERIOD, one] == 1 else window * (w.visits[EPISODE, one] - 1)
            w.port_covered[port] = max(w.port_covered[port], least)
    longest = 0
    for port in range(ports):
        longest = max(longest, w.port_alone[port])
    for port in range(ports):
        if w.port_busy[port] - w.port_covered[port] > longest:
            longest = max(longest, w.port_busy[port] - covered_cycles(w, port, cycles))
    return longest


@compiled
def covered_cycles(w: Workspace, port: int, cycles: int) -> int:
    count = 0
    for one in range(w.visit_count[0]):
        if w.visits[PORT, one] == port and w.visits[TIMES, one]:
            period, window = w.visits[PERIOD, one], w.visits[WINDOW, one]
            if period == 1:
                return cycles
            place = count
            while place and (w.period[place - 1], w.span[place - 1]) > (period, window):
                w.period[place], w.span[place] = w.period[place - 1], w.span[place - 1]
                place -= 1
            w.period[place], w.span[place] = period, window
            count += 1
    w.whole[0] = 0
    for one in range(count):
        w.whole[one + 1] = covered(w, one + 1, w.period[one])
    total = 0
    for one in range(count - 1, -1, -1):
        total += w.whole[one + 1] * (cycles // w.period[one] - 1)
        cycles = w.period[one]
    return total


@compiled
def covered(w: Workspace, count: int, cycles: int) -> int:
    total = 0
    while count and cycles:
        before = min(cycles, w.period[count - 1] - w.span[count - 1])
        total += cycles - before
        count -= 1
        if count:
            total += w.whole[count] * (before // w.period[count - 1])
            cycles = before % w.period[count - 1]
    return total


@compiled
def chained(w: Workspace, which: int) -> int:
    """Memory after memory for each operand, operands side by side where they share no port."""
    w.port_busy[:] = 0
    w.operand_busy[:] = 0
    longest, crossing, counted = 0, -1, 0
    for one in range(w.visit_count[0]):
        if not w.visits[which, one]:
            continue
        port, busy, operand = w.visits[PORT, one], w.visits[BUSY, one], w.visits[OPERAND, one]
        w.port_busy[port] += busy
        if w.visits[CROSSING, one] != crossing:
            crossing, counted = w.visits[CROSSING, one], 0
        if busy > counted:
            w.operand_busy[operand] += busy - counted
            counted = busy
        longest = max(longest, w.port_busy[port], w.operand_busy[operand])
    return longest
