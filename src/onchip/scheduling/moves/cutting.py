"""Other tiles, and other cuts, for a whole schedule at once: chosen from the fronts of its stacks.

Each stack that is looked at has a front of options, each with what it takes alone. What is cheapest together comes into
the schedule at once, and stays where the schedule's own figures are better with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, TypeAlias

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import Tiling
from onchip.ir.layer import Layer
from onchip.scheduling.fronts.stack_front import (
    Operators,
    StackDemand,
    StackFront,
    StackOption,
    StackPrices,
    cheapest_cuts,
)
from onchip.scheduling.mappings.even_tiles import EvenTiles
from onchip.scheduling.mappings.mapped import NestKey, key_of
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import NoMappingError
from onchip.scheduling.program.places import Places
from onchip.scheduling.program.question import FoundSchedule
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.limits import Run
from onchip.transform.groups.part_of_network import part_of_network

SHARE_OF_LOOKS: Final = 0.7
"""Of the time that there is, to look at options; the rest is to compose schedules with them."""
LEAST_GAIN: Final = 0.001
"""Of a schedule's latency: layers that alike ones together cannot gain as much are not looked at."""
MOST_TILINGS: Final = 4
"""Of a stack that are looked at, those of the least floors."""
COMPOSITIONS: Final = 2.0
"""As many are left time for, once looking is over."""
SECONDS_TO_COMPOSE_AN_OPERATOR: Final = 6e-4
"""Of a tile graph, and to time it; what takes longer than there is time is not begun."""
TIMES_AS_MANY_PIXELS: Final = (16, 4)
"""As a run's own tiles have."""
PARTS_OF_A_ROW: Final = (2, 1, 4)
SECONDS_OF_A_PART: Final = 5e-3
"""To make a network of its own of a stack, where work is counted, beside composing it."""

_Change: TypeAlias = tuple[StackOption, ...]


@dataclass(frozen=True, slots=True)
class _Hope:
    """A stack of one whole operator, with its places, that runs one nest: in tiles it may take `most_gain` less."""

    stack: ScheduledStack
    places: Places
    nest: NestPlace
    most_gain: float


@dataclass(frozen=True, slots=True)
class TiledRun:
    """Several operators in tiles, and where their maps lie; in its places the stack has the number 0."""

    stack: ScheduledStack
    places: Places


