"""From a question to a schedule: stage by stage first, then all choices of what was found weighed together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.answer.result import Result, Status, Stop
from onchip.mapping.methods.cache import MappingCache
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper, MappedAhead, NestSearch
from onchip.scheduling.mappings.weighing import Weigher
from onchip.scheduling.moves.cutting import Cutter, TiledRun
from onchip.scheduling.moves.refining import Refiner
from onchip.scheduling.program.attempt import AttemptMaker, Listener, ScheduleAttempt
from onchip.scheduling.program.question import FoundSchedule, ScheduleQuestion
from onchip.scheduling.program.usable import ensure_usable
from onchip.scheduling.search.stage_by_stage import StageByStage
from onchip.search.budget.limits import Run
from onchip.search.strategy.pool import TaskPool

METHOD: Final = "composed"
SHARE_OF_STAGES: Final = 0.75
"""Of the time limit, without what reading and checking take, in counted work; the rest is to weigh all together."""
SHARE_OF_CLOCK: Final = 0.95
"""Of the time that is left, after which the stages end even if their work is not done."""
SECONDS_TO_BEGIN: Final = 0.6
"""Of that limit, for the program to start."""
SECONDS_OF_AN_OPERATOR: Final = 0.005
"""Of that limit, to read it and to check its schedule."""
SHARE_OF_CUTTING: Final = 0.7
"""Of what is left then, at most for other stacks of the best schedule; it takes none where none promise anything."""
SHARE_OF_FIRST_WEIGHING: Final = 0.4
"""Of what is left then, before the stages go on."""
LEAST_SHARE_OF_STAGES: Final = 0.3
"""Of the whole limit: where it is short of reading and checking there are only first schedules."""


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
        self._search_within(self._run_of_stages)
        stages = StageByStage(self.question, self.options, self._refiner, self._maker)
        why_alone = stages.search()
        best = stages.best
        if best is None:
            return self._result(None, stages.why_not)
        of_stages, is_cut = best.value, stages.run.deadline.is_cut
        self._search_within(self.run)
        if self._is_joined:
            best = self._joined(stages)
        found = replace(best.found(), why_alone=why_alone, left_alone=stages.left_alone)
        return self._result(replace(found, value_of_stages=of_stages, are_stages_cut=is_cut))

    @property
    def _run_of_stages(self) -> Run:
        """The same steps with or without weighing, on every machine on which the time limit is enough for them.

        Without weighing it ends with them, too. By energy they have all of the time, and with a pool, whose workers do
        not count. Of a run that counts work itself they have their share.
        """
        limit = self.run.limits.time_limit_seconds
        if limit is None or not self.run.deadline.is_set or self.pool is not None:
            return self.run
        if self.question.objective is ScheduleObjective.ENERGY:
            return self.run
        if self.run.counts_work:
            return self.run.within(SHARE_OF_STAGES * limit)
        beside = SECONDS_TO_BEGIN + SECONDS_OF_AN_OPERATOR * len(self.question.network.operators)
        work = max(SHARE_OF_STAGES * (limit - beside), LEAST_SHARE_OF_STAGES * limit)
        return self.run.within(SHARE_OF_CLOCK * max(0.0, self.run.seconds_left)).for_work(work)

    def _search_within(self, run: Run) -> None:
        """All that searches has this run from now on."""
        self._mapper.run = self._maker.run = self._refiner.run = run

    def _joined(self, stages: StageByStage) -> ScheduleAttempt:
        """From every schedule found stage by stage, the best first, as long as there is time; the best of all.

        In limited time that has a part of what is left; then the stages go on, and what they find is weighed, too.
        """
        weigher, cutter, value = Weigher(self.mappings, self._mapper), Cutter(self._maker), None
        self._cut(stages, cutter)
        self._join_all(stages.attempts, weigher, self._refiner.share(SHARE_OF_FIRST_WEIGHING))
        best = min(stages.attempts, key=lambda one: one.value)
        while self._refiner.is_limited and self.run.stop is None and (value is None or best.value < value):
            value = best.value
            self._cut(stages, cutter)
            stages.go_on()
            self._join_all(stages.attempts, weigher, self.run)
            best = min(stages.attempts, key=lambda one: one.value)
        return best

    def _cut(self, stages: StageByStage, cutter: Cutter) -> None:
        """Other stacks of the best schedule, chosen from their fronts, beside what was found so far."""
        best, may_cut = stages.best, self.options.leaves_stacks_open and stages.may_take_long
        if best is None or not may_cut or not self.question.objective.is_timed:
            return
        run = self._refiner.share(SHARE_OF_CUTTING)
        self._search_within(run)
        with self._mapper.quick(is_quick=self._refiner.is_limited, is_hurried=True):
            found = cutter.improved(best, run, stages.attempts, _runs_in_tiles(stages))
        self._search_within(self.run)
        if found is not best:
            stages.attempts.append(found)

    def _join_all(self, attempts: list[ScheduleAttempt], weigher: Weigher, run: Run) -> None:
        """Within this run; all that searches has the whole one again after that."""
        self._search_within(run)
        for at, attempt in enumerate(sorted(attempts, key=lambda one: one.value)):
            if at and self._refiner.share(1.0).stop is not None:
                break
            self._refiner.join(attempt, weigher)
        self._search_within(self.run)

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


def _runs_in_tiles(stages: StageByStage) -> list[TiledRun]:
    """The stacks of several operators of all schedules that were found, and of the fusion search."""
    found = [(one.stacks, one.places) for one in stages.attempts]
    found += [] if stages.fused is None else [(stages.fused.stacks, stages.fused.places)]
    return [
        TiledRun(stack, places.renumbered({number: 0}))
        for stacks, places in found
        for number, stack in enumerate(stacks)
        if len(stack.operators) > 1
    ]


def solve_schedule(
    question: ScheduleQuestion,
    options: ScheduleOptions,
    run: Run,
    listener: Listener | None = None,
    pool: TaskPool | None = None,
) -> Result[FoundSchedule]:
    """A schedule of least objective value, as far as the run allows; a `listener` hears of all that are composed.

    With a pool its workers search what is independent: loop nests at their homes, and layers of stacks' tiles.
    The search compares energies for every objective, so the accelerator has to state them (`with_assumed_energies`).
    Raises InputError for an accelerator that cannot be used, or options that are not of the
    network.
    """
    ensure_usable(question.accelerator, ScheduleObjective.ENERGY)
    return ScheduleSolver(question, options, run, listener, pool).solved()
