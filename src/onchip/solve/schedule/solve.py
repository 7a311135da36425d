"""From a question to a schedule: stage by stage first, then all choices of what was found weighed together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from onchip.answer.result import Result, Status, Stop
from onchip.solve.mapping.cache import MappingCache
from onchip.solve.run.limits import Run
from onchip.solve.run.pool import TaskPool
from onchip.solve.schedule.attempt import AttemptMaker, Listener, ScheduleAttempt
from onchip.solve.schedule.mapped import KnownMappings
from onchip.solve.schedule.mapped_ahead import MappedAhead, NestSearch
from onchip.solve.schedule.nest_mapper import BestMapper
from onchip.solve.schedule.objective import ScheduleObjective
from onchip.solve.schedule.options import ScheduleOptions
from onchip.solve.schedule.question import FoundSchedule, ScheduleQuestion
from onchip.solve.schedule.refining import Refiner
from onchip.solve.schedule.stage_by_stage import StageByStage
from onchip.solve.schedule.usable import ensure_usable
from onchip.solve.schedule.weighing import Weigher

METHOD: Final = "composed"
SHARE_OF_STAGES: Final = 0.5
"""Of the time that is left once the best has proven mappings, to finish it before choices are weighed together."""


@dataclass(slots=True)
class ScheduleSolver:
    """Answers one question within one run; workers of a pool map nests, and layers of stacks' tiles."""

    question: ScheduleQuestion
    options: ScheduleOptions
    run: Run
    listener: Listener | None = None
    pool: TaskPool | None = None
    mappings: KnownMappings = field(init=False)
    _mapper: BestMapper = field(init=False)
    _maker: AttemptMaker = field(init=False)
    _refiner: Refiner = field(init=False)

    def __post_init__(self) -> None:
        question, run = self.question, self.run
        cache = MappingCache.opened() if question.uses_cache else None
        ahead = None if self.pool is None else MappedAhead(self.pool, NestSearch(question.uses_cache))
        self._mapper = BestMapper(question.accelerator, question.objective.of_layers, run, cache, ahead=ahead)
        self.mappings = KnownMappings(self._mapper)
        self._maker = AttemptMaker(question, self.mappings, self._mapper, run, self.listener)
        self._refiner = Refiner(question, self._mapper, self.mappings, run, self.options.maps_stay)

    def solved(self) -> Result[FoundSchedule]:
        """The best schedule found; UNKNOWN where not even one operator after the other has mappings in time."""
        share = SHARE_OF_STAGES if self._is_joined else 1.0
        stages = StageByStage(self.question, self.options, self._refiner, self._maker, share)
        why_alone = stages.search()
        best = stages.best
        if best is None:
            return self._result(None, stages.why_not)
        of_stages = best.value
        self._refiner.run = self.run
        if self._is_joined:
            best = self._joined(stages.attempts)
        found = replace(best.found(), why_alone=why_alone, left_alone=stages.left_alone, value_of_stages=of_stages)
        return self._result(found)

    def _joined(self, attempts: list[ScheduleAttempt]) -> ScheduleAttempt:
        """From every schedule found stage by stage, the best first, as long as there is time; the best of all."""
        weigher, refiner = Weigher(self.mappings, self._mapper), self._refiner
        for at, attempt in enumerate(sorted(attempts, key=lambda one: one.value)):
            if at and refiner.share(1.0).stop is not None:
                break
            refiner.join(attempt, weigher)
        return min(attempts, key=lambda one: one.value)

    def _result(self, found: FoundSchedule | None, why_not: str | None = None) -> Result[FoundSchedule]:
        stop = self.run.stop or Stop.COMPLETED
        bound = self.question.lower_bound
        if found is None:
            return Result(Status.UNKNOWN, None, None, bound, self.run.seconds, METHOD, stop, why_not=why_not)
        value = self.question.objective.value_of(found.figures)
        status = Status.OPTIMAL if value == bound else Status.FEASIBLE
        return Result(status, found, value, bound, self.run.seconds, METHOD, stop)

    @property
    def _is_joined(self) -> bool:
        """Whether choices are weighed together: where energy alone counts the least of each nest is best."""
        return self.options.weighs_mappings and self.question.objective is not ScheduleObjective.ENERGY


def solve_schedule(
    question: ScheduleQuestion,
    options: ScheduleOptions,
    run: Run,
    listener: Listener | None = None,
    pool: TaskPool | None = None,
) -> Result[FoundSchedule]:
    """A schedule of least objective value, as far as the run allows; a `listener` hears of all that are composed.

    With a pool its workers search what is independent: loop nests at their homes, and layers of stacks' tiles.
    Raises InputError for an accelerator that cannot be used, or options that are not of the network.
    """
    ensure_usable(question.accelerator)
    return ScheduleSolver(question, options, run, listener, pool).solved()
