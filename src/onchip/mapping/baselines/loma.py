"""LOMA: loop orders with memories allocated greedily.

It enumerates the arrangements of a multiset by prefix shifts (A. Williams, "Loopless generation of multiset
permutations using a constant number of variables by prefix shifts", SODA 2009), from the non-increasing one.

Follows ZigZag (zigzag-dse 3.9.1) and DeFiNES. The smallest factors of the loop with the most factors are joined until
`limit` are left. Each operand has its own cuts. Among the ways to fill a memory with further loops, LOMA takes the one
with the fewest bits from the level above. `greedy_mapping` fills a few orders, where memories are
too small for LOMA's unrolling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import factorial, inf, isfinite, prod
from typing import Final, TypeAlias

import numpy as np

from onchip.answer import layer_mapping as plan
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Stop
from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.layer import INPUT, LOOPS, OTHER_NAMES, OUTPUT, RELEVANT
from onchip.mapping.baselines.best import BestRow, costs_of_rows, mapping_of
from onchip.model.accounting.accounting import INTERPRETER, Accounting
from onchip.model.layer.limits import array_of, check_memories
from onchip.model.layer.tables import Chosen, LayerCosts, TileElements, Tiles, empty_chosen, sides_of, tiles_of
from onchip.model.unrolling.unrolling import Unrolled, Unrolling, prime_counts, unrolled_as_asked, unrolled_greedily
from onchip.native import FactorKind, FilledLevel, LomaOrders
from onchip.search.budget.limits import Run

Factor: TypeAlias = tuple[str, int]
_THEIR_NAMES: Final = {ours: theirs for theirs, ours in OTHER_NAMES.items()}
NAMES: Final = tuple(_THEIR_NAMES.get(loop, loop) for loop in LOOPS)


def arrangements(items: Iterable[Factor]) -> Iterator[tuple[Factor, ...]]:
    """Yield each arrangement once; each step moves one item to the front.

    The moved item is the first that exceeds its predecessor, or the item after it, if that does not exceed the
    predecessor. If no item exceeds its predecessor, the last item moves.
    """
    row = sorted(items, reverse=True)
    last = len(row) - 1
    yield tuple(row)
    while row:
        rising = next((at for at in range(1, last + 1) if row[at] > row[at - 1]), last)
        if rising == last and row[last] >= row[0]:
            return
        passes = rising < last and row[rising + 1] <= row[rising - 1]
        row.insert(0, row.pop(rising + 1 if passes else rising))
        yield tuple(row)


@lru_cache(maxsize=64)
def ranks(items: tuple[Factor, ...]) -> Mapping[tuple[Factor, ...], int]:
    """Return the number of each arrangement in this order, from 0."""
    return {one: number for number, one in enumerate(arrangements(items))}


class FirstOfDefines:
    """The rank of a row: its number among all orders of its loops, innermost first, with DeFiNES's loop names."""

    def __call__(self, chosen: Chosen, row: int) -> float:
        """Return a row's rank; rows of one layer differ only in loop order."""
        loops = chosen.temporal_loop[row, : chosen.temporal_count[row]].tolist()
        sizes = chosen.temporal_size[row, : chosen.temporal_count[row]].tolist()
        order = tuple(zip((NAMES[loop] for loop in loops), sizes, strict=True))
        return ranks(tuple(sorted(order)))[order]


METHOD: Final = "loma"
LIMIT: Final = 6
ROWS: Final = 1024
ORDER: Final = ("N", "K", "G", "Q", "P", "C", "S", "R")
"""Among loops with equally many factors, ZigZag joins those of the first in this order."""
ORDER_OF_DEFINES: Final = ("N", "K", "C", "P", "Q", "R", "S", "G")
"""The same order in DeFiNES."""


