"""What a tile costs at each boundary, of one criterion: energy, or a bound on cycles."""

from __future__ import annotations

import numpy as np

from onchip.cost.layer.tables import Machine, Shape
from onchip.solve.mapping.exact.compiled import (
    BUSY,
    FIRST_PORT,
    INPUT,
    NO_STALL,
    OUTPUT,
    READ_FOR_BELOW,
    WAITING,
    WEIGHT,
    WRITE_FROM_ABOVE,
    WRITE_FROM_BELOW,
    compiled,
    inlined,
)
from onchip.solve.mapping.exact.moves import energy_of_reads, energy_of_sums, is_pending, largest, price_of_return
from onchip.solve.mapping.exact.tables import Space
from onchip.solve.mapping.exact.work import Work

# What fits, and what moves


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
        whole = shape.elements[OUTPUT] * own_bits if machine.home[OUTPUT] == level else 0.0
        for tile in range(w.tiles[0]):
            need = whole
            for operand in range(3):
                if space.holds[operand, level]:
                    bits = own_bits if operand == OUTPUT else float(shape.bits[operand])
                    changes = w.relevant[operand, last] > w.relevant[operand, tile]
                    copies = 2.0 if machine.double_buffered[level] and changes else 1.0
                    need += copies * bits * largest(space, w, operand, level + 1, tile, False)
            w.fits[level, tile] = need <= machine.capacity_bits[level]


@compiled
def time_moves(space: Space, machine: Machine, shape: Shape, w: Work, complete_from: int) -> None:
    """For how many cycles a tile that moves keeps a port busy, at the boundary above each level and at the units."""
    for operand in range(3):
        w.unit_busy[operand] = 0.0
        if operand != WEIGHT or shape.has_weight:
            time_boundary(space, machine, shape, w, operand, 0, 0.0)
        for level in range(w.fits.shape[0]):
            if space.holds[operand, level]:
                own_bits = float(shape.bits[operand])
                if operand == OUTPUT:
                    own_bits = sums_bits(space, shape, w, level, complete_from)
                time_boundary(space, machine, shape, w, operand, level + 1, own_bits)


@inlined
def time_boundary(
    space: Space, machine: Machine, shape: Shape, w: Work, operand: int, boundary: int, own_bits: float
) -> None:
    """The same for one operand; `own_bits` are those of an element in the memory below."""
    for tile in range(w.tiles[0] if boundary else 1):
        bits = float(shape.bits[operand])
        if operand == OUTPUT and is_pending(w, boundary, tile):
            bits = float(shape.partial_bits)
        upper_bits = largest(space, w, operand, boundary, tile, True) * bits
        lower_bits = largest(space, w, operand, boundary, tile, False) * own_bits if boundary else 0.0
        for move in range(4):
            port = w.port[operand, boundary, move]
            moved = upper_bits if move in (READ_FOR_BELOW, WRITE_FROM_BELOW) else lower_bits
            busy = np.ceil(moved / machine.bits_per_cycle[port]) if port >= 0 else 0.0
            if boundary:
                w.busy[operand, boundary - 1, move, tile] = busy
            else:
                w.unit_busy[operand, move] = busy


# What a boundary adds to a criterion


@compiled
def price_cycles(
    space: Space, machine: Machine, w: Work, complete_from: int, criterion: int, kind: int, port: int, preload: int
) -> None:
    """What the boundary above each level costs for each tile, and those at the units."""
    w.fixed[criterion] = fixed_cycles(w, kind, port)
    for operand in range(3):
        for level in range(w.fits.shape[0]):
            if space.holds[operand, level]:
                for tile in range(w.tiles[0]):
                    is_out = is_elsewhere(space, w, operand, level, tile, complete_from)
                    cost = np.inf if is_out else cycles_of(machine, w, kind, port, preload, operand, level, tile)
                    w.term[criterion, operand, level, tile] = cost


@compiled
def price_reads(space: Space, machine: Machine, shape: Shape, w: Work, criterion: int) -> float:
    """The energy of inputs, weights and the units, the same wherever sums are complete.

    Returns what that comes to if each boundary has the tile that is best for it alone.
    """
    fixed = shape.mac_energy_pj + energy_of_reads(space, machine, shape, w, INPUT, 0, 0)
    if shape.has_weight:
        fixed += energy_of_reads(space, machine, shape, w, WEIGHT, 0, 0)
    w.fixed[criterion] = fixed + energy_of_sums(space, machine, shape, w, 0, 0, 0.0, 0.0)
    found = w.fixed[criterion]
    for operand in (INPUT, WEIGHT):
        for level in range(w.fits.shape[0]):
            if not space.holds[operand, level]:
                continue
            least = np.inf
            for tile in range(w.tiles[0] - 1, -1, -1):
                w.term[criterion, operand, level, tile] = read_price(
                    space, machine, shape, w, criterion, operand, level, tile
                )
                least = min(least, w.term[criterion, operand, level, tile])
            found += least
    return float(found)


