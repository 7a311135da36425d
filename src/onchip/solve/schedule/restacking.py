"""Better stacks by the schedule's own figures: other tiles, or operators alone, in the place of a stack in tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.solve.run.limits import Run
from onchip.solve.schedule.attempt import AttemptMaker, ScheduleAttempt
from onchip.solve.schedule.composition import NoMappingError

_Stacks = tuple[ScheduledStack, ...]


@dataclass(slots=True)
class Restacker:
    """Tries other stacks for each stack in tiles, and keeps what is better, until nothing is.

    Operators that come to stand alone have their maps where `alone`, a schedule layer by layer, has them.
    """

    maker: AttemptMaker
    alone: ScheduleAttempt | None

    def improved(self, start: ScheduleAttempt, run: Run) -> ScheduleAttempt:
        """The best found before the run has to stop; what would take as long as is left is not begun."""
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
        stacks = (*best.stacks[:number], *others, *best.stacks[number + 1 :])
        later = len(others) - 1
        kept = {at: at if at < number else at + later for at in range(len(best.stacks)) if at != number}
        if len(others) == 1:
            kept[number] = number
        places = best.places.renumbered(kept)
        if len(others) > 1 and self.alone is not None:
            number_of = {one.operators[0]: at for at, one in enumerate(self.alone.stacks)}
            own = {number_of[one.operators[0]]: number + at for at, one in enumerate(others)}
            places = places.with_all(self.alone.places.renumbered(own))
        try:
            return self.maker.made(stacks, places)
        except (NoMappingError, ScheduleError):
            return None

    def _in_place_of(self, stack: ScheduledStack) -> Iterator[_Stacks]:
        """Of a stack in tiles: every operator alone; tiles twice, or half, as wide or high; another mode."""
        if stack.tiling is None:
            return
        yield tuple(ScheduledStack((name,)) for name in stack.operators)
        for tiling in self._tilings(stack.operators, stack.tiling):
            yield (replace(stack, tiling=tiling),)

    def _tilings(self, operators: Sequence[str], tiling: Tiling) -> Iterator[Tiling]:
        network = self.maker.question.network
        shape = network.tensor[network.operator[operators[-1]].outputs[0]].shape
        if shape is None:
            return
        *_, rows, columns = shape
        others = (
            *(Tiling(tiling.columns, tiling.rows, mode) for mode in OverlapMode),
            Tiling(2 * tiling.columns, tiling.rows, tiling.mode),
            Tiling(tiling.columns, 2 * tiling.rows, tiling.mode),
            Tiling(-(-tiling.columns // 2), tiling.rows, tiling.mode),
            Tiling(tiling.columns, -(-tiling.rows // 2), tiling.mode),
        )
        yield from dict.fromkeys(one for other in others if (one := other.within(columns, rows)) != tiling)
