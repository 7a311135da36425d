"""The cost model compiled with the accountings of ZigZag and DeFiNES: `layer.layer_cost` over flat arrays.

Sizes come from bounds alone, so there is no table of blocks and no mapping is left to the other model. A test holds
both equal. Operands are 0 input, 1 weight, 2 output; holders 0 the units, then the levels, then DRAM.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor
from typing import Any, TypeVar, cast

import numba
import numpy as np

from onchip.cost.layer.parts import DIGITS
from onchip.cost.layer.tables import Chosen, Integers, Machine, Reals, Shape
from onchip.cost.layer.zigzag_tables import Bench, Facts, RealCosts

F = TypeVar("F", bound=Callable[..., Any])

INPUT, WEIGHT, OUTPUT = range(3)
READ_FOR_BELOW, WRITE_FROM_ABOVE, READ_FOR_ABOVE, WRITE_FROM_BELOW = range(4)
LOWER, UPPER = range(2)
COSTED, OVER_CAPACITY, OVER_ARRAY = 0, 2, 3  # a CostStatus
# Rows of a bench's visits.
PORT, LEVEL, OPERAND, AT, BUSY, PERIOD, WINDOW, TIMES, BITS, KIND = range(10)
FIRST, LAST, RETURNS = range(3)
EPSILON = 1e-9  # parts of units, multiplied, may lie as much below the whole number that they make


def compiled(function: F) -> F:
    """Compile into the caller, cache on disk, release the interpreter lock while running."""
    return cast("F", numba.njit(cache=True, nogil=True, _nrt=False, forceinline=True)(function))  # type: ignore[call-overload]


@compiled
def cost_all(shape: Shape, machine: Machine, facts: Facts, chosen: Chosen, b: Bench, costs: RealCosts) -> None:
    for row in range(chosen.temporal_count.size):
        costs.energy_pj[row], costs.cycles[row] = np.inf, -1.0
        costs.status[row] = cost_one(shape, machine, facts, chosen, b, row, costs)


@compiled
def cost_one(shape: Shape, machine: Machine, facts: Facts, chosen: Chosen, b: Bench, row: int, costs: RealCosts) -> int:
    temporal = chosen.temporal_count[row]
    multiply_temporal(shape, chosen, b, row, temporal)
    if not multiply_spatial(machine, chosen, b, row):
        return OVER_ARRAY
    count_units(machine, facts, b, temporal)
    for operand in range(3):
        b.boundaries[operand] = 0
        if operand != WEIGHT or shape.has_weight:
            list_holders(machine, facts, chosen, b, row, operand, temporal)
            size_tiles(shape, facts, b, operand)
    if is_over_capacity(shape, machine, facts, b, temporal):
        return OVER_CAPACITY
    costs.energy_pj[row] = shape.mac_energy_pj + energy_of_moves(shape, machine, facts, b, temporal)
    costs.cycles[row] = cycles_of(shape, machine, facts, chosen, b, row, temporal)
    return COSTED


# Products of loops


@compiled
def multiply_temporal(shape: Shape, chosen: Chosen, b: Bench, row: int, count: int) -> None:
    b.all[0] = 1
    for loop in range(8):
        b.inner[loop, 0] = 1
    for at in range(count):
        size = chosen.temporal_size[row, at]
        b.all[at + 1] = b.all[at] * size
        for loop in range(8):
            b.inner[loop, at + 1] = b.inner[loop, at] * (size if loop == chosen.temporal_loop[row, at] else 1)
    for operand in range(3):
        b.next_relevant[operand, count] = count
        for at in range(count - 1, -1, -1):
            matters = shape.relevant[operand, chosen.temporal_loop[row, at]]
            b.next_relevant[operand, at] = at if matters else b.next_relevant[operand, at + 1]


@compiled
def multiply_spatial(machine: Machine, chosen: Chosen, b: Bench, row: int) -> bool:
    """Along each dimension of the array; whether it has so many units."""
    b.side[:] = 1.0
    for at in range(chosen.spatial_count[row]):
        b.side[chosen.spatial_loop[row, at], chosen.spatial_along[row, at]] *= chosen.spatial_size[row, at]
    for along in range(machine.units.size):
        used = 1.0
        for loop in range(8):
            used *= b.side[loop, along]
        if used > machine.units[along]:
            return False
    return True


@compiled
def count_units(machine: Machine, facts: Facts, b: Bench, temporal: int) -> None:
    """Side by side within each holder, and how many of it are in use.

    A loop that runs longer than asked for has as many fewer units, where it has most, as it is longer.
    """
    spread(machine, b, b.whole_span)
    for axis in range(2):
        b.whole_axis_size[axis] = facts.axis_size[axis]
    for loop in range(8):
        executed, most = float(b.inner[loop, temporal]), 0
        for along in range(machine.units.size):
            executed *= b.side[loop, along]
            if b.side[loop, along] > b.side[loop, most]:
                most = along
        if executed > facts.bounds[loop]:
            lengthen(facts, b, loop, int(executed) - facts.bounds[loop])
            if b.side[loop, most] > 1:
                b.side[loop, most] = b.side[loop, most] * facts.bounds[loop] / executed
    spread(machine, b, b.span)


@compiled
def lengthen(facts: Facts, b: Bench, loop: int, more: int) -> None:
    """Of the input that is executed, as so many more outputs or taps touch."""
    if loop in (3, 4):
        b.whole_axis_size[loop - 3] += more * facts.axis_stride[loop - 3]
    elif loop in (5, 6):
        b.whole_axis_size[loop - 5] += more * facts.axis_dilation[loop - 5]


@compiled
def spread(machine: Machine, b: Bench, span: Reals) -> None:
    levels = machine.capacity_bits.size
    for holder in range(levels + 2):
        b.apart[holder] = 1.0
        for loop in range(8):
            span[holder, loop] = 1.0
            for along in range(machine.units.size):
                if serves(machine, holder, along):
                    span[holder, loop] *= b.side[loop, along]
                else:
                    b.apart[holder] *= b.side[loop, along]
        b.apart[holder] = nearest(b.apart[holder])


@compiled
def serves(machine: Machine, holder: int, along: int) -> bool:
    return holder > 0 and machine.serves[holder - 1, along]


# Tiles


@compiled
def list_holders(
    machine: Machine, facts: Facts, chosen: Chosen, b: Bench, row: int, operand: int, temporal: int
) -> None:
    """From the units to the operand's home; a settled cut stands above the loops along which the tile is used again."""
    b.holder[operand, 0], b.cut[operand, 0] = 0, 0
    keeps = operand != OUTPUT and facts.keeps_at_units
    b.settled[operand, 0] = b.next_relevant[operand, 0] if keeps else 0
    count = 1
    for level in range(machine.capacity_bits.size):
        cut = chosen.cut[row, operand, level]
        if cut >= 0:
            b.holder[operand, count], b.cut[operand, count] = level + 1, cut
            b.settled[operand, count] = b.next_relevant[operand, cut]
            count += 1
    b.holder[operand, count] = machine.home[operand] + 1
    b.boundaries[operand] = count
    for at in range(count):
        b.episodes[operand, at] = b.all[temporal] // b.all[b.settled[operand, at]]


