"""From a question to a schedule: layer by layer, the stacks that fusion suggests, the best of both made better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from onchip.answer.result import Result, Status, Stop
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.arch.accelerator import Accelerator
from onchip.cost.schedule.figures import ScheduleFigures, schedule_figures
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.lower.layers.layers_of import Precision
from onchip.lower.schedule.tile_graph import TileGraph
from onchip.lower.schedule.tiled import tile_graph
from onchip.solve.mapping.cache import MappingCache, cache_folder
from onchip.solve.run.limits import Progress, Run
from onchip.solve.schedule.composition import Composer, Composition, NoMappingError
from onchip.solve.schedule.first_places import FirstPlaces
from onchip.solve.schedule.fused import FusionSearch, FusionStart
from onchip.solve.schedule.improvement import Improver, Placed
from onchip.solve.schedule.mapped import KnownMappings
from onchip.solve.schedule.movements import TiledNetwork
from onchip.solve.schedule.nest_mapper import BestMapper
from onchip.solve.schedule.objective import ScheduleObjective
from onchip.solve.schedule.options import ScheduleOptions
from onchip.solve.schedule.places import Places
from onchip.solve.schedule.runs import step_of
from onchip.solve.stacks.options import FusionOptions

METHOD: Final = "composed"
SHARE_FOR_FUSION: Final = 0.4
"""Of the time that is left, for the search of stacks in tiles."""


@dataclass(frozen=True, slots=True)
class ScheduleQuestion:
    """The network as read, the accelerator, the bits of elements and partial sums, and what is to be least."""

    network: Graph
    accelerator: Accelerator
    precision: Precision
    objective: ScheduleObjective
    lower_bound: int = 0
    uses_cache: bool = True


@dataclass(frozen=True, slots=True)
class FoundSchedule:
    """A schedule with what its Computes cost, the tile graph that it runs, and its figures."""

    composition: Composition
    tiles: TileGraph
    figures: ScheduleFigures


@dataclass(frozen=True, slots=True)
class _Start:
    """A schedule to begin with, and what composes others in the same stacks."""

    tiles: TileGraph
    composer: Composer
    placed: Placed
    figures: ScheduleFigures


@dataclass(slots=True)
class ScheduleSolver:
    """Answers one question within one run."""

    question: ScheduleQuestion
    options: ScheduleOptions
    run: Run
    mappings: KnownMappings = field(init=False)
    _mapper: BestMapper = field(init=False)
    _seconds_an_operator: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        question = self.question
        cache = MappingCache(cache_folder()) if question.uses_cache else None
        self._mapper = BestMapper(question.accelerator, question.objective.of_layers, self.run, cache)
        self.mappings = KnownMappings(self._mapper, self._mapper.expect)

    def solved(self) -> Result[FoundSchedule]:
        """The best schedule found; UNKNOWN where not even one operator after the other has mappings in time."""
        starts = sorted(self._starts(), key=lambda start: start.placed.value)
        found = min((self._improved(start) for start in starts), key=self._value, default=None)
        stop = self.run.stop or Stop.COMPLETED
        bound = self.question.lower_bound
        if found is None:
            return Result(Status.UNKNOWN, None, None, bound, self.run.seconds, METHOD, stop)
        value = self._value(found)
        status = Status.OPTIMAL if value == bound else Status.FEASIBLE
        return Result(status, found, value, bound, self.run.seconds, METHOD, stop)

    def _starts(self) -> Iterator[_Start]:
        """Every operator alone, everything streamed; the stacks of the best fusion strategy; none that do not fit.

        Where stacks or tiles are given, operators alone are there for want of them.
        """
        if self.options.leaves_stacks_open or self.options.runs_layers_whole:
            yield from self._layer_by_layer()
        if self.options.runs_layers_whole or self.run.stop is not None:
            return
        has_stacks = False
        if (fused := self._fused()) is not None and self.run.stop is None:
            with suppress(NoMappingError, ScheduleError):
                yield self._start(fused.stacks, fused.places)
                has_stacks = True
        if not has_stacks and not self.options.leaves_stacks_open:
            yield from self._layer_by_layer()

    def _layer_by_layer(self) -> Iterator[_Start]:
        network = self.question.network
        others = FirstPlaces(network, self.question.accelerator.addressed)
        places: Places | None = Places()
        while places is not None:
            try:
                yield self._start(_every_operator_alone(network), places)
                return
            except NoMappingError as error:
                may_go_on = self.options.maps_stay and self.run.stop is None
                places = others.after(error.operator) if may_go_on else None

    def _fused(self) -> FusionStart | None:
        question, options = self.question, self.options
        is_limited = self.run.limits.time_limit_seconds is not None
        asked = FusionOptions(options.stacks, options.tile, options.mode, maps_stay=options.maps_stay)
        search = FusionSearch(
            question.network,
            question.accelerator,
            question.precision,
            question.objective,
            replace(asked, needs_bound=not is_limited),
            question.uses_cache,
        )
        share = self.run.within(SHARE_FOR_FUSION * self.run.seconds_left) if is_limited else self.run
        return search.start(replace(share, listener=self._listen_to_fusion))

    def _listen_to_fusion(self, heard: Progress) -> None:
        """What the model of stacks knows is no schedule, and its bound is none of schedules."""
        self.run.report(None, self.question.lower_bound, f"stacks in tiles: {heard.phase}")

    def _value(self, found: FoundSchedule) -> int:
        return self.question.objective.value_of(found.figures)

    def _start(self, stacks: Sequence[ScheduledStack], places: Places) -> _Start:
        """Raises NoMappingError where something does not fit, ScheduleError for stacks that are outside the space.

        And for so many tiles that, at the pace of an earlier start, there is no time to compose them.
        """
        question, begun, mapping = self.question, self.run.seconds, self._mapper.seconds
        tiles = tile_graph(question.network, stacks, question.precision)
        count = len(tiles.graph.operators)
        if self._seconds_an_operator and count * self._seconds_an_operator > self.run.seconds_left:
            raise ScheduleError(f"no time for {count:,} tile operators", place="stacks", expected="fewer, or more time")
        network = TiledNetwork.of(tiles, [step_of(tiles, operator) for operator in tiles.graph.operators])
        composer = Composer(tuple(stacks), network, question.accelerator, self.mappings)
        composition = composer.composed(places)
        figures = self._figures(tiles, composition)
        value = question.objective.value_of(figures)
        self.run.report(value, question.lower_bound, f"{len(stacks)} stacks")
        self._seconds_an_operator = (self.run.seconds - begun - (self._mapper.seconds - mapping)) / count
        return _Start(tiles, composer, Placed(places, composition, value), figures)

    def _improved(self, start: _Start) -> FoundSchedule:
        best = start.placed
        if self.options.maps_stay:
            best = Improver(
                self.question.network,
                {name: number for number, one in enumerate(start.composer.stacks) for name in one.operators},
                self.question.accelerator.addressed,
                start.composer,
                lambda one: self.question.objective.value_of(self._figures(start.tiles, one)),
                self.run,
                self.question.lower_bound,
            ).improved(best)
        is_new = best is not start.placed
        figures = self._figures(start.tiles, best.composition) if is_new else start.figures
        return FoundSchedule(best.composition, start.tiles, figures)

    def _figures(self, tiles: TileGraph, composition: Composition) -> ScheduleFigures:
        program = composition.schedule.program
        return schedule_figures(tiles.graph, self.question.accelerator, program, composition.costs)


def solve_schedule(question: ScheduleQuestion, options: ScheduleOptions, run: Run) -> Result[FoundSchedule]:
    """A schedule of least objective value, as far as the run allows.

    Raises InputError for an accelerator that cannot be used, or options that are not of the network.
    """
    ensure_usable(question.accelerator)
    return ScheduleSolver(question, options, run).solved()


def _every_operator_alone(network: Graph) -> tuple[ScheduledStack, ...]:
    return tuple(ScheduledStack((operator.name,)) for operator in network.operators)


def ensure_usable(accelerator: Accelerator) -> None:
    """Raise ScheduleError where no program could address anything, InputError where the array is missing."""
    if not accelerator.addressed:
        place = f"accelerator {accelerator.name!r}"
        raise ScheduleError("no memory serves the whole array", place=place, expected="at least one to address")
    if accelerator.array is None:
        raise InputError("it has no array", place=f"accelerator {accelerator.name!r}", expected="`array` in its file")
