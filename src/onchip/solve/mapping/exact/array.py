"""One way to use the array: what it means at each boundary, and the tiles of the loops that it leaves."""

from __future__ import annotations

from onchip.cost.layer.tables import Machine
from onchip.solve.mapping.exact.compiled import (
    BESIDE,
    COPIES,
    COPIES_ABOVE,
    INPUT,
    INSIDE,
    OUTSIDE,
    P,
    Q,
    R,
    S,
    compiled,
    inlined,
)
from onchip.solve.mapping.exact.tables import Space, UnrollingWays
from onchip.solve.mapping.exact.work import Work


@inlined
def axis_loop(at: int) -> int:
    """Outputs and taps of both axes, in the order of the tables."""
    return (P, R, Q, S)[at]


@compiled
def choose(space: Space, machine: Machine, sides: UnrollingWays, w: Work) -> bool:
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


@inlined
def share(space: Space, machine: Machine, sides: UnrollingWays, w: Work, operand: int, boundary: int) -> None:
    """Of the units: what a boundary has inside a tile, beside it, elsewhere."""
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
    w.loops[:, 0], w.part[:, 0] = 1, 0
    filled = 1
    for digit in range(space.digit_loop.size):
        for more in range(1, w.radix[digit]):
            for tile in range(filled):
                target = tile + more * filled
                for loop in range(8):
                    w.loops[loop, target] = w.loops[loop, target - filled]
                w.loops[space.digit_loop[digit], target] *= space.digit_prime[digit]
                for group in range(4):
                    w.part[group, target] = w.part[group, target - filled]
                w.part[space.class_of[space.digit_loop[digit]], target] += filled
        filled *= w.radix[digit]
    multiply_loops(space, w)


@compiled
def list_ends(space: Space, w: Work) -> None:
    """The smallest and the largest tile only, numbered 0 and 1."""
    w.tiles[0] = 2
    for loop in range(8):
        w.loops[loop, 0], w.loops[loop, 1] = 1, space.bounds[loop] // w.side[loop]
    multiply_loops(space, w)


@compiled
def multiply_loops(space: Space, w: Work) -> None:
    """Products of the loops of each tile."""
    for tile in range(w.tiles[0]):
        w.volume[tile] = 1
        w.relevant[:, tile] = 1
        w.of_class[:, tile] = 1
        for loop in range(8):
            size = w.loops[loop, tile]
            w.volume[tile] *= size
            w.of_class[space.class_of[loop], tile] *= size
            for operand in range(3):
                if space.class_of[loop] != operand:
                    w.relevant[operand, tile] *= size
