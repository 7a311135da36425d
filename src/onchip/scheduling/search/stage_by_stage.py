"""Schedules stage by stage: mappings that are each best alone, the stacks that fusion suggests, places, other stacks.

Layer by layer comes first, and is brought to its end; then the stacks in tiles of the best fusion strategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.ir.graph import Graph
from onchip.scheduling.candidates.given_stacks import GivenStacks, given_of
from onchip.scheduling.moves.refining import Refiner
from onchip.scheduling.moves.restacking import Restacker, places_of_lone
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import NoMappingError
from onchip.scheduling.program.first_places import FirstPlaces
from onchip.scheduling.program.places import Places
from onchip.scheduling.program.question import ScheduleQuestion
from onchip.scheduling.search.fused import FusionSearch, FusionStart
from onchip.search.budget.limits import Progress, Run

SHARE_OF_LAYERS: Final = 0.6
"""Of the time that is left, at most to improve what runs layer by layer, before stacks in tiles are looked for."""
SHARE_OF_FIRST_STACKS: Final = 0.25
"""Of the time that is left, to improve what runs in the first stacks, before others are tried."""
SHARE_OF_FUSION: Final = 0.8
"""Of the time that is left, for the search of stacks in tiles."""
SHARE_OF_STACKS: Final = 0.6
"""Of the time that is left, to try other stacks in tiles by the schedule's own figures."""
SHARE_OF_MAPPINGS: Final = 0.15
"""Of the time that is left, kept for the mappings that are not proven."""
SHARE_OF_FIRST_PROOFS: Final = 0.5
"""Of the time that is left, to prove the mappings of the best before it is improved once more."""
SHARE_OF_TILE_PROOFS: Final = 0.3
"""Of the time that is left, for the mappings of the first stacks in tiles, where those layer by layer are proven."""
SHARE_OF_FIRST_SHAKES: Final = 0.1
"""Of the time that is left, to move several maps at once of what runs layer by layer, before stacks are looked for."""

MOST_OPERATORS_EXPLORED: Final = 8
"""Of a network of which, without a time limit, other tiles of more than the best are tried: that takes long."""


