"""Room in which the exact mapper's compiled part works on one way to use the array."""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

import numpy as np

from onchip.cost.layer_tables import Flags, Integers, Reals
from onchip.solve.mapping.exact_tables import Tables


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
    way: Integers  # of each dimension of the array
    side: Integers  # loop: all units along it
    share: Reals  # operand, boundary, what: INSIDE .. COPIES_ABOVE
    axis_inside: Integers  # boundary, axis loop
    axis_beside: Integers
    fits: Flags  # level, tile
    term: Reals  # criterion, operand, level, tile: what the boundary above the level costs
    stage: Reals  # criterion, level, state, tile: least cost of what is paid at or below the level
    run: Reals  # the same after loops along which the state's operand does not change
    ended: Reals  # criterion, level, tile: least over states, all paid
    best: Reals  # criterion, level, tile: the same after any loops
    exists: Flags  # level, state
    fixed: Reals  # criterion: what the boundaries at the units cost


def work_of(tables: Tables, criteria: int) -> Work:
    """Large enough for every way."""
    copies = tables.space.copies
    tiles, digits = max(prod(int(one) + 1 for one in copies), ENDS), copies.size
    levels, along = tables.machine.capacity_bits.size, tables.machine.units.size
    states = 1 + 3 * levels
    whole = np.int64
    return Work(
        np.zeros(1, whole), np.zeros(digits, whole), np.zeros(digits, whole),
        np.ones((8, tiles), whole), np.ones(tiles), np.ones((3, tiles)),
        np.zeros(along, whole), np.ones(8, whole),
        np.zeros((3, levels + 1, 5)), np.zeros((levels + 1, 4), whole), np.zeros((levels + 1, 4), whole),
        np.zeros((levels, tiles), np.bool_), np.zeros((criteria, 3, levels, tiles)),
        np.zeros((criteria, levels, states, tiles)), np.zeros((criteria, levels, states, tiles)),
        np.zeros((criteria, levels, tiles)), np.zeros((criteria, levels, tiles)),
        np.zeros((levels, states), np.bool_), np.zeros(criteria),
    )  # fmt: skip
