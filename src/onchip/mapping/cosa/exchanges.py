"""CoSA schedules one factor exchange apart, evaluated in batches for objective and capacity.

A schedule is a row of counts, one per column; a column is a factor at a place that may hold it. Tiles, capacities and
all terms of Eq. 12 but two are linear in the counts. `cosa_objective` computes the same for one placement, term by
term.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import log2
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.ir.layer import INPUT
from onchip.mapping.cosa.machine import RELATED, WINDOWS, CosaMachine, Place
from onchip.mapping.cosa.objective import added_by, window_weight
from onchip.mapping.cosa.placement import GIVEN_ORDER, Factor, FactorPlacement

Counts: TypeAlias = NDArray[np.int64]
Reals: TypeAlias = NDArray[np.float64]
Column: TypeAlias = tuple[Factor, Place]


@dataclass(frozen=True, slots=True, eq=False)
class CosaSchedule:
    """A placement as a row of counts; `orders` is as in `FactorPlacement`."""

    counts: Counts
    orders: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[bytes, frozenset[tuple[int, tuple[str, ...]]]]:
        """Return a hashable key that identifies the schedule."""
        return self.counts.tobytes(), frozenset(self.orders.items())

    def order(self, level: int) -> tuple[str, ...]:
        """Return the order of loops at a level, as in `FactorPlacement`."""
        return self.orders.get(level, GIVEN_ORDER)


@dataclass(frozen=True, slots=True)
class Exchanges:
    """The coefficient tables of all schedules of the same factors.

    `target[c, d]` is the column of c's factor at d's place, -1 if not allowed; `factor[c]` numbers factors. `linear` is
    a copy's contribution to the objective, without the window and the loops that reuse. Each row of `tiles` is one
    operand in one memory, of `sides` one dimension of the array, of `shared` one loop at the global buffer. Entries are
    a copy's contribution to the logarithm of the size; `most` and `most_units` are the upper limits. For R and S,
    `windows` marks the copies that are outputs inside the input buffer and taps on the chip, and gives each tap's
    logarithm.
    """

    machine: CosaMachine
    columns: tuple[Column, ...]
    factor: Counts
    target: Counts
    linear: Reals
    tiles: Reals
    most: Reals
    sides: Reals
    most_units: Reals
    shared: Reals
    windows: tuple[tuple[Counts, Counts, Reals], ...]

    @classmethod
    def of(cls, machine: CosaMachine, placement: FactorPlacement) -> Exchanges:
        """Return the tables for schedules with the placement's factors; a factor of 1 keeps its place."""
        factors = list(dict.fromkeys(factor for factor, _ in placement.counts))
        held = [key for key in placement.counts if key[0][1] == 1]
        free = [(f, p) for f, p in product(factors, machine.places) if f[1] > 1 and machine.may_hold(p, *f)]
        columns = (*held, *free)
        numbers = {column: number for number, column in enumerate(columns)}
        target = [[numbers.get((factor, place), -1) for _, place in columns] for factor, _ in columns]
        memories = [(level, operand) for level, entries in enumerate(machine.entries) for operand in entries]
        room = [machine.entries[level][operand] for level, operand in memories]
        return cls(
            machine,
            columns,
            np.array([factors.index(factor) for factor, _ in columns]),
            np.array(target),
            np.array([added_by(machine, factor, place) for factor, place in columns]),
            np.array([[_in_tile(machine, column, *memory) for column in columns] for memory in memories]),
            np.log2(np.array(room) + 0.5),
            np.array([[log2(f[1]) * (p == side) for f, p in columns] for side in machine.units]),
            np.log2(np.array(list(machine.units.values())) + 0.5),
            np.array([[log2(f[1]) * (p == Place(machine.shared)) * (f[0] == loop) for f, p in columns]
                      for loop in GIVEN_ORDER]),
            tuple(_windows(machine, columns)),
        )  # fmt: skip

    def schedule(self, placement: FactorPlacement) -> CosaSchedule:
        """Return a placement as counts by column."""
        return CosaSchedule(np.array([placement.counts.get(column, 0) for column in self.columns]), placement.orders)

    def placement(self, schedule: CosaSchedule) -> FactorPlacement:
        """Return a schedule's counts as a placement."""
        held = np.flatnonzero(schedule.counts).tolist()
        return FactorPlacement({self.columns[at]: int(schedule.counts[at]) for at in held}, schedule.orders)

    def moved(self, counts: Counts) -> Counts:
        """Return a row for each single move of a copy, and for each swap of two copies of the same prime."""
        primes = np.array([factor[1] for factor, _ in self.columns])
        held = np.flatnonzero((counts > 0) & (primes > 1))
        sources, places = np.nonzero(
            np.isin(np.arange(counts.size), held)[:, None] & (self.factor[:, None] == self.factor)
        )
        is_move = sources != places
        moves = _changed(counts, ((sources[is_move], places[is_move]),))
        left, right = (held[index] for index in np.triu_indices(held.size, 1))
        there, here = self.target[left, right], self.target[right, left]
        may = (primes[left] == primes[right]) & (self.factor[left] != self.factor[right]) & (there != left)
        may &= (there >= 0) & (here >= 0)
        exchanges = _changed(counts, ((left[may], there[may]), (right[may], here[may])))
        return np.concatenate([moves, exchanges])

    def objectives(self, rows: Counts, order: Sequence[str]) -> Reals:
        """Return Eq. 12 for each row, with this order of loops at the global buffer."""
        at_shared = rows @ self.shared.T[:, [GIVEN_ORDER.index(loop) for loop in order]]
        saved = np.zeros(len(rows))
        for operand in self.machine.layer.operands:
            is_related = np.array([loop in RELATED[operand] for loop in order])
            moves = np.logical_or.accumulate((at_shared > 0) & is_related, axis=1)
            saved += np.where(moves, 0.0, at_shared).sum(axis=1)
        return np.asarray(rows @ self.linear - saved - window_weight(self.machine) * self._windows(rows))

    def fits(self, rows: Counts) -> NDArray[np.bool_]:
        """Return True for rows whose tiles fit their memories and whose spatial factors fit the array."""
        tiles = rows @ self.tiles.T
        memories = [(level, operand) for level, entries in enumerate(self.machine.entries) for operand in entries]
        if (self.machine.input_level, INPUT) in memories:
            tiles[:, memories.index((self.machine.input_level or 0, INPUT))] += self._windows(rows)
        return np.asarray((tiles <= self.most).all(axis=1) & (rows @ self.sides.T <= self.most_units).all(axis=1))

    def _windows(self, rows: Counts) -> Reals:
        """Return the contribution of R and S to the logarithm of the input buffer's tile."""
        total = np.zeros(len(rows))
        for outputs, taps, sizes in self.windows:
            total += np.where(rows @ outputs > 0, rows @ taps, rows @ sizes)
        return total