@compiled
def size_tiles(shape: Shape, facts: Facts, b: Bench, operand: int) -> None:
    """Sizes and how often they move, below and above each boundary; what neighbours want counts together above."""
    for at in range(b.boundaries[operand]):
        lower, upper = b.holder[operand, at], b.holder[operand, at + 1]
        b.neighbours[operand, at] = neighbours(shape, facts, b, b.span, facts.axis_size, operand, lower, upper)
        size = nearest(elements(shape, facts, b, b.span, facts.axis_size, operand, lower, b.cut[operand, at]))
        b.size[operand, at, LOWER] = size
        b.size[operand, at, UPPER] = size * whole_neighbours(facts, b.neighbours[operand, at])
        b.moves[operand, at, LOWER] = b.episodes[operand, at] * b.apart[lower]
        b.moves[operand, at, UPPER] = b.episodes[operand, at] * b.apart[upper]


@compiled
def neighbours(
    shape: Shape, facts: Facts, b: Bench, span: Reals, axis_size: Integers, operand: int, lower: int, upper: int
) -> float:
    above = elements(shape, facts, b, span, axis_size, operand, upper, 0)
    return float(above / elements(shape, facts, b, span, axis_size, operand, lower, 0))


@compiled
def whole_neighbours(facts: Facts, count: float) -> int:
    return floor(count + EPSILON) if facts.cut_late else nearest(count)


