"""Schedules to which none that was found is at most as much in everything: the front of a network on a machine.

One search after the other makes each axis least, and energy times latency where both are axes; of all schedules that
they compose on the way, those that no other dominates are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import dist, log
from typing import Final, TypeAlias

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import Placements, ScheduleOptions
from onchip.answer.result import Stop
from onchip.arch.accelerator import Accelerator
from onchip.bounds.network.relaxation import Relaxation
from onchip.model.program.figures import ScheduleFigures, schedule_figures
from onchip.scheduling.program.composition import Composition, FoundSchedule, ScheduleQuestion
from onchip.scheduling.search.solve import solve_schedule
from onchip.search.budget.limits import Run
from onchip.transform.groups.tile_graph import TileGraph

MOST_KEPT: Final = 64
"""Schedules that are kept while others are looked for."""


class FrontAxis(StrEnum):
    """The axes of a Pareto front: the objectives, and the peak bytes resident at once in all memories."""

    ENERGY = "energy"
    LATENCY = "latency"
    TRAFFIC = "traffic"
    PEAK = "peak"

    @property
    def objective(self) -> ScheduleObjective | None:
        """Return the objective that minimises this axis; None for the peak."""
        return None if self is FrontAxis.PEAK else ScheduleObjective(self)

    @property
    def unit(self) -> str:
        """Return the unit of the axis."""
        return "bytes" if self.objective is None else self.objective.unit

    def value_of(self, figures: ScheduleFigures) -> int:
        """Return the value of a schedule's figures along this axis."""
        if self.objective is None:
            return sum(one.peak_bytes for one in figures.memories.values())
        return self.objective.value_of(figures)

    def bound_of(self, least: Relaxation) -> int:
        """Return a lower bound along this axis for every schedule."""
        return 0 if self.objective is None else self.objective.value_of(least)


Values: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A schedule with its values along the axes, and the objective of the search that found it."""

    values: Values
    objective: ScheduleObjective
    composition: Composition
    tiles: TileGraph

    def found(self, accelerator: Accelerator) -> FoundSchedule:
        """Return the schedule with its figures on the accelerator."""
        program = self.composition.schedule.program
        figures = schedule_figures(self.tiles.graph, accelerator, program, self.composition.costs)
        return FoundSchedule(self.composition, self.tiles, figures)


@dataclass(slots=True)
class ScheduleArchive:
    """The non-dominated schedules among all that were reported to it."""

    axes: Sequence[FrontAxis]
    objective: ScheduleObjective = ScheduleObjective.ENERGY
    points: list[FrontPoint] = field(default_factory=list)

    def hear(self, found: FoundSchedule) -> None:
        """Keep a schedule that no kept one dominates, and drop those that it dominates."""
        values = tuple(axis.value_of(found.figures) for axis in self.axes)
        if any(_is_at_most(one.values, values) for one in self.points):
            return
        kept = [one for one in self.points if not _is_at_most(values, one.values)]
        self.points = [*kept, FrontPoint(values, self.objective, found.composition, found.tiles)]
        if len(self.points) > 2 * MOST_KEPT:
            self.points = thinned(self.points, MOST_KEPT)


def thinned(points: Sequence[FrontPoint], most: int) -> list[FrontPoint]:
    """Return at most `most` points by their values; the minimum along each axis and the most isolated points stay."""
    left = sorted(points, key=lambda one: one.values)
    while len(left) > most:
        ends = {one.values for one in least_along_axes(left)}
        inner = [one for one in left if one.values not in ends]
        if not inner:
            break
        left.remove(min(inner, key=lambda one: _distance(one, left)))
    return left


def solve_front(
    question: ScheduleQuestion, options: ScheduleOptions, axes: Sequence[FrontAxis], least: Relaxation, run: Run
) -> tuple[FrontPoint, ...]:
    """Return non-dominated schedules, in ascending order of the first axis.

    The front contains the answer of each search, or a schedule that dominates it. The searches share the time limit.
    Raises InputError for an accelerator that cannot be used, or options that do
    not match the network.
    """
    archive = ScheduleArchive(axes)
    searches = list(_searches(axes, options))
    for at, (objective, some) in enumerate(searches):
        if run.stop is not None and (archive.points or run.stop is Stop.INTERRUPTED):
            break
        archive.objective = objective
        own = _one_of(len(searches) - at, run)
        asked = replace(question, objective=objective, lower_bound=objective.value_of(least))
        answer = solve_schedule(asked, some, own, archive.hear).answer
        if answer is not None:  # what a search ends with need not be what its listener heard
            archive.hear(answer)
    return tuple(sorted(archive.points, key=lambda one: one.values))


def least_along_axes(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """Return for each axis the point with the least value, each point once, in the order of the axes."""
    axes = range(len(points[0].values)) if points else range(0)
    found = [min(points, key=lambda one: (one.values[at], one.values)) for at in axes]
    return list({one.values: one for one in found}.values())


def _one_of(searches: int, run: Run) -> Run:
    """Return the run of the first of several searches that share the time left, and the time limit, equally."""
    if not run.deadline.is_set:
        return run
    seconds = max(0.0, run.seconds_left / searches)
    return replace(run.within(seconds), limits=replace(run.limits, time_limit_seconds=seconds))


def _searches(
    axes: Sequence[FrontAxis], options: ScheduleOptions
) -> Iterator[tuple[ScheduleObjective, ScheduleOptions]]:
    """Yield the objective and options of each search: each axis, and the product of energy and latency.

    The peak is searched with all feature maps in DRAM, where few bytes are resident at once.
    """
    wanted = [axis.objective for axis in axes if axis.objective is not None]
    if FrontAxis.PEAK in axes:
        yield wanted[0], replace(options, placements=Placements.DRAM)
    for objective in wanted:
        yield objective, options
    if {ScheduleObjective.ENERGY, ScheduleObjective.LATENCY} <= set(wanted):
        yield ScheduleObjective.EDP, options


def _is_at_most(one: Values, other: Values) -> bool:
    return all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


def _distance(one: FrontPoint, others: Sequence[FrontPoint]) -> float:
    """Return the distance to the nearest other point, in logarithms of ratios."""
    here = _logarithms(one.values)
    return min(dist(here, _logarithms(other.values)) for other in others if other is not one)


def _logarithms(values: Values) -> list[float]:
    return [log(max(value, 1)) for value in values]
