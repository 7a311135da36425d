"""The mapping of least energy as ZigZag or DeFiNES counts it, proven over all orders and all uneven cuts.

The mapspace: a given unrolling of the array; the loops in time in any factors and any order; each operand kept in every
memory that holds it, each with its own cut anywhere. LOMA's mappings are among them, whatever its limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import inf, prod
from typing import Final

import numpy as np

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Result
from onchip.cost.layer.accounting import INTERPRETER, ZIGZAG, Accounting
from onchip.cost.layer.limits import array_of
from onchip.cost.layer.tables import OPERANDS, Chosen, Flags, Integers
from onchip.errors import InputError, InternalError, UsageError
from onchip.ir.layer import INPUT, LOOPS, OUTPUT
from onchip.solve.mapping.baselines.best import BestRow
from onchip.solve.mapping.baselines.loma import LIMIT, filled_orders, joined, last_apart, rows_for, unrolled_for
from onchip.solve.mapping.baselines.tiles import TileElements, Tiles, sides_of, tiles_of
from onchip.solve.mapping.baselines.uneven_kernel import Field, Labels, grow
from onchip.solve.mapping.baselines.uneven_tables import Cuts, CutTables, least_to_come
from onchip.solve.mapping.baselines.unrolling import Unrolled, Unrolling
from onchip.solve.mapping.objective import FEMTO_PER_PICO, MappingObjective
from onchip.solve.run.limits import Run

METHOD: Final = "uneven"
MAPSPACE: Final = (
    "all orders of the prime factors of the loops in time, beside one way to unroll the array; every memory keeps each "
    "operand that it holds, if it has room for an element, each operand with its own cut anywhere; sums take the room "
    "of partial ones wherever they arrive incomplete, tiles of the input room from their first row to their last"
)
FIRST_LABELS: Final = 1 << 16
TILES_AT_ONCE: Final = 256
CLOSE: Final = 1e-9
"""Values that differ by a smaller part count as equal."""


def solve_uneven(
    problem: LayerProblem,
    objective: MappingObjective,
    run: Run,
    accounting: Accounting = ZIGZAG,
    unrolling: Unrolling | None = None,
    *,
    has_stored_room: bool = False,
) -> Result[LayerMapping]:
    """Starts from LOMA's mapping; stopped before the end, its answer is FEASIBLE with the bound of the first state.

    With `has_stored_room` tiles have the room that `verify_mapping` asks for, else what the accounting counts.

    Raises UsageError for another objective than energy, InputError for another accounting than theirs.
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
        self._field = _field_of(problem, self._tiles, self._cuts, best.value / FEMTO_PER_PICO)

    def result(self, run: Run) -> Result[LayerMapping]:
        """The best of all, or of those seen until the time is over."""
        field = self._field
        labels = _first_labels(self._tiles, field, starts_complete=self._cuts.starts_complete)
        tile, root = 0, float(field.least_to_come[:, 0, 0].sum()) + self._cuts.fixed_pj
        if root == inf:
            return self._best.proven(METHOD, run)
        bound = int(root * FEMTO_PER_PICO * (1 - CLOSE))
        while tile < self._tiles.number:
            if run.stop is not None:
                return self._best.result(METHOD, run, run.stop, bound)
            stop = min(tile + TILES_AT_ONCE, self._tiles.number)
            tile = grow(field, labels, tile, stop)
            labels = _doubled(labels) if tile < stop else labels
        ends = [label for state in (field.placings - 1, 2 * field.placings - 1) for label in _listed(labels, state)]
        if ends:
            self._offer(labels, min(ends, key=lambda label: float(labels.energy_pj[label])))
        return self._best.proven(METHOD, run)

    def _offer(self, labels: Labels, last: int) -> None:
        expected = float(labels.energy_pj[last]) + self._cuts.fixed_pj
        self._best.offer(self._row(_actions(labels, last)))
        if not abs(self._best.value / FEMTO_PER_PICO - expected) <= CLOSE * expected:
            detail = f"its mapping costs {self._best.value / FEMTO_PER_PICO} pJ, not {expected}"
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