def solve_as_loma(
    problem: LayerProblem,
    objective: MappingObjective,
    run: Run,
    limit: int = LIMIT,
    accounting: Accounting = INTERPRETER,
    unrolling: Unrolling | None = None,
    *,
    has_stored_room: bool = False,
) -> SearchResult[plan.LayerMapping]:
    """Return the best mapping over all orders; deterministic, without a proof.

    `unrolling` fixes the spatial unrolling, as in ZigZag's mapping files; by default it is the largest that divides the
    bounds. A loop whose bound it does not divide runs longer: INTERPRETER executes all iterations, ZIGZAG and DEFINES
    count energy with fractional units. With `has_stored_room`, tiles take the capacity that `verify_mapping` requires.
    Otherwise they take what the accounting counts, as those tools do, which is less if a stride skips rows. DEFINES
    keeps the first of equally good mappings, in DeFiNES's order.
    """
    unrolled = unrolled_for(problem, unrolling)
    rank = FirstOfDefines() if accounting.is_defines else None
    best = BestRow(problem, objective, accounting, unrolled, rank)
    for chosen in filled_orders(problem, unrolled, limit, accounting, has_stored_room=has_stored_room):
        best.offer(chosen)
        if run.stop is not None:
            return best.result(METHOD, run, run.stop)
    return best.result(METHOD, run, Stop.COMPLETED)


def front_of_loma(problem: LayerProblem, run: Run, limit: int = LIMIT) -> tuple[plan.LayerMapping, ...]:
    """Return the Pareto front in energy and cycles of the mappings of all orders.

    The front is in ascending order of energy. If the run stops early, it covers the orders costed until then.
    """
    unrolled = unrolled_for(problem, None)
    front = FrontOfRows(problem, unrolled)
    for chosen in filled_orders(problem, unrolled, limit, INTERPRETER):
        front.offer(chosen)
        if run.stop is not None:
            break
    return front.mappings


def unrolled_for(problem: LayerProblem, unrolling: Unrolling | None) -> Unrolled:
    """Return the given unrolling, or a greedy one without it, in the order of `inside_first`."""
    if unrolling is None:
        return inside_first(problem, unrolled_greedily(problem.layer, problem.accelerator))
    return inside_first(problem, unrolled_as_asked(problem.layer, problem.accelerator, unrolling))


def inside_first(problem: LayerProblem, unrolled: Unrolled) -> Unrolled:
    """Sort spatial loops so that loops within one memory instance come inside loops across instances.

    Otherwise, if a loop is unrolled on two dimensions, an instance would hold every second iteration instead of
    neighbours, which take less space.
    """
    beside = sorted(unrolled.beside, key=lambda loop: last_apart(problem, str(loop.along)))
    return replace(unrolled, beside=tuple(beside))


def filled_orders(
    problem: LayerProblem, unrolled: Unrolled, limit: int, accounting: Accounting, *, has_stored_room: bool = False
) -> Iterator[Chosen]:
    """Yield the mappings of all orders, in arrays that the next batch overwrites."""
    order = ORDER_OF_DEFINES if accounting.is_defines else ORDER
    tiles = tiles_of(joined(unrolled.turns, limit, order))
    executed = problem.layer if accounting.counts_from_bounds else problem.layer.padded_to(unrolled.bounds)
    orders = _orders_of(problem, unrolled, tiles, TileElements(executed, tiles, accounting, has_stored_room))
    number_of_orders = factorial(sum(tiles.counts)) // prod(map(factorial, tiles.counts))
    size = min(ROWS, number_of_orders)
    rows = rows_for(problem, unrolled, sum(tiles.counts), size)
    count = size
    while count == size:
        count = orders.fill(rows.temporal_count, rows.temporal_loop, rows.temporal_size, rows.spatial_at, rows.cut)
        yield Chosen(*(part[:count] for part in rows))


def joined(turns: Mapping[str, int], limit: int, order: Sequence[str] = ORDER) -> list[Loop]:
    """Return the prime factors; joins the two smallest of the loop with most factors until `limit` are left."""
    factors = {
        loop: sorted(prime for prime, count in prime_counts(turns[loop]).items() for _ in range(count))
        for loop in order
    }
    while sum(map(len, factors.values())) > limit:
        most = max(factors, key=lambda loop: len(factors[loop]))
        if len(factors[most]) == 1:
            break
        one, two, *rest = factors[most]
        factors[most] = sorted([one * two, *rest])
    return [Loop(loop, size) for loop, sizes in factors.items() for size in sizes]


