"""Moves of order: one stack runs earlier or later, as far as data dependencies allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.ir.graph import Graph
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import NoMappingError
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Run


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
