"""Other tiles, and other cuts, for a whole schedule at once: chosen from the fronts of its stacks.

Each stack that is looked at has a front of options, each with what it takes alone. What is cheapest together comes into
the schedule at once, and stays where the schedule's own figures are better with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import Tiling
from onchip.ir.layer import Layer
from onchip.lower.schedule.part_of_network import part_of_network
from onchip.solve.run.limits import Run
from onchip.solve.schedule.attempt import AttemptMaker, ScheduleAttempt
from onchip.solve.schedule.composition import NoMappingError
from onchip.solve.schedule.even_tiles import EvenTiles
from onchip.solve.schedule.mapped import NestKey, key_of
from onchip.solve.schedule.places import Places
from onchip.solve.schedule.question import FoundSchedule
from onchip.solve.schedule.runs import NestPlace
from onchip.solve.schedule.stack_front import (
    Operators,
    StackFigures,
    StackFront,
    StackOption,
    StackPrices,
    cheapest_cuts,
)

SHARE_OF_LOOKS: Final = 0.7
"""Of the time that there is, to look at options; the rest is to compose schedules with them."""
LEAST_GAIN: Final = 0.001
"""Of a schedule's latency: layers that alike ones together cannot gain as much are not looked at."""
MOST_TILINGS: Final = 4
"""Of a stack that are looked at, those of the least floors."""
COMPOSITIONS: Final = 2.0
"""As many are left time for, once looking is over."""
SECONDS_OF_A_PART: Final = 5e-3
"""To make a network of its own of a stack, where work is counted, beside composing it."""


@dataclass(frozen=True, slots=True)
class _Hope:
    """A stack of one whole operator, by its number, that runs one nest: in tiles it may take `most_gain` less."""

    number: int
    nest: NestPlace
    most_gain: float


@dataclass(slots=True)
class Cutter:
    """Makes schedules better by other stacks; `fronts` are of all runs of operators that were looked at."""

    maker: AttemptMaker
    fronts: dict[Operators, StackFront] = field(default_factory=dict)
    _even: EvenTiles = field(init=False)
    _known: dict[NestKey, Sequence[tuple[Tiling | None, StackFigures]]] = field(default_factory=dict, init=False)
    """Of each nest at its homes: tilings that were looked at, and what the stack takes in them."""

    def __post_init__(self) -> None:
        self._even = EvenTiles(self.maker.mapper.floors)

    def improved(self, best: ScheduleAttempt, run: Run) -> ScheduleAttempt:
        """The schedule with what is better in tiles, or itself."""
        figures = best.figures
        hopes = self._hopes(best, LEAST_GAIN * figures.latency_cycles)
        looking = run
        if run.deadline.is_set:
            left = run.seconds_left
            looking = run.within(min(SHARE_OF_LOOKS * left, left - COMPOSITIONS * best.seconds))
        for hope in hopes:
            if looking.stop is not None:
                break
            self._look(best, hope, looking)
        prices = StackPrices(best.question.objective, figures.energy_fj, figures.latency_cycles)
        now = {one.operators: one for one in best.stacks}
        chosen = cheapest_cuts(best.stacks, self.fronts, prices)
        return self._taken(best, [one for one in chosen if now.get(one.stack.operators) != one.stack], run)

    def _hopes(self, best: ScheduleAttempt, least_gain: float) -> Sequence[_Hope]:
        """Stacks that are not looked at yet; those first that may gain most, alike ones together."""
        groups: dict[NestKey, list[_Hope]] = {}
        for hope in self._every_hope(best):
            groups.setdefault(key_of(hope.nest), []).append(hope)
        gains = {key: sum(one.most_gain for one in alike) for key, alike in groups.items()}
        worth = sorted((key for key in groups if gains[key] > least_gain), key=lambda key: -gains[key])
        return [one for key in worth for one in groups[key]]

    def _every_hope(self, best: ScheduleAttempt) -> Iterator[_Hope]:
        composed = best.improver.best.composition.composed
        for number, (stack, one) in enumerate(zip(best.stacks, composed, strict=True)):
            if stack.tiling is not None or stack.operators in self.fronts or len(one.mapped) != 1:
                continue
            ((nest, mapped),) = one.mapped.items()
            tilings = self._even.of(nest.layer) if self._is_over_pixels(stack, nest.layer) else ()
            if tilings and mapped.cost.cycles > tilings[0].least_cycles:
                yield _Hope(number, nest, mapped.cost.cycles - tilings[0].least_cycles)

    def _is_over_pixels(self, stack: ScheduledStack, layer: Layer) -> bool:
        """Whether P and Q of its nest are the rows and columns of what it writes."""
        network = self.maker.question.network
        shape = network.tensor[network.operator[stack.operators[0]].outputs[0]].shape
        return shape is not None and shape[-2:] == (layer.p, layer.q)

    def _look(self, best: ScheduleAttempt, hope: _Hope, run: Run) -> None:
        """Its stack has a front from now on, if it has mappings alone."""
        stack, places, key = best.stacks[hope.number], best.places.renumbered({hope.number: 0}), key_of(hope.nest)
        if key not in self._known:
            self._known[key] = tuple(self._in_tiles(stack, places, hope.nest, run))
        front = StackFront()
        for tiling, figures in self._known[key]:
            front = front.with_option(StackOption(replace(stack, tiling=tiling), places, figures))
        if front.options:
            self.fronts[stack.operators] = front

    def _in_tiles(
        self, stack: ScheduledStack, places: Places, nest: NestPlace, run: Run
    ) -> Iterator[tuple[Tiling | None, StackFigures]]:
        """The whole operator, then tilings that may take fewer cycles than all before, the least floor first."""
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

    def _alone(self, stack: ScheduledStack, places: Places, run: Run) -> StackFigures | None:
        """What the stack takes as a network of its own; None where it is no stack, or has no mappings."""
        maker, heard = self.maker, list[FoundSchedule]()
        run.spend(SECONDS_OF_A_PART)
        part = replace(maker.question, network=part_of_network(maker.question.network, stack.operators), lower_bound=0)
        try:
            AttemptMaker(part, maker.mappings, maker.mapper, run, heard.append).made((stack,), places)
        except (NoMappingError, ScheduleError):
            return None
        return StackFigures.of(heard[0].figures)

    def _taken(self, best: ScheduleAttempt, options: Sequence[StackOption], run: Run) -> ScheduleAttempt:
        """With all of the options; where that is no better with one half of them, and then with the other."""
        if not options or run.stop is not None:
            return best
        found = self._made(best, options)
        if found is not None and found.value < best.value:
            run.report(found.value, best.question.lower_bound, f"{len(options)} other stacks")
            return found
        if len(options) == 1:
            return best
        middle = len(options) // 2
        return self._taken(self._taken(best, options[:middle], run), options[middle:], run)

    def _made(self, best: ScheduleAttempt, options: Sequence[StackOption]) -> ScheduleAttempt | None:
        """Each option in the place of the stacks that have its operators; None where that is no schedule."""
        option_of = {name: one for one in options for name in one.stack.operators}
        stacks: list[ScheduledStack] = []
        kept: dict[int, int] = {}
        own = Places()
        for number, stack in enumerate(best.stacks):
            option = option_of.get(stack.operators[-1])
            if option is None:
                kept[number] = len(stacks)
                stacks.append(stack)
            elif option.stack.operators[-1] == stack.operators[-1]:
                own = own.with_all(option.places.renumbered({0: len(stacks)}))
                stacks.append(option.stack)
        try:
            return self.maker.made(stacks, best.places.renumbered(kept).with_all(own))
        except (NoMappingError, ScheduleError):
            return None
