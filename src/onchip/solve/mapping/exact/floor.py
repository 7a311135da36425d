"""What no tiles can undercut, for each way to use the array."""

from __future__ import annotations

import numpy as np

from onchip.cost.layer.tables import Machine, Shape
from onchip.solve.mapping.exact.compiled import (
    BESIDE,
    COPIES,
    COPIES_ABOVE,
    INPUT,
    INSIDE,
    OUTPUT,
    READ_FOR_BELOW,
    WEIGHT,
    WRITE_FROM_ABOVE,
    WRITE_FROM_BELOW,
    compiled,
    inlined,
)
from onchip.solve.mapping.exact.moves import (
    channels,
    energy_of_reads,
    energy_of_sums,
    entry,
    is_pending,
    largest,
    price_of_return,
)
from onchip.solve.mapping.exact.tables import Space
from onchip.solve.mapping.exact.work import Work


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
    """The loops with what the units make a port wait, or what a port is busy with for each element moved once.

    What comes before and after the loops is in it: a port's share of that is no longer than it takes.
    """
    loops, longest = w.volume[1], 0.0
    for port in range(machine.bits_per_cycle.size):
        busy, waiting = 0.0, 0.0
        for operand in range(3):
            for move in range(4):
                if w.port[operand, 0, move] == port:
                    is_partial = operand == OUTPUT and is_pending(w, 0, 0)
                    bits = float(shape.partial_bits if is_partial else shape.bits[operand])
                    once = np.ceil(bits * largest(space, w, operand, 0, 0, True) / machine.bits_per_cycle[port])
                    times = loops - (w.relevant[OUTPUT, 1] if operand == OUTPUT and move == READ_FOR_BELOW else 0.0)
                    busy += once * times
                    waiting += max(once - 1.0, 0.0) * times
            for boundary in range(1, space.above.shape[1]):
                busy += busy_once(space, machine, shape, w, port, operand, boundary)
        longest = max(longest, busy, loops + waiting)
    return float(longest)


@inlined
def busy_once(space: Space, machine: Machine, shape: Shape, w: Work, port: int, operand: int, boundary: int) -> float:
    """Cycles of a port for moving an operand once, over all its tiles and only in the direction that it must."""
    found = 0.0
    for move in range(4):
        is_return = operand == OUTPUT and move in (READ_FOR_BELOW, WRITE_FROM_ABOVE)
        if w.port[operand, boundary, move] == port and not is_return:
            bits = float(min(shape.bits[operand], shape.partial_bits) if operand == OUTPUT else shape.bits[operand])
            is_upper = move in (READ_FOR_BELOW, WRITE_FROM_BELOW)
            amount = moved_once(space, w, operand, boundary, is_upper) * bits
            found += np.ceil(amount / machine.bits_per_cycle[port])
    return float(found)


@inlined
def moved_once(space: Space, w: Work, operand: int, boundary: int, beside: bool) -> float:
    """Elements that one instance moves over a boundary at least: each tile once, as long as its largest.

    Tiles of an input overlap and may have rows in them that a stride skips: of all their sizes the best is taken.
    """
    part, last = w.share[operand, boundary], w.tiles[0] - 1
    joint = part[INSIDE] * (part[BESIDE] if beside else 1.0)
    if operand != INPUT:
        return float(joint * w.relevant[operand, last])
    height, width = entry(space, w, boundary, last, 0, beside), entry(space, w, boundary, last, 1, beside)
    return float(joint * channels(w, last) * space.blocks.fewest[height] * space.blocks.fewest[width])
