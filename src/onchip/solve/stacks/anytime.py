"""The best strategy there is when the time is over.

`exact` may need longer than that for a single layer, and then knows no strategy. So of a time limit a part is for
`loma`, which maps a layer in milliseconds; what it has found is the answer if `exact` finds none that is better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from onchip.answer.result import Status, Stop
from onchip.solve.run.limits import Progress, Run
from onchip.solve.stacks.costs import StackCosts
from onchip.solve.stacks.mappers import EXACT, LOMA, UnmappableError
from onchip.solve.stacks.options import FusionOptions
from onchip.solve.stacks.solve import FusionResult, solve_fusion
from onchip.solve.stacks.workers import Costing, costs_of

SHARE: Final = 0.2
"""Of the time limit, for the first strategy."""
MOST_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class FoundInTime:
    """`mapper` has mapped the layers of the strategy; `why_not` says why there is none, if something does not fit."""

    found: FusionResult
    mapper: str
    why_not: str | None = None


def solve_in_time(costing: Costing, options: FusionOptions, run: Run) -> FoundInTime:
    """Solve as `solve_fusion` does, with a first answer at once; raises UsageError for bad options."""
    first = _first(costing, options, run)
    own = run if first is None else _knowing(run, first)
    with costs_of(costing, own) as costs:
        found = solve_fusion(costing.network, costing.accelerator, options, costs, own)
    if first is None or found.result.stopped_by is Stop.COMPLETED or _value(found) <= _value(first):
        return FoundInTime(found, costing.mapper, _why_not(costs))
    return FoundInTime(_of_both(first, found), LOMA)


def _first(costing: Costing, options: FusionOptions, run: Run) -> FusionResult | None:
    """Proven of it is nothing that holds for `exact`, so no bound is told."""
    if run.limits.time_limit_seconds is None or costing.mapper != EXACT:
        return None

    def listen(heard: Progress) -> None:
        run.listener(replace(heard, lower_bound=0, phase=f"{LOMA}: {heard.phase}"))

    own = replace(run.within(min(SHARE * run.seconds_left, MOST_SECONDS)), listener=listen)
    costs = replace(costing, mapper=LOMA).costs(own)
    try:
        found = solve_fusion(costing.network, costing.accelerator, replace(options, ahead=1), costs, own)
    except UnmappableError:
        return None
    return None if found.result.answer is None else found


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


def _of_both(first: FusionResult, found: FusionResult) -> FusionResult:
    """The first strategy; the lesser bound holds among strategies that either mapper maps."""
    result, value = found.result, first.result.objective_value
    bound = min(first.result.lower_bound, result.lower_bound)
    is_best = bound == value
    claimed = replace(
        first.result,
        status=Status.OPTIMAL if is_best else Status.FEASIBLE,
        lower_bound=bound,
        seconds=result.seconds,
        stopped_by=result.stopped_by,
    )
    return replace(first, result=claimed, costed=first.costed + found.costed, space=f"{first.space}, {EXACT} or {LOMA}")


def _why_not(costs: StackCosts) -> str | None:
    reasons = dict.fromkeys(str(error) for error in costs.refusals.values())
    return next(iter(reasons), None)
