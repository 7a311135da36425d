"""A schedule in stacks that are given, and all that its improvement needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.ir.graph import Graph
from onchip.model.program.figures import ScheduleFigures, schedule_figures
from onchip.ops.fusable import pixels_in_tiles
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.moves.improvement import Improver, Key, Placed
from onchip.scheduling.params import ScheduleParams
from onchip.scheduling.program.composition import Composer, Composition, FoundSchedule, ScheduleQuestion
from onchip.scheduling.program.places import Places
from onchip.scheduling.program.runs import TiledNetwork
from onchip.search.budget.limits import Run
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph
from onchip.without_collecting import without_collecting

Listener: TypeAlias = Callable[[FoundSchedule], None]
"""Hears of every schedule that is composed, the better and the worse."""


@dataclass(frozen=True, slots=True)
class ScheduleAttempt:
    """A schedule in some stacks, with what makes it better; composing it once more takes about `seconds`."""

    question: ScheduleQuestion
    tiles: TileGraph
    improver: Improver
    seconds: float

    @property
    def stacks(self) -> Sequence[ScheduledStack]:
        """Return the stacks in the order in which they run."""
        return self.improver.composer.stacks

    @property
    def places(self) -> Places:
        """Return the places of the best schedule so far."""
        return self.improver.best.places

    @property
    def value(self) -> int:
        """Return the objective value of the best schedule so far, in the objective's unit."""
        return self.improver.best.value

    @property
    def figures(self) -> ScheduleFigures:
        """Return the figures of the best schedule so far."""
        return _figures(self.question, self.tiles, self.improver.best.composition)

    def found(self) -> FoundSchedule:
        """Return the best schedule so far, with its figures."""
        return FoundSchedule(self.improver.best.composition, self.tiles, self.figures)

    def compose_again(self) -> bool:
        """Compose the best schedule with the mappings that are known now; return True if it is better."""
        return self.improver.consider(self.places, self.improver.composer.run)


@dataclass(frozen=True, slots=True)
class ScheduleEvaluator:
    """Prices compositions of one tile graph; a listener hears of all that have offsets."""

    question: ScheduleQuestion
    tiles: TileGraph
    listener: Listener | None = None

    def least(self, composition: Composition) -> Key:
        """Return the key of a composition whose offsets are not known, or a lower bound if it depends on them."""
        if self.listener is not None:
            return 0, 0, 0
        energy_fj, traffic = composition.energy_fj, composition.traffic_bytes
        value = {
            ScheduleObjective.ENERGY: energy_fj,
            ScheduleObjective.TRAFFIC: traffic,
            ScheduleObjective.LATENCY: composition.cycles,
            ScheduleObjective.EDP: composition.cycles * energy_fj,
        }[self.question.objective]
        return value, energy_fj, traffic

    def of(self, composition: Composition) -> Key:
        """Return the key, with a timeline only if the objective, or a listener, needs one."""
        if self.listener is None and not self.question.objective.is_timed:
            return self.least(composition)
        figures = _figures(self.question, self.tiles, composition)
        if self.listener is not None:
            self.listener(FoundSchedule(composition, self.tiles, figures))
        return self.question.objective.value_of(figures), composition.energy_fj, composition.traffic_bytes


@dataclass(slots=True)
class ComposingPace:
    """The processor seconds to compose a tile operator as last measured; 0 before the first measurement."""

    seconds: float = 0.0


