"""Moves that merge, reorder and change fused groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ir.graph import Graph
from onchip.ops.channel_slices import CHANNELS
from onchip.ops.fusable import are_matrices, pixels_in_tiles
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import NoMappingError
from onchip.scheduling.program.places import Places, memory_for_maps, places_inside
from onchip.search.budget.limits import Run


@dataclass(slots=True)
class Merger:
    """Tries an operator in tiles, and adjacent stacks as one group, in tiles of half, a quarter, ... of its output.

    Adjacent stacks may be one group if only the last one's output leaves it: of branches that join, all stacks or none.
    No stacks are tried twice.
    """

    maker: AttemptMaker
    most_tiles: int
    """Tiles of a group: each is composed."""
    is_thorough: bool
    """True if stacks that stream no feature map are merged, too, and more than the fewest that may be one group."""
    _tried: set[tuple[ScheduledStack, ...]] = field(default_factory=set, init=False)

    def improved(self, start: ScheduleAttempt, run: Run) -> ScheduleAttempt:
        """Return the best schedule that merging leads to, before the run has to stop; small groups are tried first."""
        best = start
        for size in range(len(start.stacks) if self.is_thorough else 2):
            at = 0
            while at < len(best.stacks):
                found = self._better_at(best, at, size, run)
                best, at = (best, at + 1) if found is None else (found, at)
                if self._is_over(best, run):
                    return best
        return best

    def _is_over(self, best: ScheduleAttempt, run: Run) -> bool:
        return run.stop is not None or run.seconds_left <= best.seconds

    def _better_at(self, best: ScheduleAttempt, at: int, size: int, run: Run) -> ScheduleAttempt | None:
        """Return the best schedule with a group that begins with the stack `at`, None if that is not better.

        The group has the `size`-th least number of stacks that may be one group; 0 is the stack alone, in tiles.
        """
        numbers = self._numbers(best, at, size)
        operators = tuple(name for number in numbers for name in best.stacks[number].operators)
        if not numbers or (not self.is_thorough and not self._streams(best, numbers)):
            return None
        found: ScheduleAttempt | None = None
        for tiling in self._tilings(operators):
            if self._is_over(best, run):
                break
            made = self._made(best, numbers, ScheduledStack(operators, tiling))
            if made is not None and (found is None or made.improver.best.key < found.improver.best.key):
                found = made
        if found is None:
            return None
        found.improver.improve(replace(run, listener=lambda _: None))
        if found.improver.best.key >= best.improver.best.key:
            return None
        run.report(found.value, best.question.lower_bound, f"{len(found.stacks)} groups")
        return found

    def _numbers(self, best: ScheduleAttempt, at: int, size: int) -> range:
        """Return the numbers of the group's stacks; none if there is no such group."""
        if not size:
            return range(at, at + (best.stacks[at].tiling is None))
        operators = list(best.stacks[at].operators)
        for last in range(at + 1, len(best.stacks)):
            operators += best.stacks[last].operators
            size -= self._may_be_one(operators)
            if not size:
                return range(at, last + 1)
        return range(0)

    def _streams(self, best: ScheduleAttempt, numbers: Sequence[int]) -> bool:
        """Return True if the stacks stream a feature map that tiles may keep on chip.

        Of several stacks that is a map between them, of one operator any map.
        """
        network, places = self.maker.question.network, best.places
        running = [(number, network.operator[name]) for number in numbers for name in best.stacks[number].operators]
        written = {(number, name) for number, operator in running for name in operator.outputs}
        read = {(number, name) for number, operator in running for name in operator.inputs}
        if len(numbers) > 1:
            between = {name for _, name in written} & {name for _, name in read}
            written = {one for one in written if one[1] in between}
            read = {one for one in read if one[1] in between}
        return not (written <= places.written.keys() and read <= places.read.keys())

    def _may_be_one(self, operators: Sequence[str]) -> bool:
        """Return True if only the last operator's output leaves the group: no other group has any tiling."""
        network = self.maker.question.network
        inside = set(operators)
        return all(
            reader.name in inside
            for name in operators[:-1]
            for tensor in network.operator[name].outputs
            for reader in network.readers[tensor]
        )

    def _made(self, best: ScheduleAttempt, numbers: Collection[int], group: ScheduledStack) -> ScheduleAttempt | None:
        """Return the schedule with a group in place of some adjacent stacks; None if it has no mappings, or is none."""
        first, last = min(numbers), max(numbers)
        stacks = (*best.stacks[:first], group, *best.stacks[last + 1 :])
        new = {at: min(at, first) if at <= last else at - (last - first) for at in range(len(best.stacks))}
        if stacks in self._tried:
            return None
        self._tried.add(stacks)
        kept, question = best.places.renumbered(new), self.maker.question
        memory = memory_for_maps(question.accelerator)
        inside = Places() if memory is None else places_inside(question.network, group.operators, memory, first)
        try:
            return self.maker.made(stacks, kept.with_all(inside))
        except (NoMappingError, ScheduleError):
            return None

    def _tilings(self, operators: Sequence[str]) -> Iterator[Tiling]:
        """Yield tilings of the last operator's output.

        These are whole rows first, then parts of rows, in every overlap mode, then slices of an image's channels.
        """
        network = self.maker.question.network
        rows, columns = pixels_in_tiles(network, operators)
        found: dict[Tiling, None] = {}
        for width in _parts(columns):
            for height in _parts(rows) if columns > 1 else _strips(rows):
                tiles = -(-columns // width) * -(-rows // height)
                if tiles <= self.most_tiles and (tiles > 1 or len(operators) > 1):
                    for mode in OverlapMode if len(operators) > 1 else (OverlapMode.RECOMPUTE,):
                        found[Tiling(width, height, mode).within(columns, rows)] = None
        yield from found
        shape = network.tensor[network.operator[operators[-1]].outputs[0]].shape or ()
        if len(shape) > CHANNELS and not are_matrices(network, operators):
            for channels in islice(_parts(shape[CHANNELS]), 1, None):
                if -(-shape[CHANNELS] // channels) <= self.most_tiles:
                    yield Tiling(columns, rows, OverlapMode.RECOMPUTE, channels)


def _parts(size: int) -> Iterator[int]:
    """Yield a size, half of it, and so on down to 1, rounded up."""
    while size > 1:
        yield size
        size = -(-size // 2)
    yield 1


def _strips(rows: int) -> Iterator[int]:
    """Yield the heights of 1, 2, 3, 4, 6, 9, ... strips, down to one row."""
    count = 1
    while count < rows:
        yield -(-rows // count)
        count += max(1, count // 2)
    yield 1


@dataclass(slots=True)
class Reorderer:
    """Tries other orders of the stacks of a schedule."""

    maker: AttemptMaker

    def improved(self, start: ScheduleAttempt, run: Run) -> ScheduleAttempt:
        """Return the best schedule that moves of single stacks lead to, before the run has to stop."""
        best, is_better = start, True
        while is_better:
            is_better = False
            for order in self.orders_near(best.stacks):
                if run.stop is not None or run.seconds_left <= best.seconds:
                    return best
                found = self.in_order(best, order)
                if found is not None and found.improver.best.key < best.improver.best.key:
                    run.report(found.value, best.question.lower_bound, "another order")
                    best, is_better = found, True
                    break
        return best

    def shuffled(self, start: ScheduleAttempt, chance: Random) -> ScheduleAttempt | None:
        """Return the schedule in another order, drawn among the orders near its own; None if there is none."""
        orders = list(self.orders_near(start.stacks))
        return self.in_order(start, chance.choice(orders)) if orders else None

    def orders_near(self, stacks: Sequence[ScheduledStack]) -> Iterator[tuple[int, ...]]:
        """Yield orders in which one stack has moved, as numbers of stacks; adjacent moves first."""
        before = _direct_predecessors(self.maker.question.network, stacks)
        count = len(stacks)
        for distance in range(1, count):
            for at in range(count):
                later = at + distance
                if later < count and not any(at in before[other] for other in range(at + 1, later + 1)):
                    yield (*range(at), *range(at + 1, later + 1), at, *range(later + 1, count))
                earlier = at - distance
                is_new = distance > 1  # two adjacent stacks have changed places already
                if is_new and earlier >= 0 and not before[at] & set(range(earlier, at)):
                    yield (*range(earlier), at, *range(earlier, at), *range(at + 1, count))

    def in_order(
        self, start: ScheduleAttempt, order: Sequence[int], places: Places | None = None
    ) -> ScheduleAttempt | None:
        """Return the schedule with its stacks in another order, everything in its place; None if it has no mappings."""
        stacks = [start.stacks[at] for at in order]
        moved = (places or start.places).renumbered({old: new for new, old in enumerate(order)})
        try:
            return self.maker.made(stacks, moved)
        except (NoMappingError, ScheduleError):
            return None


def _direct_predecessors(network: Graph, stacks: Sequence[ScheduledStack]) -> list[set[int]]:
    """Return, for each stack, the stacks that write its inputs."""
    stack_of = {name: number for number, stack in enumerate(stacks) for name in stack.operators}
    before: list[set[int]] = [set() for _ in stacks]
    for name, number in stack_of.items():
        for tensor in network.operator[name].reads:
            producer = network.producer.get(tensor)
            if producer is not None and stack_of[producer.name] != number:
                before[number].add(stack_of[producer.name])
    return before


_Stacks = tuple[ScheduledStack, ...]


@dataclass(slots=True)
class Restacker:
    """Tries other stacks for each stack in tiles, and keeps improvements until no replacement is better.

    Operators that become stacks alone take their places from `alone`, a schedule layer by layer.
    """

    maker: AttemptMaker
    alone: ScheduleAttempt | None

    def improved(self, start: ScheduleAttempt, run: Run) -> ScheduleAttempt:
        """Return the best schedule found before the run has to stop.

        No trial begins that may take longer than the time left.
        """
        best, at, in_vain = start, 0, 0
        while in_vain < len(best.stacks) and self._has_time(best, run):
            better = self._better_at(best, at % len(best.stacks), run)
            best, in_vain = (better, 0) if better is not None else (best, in_vain + 1)
            at += better is None
        return best

    def _better_at(self, best: ScheduleAttempt, number: int, run: Run) -> ScheduleAttempt | None:
        for others in self._in_place_of(best.stacks[number]):
            if not self._has_time(best, run):
                return None
            found = self._tried(best, number, others)
            if found is not None and found.value < best.value:
                run.report(found.value, best.question.lower_bound, f"{len(found.stacks)} stacks")
                return found
        return None

    def _has_time(self, best: ScheduleAttempt, run: Run) -> bool:
        return run.stop is None and run.seconds_left > best.seconds

    def _tried(self, best: ScheduleAttempt, number: int, others: _Stacks) -> ScheduleAttempt | None:
        own = Places() if len(others) > 1 else best.places.renumbered({number: 0})
        if len(others) > 1 and self.alone is not None:
            own = places_of_lone(others, self.alone)
        return self._replaced(best, {number}, others, own)

    def _replaced(
        self, best: ScheduleAttempt, replaced: Collection[int], others: _Stacks, own: Places
    ) -> ScheduleAttempt | None:
        """Return the schedule with other stacks where the last of the replaced stacks was.

        None if it cannot be composed. `own` holds the places of the new stacks, by their numbers among `others`.
        """
        stacks: list[ScheduledStack] = []
        kept: dict[int, int] = {}
        begin = 0
        for at, stack in enumerate(best.stacks):
            if at == max(replaced):
                begin = len(stacks)
                stacks += others
            elif at not in replaced:
                kept[at] = len(stacks)
                stacks.append(stack)
        moved = own.renumbered({at: begin + at for at in range(len(others))})
        try:
            return self.maker.made(stacks, best.places.renumbered(kept).with_all(moved))
        except (NoMappingError, ScheduleError):
            return None

    def _in_place_of(self, stack: ScheduledStack) -> Iterator[_Stacks]:
        """Yield replacements of a stack in tiles.

        These are every operator alone, tiles of twice or half the width or height, one tile more or less along either
        axis, and other overlap modes. If a tile spans a whole axis, the overlap modes are equivalent along it, so half
        of it is tried in each mode.
        """
        if stack.tiling is None:
            return
        yield tuple(ScheduledStack((name,)) for name in stack.operators)
        for tiling in self._tilings(stack.operators, stack.tiling):
            yield (replace(stack, tiling=tiling),)

    def _tilings(self, operators: Sequence[str], tiling: Tiling) -> Iterator[Tiling]:
        if tiling.channels is not None:
            more = (tiling.channels // 2, -(-tiling.channels * 3 // 4), tiling.channels * 3 // 2, tiling.channels * 2)
            yield from (replace(tiling, channels=one) for one in dict.fromkeys(more) if one not in (0, tiling.channels))
            return
        rows, columns = pixels_in_tiles(self.maker.question.network, operators)
        down, across = -(-rows // tiling.rows), -(-columns // tiling.columns)
        others = (
            *(Tiling(tiling.columns, -(-rows // count), tiling.mode) for count in (down + 1, down - 1) if count),
            *(Tiling(-(-columns // count), tiling.rows, tiling.mode) for count in (across + 1, across - 1) if count),
            *(Tiling(tiling.columns, tiling.rows, mode) for mode in OverlapMode),
            Tiling(2 * tiling.columns, tiling.rows, tiling.mode),
            Tiling(tiling.columns, 2 * tiling.rows, tiling.mode),
            *(
                Tiling(-(-tiling.columns // 2), tiling.rows, mode)
                for mode in OverlapMode
                if mode is tiling.mode or tiling.columns == columns
            ),
            *(
                Tiling(tiling.columns, -(-tiling.rows // 2), mode)
                for mode in OverlapMode
                if mode is tiling.mode or tiling.rows == rows
            ),
        )
        yield from dict.fromkeys(one for other in others if (one := other.within(columns, rows)) != tiling)


def places_of_lone(stacks: Sequence[ScheduledStack], alone: ScheduleAttempt) -> Places:
    """Return places for the stacks of one whole operator: those that the operator has in a schedule layer by layer."""
    number_of = {one.operators[0]: at for at, one in enumerate(alone.stacks)}
    lone = (at for at, one in enumerate(stacks) if one.tiling is None)
    return alone.places.renumbered({number_of[stacks[at].operators[0]]: at for at in lone})
