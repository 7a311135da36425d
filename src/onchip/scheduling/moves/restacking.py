"""Better stacks by the schedule's own figures: other tiles, or operators alone, in the place of a stack in tiles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ops.fusable import pixels_in_tiles
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import NoMappingError
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Run

_Stacks = tuple[ScheduledStack, ...]


@dataclass(slots=True)
class Restacker:
    """Tries other stacks for each stack in tiles, and keeps improvements until no replacement is better.

    Operators that become stacks of their own take their places from `alone`, a schedule layer by layer. With `polish`
    only other tile sizes and overlap modes are tried, and each is improved before it is judged.
    """

    maker: AttemptMaker
    alone: ScheduleAttempt | None
    polish: Callable[[ScheduleAttempt], None] | None = None

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
            if found is not None and self.polish is not None:
                self.polish(found)
            if found is not None and found.value < best.value:
                run.report(found.value, best.question.lower_bound, f"{len(found.stacks)} stacks")
                return found
        return None

    def _has_time(self, best: ScheduleAttempt, run: Run) -> bool:
        return run.stop is None and run.seconds_left > best.seconds

    def with_stacks_of(self, other: ScheduleAttempt, start: ScheduleAttempt, run: Run) -> ScheduleAttempt:
        """Return the better of a schedule and the schedule with tiled stacks of another one, tried one after the other.

        A tiled stack replaces the stacks that have its operators, if these have no other operators.
        """
        best = start
        for number, stack in enumerate(other.stacks):
            replaced = {at for at, one in enumerate(best.stacks) if set(one.operators) & set(stack.operators)}
            is_same = {name for at in replaced for name in best.stacks[at].operators} == set(stack.operators)
            if stack.tiling is None or not is_same or not self._has_time(other, run):
                continue
            own = other.places.renumbered({number: 0})
            found = self._replaced(best, replaced, (stack,), own)
            if found is not None and found.value < best.value:
                run.report(found.value, best.question.lower_bound, f"{len(found.stacks)} stacks")
                best = found
        return best

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

        These are every operator alone, tiles of twice or half the width or height, one strip of rows more or less, and
        other overlap modes. If a tile
        spans a whole axis, the overlap modes are equivalent along it. So half of it is tried in each mode.
        """
        if stack.tiling is None:
            return
        if self.polish is None:
            yield tuple(ScheduledStack((name,)) for name in stack.operators)
        for tiling in self._tilings(stack.operators, stack.tiling):
            yield (replace(stack, tiling=tiling),)

    def _tilings(self, operators: Sequence[str], tiling: Tiling) -> Iterator[Tiling]:
        rows, columns = pixels_in_tiles(self.maker.question.network, operators)
        strips = -(-rows // tiling.rows)
        others = (
            *(Tiling(tiling.columns, -(-rows // count), tiling.mode) for count in (strips + 1, strips - 1) if count),
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
