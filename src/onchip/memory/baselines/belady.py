"""`--method belady` and `--method greedy`: one decision after another, as tools that do not decide jointly.

The order is given (or one of minimum peak), the policy evicts if an operator does not fit, and TFLite's allocator
gives addresses. If these exceed the capacity, each of four rules evicts more tensors; the best plan counts
(`docs/rivals.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final, TypeAlias

from onchip.memory.allocate.pack import order_by_size, place_by_size
from onchip.memory.allocate.repair import place_or_cut
from onchip.memory.allocate.residencies import packing_problem
from onchip.memory.allocate.sections import has_too_many_pairs
from onchip.memory.baselines.pinned import baseline
from onchip.memory.decisions import OperatorSchedule, PlannedResidency, SearchMove, schedule_of_moves
from onchip.model.lifetimes.indexed import IndexedProblem, Overwritable
from onchip.search.budget.limits import Run


def belady_moves(indexed: IndexedProblem, order: Sequence[int]) -> tuple[SearchMove, ...]:
    """Return the order with Belady's evictions (Belady 1966): the farthest next use leaves first.

    Every operator must fit alone. Ties go to the larger tensor. A heap entry is (next use, units, tensor), both
    negated; it is out of date once the tensor has left or been used. Tensors without further readers are overwritten
    where they may be, other inputs of the operator only if nothing else can leave.
    """
    policy = _Belady(indexed, order)
    return tuple(policy.run(operator) for operator in order)


class _Belady:
    """Resident tensors, and the steps of each tensor's future uses, the next one last."""

    def __init__(self, indexed: IndexedProblem, order: Sequence[int]) -> None:
        self._indexed = indexed
        self._room = indexed.room
        self._used = 0
        self._resident: set[int] = set()
        self._farthest: list[tuple[int, int, int]] = []
        self._uses: list[list[int]] = [[] for _ in indexed.tensors]
        for step in range(len(order) - 1, -1, -1):
            for tensor in indexed.operand_lists[order[step]]:
                self._uses[tensor].append(step)

    def run(self, operator: int) -> SearchMove:
        """Make room for the operands, run the operator, and release tensors that are not needed again."""
        operands = self._indexed.operand_lists[operator]
        self._used += self._room.units_of_all(tensor for tensor in operands if tensor not in self._resident)
        self._resident.update(operands)
        evicted, overwritten = self._make_room(operator, operands)
        for tensor in operands:
            self._uses[tensor].pop()
            if self._uses[tensor] and tensor not in overwritten:
                heappush(self._farthest, (-self._uses[tensor][-1], -self._room.units[tensor], tensor))
            else:
                self._leave(tensor)
        return SearchMove(operator, tuple(sorted(evicted)), tuple(sorted(overwritten)))

    def _make_room(self, operator: int, operands: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return evicted tensors and, if no other tensor can leave, overwritten tensors that are read again."""
        evicted: list[int] = []
        overwritten: list[int] = []
        dead, living = self._overwritable(operator)
        saved = sum(one.units for one in dead)
        while not self._room.holds_all(self._resident, self._used - saved):
            if not self._farthest:
                one = living.pop()
                saved += one.units
                overwritten.append(one.tensor)
                continue
            next_use, _, tensor = heappop(self._farthest)
            if tensor in self._resident and tensor not in operands and self._uses[tensor][-1] == -next_use:
                evicted.append(tensor)
                self._leave(tensor)
        return evicted, overwritten

    def _leave(self, tensor: int) -> None:
        self._resident.remove(tensor)
        self._used -= self._room.units[tensor]

    def _overwritable(self, operator: int) -> tuple[list[Overwritable], list[Overwritable]]:
        """Return inputs that are read last here, and other overwritable inputs, one of each group."""
        last: dict[int, Overwritable] = {}
        later: dict[int, Overwritable] = {}
        for one in self._indexed.overwritable_lists[operator]:
            (last if len(self._uses[one.tensor]) == 1 else later).setdefault(one.group, one)
        return list(last.values()), [one for group, one in later.items() if group not in last]


@dataclass(frozen=True, slots=True)
class IdleStretch:
    """A residency may leave after the use at `last_use` and return for the one at `next_use`."""

    residency: int
    last_use: int
    next_use: int
    cost: int


Policy: TypeAlias = Callable[[IndexedProblem, Sequence[int]], tuple[SearchMove, ...]]
Rank: TypeAlias = Callable[[IdleStretch], tuple[int, ...]]

RANKS: tuple[Rank, ...] = (
    lambda stretch: (-stretch.next_use, stretch.cost),
    lambda stretch: (stretch.cost, -stretch.next_use),
    lambda stretch: (stretch.last_use - stretch.next_use, stretch.cost),
    lambda stretch: (stretch.next_use - stretch.last_use, stretch.cost),
)


def _by_policy(policy: Policy, indexed: IndexedProblem, run: Run) -> Iterator[tuple[OperatorSchedule, tuple[int, ...]]]:
    """Yield what the policy evicts, with addresses by each rank."""
    schedule = schedule_of_moves(indexed, policy(indexed, range(indexed.operator_count)))
    yield from (place_by_size_or_evict(indexed, schedule, rank, run) for rank in RANKS)


def place_by_size_or_evict(
    indexed: IndexedProblem, schedule: OperatorSchedule, rank: Rank, run: Run
) -> tuple[OperatorSchedule, tuple[int, ...]]:
    """Place by size; while a residency ends above the capacity, one in its way (or itself) leaves for a while.

    The residency of least `rank` leaves. The schedule is placed in order of time if nothing can leave, if the time is
    up, or if it has more overlapping pairs than lists can hold.
    """
    capacity = indexed.memory.capacity_bytes
    residencies = list(schedule.residencies)
    while run.stop is None:
        current = OperatorSchedule(schedule.order, tuple(residencies))
        problem = packing_problem(indexed, current)
        if has_too_many_pairs(problem.buffers):
            break
        offsets = place_by_size(problem)
        ends = [offset + buffer.size_bytes for offset, buffer in zip(offsets, problem.buffers, strict=True)]
        too_high = next((i for i in order_by_size(problem) if ends[i] > capacity), None)
        if too_high is None:
            return current, offsets
        stretches = _stretches_in_the_way(indexed, current, too_high)
        if not stretches:
            break
        _cut(residencies, min(stretches, key=rank))
    return place_or_cut(indexed, OperatorSchedule(schedule.order, tuple(residencies)), run)


def _stretches_in_the_way(indexed: IndexedProblem, schedule: OperatorSchedule, too_high: int) -> list[IdleStretch]:
    """Return the idle stretches that meet the residency, of all that live with it and of itself."""
    uses = indexed.uses(schedule.order)
    returned = {r.tensor for r in schedule.residencies if r.start != uses[r.tensor][0]}
    target = schedule.residencies[too_high]
    stretches = []
    for index, residency in enumerate(schedule.residencies):
        if residency.start >= target.stop or target.start >= residency.stop:
            continue
        tensor = residency.tensor
        has_copy = indexed.backed >> tensor & 1 or tensor in returned
        cost = indexed.load_costs[tensor] + (0 if has_copy else indexed.store_costs[tensor])
        own = [step for step in uses[tensor] if residency.start <= step < residency.stop]
        for last, following in pairwise(own):
            if last + 1 < following and last + 1 < target.stop and target.start < following:
                stretches.append(IdleStretch(index, last, following, cost))
    return stretches


def _cut(residencies: list[PlannedResidency], stretch: IdleStretch) -> None:
    whole = residencies[stretch.residency]
    residencies[stretch.residency : stretch.residency + 1] = (
        replace(whole, stop=stretch.last_use + 1),
        replace(whole, start=stretch.next_use),
    )
    residencies.sort(key=lambda r: (r.start, r.tensor, r.stop))


@dataclass(frozen=True, slots=True)
class Eviction:
    """A set of tensors that frees `units` and costs `cost`; `waits` is the sum of the distances to their next uses."""

    units: int
    cost: int
    waits: int
    tensors: tuple[int, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """Cheapest first; ties to the farthest next uses."""
        return self.cost, -self.waits


def greedy_moves(indexed: IndexedProblem, order: Sequence[int]) -> tuple[SearchMove, ...]:
    """Return the order; where an operator does not fit, evict the set of tensors that costs least at that step.

    An eviction costs the reload, and the spill unless DRAM has a copy. Every operator must fit alone.
    """
    uses: list[list[int]] = [[] for _ in indexed.tensors]
    for step in range(len(order) - 1, -1, -1):
        for tensor in indexed.operand_lists[order[step]]:
            uses[tensor].append(step)
    room, used = indexed.room, 0
    resident: set[int] = set()
    copied: set[int] = set()
    moves: list[SearchMove] = []
    for step, operator in enumerate(order):
        operands = indexed.operand_lists[operator]
        idle = resident.difference(operands)
        used += room.units_of_all(tensor for tensor in operands if tensor not in resident)
        resident.update(operands)
        evicted: tuple[int, ...] = ()
        if used > room.capacity_units:
            candidates = [
                Eviction(room.units[t], _evict_cost(indexed, t, copied), uses[t][-1] - step, (t,)) for t in sorted(idle)
            ]
            evicted = cheapest_eviction(indexed, resident, candidates)
        resident.difference_update(evicted)
        copied.update(evicted)
        used -= room.units_of_all(evicted)
        moves.append(SearchMove(operator, tuple(sorted(evicted))))
        for tensor in operands:
            uses[tensor].pop()
            if not uses[tensor]:
                resident.remove(tensor)
                used -= room.units[tensor]
    return tuple(moves)


def _evict_cost(indexed: IndexedProblem, tensor: int, copied: Collection[int]) -> int:
    has_copy = tensor in copied or indexed.backed >> tensor & 1
    return indexed.load_costs[tensor] + (0 if has_copy else indexed.store_costs[tensor])


def cheapest_eviction(
    indexed: IndexedProblem, resident: Collection[int], candidates: Iterable[Eviction]
) -> tuple[int, ...]:
    """Return the cheapest candidates without which the others of `resident` fit.

    One of the others may end within the last, partial unit of the capacity.
    """
    room, single = indexed.room, tuple(candidates)
    excess = room.units_of_all(resident) - room.capacity_units
    choices = [_least_cover(single, excess)]
    choices += (
        _least_cover([one for one in single if one.tensors != (tensor,)], excess - 1)
        for tensor in sorted(resident)
        if room.ends_short((tensor,))
    )
    return min((choice for choice in choices if choice is not None), key=lambda choice: choice.rank).tensors


def _least_cover(candidates: Sequence[Eviction], excess: int) -> Eviction | None:
    """Return the cheapest set that frees at least `excess` units, exactly: a knapsack over non-dominated sets."""
    frontier = [Eviction(0, 0, 0, ())]
    if excess <= 0:
        return frontier[0]
    for one in candidates:
        grown = [
            Eviction(min(excess, e.units + one.units), e.cost + one.cost, e.waits + one.waits, e.tensors + one.tensors)
            for e in frontier
            if e.units < excess
        ]
        frontier = _undominated([*frontier, *grown])
    return frontier[0] if frontier[0].units >= excess else None


def _undominated(evictions: list[Eviction]) -> list[Eviction]:
    """Return the evictions that no other dominates (frees as much for less), most units first."""
    kept: list[Eviction] = []
    for eviction in sorted(evictions, key=lambda e: (-e.units, *e.rank)):
        if not kept or eviction.rank < kept[-1].rank:
            kept.append(eviction)
    return kept


solve_by_belady: Final = baseline("belady", partial(_by_policy, belady_moves))
"""Evict what is needed again last (Belady), step by step."""
solve_greedily: Final = baseline("greedy", partial(_by_policy, greedy_moves))
"""Evict the cheapest tensors at each step."""
