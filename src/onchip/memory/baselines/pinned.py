"""Some tensors are pinned in one scratchpad for their whole life, all others streamed: a legal plan of that.

What obstructs an operator or has no addresses is unpinned again, the worst by rank first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status, Stop
from onchip.ir.tensor import Role
from onchip.memory.allocate.construct.chains import packing_problem
from onchip.memory.allocate.exact.attempt import Attempt
from onchip.memory.allocate.exact.windows import hard_stretch
from onchip.memory.baselines.streamed import stacked, streamed_schedule
from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency, non_compulsory_cost
from onchip.memory.decisions.incumbent import PlanIncumbent
from onchip.memory.effort import STEP
from onchip.memory.spill.best_first.given import with_order_settled
from onchip.model.capacity.fitting import operators_that_do_not_fit, places_of_operands
from onchip.model.lifetimes.bit_masks import bits
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run


class Pins:
    """Which tensors are pinned where, the best first, and where the others go in each step beside them."""

    def __init__(self, indexed: IndexedProblem, order: Sequence[int]) -> None:
        self.indexed = indexed
        self.order = tuple(order)
        self.uses = indexed.uses(order)
        self._memory_of: dict[int, int] = {}
        self._pinned_in: list[list[set[int]]] = [[set() for _ in indexed.views] for _ in order]

    def life(self, tensor: int) -> range:
        """The steps from its first use to its last; none without a use."""
        uses = self.uses[tensor]
        return range(uses[0], uses[-1] + 1) if uses else range(0)

    def homes(self, tensor: int) -> Iterable[int]:
        """The scratchpads that may take it at each of its uses."""
        indexed = self.indexed
        written = indexed.written_in[tensor] if indexed.producer[tensor] >= 0 else -1
        read = indexed.read_in[tensor] if indexed.reader_lists[tensor] else -1
        return bits(written & read & (1 << len(indexed.views)) - 1)

    def saved(self, tensor: int, memory: int) -> int:
        """What being pinned there saves of the transfers of a tensor that is streamed, those at their cheapest."""
        indexed, view = self.indexed, self.indexed.views[memory]
        loads, dear = len(self.uses[tensor]), view.load_costs[tensor]
        stores = 0
        if indexed.producer[tensor] >= 0:
            loads, dear = loads - 1, 0
            stores = indexed.store_costs[tensor] if loads and not indexed.backed >> tensor & 1 else 0
        if indexed.tensors[tensor].role is Role.OUTPUT:
            dear = view.store_costs[tensor] - indexed.store_costs[tensor]
        return loads * indexed.load_costs[tensor] + stores - dear

    def pin(self, tensor: int, memory: int) -> None:
        """It is pinned there, behind all that are pinned already."""
        self._memory_of[tensor] = memory
        for step in self.life(tensor):
            self._pinned_in[step][memory].add(tensor)

    def unpin(self, tensor: int) -> None:
        """Take a tensor's place away; it is streamed again."""
        memory = self._memory_of.pop(tensor)
        for step in self.life(tensor):
            self._pinned_in[step][memory].remove(tensor)

    def unpin_worst(self, stretch: range, memory: int | None = None) -> None:
        """Unpin the worst of those that live in a stretch of steps (and are in that scratchpad), else of all."""
        there = [t for t, pinned_in in self._memory_of.items() if memory is None or pinned_in == memory]
        alive = [t for t in there if self.life(t).start < stretch.stop and self.life(t).stop > stretch.start]
        self.unpin((alive or there)[-1])

    def spare_units(self, memory: int, steps: range) -> int:
        """How much room the pinned leave where they leave least."""
        room = self.indexed.views[memory].room
        return room.capacity_units - max(room.units_of_all(self._pinned_in[step][memory]) for step in steps)

    def leave_room(self, steps: Iterable[int]) -> bool:
        """Whether in each of these steps all that is streamed has a place."""
        return all(self.places(step) is not None for step in steps)

    def places(self, step: int) -> Mapping[int, int] | None:
        """A scratchpad for each operand that is streamed in a step, None if they do not fit beside the pinned."""
        return places_of_operands(self.indexed, self.order[step], self._pinned_in[step])

    def schedule(self) -> OperatorSchedule:
        """Return the residencies; what leaves an operator no room is unpinned before."""
        residencies = [
            PlannedResidency(t, self.life(t).start, self.life(t).stop, memory)
            for t, memory in self._without_obstacles()
        ]
        for step in range(len(self.order)):
            streamed = self.places(step) or {}
            residencies += [PlannedResidency(tensor, step, step + 1, memory) for tensor, memory in streamed.items()]
        return OperatorSchedule(self.order, tuple(sorted(residencies, key=lambda r: (r.start, r.tensor))))

    def _without_obstacles(self) -> Iterable[tuple[int, int]]:
        for step in range(len(self.order)):
            while self._memory_of and self.places(step) is None:
                self.unpin_worst(range(step, step + 1))
        return self._memory_of.items()

    def placed(self, run: Run) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
        """Return a schedule and its offsets in bytes, at the price of pins; None if the run has to stop before."""
        while run.stop is None:
            schedule = self.schedule()
            offsets_bytes: dict[PlannedResidency, int] = {}
            for memory in range(len(self.indexed.views)):
                part = schedule.in_memory(memory)
                offsets_bytes |= zip(part.residencies, self._pack_or_unpin(part, memory, run), strict=False)
            if len(offsets_bytes) == len(schedule.residencies):
                return schedule, tuple(offsets_bytes[residency] for residency in schedule.residencies)
        return None

    def _pack_or_unpin(self, part: OperatorSchedule, memory: int, run: Run) -> tuple[int, ...]:
        """Return the offsets of what is in a scratchpad, or none, and one tensor fewer is pinned there."""
        if memory not in self._memory_of.values():
            return stacked(self.indexed, part)
        attempt = Attempt(packing_problem(self.indexed.views[memory], part), run)
        attempt.go_on(STEP.quick_nodes)
        if attempt.offsets_bytes is None:
            stretch = attempt.stretch or hard_stretch(attempt.core, run, attempt.hardest_step)
            self.unpin_worst(stretch, memory)
        return attempt.offsets_bytes or ()


Choice: TypeAlias = Callable[[Pins, Run], Iterable[Pins]]


def solve_by_pinning_whole_lives(problem: Problem, run: Run, method: str, choose: Choice) -> Result[Plan]:
    """Offer a plan in which nothing stays, then what each choice of pins comes to; the best counts.

    Bound 0: OPTIMAL only where nothing is moved at all. INFEASIBLE if a single operator does not fit.
    """
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return Result(Status.INFEASIBLE, None, None, 0, run.seconds, method)
    indexed = IndexedProblem.of(with_order_settled(problem, run))
    incumbent = PlanIncumbent(indexed, run)
    order = range(indexed.operator_count)
    streamed = streamed_schedule(indexed, order)
    incumbent.offer(streamed, stacked(indexed, streamed), non_compulsory_cost(indexed, streamed), "nothing stays")
    for pins in choose(Pins(indexed, order), run):
        placed = pins.placed(run)
        if placed is not None:
            incumbent.offer(*placed, non_compulsory_cost(indexed, placed[0]), method)
    incumbent.stopped_by = run.stop or Stop.COMPLETED
    return incumbent.result(method)