def rows_for(problem: LayerProblem, unrolled: Unrolled, loops: int, rows: int) -> Chosen:
    """Return empty rows for mappings with `loops` temporal loops; the spatial loops are filled in."""
    along = list(array_of(problem.accelerator).sizes)
    chosen = empty_chosen(rows, max(loops, len(unrolled.beside)), len(problem.levels))
    chosen.spatial_count[:] = len(unrolled.beside)
    for at, loop in enumerate(unrolled.beside):
        chosen.spatial_loop[:, at] = LOOPS.index(loop.dimension)
        chosen.spatial_size[:, at] = loop.size
        chosen.spatial_along[:, at] = along.index(str(loop.along))
    return chosen


def _orders_of(problem: LayerProblem, unrolled: Unrolled, tiles: Tiles, sized: TileElements) -> LomaOrders:
    layer, levels = sized.layer, problem.levels
    sides = sides_of(array_of(problem.accelerator), levels, unrolled.beside, unrolled.parts(layer))
    return LomaOrders(
        kinds=kinds_of(tiles),
        iterations=tiles.iterations.tolist(),
        sums_are_left=tiles.sums_are_left.tolist(),
        is_left=[tiles.is_left(RELEVANT[operand]).tolist() for operand in Operand],
        levels=[
            FilledLevel(
                capacity_bits=problem.usable_bits(level.memory.name),
                is_double_buffered=level.double_buffered,
                adds_beside=_adds_beside(level.serves, unrolled.beside),
                held=_held(problem, level),
                is_home=[problem.home(operand) == level.memory.name for operand in Operand],
                elements=[sized.room(within, operand).tolist() for operand in Operand],
            )
            for level, within in zip(levels, sides.within[1:-1], strict=True)
        ],
        bits=[layer.bits(operand) for operand in Operand],
        partial_bits=layer.partial_bits,
        last_apart=[last_apart(problem, str(loop.along)) for loop in unrolled.beside],
    )


def kinds_of(tiles: Tiles) -> list[FactorKind]:
    """Return the kinds of prime factors from which the tiles are built."""
    return [
        FactorKind(loop=LOOPS.index(kind.dimension), size=kind.size, step=step, count=count)
        for kind, step, count in zip(tiles.kinds, tiles.steps, tiles.counts, strict=True)
    ]


def _adds_beside(serves: tuple[str, ...] | None, beside: tuple[Loop, ...]) -> bool:
    return serves is not None and any(
        loop.dimension not in RELEVANT[OUTPUT] and loop.along not in serves for loop in beside
    )


def _held(problem: LayerProblem, level: MemoryLevel) -> list[int]:
    """Return the operands held, in file order, which breaks ties between ways to fill the memory."""
    own = [
        list(Operand).index(operand)
        for operand in level.memory.holds
        if operand in problem.layer.operands
        and (level in problem.keepers(operand) or problem.home(operand) == level.memory.name)
    ]
    return [*own, -1, -1, -1][:3]


def last_apart(problem: LayerProblem, along: str) -> int:
    """Return the last level of inputs with several instances along a dimension, or -1.

    A loop along that dimension comes right above the level's tile.
    """
    keepers = problem.keepers(Operand.INPUT)
    apart = [
        number
        for number, level in enumerate(problem.levels)
        if level in keepers and level.serves is not None and along not in level.serves
    ]
    return max(apart, default=-1)


class FrontOfRows:
    """The Pareto front of mappings of one layer, given as rows; of equal rows the first is kept."""

    def __init__(self, problem: LayerProblem, unrolled: Unrolled) -> None:
        self._problem = problem
        self._costs = LayerCosts(problem, problem.layer.padded_to(unrolled.bounds))
        self._kept: list[tuple[float, float, LayerMapping]] = []

    @property
    def mappings(self) -> tuple[LayerMapping, ...]:
        """Return the front's mappings in ascending order of energy, that is, in descending order of cycles."""
        return tuple(mapping for _, _, mapping in self._kept)

    def offer(self, chosen: Chosen) -> None:
        """Add the non-dominated rows to the front and remove the mappings that they dominate."""
        costs = costs_of_rows(self._costs, chosen, self._problem)
        fit = np.flatnonzero(np.isfinite(costs.energy_pj))
        order = fit[np.lexsort((costs.cycles[fit], costs.energy_pj[fit]))]
        cycles = costs.cycles[order]
        is_less = np.ones(len(order), dtype=bool)
        is_less[1:] = cycles[1:] < np.minimum.accumulate(cycles)[:-1]
        for row in order[is_less].tolist():
            self._add(float(costs.energy_pj[row]), float(costs.cycles[row]), chosen, row)

    def _add(self, energy_pj: float, cycles: float, chosen: Chosen, row: int) -> None:
        if any(energy <= energy_pj and taken <= cycles for energy, taken, _ in self._kept):
            return
        mapping = mapping_of(chosen, row, self._problem)
        check_memories(self._problem, mapping)
        left = [one for one in self._kept if one[0] < energy_pj or one[1] < cycles]
        self._kept = sorted([*left, (energy_pj, cycles, mapping)], key=lambda one: one[:2])


