"""The Pareto front of schedules of a network: read, search along each axis, verify the points, return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.api.phases import phase
from onchip.api.schedule import (
    ReadScheduleQuestion,
    ScheduleRequest,
    outcome_of,
    read_schedule_question,
    with_verified_schedule,
)
from onchip.errors import UsageError
from onchip.reports.schedule.outcome import FrontOutcome, ShownPoint
from onchip.scheduling.search.front import FrontAxis, FrontPoint, least_along_axes, solve_front, thinned
from onchip.scheduling.search.solve import METHOD
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.strategy.start import RunStarter, silent_run

SHARE_OF_VERIFYING: Final = 0.1
"""Share of a time limit for verifying points; if it is used up, only points that are minimal along an axis are
verified.
"""


@dataclass(frozen=True, slots=True)
class FrontRequest:
    """A schedule request, whose objective is ignored, with the axes of its front and the maximum number of points."""

    of_schedules: ScheduleRequest
    axes: Sequence[FrontAxis]
    most_points: int = 12

    def __post_init__(self) -> None:
        axes = set(self.axes)
        if len(axes) < 2 or len(axes) < len(self.axes):
            raise UsageError(f"{', '.join(self.axes)!r} is one objective", place="pareto", expected="two axes or more")
        if self.most_points < len(axes):
            raise UsageError(f"there are {self.most_points}", place="points", expected=f"at least {len(axes)}")


def axes_of(text: str) -> tuple[FrontAxis, ...]:
    """Return the axes of a text such as `energy,latency`; raises UsageError for an unknown name."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in tuple(FrontAxis):
            raise UsageError(
                f"unknown objective {name!r}", place="pareto", expected=f"two or more of {', '.join(FrontAxis)}"
            )
    return tuple(map(FrontAxis, names))


@phase("scheduling")
def front_of_schedules(request: FrontRequest, start: RunStarter = silent_run) -> FrontOutcome:
    """Return verified schedules that form a Pareto front along the axes: none dominates another.

    Raises InputError for a network or an accelerator that is unreadable or unusable, or for options that do not fit
    them.
    """
    limits, watch, options = request.of_schedules.limits, Stopwatch(), request.of_schedules.options
    deadline = Deadline.after(limits.time_limit_seconds)
    needed = ScheduleObjective.ENERGY if FrontAxis.ENERGY in request.axes else ScheduleObjective.TRAFFIC
    asked = read_schedule_question(replace(request.of_schedules, objective=needed))
    share = SHARE_OF_VERIFYING * (limits.time_limit_seconds or 0.0)
    within = deadline.within(deadline.seconds_left - share - asked.seconds_to_check)
    with start(limits, within) as run:
        question = asked.question(ScheduleObjective.ENERGY, uses_cache=request.of_schedules.uses_cache)
        found = solve_front(question, asked.options, request.axes, asked.relaxation, run)
        stop = run.stop or Stop.COMPLETED
    some = thinned(found, request.most_points)
    return FrontOutcome(
        asked.network.name,
        asked.accelerator.name,
        request.axes,
        tuple(axis.bound_of(asked.relaxation) for axis in request.axes),
        tuple(_verified(request, asked, some, deadline)),
        len(found),
        options.space,
        stop,
        watch.seconds,
    )


def _verified(
    request: FrontRequest, asked: ReadScheduleQuestion, points: Sequence[FrontPoint], deadline: Deadline
) -> Iterator[ShownPoint]:
    """Yield the points in order: those that are minimal along an axis, and the others while there is time."""
    least = {one.values for one in least_along_axes(points)}
    for point in points:
        if point.values in least or not deadline.is_past:
            yield _shown(request, asked, point)


def _shown(request: FrontRequest, asked: ReadScheduleQuestion, point: FrontPoint) -> ShownPoint:
    found, bound = point.found(asked.accelerator), point.objective.value_of(asked.relaxation)
    value = point.objective.value_of(found.figures)
    status = Status.OPTIMAL if value == bound else Status.FEASIBLE
    result = SearchResult(status, found, value, bound, 0.0, METHOD)
    outcome = outcome_of(request.of_schedules, asked, point.objective, result)
    return ShownPoint(point.values, with_verified_schedule(outcome, asked, found))