@compiled
def nearest(count: float) -> int:
    """Return the whole number next to a count, as `layer_parts.nearest` does."""
    return int(np.round(np.round(count, DIGITS)))


@compiled
def elements(
    shape: Shape, facts: Facts, b: Bench, span: Reals, axis_size: Integers, operand: int, holder: int, cut: int
) -> float:
    found = 1.0
    for loop in range(8):
        if shape.relevant[operand, loop] and not (operand == INPUT and shape.axis_of[loop] >= 0):
            found *= span[holder, loop] * b.inner[loop, cut]
    if operand == INPUT:
        for axis in range(2):
            outputs = span[holder, 3 + axis] * b.inner[3 + axis, cut]
            filters = span[holder, 5 + axis] * b.inner[5 + axis, cut]
            if not facts.has_axes:
                found *= min(outputs * filters, float(axis_size[axis]))
                continue
            if not facts.cut_late:
                outputs, filters = floor(outputs + EPSILON), floor(filters + EPSILON)
            found *= min(floor(positions(facts, axis, outputs, filters) + EPSILON), axis_size[axis])
    return float(found)


@compiled
def positions(facts: Facts, axis: int, outputs: float, filters: float) -> float:
    """Return how many positions of the input so many outputs and taps touch, without those that a stride skips."""
    skipped = max(0.0, filters - facts.stride[axis]) * max(0.0, outputs - facts.dilation[axis])
    return float(outputs * filters - skipped)


@compiled
def room(shape: Shape, facts: Facts, b: Bench, operand: int, at: int) -> int:
    """Elements that the tile below a boundary takes room for."""
    if not facts.whole_room:
        return int(b.size[operand, at, LOWER])
    holder, cut, found = b.holder[operand, at], b.cut[operand, at], 1.0
    for loop in range(8):
        if shape.relevant[operand, loop] and not (operand == INPUT and shape.axis_of[loop] >= 0):
            found *= ceil(b.span[holder, loop] * b.inner[loop, cut] - EPSILON)
    if operand == INPUT:
        for axis in range(2):
            outputs = float(ceil(b.span[holder, 3 + axis] * b.inner[3 + axis, cut] - EPSILON))
            filters = float(ceil(b.span[holder, 5 + axis] * b.inner[5 + axis, cut] - EPSILON))
            touched = positions(facts, axis, outputs, filters) if facts.has_axes else outputs * filters
            found *= min(touched, float(facts.axis_size[axis]))
    return int(found)


@compiled
def is_pending(shape: Shape, b: Bench, cut: int, upper: int, temporal: int) -> bool:
    """Whether sums of a tile that spans the loops inside `cut` are added to after they have arrived in `upper`."""
    top = b.apart.size - 1
    for loop in range(8):
        is_left = b.inner[loop, temporal] > b.inner[loop, cut] or b.whole_span[top, loop] > b.whole_span[upper, loop]
        if is_left and not shape.relevant[OUTPUT, loop]:
            return True
    return False


@compiled
def bits_held(shape: Shape, b: Bench, operand: int, at: int, temporal: int) -> int:
    """Of an element in the upper memory of a boundary."""
    if operand == OUTPUT and is_pending(shape, b, b.cut[OUTPUT, at], b.holder[OUTPUT, at + 1], temporal):
        return shape.partial_bits
    return int(shape.bits[operand])