SUMMED: Final = ("S", "R", "C")
INNERMOST_FIRST: Final = (*SUMMED, "Q", "P", "K", "G", "N")
"""Reduction loops are innermost, so that partial sums stay near the MACs."""
FACTORS: Final = 4
"""Factors into which the temporal loops are joined: at most 24 orders."""


def one_by_one(problem: LayerProblem) -> LayerMapping:
    """Return the serial mapping; each memory keeps one element of each operand it holds, without a capacity check."""
    bounds = problem.layer.bounds
    loops = tuple(Loop(name, bounds[name]) for name in INNERMOST_FIRST if bounds[name] > 1)
    summed = sum(loop.dimension in SUMMED for loop in loops)
    kept = (
        tuple(Kept(level.memory.name, summed if operand is Operand.OUTPUT else 0) for level in keepers)
        for operand in Operand
        for keepers in (problem.keepers(operand) if operand in problem.layer.operands else (),)
    )
    return LayerMapping(loops, *kept)


def greedy_mapping(problem: LayerProblem, objective: MappingObjective) -> LayerMapping | None:
    """Return the best of LOMA's fillings of a few orders and of `one_by_one`; None if none fits.

    The array unrolls no more than all memories have room for. Raises AcceleratorError if the accelerator's description
    is incomplete, InputError for loops of more than 65,535.
    """
    unrolled, serial = _unrolled(problem), one_by_one(problem)
    best = BestRow(problem, objective, INTERPRETER, unrolled)
    for chosen in filled_orders(problem, unrolled, FACTORS, INTERPRETER, has_stored_room=True):
        best.offer(chosen)
    costs = LayerCosts(problem).of([serial])
    energy_pj, cycles = float(costs.energy_pj[0]), float(costs.cycles[0])
    value = objective.of(energy_pj, cycles) if isfinite(energy_pj) else inf
    return serial if value < best.value else best.mapping


def _unrolled(problem: LayerProblem) -> Unrolled:
    """Return LOMA's spatial unrolling, limited to tiles of one array iteration that fit all memories."""

    def may_stand(beside: Sequence[Loop]) -> bool:
        return all(_has_room(problem, level, beside) for level in problem.levels)

    return inside_first(problem, unrolled_greedily(problem.layer, problem.accelerator, may_stand))


def _has_room(problem: LayerProblem, level: MemoryLevel, beside: Sequence[Loop]) -> bool:
    """Return True if a memory has room for its tiles of one iteration besides the operands that reside whole in it."""
    layer, name = problem.layer, level.memory.name
    sizes = dict.fromkeys(layer.bounds, 1)
    for loop in beside:
        if level.serves is None or loop.along in level.serves:
            sizes[loop.dimension] *= loop.size
    room = problem.usable_bits(name)
    room -= sum(layer.elements(one) * _bits(problem, one) for one in layer.operands if problem.home(one) == name)
    kept = (one for one in layer.operands if level in problem.keepers(one))
    need = sum(_elements(problem, one, sizes) * _bits(problem, one) for one in kept)
    return need <= (room // 2 if level.double_buffered else room)


def _bits(problem: LayerProblem, operand: str) -> int:
    return problem.layer.partial_bits if operand == Operand.OUTPUT else problem.layer.bits(operand)


def _elements(problem: LayerProblem, operand: str, sizes: dict[str, int]) -> int:
    if operand != INPUT:
        return prod(sizes[name] for name in RELEVANT[operand])
    positions = 1
    for axis in problem.layer.axes:
        outputs, filters = sizes[axis.output_loop], sizes[axis.filter_loop]
        positions *= min((outputs - 1) * axis.stride + (filters - 1) * axis.dilation + 1, axis.size)
    return sizes["N"] * sizes["C"] * sizes["G"] * positions
