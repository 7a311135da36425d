"""Tile hierarchies of one spatial mapping: the least energy of any, and all those below a limit.

A nest is built from the MACs outwards, loop by loop, with the level boundaries of the memories between the loops. The
tiles of a new level boundary are reused until a loop changes them; then they move and are paid for. The next loop
leaves at most one operand unchanged, so that all other operands are paid for at once: a state is the unpaid operand and
its boundaries. `least` is the least cost of the rest of the nest from each tile in each state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from onchip.arch.memory import Operand
from onchip.audits.mapping_terms import NEVER, NestTiling, Terms
from onchip.audits.mapping_tiles import CHANGES, Grid, Whole
from onchip.ir.layer import LOOPS

Unpaid = tuple[str, tuple[int, ...]] | None
"""An operand with the indices of its unpaid boundaries, or None."""


@dataclass(slots=True)
class Chains:
    """The tile hierarchies of one spatial mapping; energies are in the terms' unit, without `fixed`."""

    terms: Terms
    grid: Grid
    tiling: NestTiling
    _paid: dict[tuple[str, int], Whole] = field(default_factory=dict)
    _fits: list[tuple[Whole, Whole]] = field(default_factory=list)
    _least: dict[tuple[int, Unpaid], Whole] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for operand, chain in self.terms.chains.items():
            for number in range(1, len(chain) + 1):
                found = self.terms.boundary(operand, number, self.tiling)
                self._paid[operand, number] = np.broadcast_to(found, (self.grid.number,))
        for level in range(len(self.terms.problem.levels)):
            self._fits.append((self._fitting(level, sums_go_on=False), self._fitting(level, sums_go_on=True)))

    def _fitting(self, level: int, *, sums_go_on: bool) -> Whole:
        """Return 0 for tiles whose operands fit in a memory together, NEVER for others."""
        bits = np.full(self.grid.number, self.terms.room_at_home(level))
        for operand, chain in self.terms.chains.items():
            if level in chain:
                bits = bits + self.terms.room(level, operand, self.tiling, goes_on=sums_go_on)
        return np.where(bits > self.terms.usable_bits(level), NEVER, 0)

    def fixed(self) -> int:
        """Return the energy at the MACs, which is independent of tiles."""
        one = {loop: np.ones(1, np.int64) for loop in LOOPS}
        turns = {loop: size[-1:] for loop, size in self.grid.sizes.items()}
        tiling = NestTiling(one, turns, self.tiling.beside)
        return sum(int(self.terms.boundary(operand, 0, tiling)[0]) for operand in self.terms.chains)

    def floor(self) -> int:
        """Return the sum of the least energy of each boundary."""
        return sum(int(found.min()) for found in self._paid.values())

    def least(self) -> int:
        """Return the least energy of all fitting tile hierarchies; NEVER or more if none fits."""
        return int(self._from(0, None)[0])

    def below(self, limit: int) -> Iterator[tuple[int, ...]]:
        """Yield each tile hierarchy, one tile per memory, that some loop order may bring below the limit."""
        yield from dict.fromkeys(self._chains(0, None, 0, 0, limit))

    def _from(self, level: int, unpaid: Unpaid) -> Whole:
        """Return the least cost of the rest with the boundaries of `level` memories set, the last at each tile."""
        key = level, unpaid
        if key not in self._least:
            if unpaid is None:
                last = level == len(self._fits)
                found = np.zeros(self.grid.number, np.int64) if last else self._laid(level, None)
                self._least[key] = self.grid.least_of_larger(found, "".join(LOOPS))
            else:
                found = self._due(unpaid) + self._from(level, None)
                if level < len(self._fits):
                    found = np.minimum(found, self._laid(level, unpaid))
                self._least[key] = self.grid.least_of_larger(np.minimum(found, NEVER), _same(unpaid[0]))
        return self._least[key]

    def _laid(self, level: int, unpaid: Unpaid) -> Whole:
        """Return that cost if the next memory's boundary is at this same tile."""
        options = [due + self._from(level + 1, after) for due, after in self._options(level, unpaid)]
        return np.asarray(np.minimum(np.min(np.stack(options), axis=0), NEVER))

    def _options(self, level: int, unpaid: Unpaid) -> Iterator[tuple[Whole, Unpaid]]:
        """Yield the possible unpaid operands after the next memory's boundary, with the cost of the others."""
        held = {operand: chain.index(level) + 1 for operand, chain in self.terms.chains.items() if level in chain}
        for operand in (None, *held) if unpaid is None else (unpaid[0],):
            due = self._fits[level][operand == Operand.OUTPUT]
            for other, number in held.items():
                due = due + (self._paid[other, number] if other != operand else 0)
            if operand is None:
                yield due, None
            else:
                before = () if unpaid is None else unpaid[1]
                own = (held[operand],) if operand in held else ()
                yield due, (operand, (*before, *own))

    def _due(self, unpaid: tuple[str, tuple[int, ...]]) -> Whole:
        operand, numbers = unpaid
        return np.asarray(np.sum([self._paid[operand, number] for number in numbers], axis=0))

    def _chains(self, level: int, unpaid: Unpaid, tile: int, spent: int, limit: int) -> Iterator[tuple[int, ...]]:
        if level == len(self._fits):
            yield ()
            return
        loops = "".join(LOOPS) if unpaid is None else _same(unpaid[0])
        for larger in self.grid.larger(tile, loops).tolist():
            if unpaid is not None and spent + int(self._due(unpaid)[larger] + self._from(level, None)[larger]) < limit:
                yield from self._chains(level, None, larger, spent + int(self._due(unpaid)[larger]), limit)
            for due, after in self._options(level, unpaid):
                total = spent + int(due[larger])
                if total + int(self._from(level + 1, after)[larger]) < limit:
                    for rest in self._chains(level + 1, after, larger, total, limit):
                        yield (larger, *rest)


def _same(operand: str) -> str:
    """Return the loops that are irrelevant for an operand."""
    return "".join(loop for loop in LOOPS if loop not in CHANGES[operand])
