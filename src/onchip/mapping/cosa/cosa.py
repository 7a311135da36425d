"""`--method cosa`: the optimum of CoSA's mixed-integer program (Huang et al., ISCA 2021)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice, pairwise
from math import floor
from typing import Final

import numpy as np

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Result, Status
from onchip.errors import InputError, InternalError
from onchip.ir.layer import Layer
from onchip.mapping.cosa.exchanges import CosaSchedule, Exchanges
from onchip.mapping.cosa.machine import CosaMachine, CosaWeights, Place
from onchip.mapping.cosa.model import CosaModel
from onchip.mapping.cosa.objective import fits, objective_of
from onchip.mapping.cosa.placement import FactorPlacement, factors_of
from onchip.model.unrolling.unrolling import padded_bound
from onchip.search.budget.limits import Run
from onchip.search.mip import MipOutcome, solve_mip

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
) -> Result[LayerMapping]:
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


def _answered(model: CosaModel, outcome: MipOutcome, run: Run, tie_break: TieBreak | None) -> Result[LayerMapping]:
    """Check the solver's solution against CoSA's objective and capacities, and return it as a result."""
    machine = model.machine
    bound = (outcome.lower_bound - model.offset) / model.objective_per_bit
    if outcome.values is None:
        status = Status.INFEASIBLE if outcome.is_infeasible else Status.UNKNOWN
        return Result(status, None, None, floor(bound * VALUE_PER_BIT), run.seconds, METHOD, outcome.stopped_by)
    placement = model.placement(outcome)
    if not fits(machine, placement):
        raise InternalError("the solver's schedule does not fit", place=f"--solver {run.limits.solver}")
    value = round(objective_of(machine, placement).total * VALUE_PER_BIT)
    if bound * VALUE_PER_BIT > value + 1:
        raise InternalError("the solver's bound is above its schedule", place=f"--solver {run.limits.solver}")
    is_proven = value - bound * VALUE_PER_BIT <= 1
    if tie_break is not None:
        placement = best_of_equals(machine, placement, tie_break)
    return Result(
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
