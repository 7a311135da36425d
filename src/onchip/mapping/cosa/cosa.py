"""CoSA's mapper: the program's answer, exchanges of loops, and the cheapest of several.

A schedule is a row of counts, one per column; a column is a factor at a place that may hold it. Tiles, capacities and
all terms of Eq. 12 but two are linear in the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice, pairwise, product
from math import floor, inf, isfinite, log2
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status
from onchip.errors import AcceleratorError, InputError, InternalError
from onchip.ir.layer import INPUT, Layer
from onchip.mapping.cosa.program import (
    GIVEN_ORDER,
    RELATED,
    WINDOWS,
    CosaMachine,
    CosaModel,
    CosaWeights,
    Factor,
    FactorPlacement,
    Place,
    added_by,
    factors_of,
    window_weight,
)
from onchip.model.layer.tables import LayerCosts
from onchip.model.unrolling.unrolling import padded_bound
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import MipOutcome, solve_mip

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
        saved *= self.machine.weights.traffic
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


TieBreak = Callable[[Sequence[LayerMapping]], Sequence[float]]
"""Costs of mappings; infinite for a mapping that does not fit."""
MOST_TIES: Final = 100
"""Maximum number of tied schedules; 500 take three times as long and save a thousandth of ResNet-50's cycles."""
SAME: Final = 1e-9
"""Tolerance for equal objectives, which differ only by the order of summation."""

METHOD: Final = "cosa"
VALUE_PER_BIT: Final = 10_000
"""`objective_value` and `lower_bound` are CoSA's objective in this unit; proofs have a tolerance of one unit."""


def solve_as_cosa(
    problem: LayerProblem,
    run: Run,
    *,
    tie_break: TieBreak | None = None,
    largest_prime: int | None = None,
    weights: CosaWeights | None = None,
) -> SearchResult[LayerMapping]:
    """Solve the program; raises AcceleratorError if the memories are no chain of levels.

    Raises InputError if operands reside whole in a memory, or tiles may not take all of a memory: CoSA models neither.
    Among up to a hundred schedules with equal objective, returns the one with the least `tie_break`. That is infinite
    for a schedule that another model refuses, since CoSA counts capacity differently. Bounds are padded until no prime
    factor exceeds `largest_prime`; by default they are unchanged, as in the paper. The default `weights` are those of
    the authors' program.
    """
    if problem.room_bytes or any(problem.homes):
        raise InputError("CoSA's tiles have all memories to themselves", place="layer", expected="operands in DRAM")
    layer = problem.layer if largest_prime is None else _padded(problem.layer, largest_prime)
    machine = CosaMachine.of(layer, problem.accelerator, weights)
    model = CosaModel(machine, factors_of(machine.layer.bounds))
    return _answered(model, solve_mip(model.model, run, mostly_linear=True), run, tie_break)


def _answered(
    model: CosaModel, outcome: MipOutcome, run: Run, tie_break: TieBreak | None
) -> SearchResult[LayerMapping]:
    """Check the solver's solution against CoSA's objective and capacities, and return it as a result."""
    machine = model.machine
    bound = (outcome.lower_bound - model.offset) / model.objective_per_bit
    if outcome.values is None:
        status = Status.INFEASIBLE if outcome.is_infeasible else Status.UNKNOWN
        return SearchResult(status, None, None, floor(bound * VALUE_PER_BIT), run.seconds, METHOD, outcome.stopped_by)
    placement = model.placement(outcome)
    exchanges = Exchanges.of(machine, placement)
    schedule = exchanges.schedule(placement)
    if not exchanges.fits(schedule.counts[None])[0]:
        raise InternalError("the solver's schedule does not fit", place=f"solver {run.limits.solver}")
    objective = float(exchanges.objectives(schedule.counts[None], schedule.order(machine.shared))[0])
    value = round(objective * VALUE_PER_BIT)
    if bound * VALUE_PER_BIT > value + 1:
        raise InternalError("the solver's bound is above its schedule", place=f"solver {run.limits.solver}")
    is_proven = value - bound * VALUE_PER_BIT <= 1
    if tie_break is not None:
        placement = best_of_equals(machine, placement, tie_break)
    return SearchResult(
        Status.OPTIMAL if is_proven else Status.FEASIBLE,
        placement.mapping(machine),
        value,
        value if is_proven else floor(bound * VALUE_PER_BIT),
        run.seconds,
        METHOD,
        outcome.stopped_by,
    )


