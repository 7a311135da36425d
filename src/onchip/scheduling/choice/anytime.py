"""The best fusion strategy within a time limit.

With a time limit the first answer comes at once: every layer alone, mapped by a method that takes milliseconds.
Estimates by the same method then lead to good strategies. The requested method maps these and continues the search. Its
strategy is the answer unless time was too short for one as good.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from onchip.answer.options.fusion_options import LAYERS, OPTIMAL, FusionOptions
from onchip.scheduling.choice.solve import FusionResult, QuickStart, cost_of_moved, solve_fusion
from onchip.scheduling.choice.ways import PathToPlace
from onchip.scheduling.fronts.cost_table import Ledger
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.fronts.mappers import EXACT, MapperInTime, UnmappableError
from onchip.scheduling.fronts.workers import Costing, costs_of
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Run
from onchip.search.strategy.pool import TaskPool
from onchip.transform.groups.stacks import StackChoice, single_layers, stack_of, whole

AHEAD: Final = 2
"""Groups costed together per worker of a pool."""
VERIFYING: Final = 2.0
"""Seconds reserved for checks and output per second that single layers took, since tiles have more layers."""


@dataclass(frozen=True, slots=True)
class FoundInTime:
    """A fusion result; `mapper` mapped its layers, and `why_not` is the reason if some layer does not fit."""

    found: FusionResult
    mapper: str
    why_not: str | None = None


def solve_in_time(costing: Costing, options: FusionOptions, run: Run, pool: TaskPool | None = None) -> FoundInTime:
    """Solve as `solve_fusion` does, with a first answer at once; raises UsageError for bad options.

    Layers of tiles are mapped by the pool, or by one process per worker of the run.
    """
    options = costing.within(options)
    if pool is not None:
        options = replace(options, ahead=AHEAD * pool.room)
    quick = None
    if run.deadline.is_set:
        quick, seconds = _quick_start(costing, options, run)
        run = run.within(run.seconds_left - VERIFYING * seconds)
    known_bounds = None if quick is None else quick.costs.known_bounds
    with costs_of(costing, run, pool, known_bounds) as costs:
        found = solve_fusion(costing.network, costing.accelerator, options, costs, run, quick)
    if not found.is_quick:
        return FoundInTime(found, costing.mapper, next(map(str, costs.refusals.values()), None))
    mapper = costing.quick.mapper
    space = found.space if costing.mapper in (EXACT, mapper) else f"{found.space}, {costing.mapper} or {mapper}"
    return FoundInTime(replace(found, space=space), mapper)


def _quick_start(costing: Costing, options: FusionOptions, run: Run) -> tuple[QuickStart | None, float]:
    """Map every layer alone, with maps between layers in DRAM, without a time limit; also return the seconds taken.

    The result is None if a layer is refused.
    """
    limits = replace(run.limits, time_limit_seconds=None, workers=1)
    untimed = Run(limits, interrupt=run.interrupt, deadline=Deadline(), watch=run.watch)
    costs = costing.quick.costs(untimed)
    costs.floor()
    ledger, watch = Ledger[StackChoice](costs), Stopwatch()
    try:
        way = _alone(ledger, costs) if options.groups in (OPTIMAL, LAYERS) else None
    except UnmappableError:
        return None, 0.0
    seconds = watch.seconds
    if way is not None:
        run.report(way.value, 0, "layers alone")
    costs.mapper = MapperInTime(costs.mapper, run)
    return QuickStart(costs, ledger, way, is_within=costing.mapper in (EXACT, costing.quick.mapper)), seconds


def _alone(ledger: Ledger[StackChoice], costs: StackCosts) -> PathToPlace[StackChoice] | None:
    network = costs.network
    found: PathToPlace[StackChoice] = PathToPlace(cost_of_moved(network, costs.accelerator, costs.objective))
    for span in single_layers(network):
        choice = StackChoice(span, whole(stack_of(network, span).output))
        ledger.learn([choice])
        cost = ledger.true(choice)
        if cost is None:
            return None
        found = PathToPlace(tuple(map(int.__add__, found.cost, cost)), choice, found)
    return found