@dataclass(slots=True)
class StageByStage:
    """Looks for schedules within the refiner's run; `attempts` are all that were found, the best of each kind.

    `why_not` says what the operator needs that has no room alone, wherever its tensors lie. Raises UsageError for
    stacks or tiles that the network does not have.
    """

    question: ScheduleQuestion
    options: ScheduleOptions
    refiner: Refiner
    maker: AttemptMaker
    attempts: list[ScheduleAttempt] = field(default_factory=list, init=False)
    why_not: str | None = field(default=None, init=False)
    left_alone: tuple[tuple[str, str], ...] = field(default=(), init=False)
    """Runs of operators, by first and last, that run alone for no stacks as asked for fit in them, where others do."""
    fused: FusionStart | None = field(default=None, init=False)
    """What the fusion search found, even where there was no time to compose it."""
    _alone: ScheduleAttempt | None = field(default=None, init=False)
    """Every operator alone, if there is room for it."""
    _has_proofs: bool = field(default=False, init=False)
    """Whether it has been improved with proven mappings, as far as there was time."""
    _has_time_for_stacks: bool = field(default=True, init=False)
    _given: GivenStacks | None = field(init=False)

    def __post_init__(self) -> None:
        self._given = given_of(self.question.network, self.question.precision, self.options.of_fusion)

    @property
    def run(self) -> Run:
        """Return the run of this search."""
        return self.refiner.run

    def search(self) -> str | None:
        """Find what there is; return why there are no stacks as asked for, where they are asked for in vain."""
        if self.options.leaves_stacks_open or self.options.runs_layers_whole:
            self._layer_by_layer()
        if self._alone is not None:
            self.refiner.settle(self._alone, SHARE_OF_LAYERS)
        self._keep_pace()
        quickly = self.refiner.share(1 - SHARE_OF_MAPPINGS)
        if not self.options.runs_layers_whole and self.run.stop is None:
            self._in_stacks()
        lacks_stacks = not self.attempts and not self.options.runs_layers_whole
        if lacks_stacks:
            self._layer_by_layer()
        is_late = self.run.stop is not None
        self._improve_all(quickly)
        if self.options.leaves_stacks_open or not lacks_stacks:
            return None
        return f"no stacks as asked for {'in time' if is_late else 'fit, or can run in tiles'}"

    def go_on(self) -> None:
        """In the time that is left once the work is done: places, mappings and tiles of the best, if there is any."""
        best = self.best
        if best is None:
            return
        best = self._restacked(best)
        self._keep(best)
        self.refiner.finish(best)
        if self.options.leaves_stacks_open:
            self._explore_tiles()

    def _keep_pace(self) -> None:
        """On a machine that is much slower than most, or busier, less is to be done."""
        maker, run = self.maker, self.run.at_pace
        self.refiner.run = maker.run = maker.mapper.run = run

    @property
    def best(self) -> ScheduleAttempt | None:
        """The best so far; None where nothing was found."""
        return min(self.attempts, key=lambda one: one.value, default=None)

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
                self.why_not = needs.setdefault(error.operator, str(error))
                may_go_on = self.options.maps_stay and self.run.stop is None
                places = others.after(error.operator) if may_go_on else None

    def _in_stacks(self) -> None:
        """The stacks of the best fusion strategy, then others in their place; none that do not fit.

        They are not looked for where the time is over before what runs layer by layer is improved, by proven mappings
        in the end, as far as single places can improve it: then all that is done is what would be without them.
        """
        refiner = self.refiner
        if self._alone is not None:
            if refiner.is_limited and refiner.is_improved(self._alone):
                self._improve_with_proofs(self._alone, may_restack=False)
                self._has_proofs = not refiner.is_improved(self._alone)
            if not refiner.is_improved(self._alone):
                self._has_time_for_stacks = False
                return
            refiner.shake(self._alone, SHARE_OF_FIRST_SHAKES)
        self.fused = fused = self._fused()
        if fused is None or self.run.stop is not None:
            return
        try:
            attempt = self._add(fused.stacks, fused.places)
        except (NoMappingError, ScheduleError):
            return
        self.left_alone = () if self.options.leaves_stacks_open else fused.left_alone
        refiner.settle(attempt, SHARE_OF_FIRST_STACKS)
        if refiner.is_limited and self._alone is not None and self._alone.value < attempt.value:
            self._improve_in_tiles(attempt)
        if self._alone is not None:
            self._meet(attempt, self._alone)
        best = self.best
        for one in list(self.attempts):
            if one is best or (one is attempt and self.may_take_long):
                self._keep(self._restacked(one))

    def _improve_in_tiles(self, attempt: ScheduleAttempt) -> None:
        """What runs layer by layer has mappings that were searched for: then those of tiles are searched for, too."""
        self.refiner.improve_with_proofs(attempt, SHARE_OF_TILE_PROOFS)
        self.refiner.shake(attempt, SHARE_OF_FIRST_SHAKES)
        self.refiner.map_longer(attempt, SHARE_OF_TILE_PROOFS)

    def _meet(self, tiled: ScheduleAttempt, alone: ScheduleAttempt) -> None:
        """Places of what runs layer by layer for the stacks of one operator; stacks in tiles for what does not."""
        mapper, is_limited = self.refiner.mapper, self.refiner.is_limited
        if self.options.maps_stay:
            with mapper.quick(is_quick=is_limited):
                tiled.improver.consider(tiled.places.with_all(places_of_lone(tiled.stacks, alone)), self.run)
        if self.options.leaves_stacks_open:
            with mapper.quick(is_quick=is_limited):
                some = self._restacker.with_stacks_of(tiled, alone, self.refiner.share(SHARE_OF_STACKS))
            self._keep(some)

    def _add(self, stacks: Sequence[ScheduledStack], places: Places) -> ScheduleAttempt:
        attempt = self._made(stacks, places)
        self.attempts.append(attempt)
        self.refiner.slowest = max(self.refiner.slowest, attempt.seconds)
        self.run.report(attempt.value, self.question.lower_bound, f"{len(stacks)} stacks")
        return attempt

    def _made(self, stacks: Sequence[ScheduledStack], places: Places) -> ScheduleAttempt:
        """In limited time with mappings that are found at once: a longer look goes to those first that may gain most.

        A short search of each would find nothing for those that take longest, and nothing of it is kept for the next.
        """
        with self.refiner.mapper.quick(is_quick=self.refiner.is_limited, is_sure=True):
            return self.maker.made(stacks, places)

    def _keep(self, attempt: ScheduleAttempt) -> None:
        """It is among those that are improved in the end, beside what it was made of."""
        if not any(one is attempt for one in self.attempts):
            self.attempts.append(attempt)

    def _fused(self) -> FusionStart | None:
        question, options = self.question, self.options
        search = FusionSearch(
            question.network,
            question.accelerator,
            question.precision,
            question.objective,
            options.of_fusion,
            question.uses_cache,
            None if self.maker.mapper.ahead is None else self.maker.mapper.ahead.pool,
            self._given,
        )
        return search.start(replace(self.refiner.share(SHARE_OF_FUSION), listener=self._listen_to_fusion))

    def _listen_to_fusion(self, heard: Progress) -> None:
        """What the model of stacks knows is no schedule, and its bound is none of schedules."""
        best = min((one.value for one in self.attempts), default=None)
        self.run.report(best, self.question.lower_bound, f"stacks in tiles: {heard.phase}")

    def _improve_all(self, quickly: Run) -> None:
        """The best first, as long as there is time. Then the best of all once more, with mappings that are proven.

        Where there is no time for stacks, that without proofs is no longer than if none were asked for: `quickly`.
        """
        refiner = self.refiner
        for attempt in sorted(self.attempts, key=lambda one: one.value):
            share = refiner.share(1 - SHARE_OF_MAPPINGS) if self._has_time_for_stacks else quickly
            refiner.improve(attempt, share)
        best = self.best
        if best is None:
            return
        if refiner.is_limited and not self._has_proofs:
            best = self._improve_with_proofs(best, may_restack=self._has_time_for_stacks)
            self._keep(best)
        refiner.finish(best)
        if self.options.leaves_stacks_open and self.may_take_long:
            self._explore_tiles()

    @property
    def may_take_long(self) -> bool:
        """Whether there is a time limit, or little to be tried."""
        return self.refiner.is_limited or len(self.question.network.operators) <= MOST_OPERATORS_EXPLORED

    def _explore_tiles(self) -> None:
        """With what is left of the time: other tiles that are improved before they are judged, the best start first."""
        refiner = self.refiner

        def polish(attempt: ScheduleAttempt) -> None:
            refiner.improve(attempt, refiner.share(SHARE_OF_TILE_PROOFS), is_quick=False)

        in_tiles = [one for one in self.attempts if any(stack.tiling for stack in one.stacks)]
        for attempt in sorted(in_tiles, key=lambda one: one.value):
            found = Restacker(self.maker, self._alone, polish).improved(attempt, refiner.share(SHARE_OF_STACKS))
            if found is not attempt:
                self._keep(found)
                refiner.finish(found)

    def _improve_with_proofs(self, start: ScheduleAttempt, *, may_restack: bool) -> ScheduleAttempt:
        """Once more, with mappings that are proven as far as there is time."""
        self.refiner.map_longer(start, SHARE_OF_FIRST_PROOFS)
        best = self._restacked(start, is_quick=False) if may_restack else start
        self.refiner.improve_with_proofs(best, 1 - SHARE_OF_MAPPINGS)
        return best

    def _restacked(self, start: ScheduleAttempt, *, is_quick: bool = True) -> ScheduleAttempt:
        """Other stacks in the place of those in tiles, if none are given."""
        if not self.options.leaves_stacks_open:
            return start
        with self.refiner.mapper.quick(is_quick=is_quick and self.refiner.is_limited):
            return self._restacker.improved(start, self.refiner.share(SHARE_OF_STACKS))

    @property
    def _restacker(self) -> Restacker:
        return Restacker(self.maker, self._alone)


def _every_operator_alone(network: Graph) -> tuple[ScheduledStack, ...]:
    return tuple(ScheduledStack((operator.name,)) for operator in network.operators)