@inlined
def read_price(
    space: Space, machine: Machine, shape: Shape, w: Work, criterion: int, operand: int, level: int, tile: int
) -> float:  # fmt: skip
    """In proportion to that of the tile with all loops along which the operand does not change, listed before."""
    last = w.tiles[0] - 1
    spanning = tile - w.part[operand, tile] + w.part[operand, last]
    if tile != spanning:
        times = w.of_class[operand, last] / w.of_class[operand, tile]
        return float(w.term[criterion, operand, level, spanning] * times)
    if largest(space, w, operand, level + 1, tile, False) * shape.bits[operand] > machine.capacity_bits[level]:
        return np.inf
    return float(energy_of_reads(space, machine, shape, w, operand, level + 1, tile))


@compiled
def price_sums(space: Space, machine: Machine, shape: Shape, w: Work, complete_from: int, criterion: int) -> float:
    """The same of outputs, without the units."""
    unit_bits = sums_bits(space, shape, w, 0, complete_from)
    if is_pending(w, 0, 0):
        unit_bits = float(shape.partial_bits)
    saved, found = price_of_return(space, machine, shape, w, 0, unit_bits), 0.0
    for level in range(w.fits.shape[0]):
        if not space.holds[OUTPUT, level]:
            continue
        own_bits, least = sums_bits(space, shape, w, level, complete_from), np.inf
        room = float(machine.capacity_bits[level]) / own_bits
        for tile in range(w.tiles[0]):
            cost = np.inf
            is_out = is_elsewhere(space, w, OUTPUT, level, tile, complete_from)
            if not is_out and largest(space, w, OUTPUT, level + 1, tile, False) <= room:
                cost = energy_of_sums(space, machine, shape, w, level + 1, tile, own_bits, saved)
            w.term[criterion, OUTPUT, level, tile] = cost
            least = min(least, cost)
        found += least
        saved += price_of_return(space, machine, shape, w, level + 1, own_bits)
    return float(found)


@inlined
def is_elsewhere(space: Space, w: Work, operand: int, level: int, tile: int, complete_from: int) -> bool:
    """Whether sums leave a memory before they are complete although they should be, or the reverse at the last such."""
    if operand != OUTPUT:
        return False
    number = 0
    for below in range(level + 1):
        number += 1 if space.holds[OUTPUT, below] else 0
    if number < complete_from - 1:
        return False
    return bool(is_pending(w, level + 1, tile) == (number >= complete_from))


@inlined
def fixed_cycles(w: Work, kind: int, port: int) -> float:
    """The loops, and what the units make a port wait or keep it busy."""
    loops = w.volume[w.tiles[0] - 1]
    found = 0.0 if kind == BUSY else loops
    if kind == NO_STALL:
        return float(found)
    for operand in range(3):
        for move in range(4):
            if w.port[operand, 0, move] == port:
                busy = w.unit_busy[operand, move]
                times = loops - (
                    w.relevant[OUTPUT, w.tiles[0] - 1] if operand == OUTPUT and move == READ_FOR_BELOW else 0.0
                )
                found += times * (max(busy - 1.0, 0.0) if kind == WAITING else busy)
    return float(found)


@inlined
def cycles_of(
    machine: Machine, w: Work, kind: int, port: int, preload: int, operand: int, level: int, tile: int
) -> float:
    """At most what the boundary above a level adds: waiting or business of a port, preloading, offloading."""
    last = w.tiles[0] - 1
    episodes = w.volume[last] / w.volume[tile]
    returned = episodes - w.relevant[operand, last] / w.relevant[operand, tile]
    window = w.volume[tile]
    if w.relevant[operand, tile] == 1 and not machine.double_buffered[level]:
        window = 1.0
    found, slowest = 0.0, 0.0
    for move in range(4):
        used, busy = w.port[operand, level + 1, move], w.busy[operand, level, move, tile]
        if used < 0:
            continue
        is_return = operand == OUTPUT and move in (READ_FOR_BELOW, WRITE_FROM_ABOVE)
        if used == port and kind in (WAITING, BUSY):
            found += (max(busy - window, 0.0) if kind == WAITING else busy) * (returned if is_return else episodes - 1)
        if not is_return:
            slowest = max(slowest, busy)
            found += busy if operand != OUTPUT and preload == FIRST_PORT + used else 0.0
    return float(found + (slowest if operand in (OUTPUT, preload) else 0.0))