@compiled
def is_over_capacity(shape: Shape, machine: Machine, facts: Facts, b: Bench, temporal: int) -> bool:
    levels = machine.capacity_bits.size
    b.needs[:] = 0
    for operand in range(3):
        for at in range(b.boundaries[operand]):
            lower, upper = b.holder[operand, at], b.holder[operand, at + 1]
            if lower > 0:
                bits = bits_held(shape, b, operand, at, temporal)
                copies = 2 if machine.double_buffered[lower - 1] and b.episodes[operand, at] > 1 else 1
                b.needs[lower - 1] += room(shape, facts, b, operand, at) * bits * copies
            if at == b.boundaries[operand] - 1 and upper <= levels:
                b.needs[upper - 1] += shape.elements[operand] * bits_held(shape, b, operand, at, temporal)
    for level in range(levels):
        if b.needs[level] > machine.capacity_bits[level]:
            return True
    return False


# Energy


@compiled
def energy_of_moves(shape: Shape, machine: Machine, facts: Facts, b: Bench, temporal: int) -> float:
    energy = 0.0
    for operand in range(3):
        for at in range(b.boundaries[operand]):
            lower, upper = b.holder[operand, at] - 1, b.holder[operand, at + 1] - 1
            bits = shape.bits[operand]
            if operand == OUTPUT:
                b.pending[at] = is_pending(shape, b, b.settled[operand, at], upper + 1, temporal)
                bits = shape.partial_bits if b.pending[at] else bits
            size, own = b.size[operand, at, UPPER] * bits, 0.0
            if lower >= 0:
                own = words(machine, lower, b.size[operand, at, LOWER] * bits) * b.moves[operand, at, LOWER]
            if operand != OUTPUT or b.pending[at]:
                most = width(machine, facts, b, operand, at, READ_FOR_BELOW, WRITE_FROM_ABOVE)
                read = words_of_cycles(machine, upper, size, most) * b.moves[operand, at, UPPER]
                energy += read * machine.read_pj[upper] + own * machine.write_pj[lower]
            if operand == OUTPUT:
                most = width(machine, facts, b, operand, at, WRITE_FROM_BELOW, READ_FOR_ABOVE)
                written = words_of_cycles(machine, upper, size, most) * b.moves[operand, at, UPPER]
                energy += written * machine.write_pj[upper] + own * machine.read_pj[lower]
    return energy


@compiled
def width(machine: Machine, facts: Facts, b: Bench, operand: int, at: int, towards: int, own: int) -> float:
    """Bits that cross a boundary in a cycle at most, where that matters: the narrower of both ends' ports."""
    if at == 0 or not facts.of_a_cycle:
        return np.inf
    most = np.inf
    upper = machine.port[b.holder[operand, at + 1] - 1, towards]
    lower = machine.port[b.holder[operand, at] - 1, own]
    if upper >= 0:
        most = float(machine.bits_per_cycle[upper])
    if lower >= 0:
        most = min(most, machine.bits_per_cycle[lower] * b.neighbours[operand, at])
    return most


@compiled
def words_of_cycles(machine: Machine, level: int, bits: int, most: float) -> int:
    """Rounded up in each cycle."""
    if bits <= most:
        return words(machine, level, bits)
    cycles = ceil(bits / most - EPSILON)
    return int(cycles * ceil(most / machine.shortest[level] - EPSILON))


