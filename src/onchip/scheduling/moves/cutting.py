"""Moves that replace whole stacks: other tilings and other partitions, chosen together from the fronts of all stacks.

Each examined stack has a front of options, each option with its demand when it runs alone. The cheapest combination
replaces stacks of the schedule, and stays if it improves the figures of the whole schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypeAlias

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import Tiling
from onchip.ops.fusable import pixels_in_tiles
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
from onchip.scheduling.program.composition import FoundSchedule, NoMappingError
from onchip.scheduling.program.places import Places
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.limits import Run
from onchip.transform.groups.tile_graph import part_of_network

_Change: TypeAlias = tuple[StackOption, ...]


@dataclass(frozen=True, slots=True)
class _Hope:
    """A stack of one whole operator with one loop nest, and its places. Tiling saves at most `most_gain` cycles."""

    stack: ScheduledStack
    places: Places
    nest: NestPlace
    most_gain: float


@dataclass(frozen=True, slots=True)
class TiledRun:
    """A stack of several operators in tiles, and the places of its feature maps. In `places` the stack has number 0."""

    stack: ScheduledStack
    places: Places


@dataclass(slots=True)
class Cutter:
    """Improves schedules by replacing stacks; `fronts` holds the options of every run of operators evaluated so far."""

    maker: AttemptMaker
    fronts: dict[Operators, StackFront] = field(default_factory=dict)
    _even: EvenTiles = field(init=False)
    _known: dict[NestKey, Sequence[tuple[Tiling | None, StackDemand]]] = field(default_factory=dict, init=False)
    """Map from each loop nest at its homes to the evaluated tilings and the demand of the stack with each of them."""

    def __post_init__(self) -> None:
        self._even = EvenTiles(self.maker.mapper.floors)

    def improved(
        self, best: ScheduleAttempt, run: Run, others: Sequence[ScheduleAttempt] = (), runs: Sequence[TiledRun] = ()
    ) -> ScheduleAttempt:
        """Return the schedule with the replacements that improve it, or the schedule itself.

        Also evaluates operators that are stacks alone in `others`, and the given `runs` of several operators.
        """
        figures = best.figures
        sources = (best, *others)
        is_timed = best.question.objective.is_timed
        hopes = self._hopes(sources, self.maker.params.least_gain * figures.latency_cycles) if is_timed else ()
        looking = run
        if run.deadline.is_set:
            left = run.seconds_left
            looking = run.within(
                min(self.maker.params.share_of_looks * left, left - self.maker.params.compositions * best.seconds)
            )
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
        """Return the stacks that have no front yet, ordered by the most that identical stacks may gain together."""
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
            tilings = self._even.of(nest.layer) if self._pixels_of(stack) == (nest.layer.p, nest.layer.q) else ()
            if tilings and mapped.cost.cycles > tilings[0].least_cycles:
                gain = mapped.cost.cycles - tilings[0].least_cycles
                yield _Hope(stack, source.places.renumbered({number: 0}), nest, gain)

    def _look_at_run(self, one: TiledRun, sources: Sequence[ScheduleAttempt], run: Run) -> None:
        """Compute the front of a run of operators, and the front of each operator for comparison."""
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
        """Yield the stack's tiling, then strips of several times as many pixels: fewer tiles share less halo."""
        if stack.tiling is None:
            return
        yield stack.tiling
        if stack.tiling.channels is not None:
            return
        own, (rows, columns) = stack.tiling, self._pixels_of(stack)
        for times, parts in product(self.maker.params.times_as_many_pixels, self.maker.params.parts_of_a_row):
            across = -(-columns // parts)
            down = own.columns * own.rows * times // across
            strip = Tiling(across, 1 << max(down.bit_length() - 1, 0), own.mode).within(columns, rows)
            if _tiles(strip, rows, columns) < _tiles(own, rows, columns):
                yield strip

    def _pixels_of(self, stack: ScheduledStack) -> tuple[int, int]:
        """Return the rows and columns of the stack's output."""
        return pixels_in_tiles(self.maker.question.network, stack.operators)

    def _look_at_whole(self, name: str, sources: Sequence[ScheduleAttempt], run: Run) -> None:
        stack = ScheduledStack((name,))
        number_of = ((source, list(source.stacks).index(stack)) for source in sources if stack in source.stacks)
        for source, number in number_of:
            places = source.places.renumbered({number: 0})
            figures = self._alone(stack, places, run)
            if figures is not None:
                self.fronts[name,] = StackFront((StackOption(stack, places, figures),))
                return

    def _look(self, hope: _Hope, run: Run) -> None:
        """Compute the front of the stack, which gets none if it has no mapping when it runs alone."""
        stack, key = hope.stack, key_of(hope.nest)
        if key not in self._known:
            self._known[key] = tuple(self._in_tiles(hope, run))
        front = StackFront()
        for tiling, figures in self._known[key]:
            front = front.with_option(StackOption(replace(stack, tiling=tiling), hope.places, figures))
        if front.options:
            self.fronts[stack.operators] = front

    def _in_tiles(self, hope: _Hope, run: Run) -> Iterator[tuple[Tiling | None, StackDemand]]:
        """Yield the whole operator, then tilings that may take fewer cycles than all before, the lowest bound first."""
        stack, places, nest = hope.stack, hope.places, hope.nest
        whole = self._alone(stack, places, run)
        if whole is None:
            return
        yield None, whole
        fewest = whole.cycles
        for one in self._even.of(nest.layer)[: self.maker.params.most_tilings]:
            if run.stop is not None or one.least_cycles >= fewest:
                break
            if self._even.least_cycles_at_ports(nest, one.tiling) >= fewest:
                continue
            found = self._alone(replace(stack, tiling=one.tiling), places, run)
            if found is not None:
                yield one.tiling, found
                fewest = min(fewest, found.cycles)

    def _alone(self, stack: ScheduledStack, places: Places, run: Run) -> StackDemand | None:
        """Return the demand of the stack as a separate network.

        None if it is invalid, has no mapping, or time is short.
        """
        maker, heard = self.maker, list[FoundSchedule]()
        if maker.question.views.issuperset(stack.operators):
            return StackDemand({}, 0, 0, 0)
        if maker.seconds_to_compose(maker.tile_operators_of(stack)) > run.seconds_left:
            return None
        part = part_of_network(maker.question.network, stack.operators)
        try:
            maker.of_part(part, run, heard.append).made((stack,), places)
        except (NoMappingError, ScheduleError):
            return None
        return StackDemand.of(heard[0].figures)

    def _taken(self, best: ScheduleAttempt, changes: Sequence[_Change], run: Run) -> ScheduleAttempt:
        """Return the schedule with all changes; if they do not improve it, with those of each half that do."""
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
        """Return the schedule with each change in place of the stacks that have its operators.

        None if it cannot be composed.
        """
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
    """Yield groups of options that together replace one or several whole stacks; unchanged stacks are skipped."""
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
