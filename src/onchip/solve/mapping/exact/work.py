"""Room in which the exact mapper's compiled part works on one way to use the array."""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

import numpy as np

from onchip.cost.layer.tables import OPERANDS, Flags, Integers, Reals
from onchip.ir.layer import OUTPUT, WEIGHT
from onchip.solve.mapping.exact.compiled import READ_FOR_ABOVE, READ_FOR_BELOW, WRITE_FROM_ABOVE, WRITE_FROM_BELOW
from onchip.solve.mapping.exact.tables import Tables

ENDS: Final = 2
"""The floors list the smallest and the largest tile apart, even where they are the same."""


class Work(NamedTuple):
    """Tiles are numbered 0 (one iteration) to tiles - 1 (all temporal loops); levels of `sides` are shifted by one."""

    tiles: Integers
    radix: Integers  # of each digit: how many copies are temporal, plus 1
    stride: Integers
    loops: Integers  # loop, tile: iterations
    volume: Reals
    relevant: Reals  # operand, tile
    of_class: Reals  # class, tile: iterations of its loops
    part: Integers  # class, tile: number of the tile of its loops alone
    way: Integers  # of each dimension of the array
    side: Integers  # loop: all units along it
    share: Reals  # operand, boundary, what: INSIDE .. COPIES_ABOVE
    axis_inside: Integers  # boundary, axis loop
    axis_beside: Integers
    fits: Flags  # level, tile
    port: Integers  # operand, boundary, move; -1 where nobody waits
    unit_busy: Reals  # operand, move: cycles of a port
    busy: Reals  # operand, level, move, tile: the same for what crosses the boundary above the level
    term: Reals  # criterion, operand, level, tile: what the boundary above the level costs
    run: Reals  # criterion, level, state, tile: least cost of what is paid at or below the level, the run going on
    ended: Reals  # criterion, level, tile: least over states, all paid
    best: Reals  # criterion, level, tile: the same after any loops
    exists: Flags  # level, state
    fixed: Reals  # criterion: what the boundaries at the units cost


def work_of(tables: Tables, criteria: int) -> Work:
    """Large enough for every way."""
    copies = tables.space.copies
    tiles, digits = max(prod(int(one) + 1 for one in copies), ENDS), copies.size
    levels, along = tables.machine.capacity_bits.size, tables.machine.units.size
    states = 3 * levels
    whole = np.int64
    return Work(
        np.zeros(1, whole), np.zeros(digits, whole), np.zeros(digits, whole),
        np.ones((8, tiles), whole), np.ones(tiles), np.ones((3, tiles)), np.ones((4, tiles)),
        np.zeros((4, tiles), whole),
        np.zeros(along, whole), np.ones(8, whole),
        np.zeros((3, levels + 1, 5)), np.zeros((levels + 1, 4), whole), np.zeros((levels + 1, 4), whole),
        np.zeros((levels, tiles), np.bool_), _ports(tables), np.zeros((3, 4)), np.zeros((3, levels, 4, tiles)),
        np.zeros((criteria, 3, levels, tiles)),
        np.zeros((criteria, levels, states, tiles)),
        np.zeros((criteria, levels, tiles)), np.zeros((criteria, levels, tiles)),
        np.zeros((levels, states), np.bool_), np.zeros(criteria),
    )  # fmt: skip


def _ports(tables: Tables) -> Integers:
    above, machine = tables.space.above, tables.machine
    ports = np.full((*above.shape, 4), -1, np.int64)
    for operand, boundary in np.argwhere(above >= 0).tolist():
        if OPERANDS[operand] == WEIGHT and not tables.shape.has_weight:
            continue
        upper, lower = int(above[operand, boundary]), boundary - 1
        upwards = OPERANDS[operand] == OUTPUT
        ports[operand, boundary, READ_FOR_BELOW] = machine.port[upper, READ_FOR_BELOW]
        if upwards:
            ports[operand, boundary, WRITE_FROM_BELOW] = machine.port[upper, WRITE_FROM_BELOW]
        if lower >= 0:
            ports[operand, boundary, WRITE_FROM_ABOVE] = machine.port[lower, WRITE_FROM_ABOVE]
            if upwards:
                ports[operand, boundary, READ_FOR_ABOVE] = machine.port[lower, READ_FOR_ABOVE]
    return ports