@dataclass(slots=True)
class AttemptMaker:
    """Composes initial schedules, which share all known mappings."""

    question: ScheduleQuestion
    mappings: KnownMappings
    mapper: BestMapper
    run: Run
    listener: Listener | None = None
    params: ScheduleParams = field(default_factory=ScheduleParams)
    pace: ComposingPace = field(default_factory=ComposingPace)
    whole: Run | None = None
    """The run in which the answer has to be verified, too, if that is not `run`."""

    def of_part(self, network: Graph, run: Run, listener: Listener | None = None) -> AttemptMaker:
        """Return a maker of schedules of a part of the network, with the same mappings and the same pace."""
        question = replace(self.question, network=network, lower_bound=0)
        return replace(self, question=question, run=run, listener=listener)

    def tile_operators_of(self, stack: ScheduledStack) -> int:
        """Return about how many operators a group runs."""
        if stack.tiling is None:
            return len(stack.operators)
        network, tiling = self.question.network, stack.tiling
        if tiling.channels is not None:
            shape = network.tensor[network.operator[stack.operators[-1]].outputs[0]].shape or ()
            return len(stack.operators) * -(-shape[1] // tiling.channels)
        rows, columns = pixels_in_tiles(network, stack.operators)
        return len(stack.operators) * -(-rows // tiling.rows) * -(-columns // tiling.columns)

    def seconds_to_compose(self, operators: int) -> float:
        """Return the expected time to compose so many tile operators."""
        return operators * self.run.deadline.seconds_for(self.pace.seconds or self.params.seconds_to_compose)

    def seconds_to_finish(self, operators: int) -> float:
        """Return the expected time to price and verify a schedule of so many tile operators."""
        return self.params.times_to_finish * self.seconds_to_compose(operators)

    @without_collecting()
    def made(self, stacks: Sequence[ScheduledStack], places: Places) -> ScheduleAttempt:
        """Return the schedule of these stacks and places.

        Raises NoMappingError if an operator does not fit. Raises ScheduleError for stacks outside the space, and for
        more tiles than can be composed and verified in the time left.
        """
        question, begun, mapping = self.question, self.run.seconds, self.mapper.seconds
        composer, tiles = self.composer(stacks)
        bare = composer.composed(places)
        self._learn(len(tiles.graph.operators), self.run.seconds - begun - (self.mapper.seconds - mapping))
        composition = composer.addressed(bare)
        evaluator = ScheduleEvaluator(question, tiles, self.listener)
        best = Placed(places, composition, evaluator.of(composition))
        views = question.views & question.network.operator.keys()
        improver = Improver(question.network, composer, evaluator, question.lower_bound, best, views)
        seconds = improver.seconds = self.run.seconds - begun - (self.mapper.seconds - mapping)
        return ScheduleAttempt(question, tiles, improver, seconds)

    def _learn(self, operators: int, seconds: float) -> None:
        """Measure the pace by the time that a schedule took without offsets, whose search may take any time."""
        if operators >= self.params.operators_to_time:
            load = self.run.deadline.seconds_for(1.0)
            self.pace.seconds = self.params.times_with_offsets * seconds / (operators * load)

    def has_time_for(self, operators: int, times: int = 1) -> bool:
        """Return True if there is time to compose so many tile operators so many times, and to finish the schedule."""
        seconds = times * self.seconds_to_compose(operators) + self.seconds_to_finish(operators)
        return seconds <= (self.whole or self.run).seconds_left

    def composer(self, stacks: Sequence[ScheduledStack]) -> tuple[Composer, TileGraph]:
        """Return the composer of these stacks and their tile graph. Raises ScheduleError as `made` does."""
        question = self.question
        tiles = tile_graph(question.network, stacks, question.precision, question.views)
        count = len(tiles.graph.operators)
        if count > len(question.network.operators) and not self.has_time_for(count):
            raise ScheduleError(f"no time for {count:,} tile operators", place="stacks", expected="fewer, or more time")
        network, is_timed = TiledNetwork.of(tiles), question.objective.is_timed
        composer = Composer(tuple(stacks), network, question.accelerator, self.mappings, self.run, is_timed)
        composer.floors = self.mapper.floors
        return composer, tiles


def _figures(question: ScheduleQuestion, tiles: TileGraph, composition: Composition) -> ScheduleFigures:
    program = composition.schedule.program
    return schedule_figures(tiles.graph, question.accelerator, program, composition.costs)