def _listed(labels: Labels, state: int) -> Iterator[int]:
    """Of the last tile."""
    label = int(labels.first[-1, state])
    while label >= 0:
        yield label
        label = int(labels.next[label])


def _actions(labels: Labels, last: int) -> list[int]:
    found = []
    while labels.before[last] >= 0:
        found.append(int(labels.action[last]))
        last = int(labels.before[last])
    return found[::-1]


def _field_of(problem: LayerProblem, tiles: Tiles, cuts: Cuts, best_pj: float) -> Field:
    every = [cut for own in cuts.of_operands for cut in own]
    levels = range(len(problem.levels))
    usable_bits = [problem.usable_bits(level.memory.name) for level in problem.levels]
    needed = {level: [cut.operand for cut in every if level in cut.need_bits] for level in levels}
    sums = OPERANDS.index(OUTPUT)
    shared = [level for level, own in needed.items() if len(own) > 1 or sums in own or level in cuts.fixed_bits]
    counts = np.array([len(own) for own in cuts.of_operands])
    most = max(int(counts.max()), 1)
    energy = np.zeros((3, most, tiles.number))
    need = np.zeros((2, 3, most, len(shared), tiles.number), np.int64)
    leaves_complete = np.ones((most, tiles.number), np.int64)
    least = np.zeros((3, most + 1, tiles.number))
    for operand, own in enumerate(cuts.of_operands):
        least[operand, : len(own) + 1] = least_to_come(tiles, own)
        for at, cut in enumerate(own):
            energy[operand, at] = cut.energy_pj
            if OPERANDS[operand] == OUTPUT:
                leaves_complete[at] = ~cut.is_pending
            for number, level in enumerate(shared):
                if level in cut.need_bits:
                    need[:, operand, at, number] = cut.need_bits[level]
    return Field(
        np.array(tiles.steps, np.int64),
        np.array(tiles.counts, np.int64),
        np.cumprod([1, *(counts[:-1] + 1)]),
        counts,
        energy,
        need,
        leaves_complete,
        int(np.prod(counts + 1)),
        np.array(
            [usable_bits[level] - cuts.fixed_bits.get(level, 0) for level in shared],
            np.int64,
        ),
        np.concatenate([_open(cuts, shared)] * 2),
        least,
        (best_pj - cuts.fixed_pj) * (1 + CLOSE),
    )


def _open(cuts: Cuts, shared: Sequence[int]) -> Flags:
    """By state and shared memory: whether a cut that needs it is still to be placed."""
    placed = list(product(*(range(len(own) + 1) for own in reversed(cuts.of_operands))))
    return np.array(
        [
            [
                any(
                    level in cut.need_bits
                    for own, done in zip(cuts.of_operands, state[::-1], strict=True)
                    for cut in own[done:]
                )
                for level in shared
            ]
            for state in placed
        ],
        np.bool_,
    ).reshape(len(placed), len(shared))


def _first_labels(tiles: Tiles, field: Field, *, starts_complete: bool) -> Labels:
    """One, of the empty tile."""
    states, memories = field.is_open.shape

    def zeros(*sizes: int) -> Integers:
        return np.zeros(sizes, np.int64)

    labels = Labels(
        np.full((tiles.number, states), -1, np.int64),
        np.full(FIRST_LABELS, -1, np.int64),
        np.zeros(FIRST_LABELS),
        zeros(FIRST_LABELS, memories),
        zeros(FIRST_LABELS),
        zeros(FIRST_LABELS),
        zeros(1),
        zeros(memories),
    )
    labels.first[0, field.placings * starts_complete], labels.before[0], labels.used[0] = 0, -1, 1
    return labels


def _doubled(labels: Labels) -> Labels:
    def wider(part: Integers) -> Integers:
        return np.concatenate([part, np.zeros_like(part)])

    return labels._replace(
        next=wider(labels.next),
        energy_pj=np.concatenate([labels.energy_pj, np.zeros_like(labels.energy_pj)]),
        used_bits=wider(labels.used_bits),
        before=wider(labels.before),
        action=wider(labels.action),
    )
