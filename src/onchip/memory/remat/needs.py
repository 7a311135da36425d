"""An order of first runs in integers: what each step reads and writes, and when each tensor is needed next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from onchip.model.lifetimes.indexed import IndexedProblem

NEVER = 1 << 60
"""A step that does not come, and a cost that nobody pays."""


@dataclass(frozen=True)
class FirstRuns:
    """The operators in the order in which they run for the first time, each once."""

    indexed: IndexedProblem
    order: tuple[int, ...]

    @cached_property
    def step_of(self) -> tuple[int, ...]:
        """Return for each operator the step of its first run."""
        steps = [0] * len(self.order)
        for step, operator in enumerate(self.order):
            steps[operator] = step
        return tuple(steps)

    @cached_property
    def born(self) -> tuple[int, ...]:
        """Per tensor the step in which it is written first; -1 for one that comes from DRAM."""
        producer = self.indexed.producer
        return tuple(self.step_of[one] if one >= 0 else -1 for one in producer)

    @cached_property
    def reads(self) -> tuple[tuple[int, ...], ...]:
        """Per tensor the steps whose first runs read it, ascending."""
        return tuple(tuple(sorted(self.step_of[one] for one in readers)) for readers in self.indexed.reader_lists)

    @cached_property
    def costs(self) -> tuple[int, ...]:
        """Per operator what one more run costs; NEVER for one that may not run again."""
        problem = self.indexed.problem
        return tuple(
            problem.cost_again(one) if problem.may_run_again(one) else NEVER for one in problem.graph.operators
        )

    @cached_property
    def may_spill(self) -> bool:
        """Whether tensors may be stored and loaded again."""
        return not self.indexed.problem.objective.forbids_spills

    def return_costs(self, tensor: int) -> tuple[int, int]:
        """Return what storing a tensor costs, once and where DRAM has no copy, and what each load after it does."""
        indexed = self.indexed
        if not self.may_spill:
            return NEVER, NEVER
        return (0 if indexed.backed >> tensor & 1 else indexed.store_costs[tensor]), indexed.load_costs[tensor]

    def live(self, step: int) -> list[int]:
        """Return the tensors that were there before a step and that first runs from that step on read."""
        return [
            tensor
            for tensor, reads in enumerate(self.reads)
            if reads and reads[-1] >= step and self.born[tensor] < step and self._was_there(tensor, step)
        ]

    def _was_there(self, tensor: int, step: int) -> bool:
        """Whether it was written before, or read and therefore loaded."""
        return self.born[tensor] >= 0 or self.reads[tensor][0] < step

    def live_units(self) -> list[int]:
        """Return per step the units of its operands and of what is live over it."""
        change = [0] * (len(self.order) + 1)
        for tensor, reads in enumerate(self.reads):
            first = self.born[tensor] if self.born[tensor] >= 0 else (reads[0] if reads else None)
            if first is not None:
                change[first] += self.indexed.room.units[tensor]
                change[(reads[-1] if reads else first) + 1] -= self.indexed.room.units[tensor]
        total, units = 0, []
        for one in change[:-1]:
            total += one
            units.append(total)
        return units


def given_order(indexed: IndexedProblem, order: Sequence[int] | None = None) -> FirstRuns:
    """Return the first runs in an order, or in that of the graph."""
    return FirstRuns(indexed, tuple(range(indexed.operator_count)) if order is None else tuple(order))
