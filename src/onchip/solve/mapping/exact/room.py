"""Where a descent from all loops to the units stands: the chain of tiles so far, and what is left to try."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from onchip.cost.layer.tables import Flags, Integers, Reals
from onchip.solve.mapping.exact.tables import Tables

ORDERS: Final = 13
"""Pairs of an innermost and an outermost class of loops, or none, between two tiles: at most so many."""


class DescentState(NamedTuple):
    """A chain has places: 0 the units, level + 1 for the levels, and all loops. Loops stand above their place.

    Per depth, from 0 (the memory next to all loops), candidates are kept in the order of their bounds.
    """

    depth: Integers
    nodes: Integers
    tile: Integers  # place
    inner: Integers  # place: class of the innermost loops up to the next place; -1 without loops
    outer: Integers  # place: class of the outermost
    run_class: Integers  # place: whose run begins here; -1: nobody's
    run_end: Integers  # place: the tile at which it ends
    cut: Integers  # operand, level
    exponent: Integers  # digit: of the tile looked at
    most: Integers  # digit: of the tile around it
    listed: Integers  # depth: candidates
    following: Integers  # depth: the next of them
    code: Integers  # depth, candidate
    bound: Reals  # depth, candidate
    paid: Reals  # criterion
    rest: Reals  # criterion
    value: Reals  # criterion
    alone: Reals  # port
    busy: Reals  # port
    first: Reals  # port
    chained: Reals  # operand
    period: Integers  # visits of one port
    span: Integers
    whole: Integers
    lowest: Integers  # port: the lowest level whose boundary it serves
    is_always_open: Flags  # port: whether it serves the units in every cycle


def room_of(tables: Tables, tiles: int, ports: Integers, criteria: int) -> DescentState:
    """`ports` by operand, boundary and move."""
    levels, digits, machine = tables.machine.capacity_bits.size, tables.space.copies.size, tables.machine
    count, visits = machine.bits_per_cycle.size, 12 * (levels + 1)
    lowest = np.full(count, levels)
    for level in reversed(range(levels)):
        used = ports[:, level + 1]
        lowest[used[used >= 0]] = level

    def whole(*sizes: int) -> Integers:
        return np.zeros(sizes, np.int64)

    return DescentState(
        whole(1), whole(1), whole(levels + 2), whole(levels + 2), whole(levels + 2),
        np.full(levels + 2, -1), whole(levels + 2), whole(3, levels), whole(digits), whole(digits),
        whole(levels + 1), whole(levels + 1), whole(levels + 1, ORDERS * tiles), np.zeros((levels + 1, ORDERS * tiles)),
        np.zeros(criteria), np.zeros(criteria), np.zeros(criteria),
        np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(3),
        whole(visits), whole(visits), whole(visits + 1), lowest, np.zeros(count, np.bool_),
    )  # fmt: skip
