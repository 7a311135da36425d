"""From a question to a schedule: layer by layer, the stacks that fusion suggests, the best of both made better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from onchip.answer.result import Result, Status, Stop
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.cost.schedule.rates import MemoryRates
from onchip.ir.graph import Graph
from onchip.solve.mapping.cache import MappingCache
from onchip.solve.run.limits import Progress, Run
from onchip.solve.schedule.attempt import AttemptMaker, Listener, ScheduleAttempt
from onchip.solve.schedule.composition import NoMappingError
from onchip.solve.schedule.first_places import FirstPlaces
from onchip.solve.schedule.fused import FusionSearch, FusionStart
from onchip.solve.schedule.longer_look import LongerLook
from onchip.solve.schedule.mapped import KnownMappings
from onchip.solve.schedule.mapping_front import OptionPrices
from onchip.solve.schedule.nest_mapper import BestMapper
from onchip.solve.schedule.objective import ScheduleObjective
from onchip.solve.schedule.options import ScheduleOptions
from onchip.solve.schedule.places import Places
from onchip.solve.schedule.question import FoundSchedule, ScheduleQuestion
from onchip.solve.schedule.restacking import Restacker, places_of_lone
from onchip.solve.schedule.usable import ensure_usable
from onchip.solve.schedule.weighing import Weigher
from onchip.solve.stacks.options import FusionOptions

METHOD: Final = "composed"
SHARE_OF_LAYERS: Final = 0.5
"""Of the time that is left, at most to improve what runs layer by layer, before stacks in tiles are looked for."""
SHARE_OF_FIRST_STACKS: Final = 0.25
"""Of the time that is left, to improve what runs in the first stacks, before others are tried."""
SHARE_OF_FUSION: Final = 0.4
"""Of the time that is left, for the search of stacks in tiles."""
SHARE_OF_STACKS: Final = 0.6
"""Of the time that is left, to try other stacks in tiles by the schedule's own figures."""
SHARE_OF_MAPPINGS: Final = 0.15
"""Of the time that is left, kept for the mappings that are not proven."""
SHARE_OF_FIRST_PROOFS: Final = 0.5
"""Of the time that is left, to prove the mappings of the best before it is improved once more."""
SHARE_OF_FIRST_SHAKES: Final = 0.3
"""Of the time that is left, to move several maps at once of what runs layer by layer, before stacks are looked for."""
SHARE_OF_SHAKES: Final = 0.5
"""Of the time that is left, to move several maps of the best at once; the rest for the mappings of what is found."""
SHARE_OF_WEIGHING: Final = 0.3
"""Of the time that is left, to choose other mappings of what is best by the whole schedule's figures."""
SHARE_OF_PLACES: Final = 0.3
"""Of the time that is left, to improve its places, once other mappings are chosen."""
VERIFYING: Final = 1.0
"""How long it takes to verify a schedule, in times of composing it."""