@compiled
def words(machine: Machine, level: int, bits: int) -> int:
    """Return how many of the memory's shortest accesses so many bits take, rounded up."""
    unit, shift = machine.shortest[level], machine.shortest_shift[level]
    return int((bits + unit - 1) >> shift if shift >= 0 else (bits + unit - 1) // unit)


# Time


@compiled
def cycles_of(shape: Shape, machine: Machine, facts: Facts, chosen: Chosen, b: Bench, row: int, temporal: int) -> float:
    find_room(shape, machine, facts, chosen, b, row)
    b.visit_count[0] = 0
    for operand in range(3):
        for at in range(b.boundaries[operand]):
            visit_ports(shape, machine, facts, chosen, b, row, operand, at)
    cycles = b.all[temporal]
    stalled = stall(machine, facts, b, cycles)
    drain = 0.0
    for along in range(machine.units.size):
        if facts.is_systolic[along]:
            used = 1
            for at in range(chosen.spatial_count[row]):
                if chosen.spatial_along[row, at] == along:
                    used *= chosen.spatial_size[row, at]
            drain += used - 1
    for one in range(b.visit_count[0]):
        b.left[one] = b.visits[BUSY, one]
    if facts.loads_meanwhile:
        hide(machine, b, cycles + stalled, cycles)
    return float(cycles + stalled) + preload(shape, facts, b) + offload(facts, b) + drain


@compiled
def find_room(shape: Shape, machine: Machine, facts: Facts, chosen: Chosen, b: Bench, row: int) -> None:
    """Where the next tile may come while one is in use: sums ask first, then weights, then inputs."""
    b.needs[:] = 0
    b.in_use[:] = -1
    b.has_room[:] = False
    for operand in range(3):
        for at in range(1, b.boundaries[operand]):
            level = b.holder[operand, at] - 1
            bits = shape.bits[operand]
            if operand == OUTPUT and b.pending[at]:
                bits = shape.partial_bits
            steps, place = 1, b.settled[operand, at]
            first = b.settled[operand, at - 1] if at > 1 else 0
            while place > first:
                loop = chosen.temporal_loop[row, place - 1]
                overlaps = operand == INPUT and facts.has_axes and shape.axis_of[loop] >= 0
                if overlaps or not shape.relevant[operand, loop]:
                    break
                steps *= chosen.temporal_size[row, place - 1]
                place -= 1
            b.in_use[operand, level] = b.size[operand, at, LOWER] * bits // steps
            b.needs[level] += b.in_use[operand, level]
    for turn in range(3):
        operand = 2 - turn
        for level in range(machine.capacity_bits.size):
            bits = b.in_use[operand, level]
            if bits >= 0:
                capacity = machine.capacity_bits[level]
                if 2 * b.needs[level] <= capacity:
                    b.has_room[operand, level] = True
                elif bits <= capacity - b.needs[level]:
                    b.has_room[operand, level] = True
                    b.needs[level] += bits


@compiled
def visit_ports(
    shape: Shape,
    machine: Machine,
    facts: Facts,
    chosen: Chosen,
    b: Bench,
    row: int,
    operand: int,
    at: int,
) -> None:
    """What crosses a boundary, at the ports of both ends; units in parts take as long as whole ones."""
    lower, upper = b.holder[operand, at], b.holder[operand, at + 1]
    bits = shape.bits[operand]
    if operand == OUTPUT and b.pending[at]:
        bits = shape.partial_bits
    axis_size = b.whole_axis_size
    size = int(elements(shape, facts, b, b.whole_span, axis_size, operand, lower, b.cut[operand, at])) * bits
    beside = neighbours(shape, facts, b, b.whole_span, axis_size, operand, lower, upper)
    joint = size * whole_neighbours(facts, beside)
    if at == 1:
        b.nearest_bits[operand] = size
    period = b.all[b.settled[operand, at]]
    window = window_of(shape, chosen, b, row, operand, at)
    times = b.episodes[operand, at] - 1
    kind = LAST if operand == OUTPUT else FIRST
    towards = WRITE_FROM_BELOW if operand == OUTPUT else READ_FOR_BELOW
    own = READ_FOR_ABOVE if operand == OUTPUT else WRITE_FROM_ABOVE
    visit(machine, b, operand, at, upper, towards, joint, period, window, times, kind)
    visit(machine, b, operand, at, lower, own, size, period, window, times, kind)
    if operand == OUTPUT and b.pending[at]:
        visit(machine, b, operand, at, upper, READ_FOR_BELOW, joint, period, window, times, RETURNS)
        visit(machine, b, operand, at, lower, WRITE_FROM_ABOVE, size, period, window, times, RETURNS)


@compiled
def window_of(shape: Shape, chosen: Chosen, b: Bench, row: int, operand: int, at: int) -> int:
    """The period, or without room for two tiles its end: without the outermost loops of the level's own of reuse."""
    place = b.settled[operand, at]
    if at == 0 or b.has_room[operand, b.holder[operand, at] - 1]:
        return int(b.all[place])
    first = b.settled[operand, at - 1] if at > 1 else 0
    while place > first and not shape.relevant[operand, chosen.temporal_loop[row, place - 1]]:
        place -= 1
    return int(b.all[place])


@compiled
def visit(
    machine: Machine, b: Bench, operand: int, at: int, holder: int, move: int,
    bits: int, period: int, window: int, times: int, kind: int,
) -> None:  # fmt: skip
    if holder == 0 or bits == 0 or machine.port[holder - 1, move] < 0:
        return
    one, port = b.visit_count[0], machine.port[holder - 1, move]
    b.visits[PORT, one], b.visits[LEVEL, one] = port, holder - 1
    b.visits[OPERAND, one], b.visits[AT, one] = operand, at
    unit, shift = machine.bits_per_cycle[port], machine.port_shift[port]
    b.visits[BUSY, one] = (bits + unit - 1) >> shift if shift >= 0 else (bits + unit - 1) // unit
    b.visits[PERIOD, one], b.visits[WINDOW, one], b.visits[TIMES, one] = period, window, times
    b.visits[BITS, one], b.visits[KIND, one] = bits, kind
    b.visit_count[0] = one + 1


@compiled
def stall(machine: Machine, facts: Facts, b: Bench, cycles: int) -> int:
    """The port that holds up the loops for longest."""
    longest = 0
    for port in range(machine.bits_per_cycle.size):
        alone, together, count = 0, 0, 0
        for one in range(b.visit_count[0]):
            if b.visits[PORT, one] == port:
                count += 1
                busy, times = b.visits[BUSY, one], b.visits[TIMES, one]
                alone += max(busy - b.visits[WINDOW, one], 0) * times
                together += busy * times
        if max(alone, together) > longest and (count > 1 or facts.lone_stalls):
            longest = max(longest, alone, together - covered_cycles(b, port, cycles))
    return longest


@compiled
def covered_cycles(b: Bench, port: int, cycles: int) -> int:
    """In the window of at least one visit of the port; the last period of a tile counts like the others."""
    count = 0
    for one in range(b.visit_count[0]):
        if b.visits[PORT, one] == port:
            if b.visits[PERIOD, one] == b.visits[WINDOW, one]:
                return cycles
            place = count
            while place and is_before(b, one, b.order[place - 1]):
                b.order[place] = b.order[place - 1]
                place -= 1
            b.order[place] = one
            count += 1
    b.whole[0] = 0
    for number in range(count):
        b.whole[number + 1] = covered(b, number + 1, b.visits[PERIOD, b.order[number]])
    return int(b.whole[count] * (cycles // b.visits[PERIOD, b.order[count - 1]]))


@compiled
def is_before(b: Bench, one: int, other: int) -> bool:
    if b.visits[PERIOD, one] != b.visits[PERIOD, other]:
        return bool(b.visits[PERIOD, one] < b.visits[PERIOD, other])
    return bool(b.visits[WINDOW, one] < b.visits[WINDOW, other])


@compiled
def covered(b: Bench, count: int, cycles: int) -> int:
    total = 0
    while count and cycles:
        one = b.order[count - 1]
        before = min(cycles, b.visits[PERIOD, one] - b.visits[WINDOW, one])
        total += cycles - before
        count -= 1
        if count:
            inner = b.visits[PERIOD, b.order[count - 1]]
            total += b.whole[count] * (before // inner)
            cycles = before % inner
    return total


# Before and after the loops


@compiled
def hide(machine: Machine, b: Bench, available: int, cycles: int) -> None:
    """What is left of transfers that come once, the longest first, where their port has time for them meanwhile."""
    for port in range(machine.bits_per_cycle.size):
        unit = machine.bits_per_cycle[port]
        taken = 0
        for one in range(b.visit_count[0]):
            comes_once = b.visits[PERIOD, one] == cycles
            if b.visits[PORT, one] == port and b.visits[KIND, one] != RETURNS and not comes_once:
                taken += b.visits[BITS, one] // b.visits[PERIOD, one]
        free = max(0.0, (unit - taken) / unit * available)
        longest = longest_to_hide(b, port, cycles, -1)
        while longest >= 0:
            hidden = min(max(0.0, b.left[longest] - least_cycles(b, longest, unit)), free)
            b.left[longest] -= hidden
            free -= hidden
            longest = longest_to_hide(b, port, cycles, longest)


@compiled
def longest_to_hide(b: Bench, port: int, cycles: int, before: int) -> int:
    """The next by falling length, those of equal length as they were listed; -1 after the last."""
    found = -1
    for one in range(b.visit_count[0]):
        if b.visits[PORT, one] == port and b.visits[KIND, one] != RETURNS and b.visits[PERIOD, one] == cycles:
            busy = b.visits[BUSY, one]
            if before >= 0:
                last = b.visits[BUSY, before]
                if busy > last or (busy == last and one <= before):
                    continue
            if found < 0 or busy > b.visits[BUSY, found]:
                found = one
    return found


@compiled
def least_cycles(b: Bench, one: int, unit: int) -> float:
    """Of the tile of the operand's nearest memory, which nothing hides."""
    operand = b.visits[OPERAND, one]
    return float(ceil(b.nearest_bits[operand] / unit)) if b.boundaries[operand] > 1 else 0.0


@compiled
def preload(shape: Shape, facts: Facts, b: Bench) -> float:
    """Inputs and weights wait for each other where both ends of a transfer are shared."""
    shared_input, apart_input = loading(b, facts, INPUT)
    if not shape.has_weight:
        return shared_input + apart_input
    shared, apart = loading(b, facts, WEIGHT)
    one = shared_input + max(shared + apart, apart_input)
    return min(one, shared + max(shared_input + apart_input, apart))


@compiled
def loading(b: Bench, facts: Facts, operand: int) -> tuple[float, float]:
    shared, apart = 0.0, 0.0
    for at in range(1, b.boundaries[operand]):
        longest, both = longest_end(b, operand, at), True
        for one in range(b.visit_count[0]):
            if b.visits[OPERAND, one] == operand and b.visits[AT, one] == at:
                both = both and facts.holds_both[b.visits[LEVEL, one]]
        if both:
            shared += longest
        else:
            apart += longest
    return shared, apart


@compiled
def offload(facts: Facts, b: Bench) -> float:
    """One after the other or, where they overlap, the topmost and a cycle for each below it."""
    total = 0.0
    for at in range(1, b.boundaries[OUTPUT]):
        longest = longest_end(b, OUTPUT, at)
        if not facts.sums_overlap:
            total += longest
        elif longest > 0:
            total = longest + hops_below(b, at)
    return total


@compiled
def hops_below(b: Bench, at: int) -> int:
    count = 0
    for below in range(1, at):
        count += longest_end(b, OUTPUT, below) > 0
    return count


@compiled
def longest_end(b: Bench, operand: int, at: int) -> float:
    longest = 0.0
    for one in range(b.visit_count[0]):
        is_its = b.visits[OPERAND, one] == operand and b.visits[AT, one] == at and b.visits[KIND, one] != RETURNS
        if is_its:
            longest = max(longest, b.left[one])
    return longest