def _windows(machine: CosaMachine, columns: Sequence[Column]) -> Iterator[tuple[Counts, Counts, Reals]]:
    if machine.input_level is None:
        return
    below = np.array([place.level <= machine.input_level for _, place in columns])
    on_chip = np.array([place.level < machine.dram for _, place in columns])
    sizes = np.array([log2(prime) for (_, prime), _ in columns])
    for taps, outputs in WINDOWS.items():
        is_output, is_tap = (np.array([factor[0] == loop for factor, _ in columns]) for loop in (outputs, taps))
        yield (below & is_output).astype(np.int64), (on_chip & is_tap).astype(np.int64), sizes * on_chip * is_tap


def _in_tile(machine: CosaMachine, column: Column, level: int, operand: str) -> float:
    """Return a copy's contribution to the logarithm of an operand's tile, including its stride."""
    (loop, prime), place = column
    return log2(prime * machine.step(operand, loop)) * (place.level <= level and loop in RELATED[operand])


def _changed(counts: Counts, moves: Sequence[tuple[Counts, Counts]]) -> Counts:
    """Return a row for each move of one copy from the first column to the second."""
    rows = np.tile(counts, (len(moves[0][0]), 1))
    each = np.arange(len(rows))
    for sources, targets in moves:
        rows[each, sources] -= 1
        rows[each, targets] += 1
    return rows