@dataclass(slots=True)
class ScheduleSolver:
    """Answers one question within one run."""

    question: ScheduleQuestion
    options: ScheduleOptions
    run: Run
    listener: Listener | None = None
    mappings: KnownMappings = field(init=False)
    _mapper: BestMapper = field(init=False)
    _maker: AttemptMaker = field(init=False)
    _weigher: Weigher = field(init=False)
    _alone: ScheduleAttempt | None = field(default=None, init=False)
    """Every operator alone, if there is room for it."""
    _has_proofs: bool = field(default=False, init=False)
    """Whether it has been improved with proven mappings, as far as there was time."""
    _has_time_for_stacks: bool = field(default=True, init=False)
    _attempts: list[ScheduleAttempt] = field(default_factory=list, init=False)
    _why_not: str | None = field(default=None, init=False)
    """What the operator needs that has no room alone, wherever its tensors lie."""

    def __post_init__(self) -> None:
        question = self.question
        cache = MappingCache.opened() if question.uses_cache else None
        self._mapper = BestMapper(question.accelerator, question.objective.of_layers, self.run, cache)
        self.mappings = KnownMappings(self._mapper)
        self._weigher = Weigher(self.mappings, self._mapper)
        self._maker = AttemptMaker(question, self.mappings, self._mapper, self.run, self.listener)

    def solved(self) -> Result[FoundSchedule]:
        """The best schedule found; UNKNOWN where not even one operator after the other has mappings in time."""
        if self.options.leaves_stacks_open or self.options.runs_layers_whole:
            self._layer_by_layer()
        quickly = self._share(1 - SHARE_OF_MAPPINGS)
        if not self.options.runs_layers_whole and self.run.stop is None:
            self._in_stacks()
        lacks_stacks = not self._attempts and not self.options.runs_layers_whole
        if lacks_stacks:
            self._layer_by_layer()
        is_late = lacks_stacks and self.run.stop is not None
        best = self._improve_all(quickly)
        return self._result(None if best is None else replace(best.found(), lacks_given_stacks=is_late))

    def _result(self, found: FoundSchedule | None) -> Result[FoundSchedule]:
        stop = self.run.stop or Stop.COMPLETED
        bound = self.question.lower_bound
        if found is None:
            return Result(Status.UNKNOWN, None, None, bound, self.run.seconds, METHOD, stop, why_not=self._why_not)
        value = self.question.objective.value_of(found.figures)
        status = Status.OPTIMAL if value == bound else Status.FEASIBLE
        return Result(status, found, value, bound, self.run.seconds, METHOD, stop)

    def _layer_by_layer(self) -> None:
        """Every operator alone, everything streamed, but for what has no room so."""
        network = self.question.network
        others = FirstPlaces(network, self.question.accelerator.addressed)
        places: Places | None = Places()
        needs: dict[str, str] = {}
        while places is not None:
            try:
                self._alone = self._add(_every_operator_alone(network), places)
                return
            except NoMappingError as error:
                self._why_not = needs.setdefault(error.operator, str(error))
                may_go_on = self.options.maps_stay and self.run.stop is None
                places = others.after(error.operator) if may_go_on else None

    def _in_stacks(self) -> None:
        """The stacks of the best fusion strategy, then others in their place; none that do not fit.

        They are not looked for where the time is over before what runs layer by layer is improved, by proven mappings
        in the end, as far as single places can improve it: then all that is done is what would be without them.
        """
        if self._alone is not None:
            self._improve(self._alone, self._share(SHARE_OF_LAYERS))
            if self._is_limited and self._is_improved(self._alone):
                self._improve_with_proofs(self._alone, may_restack=False)
                self._has_proofs = not self._is_improved(self._alone)
            if not self._is_improved(self._alone):
                self._has_time_for_stacks = False
                return
            self._shake(self._alone, SHARE_OF_FIRST_SHAKES)
        fused = self._fused()
        if fused is None or self.run.stop is not None:
            return
        try:
            attempt = self._add(fused.stacks, fused.places)
        except (NoMappingError, ScheduleError):
            return
        self._improve(attempt, self._share(SHARE_OF_FIRST_STACKS))
        if self._alone is not None:
            self._meet(attempt, self._alone)
        best = min(range(len(self._attempts)), key=lambda at: self._attempts[at].value)
        self._attempts[best] = self._restacked(self._attempts[best])

    def _meet(self, tiled: ScheduleAttempt, alone: ScheduleAttempt) -> None:
        """Places of what runs layer by layer for the stacks of one operator; stacks in tiles for what does not."""
        if self.options.maps_stay:
            with self._mapper.quick(is_quick=self._is_limited):
                tiled.improver.consider(tiled.places.with_all(places_of_lone(tiled.stacks, alone)), self.run)
        if self.options.leaves_stacks_open:
            with self._mapper.quick(is_quick=self._is_limited):
                some = self._restacker.with_stacks_of(tiled, alone, self._share(SHARE_OF_STACKS))
            self._attempts += [some] if some is not alone else []

    def _add(self, stacks: Sequence[ScheduledStack], places: Places) -> ScheduleAttempt:
        attempt = self._maker.made(stacks, places)
        self._attempts.append(attempt)
        self.run.report(attempt.value, self.question.lower_bound, f"{len(stacks)} stacks")
        return attempt

    def _fused(self) -> FusionStart | None:
        question, options = self.question, self.options
        search = FusionSearch(
            question.network,
            question.accelerator,
            question.precision,
            question.objective,
            FusionOptions(options.stacks, options.tile, options.mode, maps_stay=options.maps_stay),
            question.uses_cache,
        )
        return search.start(replace(self._share(SHARE_OF_FUSION), listener=self._listen_to_fusion))

    def _listen_to_fusion(self, heard: Progress) -> None:
        """What the model of stacks knows is no schedule, and its bound is none of schedules."""
        best = min((one.value for one in self._attempts), default=None)
        self.run.report(best, self.question.lower_bound, f"stacks in tiles: {heard.phase}")

    def _improve_all(self, quickly: Run) -> ScheduleAttempt | None:
        """The best first, as long as there is time. Then the best of all once more, with mappings that are proven.

        Where there is no time for stacks, that without proofs is no longer than if none were asked for: `quickly`.
        """
        for attempt in sorted(self._attempts, key=lambda one: one.value):
            self._improve(attempt, self._share(1 - SHARE_OF_MAPPINGS) if self._has_time_for_stacks else quickly)
        best = min(self._attempts, key=lambda one: one.value, default=None)
        if best is None:
            return best
        if self._is_limited and not self._has_proofs:
            best = self._improve_with_proofs(best, may_restack=self._has_time_for_stacks)
        value = None
        while value is None or (best.value < value and self._share(1.0).stop is None):
            value = best.value
            self._shake(best, SHARE_OF_SHAKES)
            self._map_longer(best, 1 - SHARE_OF_SHAKES)
            if self._is_limited and self._is_joined:
                break
        if self._is_joined:
            self._join(best)
        self._map_longer(best, 1.0)
        return best

    @property
    def _is_joined(self) -> bool:
        """Whether mappings are weighed against each other: where energy alone counts the least of each nest is best."""
        return self.options.weighs_mappings and self.question.objective is not ScheduleObjective.ENERGY

    def _join(self, best: ScheduleAttempt) -> None:
        """From the best schedule of mappings that are each best alone: choose mappings and places together."""
        self._mapper.shows_others = True
        self.mappings.weigh(OptionPrices(MemoryRates(self.question.accelerator), self.question.objective))
        value = None
        while value is None or (best.value < value and self._share(1.0).stop is None):
            value = best.value
            with self._mapper.quick():
                self._weigher.weigh(best, self._share(SHARE_OF_WEIGHING))
            best.improver.begin_again()
            self._improve(best, self._share(SHARE_OF_PLACES))
            self._shake(best, SHARE_OF_SHAKES)

    def _shake(self, best: ScheduleAttempt, share: float) -> None:
        """Mappings that are found at once show what is worth it."""
        if self.options.maps_stay:
            with self._mapper.quick():
                best.improver.shake(self._share(share))

    def _improve_with_proofs(self, start: ScheduleAttempt, *, may_restack: bool) -> ScheduleAttempt:
        """Once more, with mappings that are proven as far as there is time."""
        self._map_longer(start, SHARE_OF_FIRST_PROOFS)
        best = self._restacked(start, is_quick=False) if may_restack else start
        best.improver.begin_again()
        self._improve(best, self._share(1 - SHARE_OF_MAPPINGS), is_quick=False)
        return best

    def _restacked(self, start: ScheduleAttempt, *, is_quick: bool = True) -> ScheduleAttempt:
        """Other stacks in the place of those in tiles, if none are given."""
        if not self.options.leaves_stacks_open:
            return start
        with self._mapper.quick(is_quick=is_quick and self._is_limited):
            return self._restacker.improved(start, self._share(SHARE_OF_STACKS))

    @property
    def _restacker(self) -> Restacker:
        return Restacker(self._maker, self._alone)

    def _is_improved(self, attempt: ScheduleAttempt) -> bool:
        return attempt.improver.is_over or not self.options.maps_stay

    def _improve(self, attempt: ScheduleAttempt, run: Run, *, is_quick: bool = True) -> None:
        """In limited time mappings that are found at once show what is worth it."""
        if self.options.maps_stay:
            with self._mapper.quick(is_quick=is_quick and self._is_limited):
                attempt.improver.improve(run)

    def _map_longer(self, best: ScheduleAttempt, share: float) -> None:
        """Ask again for mappings that are not proven."""
        counts_cycles = self.question.objective.is_timed and self.options.weighs_mappings
        LongerLook(self.mappings, self._mapper, counts_cycles).improve(best, self._share(share))

    @property
    def _is_limited(self) -> bool:
        return self.run.deadline.is_set

    def _share(self, share: float) -> Run:
        """The run with a share of the time that is left, but for that of verifying the largest schedule so far."""
        if not self._is_limited:
            return self.run
        verifying = VERIFYING * max((one.seconds for one in self._attempts), default=0.0)
        return self.run.within(share * max(0.0, self.run.seconds_left - verifying))


def solve_schedule(
    question: ScheduleQuestion, options: ScheduleOptions, run: Run, listener: Listener | None = None
) -> Result[FoundSchedule]:
    """A schedule of least objective value, as far as the run allows; a `listener` hears of all that are composed.

    Raises InputError for an accelerator that cannot be used, or options that are not of the network.
    """
    ensure_usable(question.accelerator)
    return ScheduleSolver(question, options, run, listener).solved()


def _every_operator_alone(network: Graph) -> tuple[ScheduledStack, ...]:
    return tuple(ScheduledStack((operator.name,)) for operator in network.operators)
