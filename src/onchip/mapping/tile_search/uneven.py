"""Mappings whose operands have separate tiles, for a given spatial unrolling.

In the accounting of ZigZag and DeFiNES, energy is a sum over cuts of terms that depend on the tile alone: its size, the
number of its moves (the loops outside), and whether its sums are complete. Loops right above the cut that reuse the
tile count as inside it, so no further order matters.

The mapspace has a given spatial unrolling and temporal loops in any factors and order. Each operand is kept in every
memory that holds it, with its own cut anywhere. It contains LOMA's mappings for any limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, pairwise, product
from math import ceil, floor, inf, prod
from typing import Final

import numpy as np

from onchip.answer.layer_mapping import LayerMapping, Move, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import FEMTO_PER_PICO, MappingObjective
from onchip.answer.result import SearchResult
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import stated
from onchip.errors import InputError, InternalError, UsageError
from onchip.ir.layer import INPUT, LOOPS, OTHER_NAMES, OUTPUT, RELEVANT, Layer
from onchip.mapping.baselines.best import BestRow
from onchip.mapping.baselines.loma import (
    LIMIT,
    filled_orders,
    joined,
    kinds_of,
    last_apart,
    rows_for,
    solve_as_loma,
    unrolled_for,
)
from onchip.model.accounting.accounting import DEFINES, ZIGZAG, Accounting
from onchip.model.layer.cost import LayerCost, layer_cost
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import (
    MOVES,
    OPERANDS,
    Chosen,
    Flags,
    Integers,
    Machine,
    Reals,
    SideBySide,
    TileElements,
    Tiles,
    machine_of,
    sides_of,
    tiles_of,
)
from onchip.model.layer.tiles import DIGITS, EPSILON, nearest
from onchip.model.unrolling.unrolling import Unrolled, Unrolling, UnrollingsOf
from onchip.native import UnevenCut, UnevenSearch
from onchip.search.budget.limits import Run


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
            chain = [-1, *kept, self._machine.home[number]] if operand in self._layer.operands else []
            own = [self._cut(number, lower, upper) for lower, upper in pairwise(chain)]
            if own and (operand == OUTPUT or not self._sized.accounting.is_zigzag):
                units = own.pop(0)
                fixed += float(units.energy_pj[0])
                complete = complete and not units.is_pending[0]
                for level, (_, need) in units.need_bits.items():
                    bits[level] = bits.get(level, 0) + int(need[0])
            found.append(tuple(own))
        if any(need > self._machine.levels[level].capacity_bits for level, need in bits.items()):
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
        if lower < 0 and operand != OUTPUT and self._sized.accounting.is_zigzag:
            inside = prod(self._tiles.inner[loop] for loop in RELEVANT[operand])
            energy = np.where(inside == 1, energy, np.inf)
        need: dict[int, tuple[Integers, Integers]] = {}
        if lower >= 0:
            copies = np.where(self._machine.levels[lower].is_double_buffered & (self._episodes > 1), 2, 1)
            partial = self._layer.partial_bits if operand == OUTPUT else self._layer.bits(operand)
            room = np.round(np.round(self._sized.room(below, operand), DIGITS)).astype(np.int64) * copies
            need[lower] = room * partial, room * self._layer.bits(operand)
        if upper < len(self._problem.levels):
            whole = self._layer.elements(operand) * bits
            if upper == self._machine.home[number]:
                need[upper] = whole, whole
        for level, (_, least) in need.items():
            energy = np.where(least > self._machine.levels[level].capacity_bits, np.inf, energy)
        return Cut(number, lower, energy, need, pending)

    def _pending(self, upper: int) -> Flags:
        """Return True for tiles whose sums are added to after they have arrived above."""
        here, everywhere = self._sides.within[upper + 1], self._sides.within[-1]
        beside = any(everywhere[loop] > here[loop] for loop in here if loop not in RELEVANT[OUTPUT])
        return self._tiles.sums_are_left | beside

    def _whole(self, neighbours: float) -> int:
        return floor(neighbours + EPSILON) if self._sized.accounting.is_defines else nearest(neighbours)

    def _width(self, upper: int, lower: int, moves: tuple[Move, Move], neighbours: float) -> float:
        """Return the maximum bits per cycle over a boundary (infinite if irrelevant); moves are above and below."""
        if lower < 0 or not self._sized.accounting.is_defines:
            return inf
        each = zip((upper, lower), moves, strict=True)
        ports = [self._machine.levels[level].port[MOVES.index(move)] for level, move in each]
        above, below = (float(self._machine.bits_per_cycle[port]) if port >= 0 else inf for port in ports)
        return min(above, below * neighbours)

    def _moved(self, level: int, bits: Integers, energies: str, most: float = inf) -> Reals:
        """Return the energy of all transfers of `bits` bits over a memory's instances; `most` bits move per cycle."""
        if level < 0:
            return np.zeros(bits.size)
        own = self._machine.levels[level]
        shortest = own.shortest_bits
        words = -(-bits // shortest)
        if most < inf:
            cycles = np.ceil(bits / most - EPSILON).astype(np.int64)
            words = np.where(bits <= most, words, cycles * ceil(most / shortest - EPSILON))
        each = own.read_pj if energies == "read_pj" else own.write_pj
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


METHOD: Final = "uneven"
TILES_AT_ONCE: Final = 256
CLOSE: Final = 1e-9
"""Relative tolerance for equal values."""


def solve_uneven(
    problem: LayerProblem,
    objective: MappingObjective,
    run: Run,
    accounting: Accounting = ZIGZAG,
    unrolling: Unrolling | None = None,
    *,
    has_stored_room: bool = False,
) -> SearchResult[LayerMapping]:
    """Search from LOMA's mapping; if stopped early, the answer is FEASIBLE with the root's bound.

    With `has_stored_room` tiles take the capacity that `verify_mapping` requires, else what the accounting counts.
    Raises UsageError for an objective other than energy, InputError for an accounting other than ZIGZAG or DEFINES.
    """
    if objective is not MappingObjective.ENERGY:
        raise UsageError(f"{METHOD} does not know {objective}", place="minimize", expected="energy")
    if not accounting.counts_from_bounds:
        detail = "sums that come back depend on more than one cut"
        raise InputError(f"{METHOD} does not know it: {detail}", place="accounting", expected="ZIGZAG or DEFINES")
    unrolled = unrolled_for(problem, unrolling)
    best = BestRow(problem, objective, accounting, unrolled)
    for chosen in filled_orders(problem, unrolled, LIMIT, accounting, has_stored_room=has_stored_room):
        best.offer(chosen)
    return _Search(problem, unrolled, accounting, best, has_stored_room=has_stored_room).result(run)


class _Search:
    def __init__(
        self, problem: LayerProblem, unrolled: Unrolled, accounting: Accounting, best: BestRow, *, has_stored_room: bool
    ) -> None:
        self._problem = problem
        self._unrolled = unrolled
        self._best = best
        self._tiles = tiles_of(joined(unrolled.turns, limit=prod(unrolled.turns.values())))
        layer, array = problem.layer, array_of(problem.accelerator)
        sides = sides_of(array, problem.levels, unrolled.beside, unrolled.parts(layer))
        self._cuts = CutTables(TileElements(layer, self._tiles, accounting, has_stored_room), problem, sides).cuts()
        self._least = [least_to_come(self._tiles, own) for own in self._cuts.of_operands]
        self._search = _search_of(problem, self._tiles, self._cuts, self._least, best.value / FEMTO_PER_PICO)

    def result(self, run: Run) -> SearchResult[LayerMapping]:
        """Return the proven optimum, or the best mapping found within the time."""
        root = sum(float(least[0, 0]) for least in self._least) + self._cuts.fixed_pj
        if root == inf:
            return self._best.proven(METHOD, run)
        bound = int(root * FEMTO_PER_PICO * (1 - CLOSE))
        is_open = True
        while is_open:
            if run.stop is not None:
                return self._best.result(METHOD, run, run.stop, bound)
            is_open = self._search.go_on(TILES_AT_ONCE)
        energy_pj, actions = self._search.best()
        if energy_pj < inf:
            self._offer(energy_pj + self._cuts.fixed_pj, actions)
        return self._best.proven(METHOD, run)

    def _offer(self, expected_pj: float, actions: list[int]) -> None:
        self._best.offer(self._row(actions))
        if not abs(self._best.value / FEMTO_PER_PICO - expected_pj) <= CLOSE * expected_pj:
            detail = f"its mapping costs {self._best.value / FEMTO_PER_PICO} pJ, not {expected_pj}"
            raise InternalError(detail, place=f"method {METHOD}")

    def _row(self, actions: list[int]) -> Chosen:
        kinds = self._tiles.kinds
        chosen = rows_for(self._problem, self._unrolled, sum(self._tiles.counts), 1)
        place, placed = 0, [0, 0, 0]
        for action in actions:
            if action < len(kinds):
                chosen.temporal_loop[0, place] = LOOPS.index(kinds[action].dimension)
                chosen.temporal_size[0, place] = kinds[action].size
                place += 1
            else:
                operand = action - len(kinds)
                cut = self._cuts.of_operands[operand][placed[operand]]
                placed[operand] += 1
                if cut.level >= 0:
                    chosen.cut[0, operand, cut.level] = place
        chosen.temporal_count[0] = place
        for at, loop in enumerate(self._unrolled.beside):
            level = last_apart(self._problem, str(loop.along))
            chosen.spatial_at[0, at] = chosen.cut[0, OPERANDS.index(INPUT), level] if level >= 0 else 0
        return chosen


def _search_of(problem: LayerProblem, tiles: Tiles, cuts: Cuts, least: Sequence[Reals], best_pj: float) -> UnevenSearch:
    every = [cut for own in cuts.of_operands for cut in own]
    levels = range(len(problem.levels))
    usable_bits = [problem.usable_bits(level.memory.name) for level in problem.levels]
    needed = {level: [cut.operand for cut in every if level in cut.need_bits] for level in levels}
    sums = OPERANDS.index(OUTPUT)
    shared = [level for level, own in needed.items() if len(own) > 1 or sums in own or level in cuts.fixed_bits]
    return UnevenSearch(
        kinds=kinds_of(tiles),
        cuts=[[_native_cut(cut, shared, tiles) for cut in own] for own in cuts.of_operands],
        least_to_come=[one.tolist() for one in least],
        capacity_bits=[usable_bits[level] - cuts.fixed_bits.get(level, 0) for level in shared],
        is_open=_open(cuts, shared),
        worst_pj=(best_pj - cuts.fixed_pj) * (1 + CLOSE),
        starts_complete=cuts.starts_complete,
    )


def _native_cut(cut: Cut, shared: Sequence[int], tiles: Tiles) -> UnevenCut:
    """Return the cut's needs in shared memories, for sums that arrive incomplete and for complete ones."""
    nothing = [0] * tiles.number
    return UnevenCut(
        energy_pj=cut.energy_pj.tolist(),
        need_bits=[
            [cut.need_bits[level][sums].tolist() if level in cut.need_bits else nothing for level in shared]
            for sums in range(2)
        ],
        leaves_complete=(~cut.is_pending).tolist(),
    )


def _open(cuts: Cuts, shared: Sequence[int]) -> list[list[bool]]:
    """Return by placed cuts and shared memory True if a cut that needs the memory is still to be placed."""
    placed = product(*(range(len(own) + 1) for own in reversed(cuts.of_operands)))
    return [
        [
            any(
                level in cut.need_bits
                for own, done in zip(cuts.of_operands, state[::-1], strict=True)
                for cut in own[done:]
            )
            for level in shared
        ]
        for state in placed
    ]


class TemporalMethod(StrEnum):
    """The method that orders and tiles the temporal loops."""

    LOMA = "loma"
    UNEVEN = "uneven"


def unrolling_for(layer: Layer, accelerator: Accelerator) -> Unrolling:
    """Return the unrolling by DeFiNES's rule, for arrays with dimensions K, C, OX and OY.

    Each dimension unrolls the loop of its name as far as possible. In grouped layers (pooling, depthwise convolution) K
    unrolls the groups. In layers with groups only (addition) all dimensions but C unroll groups, one after the other
    while any are left. Ten layers in DeFiNES's files depart from the rule (`workloads.unrollings` lists them by name).
    """
    found: dict[str, dict[str, int]] = {}
    groups_alone = prod(layer.bounds.values()) == layer.g
    left = layer.g
    for name, units in array_of(accelerator).sizes.items():
        own = OTHER_NAMES.get(name, name)
        if groups_alone and own == "C":
            continue
        loop, bound = ("G", left) if groups_alone or (own == "K" and layer.g > 1) else (own, layer.bounds.get(own, 1))
        if own in LOOPS and bound > 1:
            found[name] = {loop: min(units, bound)}
            left = -(-left // found[name].get("G", 1))
    return found


def unrollings_for(layer: Layer, accelerator: Accelerator) -> Iterator[Unrolling]:
    """Yield the rule's unrolling, and for an addition then prefixes of it with fewer dimensions, down to none.

    The two inputs of an addition may not fit for all units at once (Tesla has 1 KiB for 1,024 units).
    """
    rule = unrolling_for(layer, accelerator)
    yield rule
    if prod(layer.bounds.values()) == layer.g:
        for dimensions in range(len(rule) - 1, -1, -1):
            yield dict(list(rule.items())[:dimensions])


def unrolling_groups(accelerator: Accelerator) -> Accelerator:
    """Return the accelerator with an array on which every dimension may also unroll groups."""
    array = array_of(accelerator)
    wider = {name: tuple(dict.fromkeys((*loops_along(array, name), "G"))) for name in array.dimensions}
    return replace(accelerator, array=replace(array, unrolls=wider))


def with_groups_unrolled(problem: LayerProblem) -> LayerProblem:
    """Return the problem on an array on which every dimension may also unroll groups."""
    return replace(problem, accelerator=unrolling_groups(problem.accelerator))


@dataclass(frozen=True, slots=True)
class FixedUnrolling:
    """The layer mapper for `cost.fused`: the cost of the best mapping with a fixed unrolling, None if none fits.

    Of several unrollings, it uses the first that has a mapping. LOMA joins factors until `limit` are left. The time of
    `run` restarts for each layer unless `run` is given.
    """

    method: TemporalMethod = TemporalMethod.LOMA
    accounting: Accounting = DEFINES
    objective: MappingObjective = MappingObjective.ENERGY
    limit: int = LIMIT
    unrollings: UnrollingsOf = unrollings_for
    run: Run = field(default_factory=Run)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Return the cost of the best mapping, or None if none fits.

        Raises UsageError if `uneven` does not support the objective, InputError if it does not support the accounting.
        """
        widened = with_groups_unrolled(problem)
        mapping = self.result(widened).answer
        return None if mapping is None else layer_cost(widened, mapping, self.accounting)

    def result(self, problem: LayerProblem) -> SearchResult[LayerMapping]:
        """Return the mapping search's result; the array must allow the unrollings of the rule."""
        unrollings = self.unrollings(problem.layer, problem.accelerator)
        results = (self._unrolled(problem, unrolling) for unrolling in unrollings)
        first = next(results)
        return next((one for one in chain([first], results) if one.answer is not None), first)

    def _unrolled(self, problem: LayerProblem, unrolling: Unrolling) -> SearchResult[LayerMapping]:
        given = problem, self.objective, self.run
        if self.method is TemporalMethod.UNEVEN:
            return solve_uneven(*given, self.accounting, unrolling)
        return solve_as_loma(*given, self.limit, self.accounting, unrolling)