def _padded(layer: Layer, largest_prime: int) -> Layer:
    return layer.padded_to({loop: padded_bound(bound, largest_prime) for loop, bound in layer.bounds.items()})


def best_of_equals(
    machine: CosaMachine, placement: FactorPlacement, tie_break: TieBreak, most: int = MOST_TIES
) -> FactorPlacement:
    """Return the placement with the least `tie_break` among up to `most` reached by exchanges at equal objective.

    CoSA's objective ignores the order of loops outside the global buffer. It also ignores which of two loops gives a
    factor of 2 to a place that counts equally for both. The real costs of its optima differ by tens of per cent.
    """
    exchanges = Exchanges.of(machine, placement)
    first = exchanges.schedule(placement)
    objective = exchanges.objectives(first.counts[None], first.order(machine.shared))[0]
    best, least = placement, tie_break([placement.mapping(machine)])[0]
    heap = [(least, 0, first)]
    seen = {first.key}
    while heap and len(seen) < most:
        near = heappop(heap)[2]
        unseen = (one for one in _equals(exchanges, near, objective) if one.key not in seen)
        found = {one.key: one for one in islice(unseen, most - len(seen))}
        placements = [exchanges.placement(one) for one in found.values()]
        costs = tie_break([one.mapping(machine) for one in placements]) if placements else ()
        for schedule, other, cost in zip(found.values(), placements, costs, strict=True):
            seen.add(schedule.key)
            heappush(heap, (cost, len(seen), schedule))
            if cost < least:
                best, least = other, cost
    return best


def _equals(exchanges: Exchanges, near: CosaSchedule, objective: float) -> Iterator[CosaSchedule]:
    """Yield feasible schedules of equal objective, one exchange of factors or of adjacent loops of a level away."""
    shared = exchanges.machine.shared
    moved = exchanges.moved(near.counts)
    is_equal = np.abs(exchanges.objectives(moved, near.order(shared)) - objective) <= SAME
    equal = moved[is_equal]
    for counts in equal[exchanges.fits(equal)]:
        yield CosaSchedule(counts, near.orders)
    placement = exchanges.placement(near)
    for level in range(exchanges.machine.dram + 1):
        sizes, order = placement.sizes((Place(level),)), near.order(level)
        for left, right in pairwise(loop for loop in order if sizes[loop] > 1):
            swap = {left: right, right: left}
            swapped = tuple(swap.get(loop, loop) for loop in order)
            if level == shared:
                value = exchanges.objectives(near.counts[None], swapped)[0]
                if abs(value - objective) > SAME:
                    continue
            yield CosaSchedule(near.counts, {**near.orders, level: swapped})


def solve_as_cosa_by_cost(
    problem: LayerProblem, objective: MappingObjective, run: Run, weights: CosaWeights | None = None
) -> SearchResult[LayerMapping]:
    """Return CoSA's optimum with the least cost in the cost model; a mapping that does not fit costs infinity.

    Raises the errors of `solve_as_cosa`, and AcceleratorError if the accelerator lacks data for the cost model.
    """
    try:
        batch = LayerCosts(problem)
    except AcceleratorError:
        raise
    except InputError:  # loops too long for the cost model
        return solve_as_cosa(problem, run, weights=weights)

    def costs(mappings: Sequence[LayerMapping]) -> list[float]:
        found = batch.of(mappings)
        values = [objective.of(*one) for one in zip(found.energy_pj.tolist(), found.cycles.tolist(), strict=True)]
        return [value if isfinite(energy) else inf for value, energy in zip(values, found.energy_pj, strict=True)]

    return solve_as_cosa(problem, run, tie_break=costs, weights=weights)
