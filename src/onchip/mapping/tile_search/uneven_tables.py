"""The cost of every cut, an operand's boundary between two memories, for each tile below it.

In the accounting of ZigZag and DeFiNES, energy is a sum over cuts of terms that depend on the tile alone: its size, the
number of its moves (the loops outside), and whether its sums are complete. Loops right above the cut that reuse the
tile count as inside it, so no further order matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, inf, prod

import numpy as np

from onchip.answer.layer_mapping import Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.energies import stated
from onchip.ir.layer import OUTPUT, RELEVANT
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import MOVES, OPERANDS, Flags, Integers, Machine, Reals, machine_of
from onchip.model.layer.tiles import EPSILON
from onchip.model.unrolling.parts import DIGITS, nearest
from onchip.model.unrolling.tiles import SideBySide, TileElements, Tiles


@dataclass(frozen=True, slots=True)
class Cut:
    """A boundary of an operand: its energy in pJ, infinite if impossible, and the bits it needs in memories.

    `level` is the memory below; -1 is the MACs, which keep an operand during irrelevant loops. `need_bits` maps a level
    to the bits for sums that arrive incomplete, and for complete ones. `is_pending` is True if sums leave incomplete.
    """

    operand: int
    level: int
    energy_pj: Reals
    need_bits: dict[int, tuple[Integers, Integers]]
    is_pending: Flags


@dataclass(frozen=True, slots=True)
class Cuts:
    """The cuts of each operand, from the MACs up, and the costs that do not depend on the order.

    `fixed_bits` are the bits of sums that move from the MACs directly to the memory that holds all outputs.
    `starts_complete` is True if sums leave the MACs complete, which no order changes.
    """

    of_operands: tuple[tuple[Cut, ...], ...]
    fixed_pj: float
    fixed_bits: dict[int, int]
    starts_complete: bool


class CutTables:
    """The cost tables of one layer on one accelerator."""

    def __init__(self, sized: TileElements, problem: LayerProblem, sides: SideBySide) -> None:
        tiles = sized.tiles
        self._sized = sized
        self._layer = sized.layer
        self._tiles = tiles
        self._sides = sides
        self._problem = problem
        self._machine: Machine = machine_of(problem)
        self._episodes = tiles.iterations[-1] // tiles.iterations

    def cuts(self) -> Cuts:
        """Return the cuts of all operands; operands that the MACs do not keep, and sums, have a fixed lowest cut."""
        found: list[tuple[Cut, ...]] = []
        complete, bits = True, dict[int, int]()
        fixed = self._layer.macs * stated(array_of(self._problem.accelerator).mac_energy_pj)
        levels = [level.memory.name for level in self._problem.levels]
        for number, operand in enumerate(OPERANDS):
            kept = [levels.index(level.memory.name) for level in self._problem.keepers(operand)]
            chain = [-1, *kept, int(self._machine.home[number])] if operand in self._layer.operands else []
            own = [self._cut(number, lower, upper) for lower, upper in pairwise(chain)]
            if own and (operand == OUTPUT or not self._sized.accounting.units_keep_operands):
                units = own.pop(0)
                fixed += float(units.energy_pj[0])
                complete = complete and not units.is_pending[0]
                for level, (_, need) in units.need_bits.items():
                    bits[level] = bits.get(level, 0) + int(need[0])
            found.append(tuple(own))
        if any(need > self._machine.capacity_bits[level] for level, need in bits.items()):
            fixed = inf
        return Cuts(tuple(found), fixed, bits, complete)

    def _cut(self, number: int, lower: int, upper: int) -> Cut:
        operand = OPERANDS[number]
        below, above = self._sides.within[lower + 1], self._sides.within[upper + 1]
        size = np.round(np.round(self._sized.elements(below, operand), DIGITS)).astype(np.int64)
        one, all_of_them = (self._sized.elements(within, operand)[0] for within in (below, above))
        joint = size * self._whole(all_of_them / one)
        pending = self._pending(upper) & (operand == OUTPUT)
        bits = np.where(pending, self._layer.partial_bits, self._layer.bits(operand))
        down = self._width(upper, lower, (Move.READ_FOR_BELOW, Move.WRITE_FROM_ABOVE), all_of_them / one)
        up = self._width(upper, lower, (Move.WRITE_FROM_BELOW, Move.READ_FOR_ABOVE), all_of_them / one)
        read, write = (
            self._moved(upper, joint * bits, energies, most) for energies, most in (("read_pj", down), ("write_pj", up))
        )
        own_read, own_write = (self._moved(lower, size * bits, energies) for energies in ("read_pj", "write_pj"))
        energy = read + own_write
        if operand == OUTPUT:
            energy = write + own_read + np.where(pending, energy, 0.0)
        if lower < 0 and operand != OUTPUT and self._sized.accounting.units_keep_operands:
            inside = prod(self._tiles.inner[loop] for loop in RELEVANT[operand])
            energy = np.where(inside == 1, energy, np.inf)
        need: dict[int, tuple[Integers, Integers]] = {}
        if lower >= 0:
            copies = np.where(self._machine.double_buffered[lower] & (self._episodes > 1), 2, 1)
            partial = self._layer.partial_bits if operand == OUTPUT else self._layer.bits(operand)
            room = np.round(np.round(self._sized.room(below, operand), DIGITS)).astype(np.int64) * copies
            need[lower] = room * partial, room * self._layer.bits(operand)
        if upper < self._machine.capacity_bits.size:
            whole = self._layer.elements(operand) * bits
            if upper == self._machine.home[number]:
                need[upper] = whole, whole
        for level, (_, least) in need.items():
            energy = np.where(least > self._machine.capacity_bits[level], np.inf, energy)
        return Cut(number, lower, energy, need, pending)

    def _pending(self, upper: int) -> Flags:
        """Return True for tiles whose sums are added to after they have arrived above."""
        here, everywhere = self._sides.within[upper + 1], self._sides.within[-1]
        beside = any(everywhere[loop] > here[loop] for loop in here if loop not in RELEVANT[OUTPUT])
        return self._tiles.sums_are_left | beside

    def _whole(self, neighbours: float) -> int:
        return floor(neighbours + EPSILON) if self._sized.accounting.parts_are_cut_late else nearest(neighbours)

    def _width(self, upper: int, lower: int, moves: tuple[Move, Move], neighbours: float) -> float:
        """Return the maximum bits per cycle over a boundary (infinite if irrelevant); moves are above and below."""
        if lower < 0 or not self._sized.accounting.accesses_are_of_a_cycle:
            return inf
        ports = [
            int(self._machine.port[level, MOVES.index(move)]) for level, move in zip((upper, lower), moves, strict=True)
        ]
        above, below = (float(self._machine.bits_per_cycle[port]) if port >= 0 else inf for port in ports)
        return min(above, below * neighbours)

    def _moved(self, level: int, bits: Integers, energies: str, most: float = inf) -> Reals:
        """Return the energy of all transfers of `bits` bits over a memory's instances; `most` bits move per cycle."""
        if level < 0:
            return np.zeros(bits.size)
        shortest = int(self._machine.shortest[level])
        words = -(-bits // shortest)
        if most < inf:
            cycles = np.ceil(bits / most - EPSILON).astype(np.int64)
            words = np.where(bits <= most, words, cycles * ceil(most / shortest - EPSILON))
        each = self._machine.read_pj[level] if energies == "read_pj" else self._machine.write_pj[level]
        moved: Reals = words * self._episodes * nearest(self._sides.apart[level + 1]) * float(each)
        return moved


def least_to_come(tiles: Tiles, cuts: tuple[Cut, ...]) -> Reals:
    """Return, by number of placed cuts and tile, the least energy of the others if each may take any larger tile."""
    shape = [count + 1 for count in reversed(tiles.counts)]
    least = np.zeros((len(cuts) + 1, tiles.number))
    for placed in range(len(cuts) - 1, -1, -1):
        grid = (cuts[placed].energy_pj + least[placed + 1]).reshape(shape)
        for axis in range(len(shape)):
            grid = np.flip(np.minimum.accumulate(np.flip(grid, axis), axis), axis)
        least[placed] = grid.reshape(-1)
    return least
