"""From a question to a schedule: layer by layer, the stacks that fusion suggests, the best of both made better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from onchip.answer.result import Result, Status, Stop
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.arch.accelerator import Accelerator
from onchip.cost.schedule.figures import ScheduleFigures, schedule_figures
from onchip.cost.schedule.rates import addressed_levels
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.lower.layers.layers_of import Precision
from onchip.lower.schedule.tile_graph import TileGraph
from onchip.lower.schedule.tiled import tile_graph
from onchip.solve.mapping.cache import MappingCache, cache_folder
from onchip.solve.run.limits import Run
from onchip.solve.schedule.composition import Composer, Composition, NoMappingError
from onchip.solve.schedule.improvement import Improver, Placed
from onchip.solve.schedule.mapped import KnownMappings
from onchip.solve.schedule.movements import TiledNetwork
from onchip.solve.schedule.nest_mapper import MethodMapper
from onchip.solve.schedule.objective import ScheduleObjective
from onchip.solve.schedule.places import Places
from onchip.solve.schedule.runs import step_of

METHOD = "composed"


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


@dataclass(slots=True)
class ScheduleSolver:
    """Answers one question within one run."""

    question: ScheduleQuestion
    run: Run
    mappings: KnownMappings = field(init=False)

    def __post_init__(self) -> None:
        question = self.question
        cache = MappingCache(cache_folder()) if question.uses_cache else None
        mapper = MethodMapper("exact", question.accelerator, question.objective.of_layers, self.run, cache)
        self.mappings = KnownMappings(mapper)

    def solved(self) -> Result[FoundSchedule]:
        """The best schedule found; UNKNOWN where not even one operator after the other has mappings in time."""
        try:
            found = self.layer_by_layer()
        except NoMappingError:
            stop = self.run.stop or Stop.COMPLETED
            return Result(Status.UNKNOWN, None, None, self.question.lower_bound, self.run.seconds, METHOD, stop)
        value, bound = self.question.objective.value_of(found.figures), self.question.lower_bound
        status = Status.OPTIMAL if value == bound else Status.FEASIBLE
        stop = self.run.stop or Stop.COMPLETED
        return Result(status, found, value, bound, self.run.seconds, METHOD, stop)

    def layer_by_layer(self) -> FoundSchedule:
        """Every operator alone and whole, with the maps between them where they are best kept."""
        stacks = tuple(ScheduledStack((operator.name,)) for operator in self.question.network.operators)
        return self.in_stacks(stacks, Places())

    def in_stacks(self, stacks: Sequence[ScheduledStack], places: Places) -> FoundSchedule:
        """The best schedule in these stacks that is found from these places on.

        Raises NoMappingError where these themselves do not fit.
        """
        question = self.question
        tiles = tile_graph(question.network, stacks, question.precision)
        levels = addressed_levels(question.accelerator)
        network = TiledNetwork.of(tiles, [step_of(tiles, operator) for operator in tiles.graph.operators])
        composer = Composer(tuple(stacks), network, question.accelerator, self.mappings)
        composition = composer.composed(places)

        def value_of(one: Composition) -> int:
            return question.objective.value_of(self._figures(tiles, one))

        stack_of = {name: number for number, stack in enumerate(stacks) for name in stack.operators}
        graph = question.network
        improver = Improver(graph, stack_of, levels, composer, value_of, self.run, question.lower_bound)
        start = Placed(places, composition, value_of(composition))
        self.run.report(start.value, question.lower_bound, "layer by layer")
        best = improver.improved(start).composition
        return FoundSchedule(best, tiles, self._figures(tiles, best))

    def _figures(self, tiles: TileGraph, composition: Composition) -> ScheduleFigures:
        program = composition.schedule.program
        return schedule_figures(tiles.graph, self.question.accelerator, program, composition.costs)


def solve_schedule(question: ScheduleQuestion, run: Run) -> Result[FoundSchedule]:
    """A schedule of least objective value, as far as the run allows; raises InputError for an unusable accelerator."""
    ensure_usable(question.accelerator)
    return ScheduleSolver(question, run).solved()


def ensure_usable(accelerator: Accelerator) -> None:
    """Raise ScheduleError where no program could address anything, InputError where the array is missing."""
    if not addressed_levels(accelerator):
        place = f"accelerator {accelerator.name!r}"
        raise ScheduleError("no memory serves the whole array", place=place, expected="at least one to address")
    if accelerator.array is None:
        raise InputError("it has no array", place=f"accelerator {accelerator.name!r}", expected="`array` in its file")
