"""From the least costs of chains of tiles back to the chains, and from a chain to its mappings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import inf
from typing import Final

import numpy as np

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.cost.layer_limits import array_of
from onchip.cost.layer_tables import OPERANDS, Flags, Reals
from onchip.ir.loopnest import INPUT, LOOPS
from onchip.plan.mapping import Kept, Loop, Mapping
from onchip.solve.mapping.exact_kernel import CLOSED
from onchip.solve.mapping.exact_tables import CLASSES, Tables
from onchip.solve.mapping.exact_work import Work

Cuts = dict[tuple[int, int], int]  # the tile, by its number, of an operand at a level

SLACK: Final = 1 + 1e-9
"""Sums of the same energies in another order differ by less."""


@dataclass(slots=True)
class Chains:
    """Visits the chains whose bound is below a limit, which may fall, best first, and at most `most_visits` of them.

    `bound` makes one number a chain of the criteria's values (criteria, chains); `visit` takes the cuts.
    """

    tables: Tables
    work: Work
    bound: Callable[[Reals], Reals]
    limit: Callable[[], float]
    visit: Callable[[Cuts], None]
    most_visits: float = inf
    nodes: int = 0
    visits: int = 0

    def search(self) -> None:
        """All chains for the way that the work was filled for."""
        last = self.work.fits.shape[0] - 1
        self._below(last, int(self.work.tiles[0]) - 1, self.work.fixed.copy(), {})

    def _below(self, level: int, tile: int, paid: Reals, cuts: Cuts) -> None:
        """Where runs end under the tile: all that is paid at or below the level is still to come."""
        if level < 0:
            self.visits += 1
            self.visit(cuts)
            return
        for end in self._ascending(paid, self.work.ended[:, level], self._inside(tile)):
            for state in np.flatnonzero(self.work.exists[level]).tolist():
                self._ended(level, state, end, paid, cuts)

    def _ended(self, level: int, state: int, end: int, paid: Reals, cuts: Cuts) -> None:
        if state == CLOSED:
            if self._is_below(paid + self.work.stage[:, level, CLOSED, end]):
                self._cut(level, CLOSED, end, paid, cuts)
            return
        operand, first = divmod(state - 1, self.work.fits.shape[0])
        held = [one for one in range(first, level + 1) if self.tables.space.holds[operand, one]]
        paid = paid + sum(self.work.term[:, operand, one, end] for one in held)
        cuts = cuts | {(operand, one): end for one in held}
        for tile in self._ascending(paid, self.work.stage[:, level, state], self._inside(end, operand)):
            if tile != end or first < level:
                self._cut(level, state, tile, paid, cuts)

    def _cut(self, level: int, state: int, tile: int, paid: Reals, cuts: Cuts) -> None:
        """The operands whose run is not open are cut here."""
        operand, first = divmod(state - 1, self.work.fits.shape[0]) if state != CLOSED else (-1, level)
        for other in np.flatnonzero(self.tables.space.holds[:, level]).tolist():
            if other != operand:
                paid = paid + self.work.term[:, other, level, tile]
                cuts = cuts | {(other, level): tile}
        if state == CLOSED or first == level:
            self._below(level - 1, tile, paid, cuts)
            return
        for lower in self._ascending(paid, self.work.stage[:, level - 1, state], self._inside(tile, operand)):
            self._cut(level - 1, state, lower, paid, cuts)

    def _ascending(self, paid: Reals, costs: Reals, allowed: Flags) -> Iterator[int]:
        tiles = np.flatnonzero(allowed)
        self.nodes += 1
        bounds = self.bound(paid[:, None] + costs[:, tiles])
        for place in np.argsort(bounds, kind="stable").tolist():
            if bounds[place] >= self.limit() or self.visits >= self.most_visits:
                return
            yield int(tiles[place])

    def _is_below(self, costs: Reals) -> bool:
        return bool(self.bound(costs[:, None])[0] < self.limit())

    def _inside(self, tile: int, loops_of: int | None = None) -> Flags:
        """The tiles that divide it, the rest being loops of one class."""
        loops = self.work.loops[:, : self.work.tiles[0]]
        found = np.ones(loops.shape[1], np.bool_)
        for loop, size in enumerate(loops[:, tile].tolist()):
            if loops_of is not None and CLASSES[loop] != loops_of:
                found &= loops[loop] == size
            elif size > 1:
                found &= size % loops[loop] == 0
            else:
                found &= loops[loop] == 1
        return found


def mappings_of(tables: Tables, work: Work, accelerator: Accelerator, cuts: Cuts, *, orders: bool) -> list[Mapping]:
    """The mapping of a chain; with `orders` all that differ in the class of the outermost loops between two cuts."""
    loops = work.loops
    tiles = sorted({*cuts.values(), 0, int(work.tiles[0]) - 1}, key=lambda tile: float(work.volume[tile]))
    names = [level.memory.name for level in accelerator.levels]
    beside = _spatial(tables, work, accelerator, cuts)
    parts = [
        _orders(
            [int(outer // inner) for inner, outer in zip(loops[:, one], loops[:, other], strict=True)], orders=orders
        )
        for one, other in pairwise(tiles)
    ]
    found = []
    for chosen in product(*parts):
        nest: list[Loop] = []
        stop: dict[int, int] = {}
        for place, tile in enumerate(tiles):
            if place:
                nest.extend(chosen[place - 1])
            stop[tile] = len(nest)
            nest.extend(beside.get(tile, ()))
        kept = {
            operand: tuple(
                Kept(names[level], stop[cuts[number, level]]) for level in range(len(names)) if (number, level) in cuts
            )
            for number, operand in enumerate(OPERANDS)
        }
        found.append(Mapping(tuple(nest), *(kept[operand] for operand in Operand)))
    return found


def _spatial(tables: Tables, work: Work, accelerator: Accelerator, cuts: Cuts) -> dict[int, list[Loop]]:
    """Above which tile loops beside each other stand: right above the input's tile that they have beside it."""
    found: dict[int, list[tuple[int, Loop]]] = {}
    number = OPERANDS.index(INPUT)
    held = [level for level in range(work.fits.shape[0]) if (number, level) in cuts]
    for along, name in enumerate(array_of(accelerator).sizes):
        below, passed = 0, 0
        for level in held:
            if tables.machine.serves[level, along]:
                break
            below, passed = cuts[number, level], passed + 1
        sizes = tables.sides.sizes[work.way[along]].tolist()
        loops = [(passed, Loop(loop, size, name)) for loop, size in zip(LOOPS, sizes, strict=True) if size > 1]
        found.setdefault(below, []).extend(loops)
    return {below: [loop for _, loop in sorted(loops, key=lambda one: one[0])] for below, loops in found.items()}


def _orders(sizes: Sequence[int], *, orders: bool) -> list[list[Loop]]:
    groups = [
        [Loop(loop, size) for loop, size, own in zip(LOOPS, sizes, CLASSES, strict=True) if size > 1 and own == one]
        for one in range(4)
    ]
    groups = [group for group in groups if group]
    if not orders or len(groups) < 2:
        return [[loop for group in groups for loop in group]]
    return [[loop for other in groups if other is not outermost for loop in other] + outermost for outermost in groups]
