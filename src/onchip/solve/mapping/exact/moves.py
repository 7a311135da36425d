"""What the boundary between two memories moves for one tile, and what energy that takes."""

from __future__ import annotations

import numpy as np

from onchip.cost.layer.tables import Machine, Shape
from onchip.solve.mapping.exact.array import axis_loop
from onchip.solve.mapping.exact.compiled import (
    BESIDE,
    COPIES,
    COPIES_ABOVE,
    INPUT,
    INSIDE,
    OUTPUT,
    OUTSIDE,
    WEIGHT,
    C,
    G,
    N,
    inlined,
)
from onchip.solve.mapping.exact.tables import Space
from onchip.solve.mapping.exact.work import Work


@inlined
def words(machine: Machine, level: int, bits: float) -> float:
    """Shortest accesses of a memory for so many bits at once."""
    return float(np.ceil(bits / machine.shortest[level]))


@inlined
def channels(w: Work, tile: int) -> float:
    """Elements of the input at one place of its axes."""
    return float(w.loops[N, tile] * w.loops[C, tile] * w.loops[G, tile])


@inlined
def entry(space: Space, w: Work, boundary: int, tile: int, axis: int, beside: bool) -> int:
    """Return the place of the sizes of blocks along an axis in the table of blocks."""
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


@inlined
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


@inlined
def largest(space: Space, w: Work, operand: int, boundary: int, tile: int, beside: bool) -> float:
    """Elements of the largest tile, with those of the tiles beside it."""
    part = w.share[operand, boundary]
    joint = part[INSIDE] * (part[BESIDE] if beside else 1.0)
    if operand != INPUT:
        return float(joint * w.relevant[operand, tile])
    height, width = entry(space, w, boundary, tile, 0, beside), entry(space, w, boundary, tile, 1, beside)
    return float(joint * channels(w, tile) * space.blocks.largest[height] * space.blocks.largest[width])


@inlined
def is_pending(w: Work, boundary: int, tile: int) -> bool:
    """Whether sums of a tile have something to come."""
    last = w.tiles[0] - 1
    repeats = w.volume[last] / w.relevant[OUTPUT, last]
    return bool(w.volume[tile] / w.relevant[OUTPUT, tile] < repeats or w.share[OUTPUT, boundary, COPIES_ABOVE] > 1)


@inlined
def energy_of_reads(
    space: Space, machine: Machine, shape: Shape, w: Work, operand: int, boundary: int, tile: int
) -> float:
    """Of inputs or weights that cross a boundary, tile after tile."""
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


@inlined
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


@inlined
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
