"""The best strategy there is when the time is over.

First an answer, whatever the time: every layer alone, mapped by `loma` in milliseconds. `exact` may need longer than
there is for a single layer, and then knows no strategy; so of a time limit a part is for `loma` in stacks, and what it
has found is the answer if the mapper asked for finds none that is better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from onchip.answer.options.fusion_options import LAYERS, OPTIMAL, FusionOptions
from onchip.answer.result import Status, Stop
from onchip.scheduling.candidates.spaces import space_described, space_of
from onchip.scheduling.choice.solve import FusionResult, least_value, solve_fusion
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.fronts.mappers import EXACT, LOMA, UnmappableError
from onchip.scheduling.fronts.workers import Costing, costs_of
from onchip.search.budget.limits import Progress, Run
from onchip.search.strategy.pool import TaskPool
from onchip.search.strategy.stage import without_bound
from onchip.transform.groups.stacks import single_layers, stack_count

SECONDS_OF_A_STACK: Final = 2e-5
"""To list each that there may be, whatever it costs, which cannot be cut off."""
SHARE: Final = 0.1
"""Of the time limit, for the first strategy."""
MOST_SECONDS: Final = 10.0
AHEAD: Final = 2
"""Stacks that are costed together for each worker of a pool."""
VERIFYING: Final = 1.0
"""For each second that layers alone have taken, to check and to show what is found, by the layers of its tiles."""


@dataclass(frozen=True, slots=True)
class FoundInTime:
    """`mapper` has mapped the layers of the strategy; `why_not` says why there is none, if something does not fit."""

    found: FusionResult
    mapper: str
    why_not: str | None = None


def solve_in_time(costing: Costing, options: FusionOptions, run: Run, pool: TaskPool | None = None) -> FoundInTime:
    """Solve as `solve_fusion` does, with a first answer at once; raises UsageError for bad options.

    Layers of tiles are mapped by the pool, or by as many processes as the run has workers.
    """
    options = costing.within(options)
    if pool is not None:
        options = replace(options, ahead=AHEAD * pool.room)
    if not run.deadline.is_set:
        return _solved(costing, options, run, pool)
    watch = run.deadline.stopwatch()
    alone = _alone(costing, options, run)
    verifying = watch.seconds
    run = run.within(run.seconds_left - VERIFYING * verifying)
    stacks = stack_count(costing.network) if options.stacks == OPTIMAL else 0
    if alone is not None and stacks * SECONDS_OF_A_STACK > run.seconds_left:
        return FoundInTime(_cut_off(alone, costing, options, run), LOMA)
    first = _better_of(alone, _first(costing, options, run))
    if alone is not None and first is not None:
        more = _layers_in_tiles(first) / _layers_in_tiles(alone) - 1
        run = run.within(run.seconds_left - max(more, 0.0) * VERIFYING * verifying)
    own = run if first is None else _knowing(run, first)
    asked = _solved(costing, options, own, pool)
    found = asked.found
    if first is None or found.result.stopped_by is Stop.COMPLETED or _value(found) <= _value(first):
        return asked
    return FoundInTime(_of_both(first, found, costing), LOMA)


def _solved(costing: Costing, options: FusionOptions, run: Run, pool: TaskPool | None) -> FoundInTime:
    with costs_of(costing, run, pool) as costs:
        found = solve_fusion(costing.network, costing.accelerator, options, costs, run)
    return FoundInTime(found, costing.mapper, _why_not(costs))


def _alone(costing: Costing, options: FusionOptions, run: Run) -> FusionResult | None:
    """Every layer by itself, maps between layers in DRAM, where such strategies are asked for."""
    if options.stacks not in (OPTIMAL, LAYERS):
        return None
    limits = replace(run.limits, time_limit_seconds=None, workers=1)
    untimed = Run(limits, interrupt=run.interrupt, deadline=run.deadline.unlimited, watch=run.watch)
    return _by_loma(costing, replace(options, stacks=LAYERS, tile=None, maps_stay=False), untimed)


def _cut_off(alone: FusionResult, costing: Costing, options: FusionOptions, run: Run) -> FusionResult:
    """Of the stacks that were not even listed nothing is proven but the floor of all layers."""
    network, stopped_by = costing.network, run.stop or Stop.TIME_LIMIT
    bound = least_value(costing.costs(run))
    result = replace(
        alone.result, status=Status.FEASIBLE, lower_bound=bound, seconds=run.seconds, stopped_by=stopped_by
    )
    space = space_of(network, costing.accelerator, single_layers(network), options)
    described = space_described(space, options, stack_count(network))
    return replace(alone, result=result, space=_by_either(described, costing.mapper))


def _first(costing: Costing, options: FusionOptions, run: Run) -> FusionResult | None:
    """What a part of the time is enough for."""
    if costing.mapper != EXACT:
        return None

    def listen(heard: Progress) -> None:
        run.listener(replace(heard, phase=f"{LOMA}: {heard.phase}"))

    own = replace(run.within(min(SHARE * run.seconds_left, MOST_SECONDS)), listener=listen)
    return _by_loma(costing, options, own)


def _by_loma(costing: Costing, options: FusionOptions, run: Run) -> FusionResult | None:
    """Proven of it is nothing that holds for another mapper, so no bound is told."""
    own = without_bound(run)
    costs = replace(costing, mapper=LOMA).costs(own)
    try:
        found = solve_fusion(costing.network, costing.accelerator, replace(options, ahead=1), costs, own)
    except UnmappableError:
        return None
    return None if found.result.answer is None else found


def _better_of(one: FusionResult | None, other: FusionResult | None) -> FusionResult | None:
    """The later one where both are as good."""
    if one is None or other is None:
        return one or other
    return one if _value(one) < _value(other) else other


def _layers_in_tiles(found: FusionResult) -> int:
    """Return how many layers of different tiles are to be verified, at least 1."""
    return max(sum(len(one.layers) for _, cost in found.stacks for one in cost.placed), 1)


def _knowing(run: Run, first: FusionResult) -> Run:
    """The same, with the value of the first strategy as the best until there is a better one."""
    value = first.result.objective_value

    def listen(heard: Progress) -> None:
        known = [one for one in (heard.best, value) if one is not None]
        run.listener(replace(heard, best=min(known), lower_bound=min(*known, heard.lower_bound)))

    return replace(run, listener=listen)


def _value(found: FusionResult) -> float:
    value = found.result.objective_value
    return float("inf") if value is None else value


def _of_both(first: FusionResult, found: FusionResult, costing: Costing) -> FusionResult:
    """The first strategy; the lesser bound holds among strategies that either mapper maps, as the floor does."""
    result, value = found.result, first.result.objective_value
    bound = min(first.result.lower_bound, result.lower_bound) if first.space == found.space else 0
    bound = max(bound, least_value(costing.costs(Run())))
    is_best = bound == value
    claimed = replace(
        first.result,
        status=Status.OPTIMAL if is_best else Status.FEASIBLE,
        lower_bound=bound,
        seconds=result.seconds,
        stopped_by=result.stopped_by,
    )
    space = _by_either(found.space, costing.mapper)
    return replace(first, result=claimed, costed=first.costed + found.costed, space=space)


def _by_either(space: str, mapper: str) -> str:
    return f"{space}, {mapper} or {LOMA}" if mapper != LOMA else space


def _why_not(costs: StackCosts) -> str | None:
    reasons = dict.fromkeys(str(error) for error in costs.refusals.values())
    return next(iter(reasons), None)
