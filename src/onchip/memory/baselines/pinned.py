"""`--method onsram` and `naive`: tensors pinned for their whole life in a scratchpad, all others streamed.

A streamed tensor is loaded for each operator that uses it. What obstructs an operator or has no addresses is unpinned
again, the last in rank first. OnSRAM-Static (Pal et al., TECS 2022) pins greedily by a weighted sum of size, reuses and
lifetime; `docs/rivals.md` lists what the paper leaves open. `baseline` drives all published heuristics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final, TypeAlias

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status, Stop
from onchip.ir.tensor import Role
from onchip.memory.allocate.exact import Attempt
from onchip.memory.allocate.residencies import packing_problem
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, PlannedResidency, non_compulsory_cost
from onchip.memory.effort import STEP
from onchip.memory.spill.min_peak import with_order_settled
from onchip.model.capacity.bounds import operators_that_do_not_fit, places_of_operands
from onchip.model.lifetimes.indexed import IndexedProblem, bits
from onchip.search.budget.limits import Run

Rule: TypeAlias = Callable[[IndexedProblem, Run], Iterable[tuple[OperatorSchedule, tuple[int, ...]]]]
"""Yields schedules of the order of a problem, each with the offset in bytes of each of its residencies."""
Solve: TypeAlias = Callable[[Problem, Run], SearchResult[Plan]]


def baseline(method: str, rule: Rule) -> Solve:
    """Return the planner that offers each plan of a rule; the best counts.

    The order is the given one, or one of minimum peak. Bound 0: OPTIMAL only if nothing is moved at all. INFEASIBLE
    if a single operator does not fit.
    """

    def solve(problem: Problem, run: Run) -> SearchResult[Plan]:
        if operators_that_do_not_fit(IndexedProblem.of(problem)):
            return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, method)
        indexed = IndexedProblem.of(with_order_settled(problem, run))
        incumbent = PlanIncumbent(indexed, run)
        for schedule, offsets_bytes in rule(indexed, run):
            incumbent.offer(schedule, offsets_bytes, non_compulsory_cost(indexed, schedule), method)
            if run.stop is not None:
                break
        incumbent.stopped_by = run.stop or Stop.COMPLETED
        return incumbent.result(method)

    return solve


def streamed_schedule(indexed: IndexedProblem, order: Sequence[int]) -> OperatorSchedule:
    """Return the schedule in which no tensor stays; every operator must fit alone."""
    residencies = []
    for step, operator in enumerate(order):
        places = places_of_operands(indexed, operator) or {}
        residencies += [PlannedResidency(tensor, step, step + 1, places[tensor]) for tensor in sorted(places)]
    return OperatorSchedule(tuple(order), tuple(residencies))


def stacked(indexed: IndexedProblem, schedule: OperatorSchedule) -> tuple[int, ...]:
    """Return offsets in bytes for a streamed schedule: one upon the other, what ends unaligned on top."""
    top: dict[tuple[int, int], int] = {}
    offsets: dict[PlannedResidency, int] = {}
    views = indexed.views
    for residency in sorted(schedule.residencies, key=lambda r: views[r.memory].room.padding_bytes[r.tensor]):
        room, place = views[residency.memory].room, (residency.start, residency.memory)
        offsets[residency] = top.get(place, 0)
        top[place] = offsets[residency] + room.units[residency.tensor] * room.alignment_bytes
    return tuple(offsets[residency] for residency in schedule.residencies)


class Pins:
    """Pinned tensors and their scratchpads, the best first, and places of the others in each step."""

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
        """Return the cost of transfers saved by pinning a tensor there, compared with streaming at the cheapest."""
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
        """Pin a tensor in a scratchpad, ranked after all tensors already pinned."""
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
        """Return the least units that pinned tensors leave in these steps."""
        room = self.indexed.views[memory].room
        return room.capacity_units - max(room.units_of_all(self._pinned_in[step][memory]) for step in steps)

    def places(self, step: int) -> Mapping[int, int] | None:
        """Map each streamed operand of a step to a scratchpad; None if they do not fit with the pinned tensors."""
        return places_of_operands(self.indexed, self.order[step], self._pinned_in[step])

    def schedule(self) -> OperatorSchedule:
        """Return the residencies, after unpinning tensors that leave an operator too little capacity."""
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
        """Return the offsets of a scratchpad; if it does not pack, unpin one of its tensors and return none."""
        if memory not in self._memory_of.values():
            return stacked(self.indexed, part)
        attempt = Attempt(packing_problem(self.indexed.views[memory], part), run)
        attempt.go_on(STEP.quick_nodes)
        if attempt.offsets_bytes is None:
            stretch = attempt.hard_stretch
            self.unpin_worst(stretch, memory)
        return attempt.offsets_bytes or ()


def pinning_whole_lives(method: str, choose: Callable[[Pins, Run], Iterable[Pins]]) -> Solve:
    """Return the planner that offers a plan in which nothing stays, then what each choice of pins comes to."""

    def rule(indexed: IndexedProblem, run: Run) -> Iterator[tuple[OperatorSchedule, tuple[int, ...]]]:
        order = range(indexed.operator_count)
        streamed = streamed_schedule(indexed, order)
        yield streamed, stacked(indexed, streamed)
        for pins in choose(Pins(indexed, order), run):
            if (placed := pins.placed(run)) is not None:
                yield placed

    return baseline(method, rule)


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the logarithms of the cost saved by pinning a tensor, of its bytes and of its steps."""

    saved: float
    size: float
    lifetime: float


WEIGHTS = (Weights(1, -1, -1), Weights(1, 0, -1), Weights(1, -1, 0), Weights(1, 0, 0))


def _pin_by_each_weighting(unpinned: Pins, run: Run) -> Iterable[Pins]:
    for weights in WEIGHTS:
        pins = Pins(unpinned.indexed, unpinned.order)
        for tensor in by_rank(pins, weights):
            if run.stop is not None:
                return
            pin_where_it_fits_best(pins, tensor)
        yield pins


def by_rank(pins: Pins, weights: Weights) -> list[int]:
    """Return the tensors that save something when pinned, the highest weighted sum first."""
    ranks: dict[int, float] = {}
    for tensor, size_bytes in enumerate(pins.indexed.sizes_bytes):
        saved = max((pins.saved(tensor, memory) for memory in pins.homes(tensor)), default=0)
        if saved > 0 and len(pins.uses[tensor]) > 1:
            steps = len(pins.life(tensor))
            ranks[tensor] = weights.saved * log(saved) + weights.size * log(size_bytes) + weights.lifetime * log(steps)
    return sorted(ranks, key=lambda tensor: (-ranks[tensor], tensor))


def pin_where_it_fits_best(pins: Pins, tensor: int) -> None:
    """Pin a tensor where it saves most, then where it leaves least capacity, if every operator still fits."""
    found: list[tuple[int, int, int]] = []
    for memory in pins.homes(tensor):
        pins.pin(tensor, memory)
        if all(pins.places(step) is not None for step in pins.life(tensor)):
            found.append((-pins.saved(tensor, memory), pins.spare_units(memory, pins.life(tensor)), memory))
        pins.unpin(tensor)
    if found:
        pins.pin(tensor, min(found)[-1])


solve_as_onsram: Final = pinning_whole_lives("onsram", _pin_by_each_weighting)
"""Pin by each weighting; the cheapest plan counts."""
solve_naively: Final = pinning_whole_lives("naive", lambda _pins, _run: ())
"""Keep nothing on chip between operators: every operand is streamed."""
