"""Moves of groups: two stacks, one after the other, run as one fused group; an operator alone runs in tiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.ops.fusable import pixels_in_tiles
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import NoMappingError
from onchip.scheduling.program.places import Places, StackMap
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
        kept = best.places.renumbered(new)
        try:
            return self.maker.made(stacks, kept.with_all(self._inside(group, first)))
        except (NoMappingError, ScheduleError):
            return None

    def _inside(self, group: ScheduledStack, number: int) -> Places:
        """Return places on chip for the tensors between the operators of a group, in the largest memory for them."""
        network: Graph = self.maker.question.network
        holding = [
            level.memory
            for level in self.maker.question.accelerator.addressed
            if {Operand.INPUT, Operand.OUTPUT} <= set(level.memory.holds)
        ]
        if not holding:
            return Places()
        memory = max(holding, key=lambda one: one.capacity_bytes).name
        inner = [name for operator in group.operators[:-1] for name in network.operator[operator].outputs]
        places: dict[StackMap, str] = {(number, name): memory for name in inner}
        return Places(places, places)

    def _tilings(self, operators: Sequence[str]) -> Iterator[Tiling]:
        """Yield tilings of the last operator's output: whole rows first, then parts of rows, in every overlap mode."""
        rows, columns = pixels_in_tiles(self.maker.question.network, operators)
        found: dict[Tiling, None] = {}
        for width in _parts(columns):
            for height in _parts(rows) if columns > 1 else _strips(rows):
                tiles = -(-columns // width) * -(-rows // height)
                if tiles <= self.most_tiles and (tiles > 1 or len(operators) > 1):
                    for mode in OverlapMode if len(operators) > 1 else (OverlapMode.RECOMPUTE,):
                        found[Tiling(width, height, mode).within(columns, rows)] = None
        yield from found


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