@dataclass(slots=True)
class Cutter:
    """Makes schedules better by other stacks; `fronts` are of all runs of operators that were looked at."""

    maker: AttemptMaker
    fronts: dict[Operators, StackFront] = field(default_factory=dict)
    _even: EvenTiles = field(init=False)
    _known: dict[NestKey, Sequence[tuple[Tiling | None, StackDemand]]] = field(default_factory=dict, init=False)
    """Of each nest at its homes: tilings that were looked at, and what the stack takes in them."""

    def __post_init__(self) -> None:
        self._even = EvenTiles(self.maker.mapper.floors)

    def improved(
        self, best: ScheduleAttempt, run: Run, others: Sequence[ScheduleAttempt] = (), runs: Sequence[TiledRun] = ()
    ) -> ScheduleAttempt:
        """The schedule with what is better in other stacks, or itself.

        Operators that `others` run alone are looked at, too, and these `runs` of several.
        """
        figures = best.figures
        sources = (best, *others)
        is_timed = best.question.objective.is_timed
        hopes = self._hopes(sources, LEAST_GAIN * figures.latency_cycles) if is_timed else ()
        looking = run
        if run.deadline.is_set:
            left = run.seconds_left
            looking = run.within(min(SHARE_OF_LOOKS * left, left - COMPOSITIONS * best.seconds))
        for hope in hopes:
            if looking.stop is not None:
                break
            self._look(hope, looking)
        for one in runs:
            self._look_at_run(one, sources, looking)
        prices = StackPrices(best.question.objective, figures.energy_fj, figures.latency_cycles)
        chosen = cheapest_cuts(best.stacks, self.fronts, prices)
        return self._taken(best, tuple(_changes(best.stacks, chosen)), run)

    def _hopes(self, sources: Sequence[ScheduleAttempt], least_gain: float) -> Sequence[_Hope]:
        """Stacks that are not looked at yet; those first that may gain most, alike ones together."""
        groups: dict[NestKey, list[_Hope]] = {}
        seen: set[Operators] = set()
        for hope in (hope for source in sources for hope in self._every_hope(source)):
            if hope.stack.operators not in seen:
                seen.add(hope.stack.operators)
                groups.setdefault(key_of(hope.nest), []).append(hope)
        gains = {key: sum(one.most_gain for one in alike) for key, alike in groups.items()}
        worth = sorted((key for key in groups if gains[key] > least_gain), key=lambda key: -gains[key])
        return [one for key in worth for one in groups[key]]

    def _every_hope(self, source: ScheduleAttempt) -> Iterator[_Hope]:
        composed = source.improver.best.composition.composed
        for number, (stack, one) in enumerate(zip(source.stacks, composed, strict=True)):
            if stack.tiling is not None or stack.operators in self.fronts or len(one.mapped) != 1:
                continue
            ((nest, mapped),) = one.mapped.items()
            tilings = self._even.of(nest.layer) if self._is_over_pixels(stack, nest.layer) else ()
            if tilings and mapped.cost.cycles > tilings[0].least_cycles:
                gain = mapped.cost.cycles - tilings[0].least_cycles
                yield _Hope(stack, source.places.renumbered({number: 0}), nest, gain)

    def _look_at_run(self, one: TiledRun, sources: Sequence[ScheduleAttempt], run: Run) -> None:
        """It has a front, and so has each of its operators: else it would not be known what to hold it against."""
        if one.stack.operators in self.fronts:
            return
        for name in one.stack.operators:
            if (name,) not in self.fronts and run.stop is None:
                self._look_at_whole(name, sources, run)
        if run.stop is not None or not all((name,) in self.fronts for name in one.stack.operators):
            return
        front = StackFront()
        for tiling in self._tilings_of(one.stack):
            stack = replace(one.stack, tiling=tiling)
            figures = self._alone(stack, one.places, run) if run.stop is None else None
            if figures is not None:
                front = front.with_option(StackOption(stack, one.places, figures))
        if front.options:
            self.fronts[one.stack.operators] = front

    def _tilings_of(self, stack: ScheduledStack) -> Iterator[Tiling]:
        """Its own, and strips of several times as many pixels: fewer tiles, of which less is seen by two."""
        shape = self._shape_of(stack)
        if stack.tiling is None or shape is None:
            return
        yield stack.tiling
        own, (*_, rows, columns) = stack.tiling, shape
        for times, parts in product(TIMES_AS_MANY_PIXELS, PARTS_OF_A_ROW):
            across = -(-columns // parts)
            down = own.columns * own.rows * times // across
            strip = Tiling(across, 1 << max(down.bit_length() - 1, 0), own.mode).within(columns, rows)
            if _tiles(strip, rows, columns) < _tiles(own, rows, columns):
                yield strip

    def _shape_of(self, stack: ScheduledStack) -> tuple[int, ...] | None:
        """Of the map that it writes; None where nothing is known of its rows and columns."""
        network = self.maker.question.network
        shape = network.tensor[network.operator[stack.operators[-1]].outputs[0]].shape
        return shape if shape is not None and len(shape) > 1 else None

    def _look_at_whole(self, name: str, sources: Sequence[ScheduleAttempt], run: Run) -> None:
        stack = ScheduledStack((name,))
        number_of = ((source, list(source.stacks).index(stack)) for source in sources if stack in source.stacks)
        for source, number in number_of:
            places = source.places.renumbered({number: 0})
            figures = self._alone(stack, places, run)
            if figures is not None:
                self.fronts[name,] = StackFront((StackOption(stack, places, figures),))
                return

    def _is_over_pixels(self, stack: ScheduledStack, layer: Layer) -> bool:
        """Whether P and Q of its nest are the rows and columns of what it writes."""
        shape = self._shape_of(stack)
        return shape is not None and shape[-2:] == (layer.p, layer.q)

    def _look(self, hope: _Hope, run: Run) -> None:
        """Its stack has a front from now on, if it has mappings alone."""
        stack, key = hope.stack, key_of(hope.nest)
        if key not in self._known:
            self._known[key] = tuple(self._in_tiles(hope, run))
        front = StackFront()
        for tiling, figures in self._known[key]:
            front = front.with_option(StackOption(replace(stack, tiling=tiling), hope.places, figures))
        if front.options:
            self.fronts[stack.operators] = front

    def _in_tiles(self, hope: _Hope, run: Run) -> Iterator[tuple[Tiling | None, StackDemand]]:
        """The whole operator, then tilings that may take fewer cycles than all before, the least floor first."""
        stack, places, nest = hope.stack, hope.places, hope.nest
        whole = self._alone(stack, places, run)
        if whole is None:
            return
        yield None, whole
        fewest = whole.cycles
        for one in self._even.of(nest.layer)[:MOST_TILINGS]:
            if run.stop is not None or one.least_cycles >= fewest:
                break
            if self._even.least_cycles_at_ports(nest, one.tiling) >= fewest:
                continue
            found = self._alone(replace(stack, tiling=one.tiling), places, run)
            if found is not None:
                yield one.tiling, found
                fewest = min(fewest, found.cycles)

    def _alone(self, stack: ScheduledStack, places: Places, run: Run) -> StackDemand | None:
        """What the stack takes as a network of its own; None where it is none, has no mappings, or there is no time."""
        maker, heard, shape = self.maker, list[FoundSchedule](), self._shape_of(stack)
        if maker.question.views.issuperset(stack.operators):
            return StackDemand({}, 0, 0, 0)
        run.spend(SECONDS_OF_A_PART)
        if stack.tiling is not None and shape is not None:
            count = len(stack.operators) * _tiles(stack.tiling, shape[-2], shape[-1])
            if count * SECONDS_TO_COMPOSE_AN_OPERATOR > run.seconds_left:
                return None
        part = replace(maker.question, network=part_of_network(maker.question.network, stack.operators), lower_bound=0)
        try:
            AttemptMaker(part, maker.mappings, maker.mapper, run, heard.append).made((stack,), places)
        except (NoMappingError, ScheduleError):
            return None
        return StackDemand.of(heard[0].figures)

    def _taken(self, best: ScheduleAttempt, changes: Sequence[_Change], run: Run) -> ScheduleAttempt:
        """With all of the changes; where that is no better with one half of them, and then with the other."""
        if not changes or run.stop is not None:
            return best
        found = self._made(best, changes)
        if found is not None and found.value < best.value:
            run.report(found.value, best.question.lower_bound, f"{len(found.stacks)} stacks, chosen together")
            return found
        if len(changes) == 1:
            return best
        middle = len(changes) // 2
        return self._taken(self._taken(best, changes[:middle], run), changes[middle:], run)

    def _made(self, best: ScheduleAttempt, changes: Sequence[_Change]) -> ScheduleAttempt | None:
        """Each change in the place of the stacks that have its operators; None where that is no schedule."""
        change_at = {change[0].stack.operators[0]: change for change in changes}
        changed = {name for change in changes for option in change for name in option.stack.operators}
        stacks: list[ScheduledStack] = []
        kept: dict[int, int] = {}
        own = Places()
        for number, stack in enumerate(best.stacks):
            for option in change_at.get(stack.operators[0], ()):
                own = own.with_all(option.places.renumbered({0: len(stacks)}))
                stacks.append(option.stack)
            if stack.operators[0] not in changed:
                kept[number] = len(stacks)
                stacks.append(stack)
        try:
            return self.maker.made(stacks, best.places.renumbered(kept).with_all(own))
        except (NoMappingError, ScheduleError):
            return None


def _changes(stacks: Sequence[ScheduledStack], chosen: Sequence[StackOption]) -> Iterator[_Change]:
    """Options that come together in the place of one or several whole stacks; what is as it was is none."""
    ends = {stack.operators[-1]: stack for stack in stacks}
    change: list[StackOption] = []
    for option in chosen:
        change.append(option)
        if option.stack.operators[-1] in ends:
            if [one.stack for one in change] != [ends[option.stack.operators[-1]]]:
                yield tuple(change)
            change = []


def _tiles(tiling: Tiling, rows: int, columns: int) -> int:
    return -(-rows // tiling.rows) * -(-columns // tiling.columns)
