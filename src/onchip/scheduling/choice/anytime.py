"""The best strategy that there is time for.

With a time limit there is first an answer, whatever the time: every layer alone, mapped by a method that takes
milliseconds. Estimates lead from there to good strategies by the same method; the method asked for maps these, and goes
on. Its strategy is the answer, unless there was too little time for one as good.
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
from onchip.search.budget.limits import Run
from onchip.search.strategy.pool import TaskPool
from onchip.transform.groups.stack_choice import StackChoice
from onchip.transform.groups.stacks import single_layers, stack_of
from onchip.transform.groups.tilings import whole

AHEAD: Final = 2
"""Stacks that are costed together for each worker of a pool."""
VERIFYING: Final = 2.0
"""For each second that layers alone have taken, to check and to show what is found: layers of tiles are more."""


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
    """Map every layer alone, maps between layers in DRAM, whatever the time; return how many seconds that took, too.

    None for a layer that is refused.
    """
    limits = replace(run.limits, time_limit_seconds=None, workers=1)
    untimed = Run(limits, interrupt=run.interrupt, deadline=run.deadline.unlimited, watch=run.watch)
    costs = costing.quick.costs(untimed)
    costs.floor()
    ledger, watch = Ledger[StackChoice](costs), run.deadline.stopwatch()
    try:
        way = _alone(ledger, costs) if options.stacks in (OPTIMAL, LAYERS) else None
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
