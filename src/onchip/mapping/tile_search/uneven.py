"""The mapping of least energy in ZigZag's or DeFiNES's accounting, proven over all orders and uneven cuts.

The mapspace has a given spatial unrolling and temporal loops in any factors and order. Each operand is kept in every
memory that holds it, with its own cut anywhere. It contains LOMA's mappings for any limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import inf, prod
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import FEMTO_PER_PICO, MappingObjective
from onchip.answer.result import Result
from onchip.errors import InputError, InternalError, UsageError
from onchip.ir.layer import INPUT, LOOPS, OUTPUT
from onchip.mapping.baselines.best import BestRow
from onchip.mapping.baselines.loma import (
    LIMIT,
    filled_orders,
    joined,
    kinds_of,
    last_apart,
    rows_for,
    unrolled_for,
)
from onchip.mapping.tile_search.uneven_tables import Cut, Cuts, CutTables, least_to_come
from onchip.model.accounting.accounting import INTERPRETER, ZIGZAG, Accounting
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import OPERANDS, Chosen, Reals
from onchip.model.unrolling.tiles import TileElements, Tiles, sides_of, tiles_of
from onchip.model.unrolling.unrolling import Unrolled, Unrolling
from onchip.native import UnevenCut, UnevenSearch
from onchip.search.budget.limits import Run

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
) -> Result[LayerMapping]:
    """Search from LOMA's mapping; if stopped early, the answer is FEASIBLE with the root's bound.

    With `has_stored_room` tiles take the capacity that `verify_mapping` requires, else what the accounting counts.
    Raises UsageError for an objective other than energy, InputError for an accounting other than ZIGZAG or DEFINES.
    """
    if objective is not MappingObjective.ENERGY:
        raise UsageError(f"{METHOD} does not know {objective}", place="--objective", expected="energy")
    if accounting == INTERPRETER:
        detail = "sums that come back depend on more than one cut"
        raise InputError(f"{METHOD} does not know it: {detail}", place="accounting", expected="ZIGZAG or DEFINES")
    unrolled = unrolled_for(problem, unrolling)
    best = BestRow(problem, objective, accounting, unrolled)
    for chosen in filled_orders(problem, unrolled, LIMIT, accounting, has_stored_room=has_stored_room):
        best.offer(chosen)
    return _Search(problem, unrolled, accounting, best, has_stored_room=has_stored_room).result(run)


class _Search:
    def __init__(
        self,
        problem: LayerProblem,
        unrolled: Unrolled,
        accounting: Accounting,
        best: BestRow,
        *,
        has_stored_room: bool,
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

    def result(self, run: Run) -> Result[LayerMapping]:
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
            raise InternalError(detail, place=f"--method {METHOD}")

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
