"""The minimum cost with addresses: plans in order of their cost in bytes, the first that packs is optimal.

All plans up to a cost are a graph; a path is an order and the tensors that stay (docs/search.md proves that no plan is
missing). A beginning of a plan that has no addresses is pruned with all that follows. So is one that leaves the same
residents with the same history of overlaps as a cheaper one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, pairwise
from math import gcd
from typing import NamedTuple, TypeAlias

from onchip.answer.packing import Buffer, PackingProblem
from onchip.memory.allocate.exact import Attempt, Knowledge, finding_of
from onchip.memory.allocate.residencies import packing_problem
from onchip.memory.decisions import OperatorSchedule, PlannedResidency, SearchMove, schedule_of_moves
from onchip.memory.effort import STEP
from onchip.model.lifetimes.indexed import IndexedProblem, bits
from onchip.search.budget.limits import Run


class PlanState(NamedTuple):
    """State between two operators: operators that have run, tensors that stay until their next use, DRAM copies.

    Masks; `copied` are live activations.
    """

    executed: int
    kept: int
    copied: int


START = PlanState(0, 0, 0)
Passage: TypeAlias = tuple[int, PlanState]
"""A way on from a state: the cost of what leaves and has to come back, and where it leads."""
Passages: TypeAlias = dict[int, list[Passage]]
"""By the operator that runs."""


class PlanGraph:
    """The plans of a cost of at most `most_cost`.

    The cost is lower than requested if there are too many passages or the run has to stop; it is negative if not even
    all plans of cost 0 are listed. `least_rest` is the minimum cost from a state to the end; a state without it leads
    nowhere.
    """

    def __init__(self, indexed: IndexedProblem, most_cost: int, most_passages: int, run: Run) -> None:
        self._indexed = indexed
        self._evict_costs = [
            load if indexed.backed >> tensor & 1 else load + store
            for tensor, (load, store) in enumerate(zip(indexed.load_costs, indexed.store_costs, strict=True))
        ]
        self._operators = list(zip(indexed.predecessors, indexed.operands, strict=True))
        self._fitting: dict[int, bool] = {}
        self.most_cost = most_cost
        self.passages: dict[PlanState, Passages] = {}
        self._grow(most_passages, run)
        self.least_rest = self._least_rests()

    def _grow(self, most_passages: int, run: Run) -> None:
        """Expand states, the cheapest first; what a state costs is final when it is its turn."""
        waiting, least = [(0, START)], {START: 0}
        count = 0
        while waiting and waiting[0][0] <= self.most_cost:
            cost, state = heapq.heappop(waiting)
            if cost > least[state]:
                continue
            if count > most_passages or run.stop is not None:
                self.most_cost = cost - 1
                return
            self.passages[state] = passages = self._passages_from(state, self.most_cost - cost)
            for ways in passages.values():
                count += len(ways)
                for more, target in ways:
                    if cost + more < least.get(target, self.most_cost + 1):
                        least[target] = cost + more
                        heapq.heappush(waiting, (cost + more, target))

    def _passages_from(self, state: PlanState, most_cost: int) -> Passages:
        executed, kept, _ = state
        passages: Passages = {}
        for operator, (befores, operands) in enumerate(self._operators):
            if not (executed >> operator & 1 or befores & ~executed) and self._fits(kept | operands):
                passages[operator] = self._choices(state, operator, most_cost)
        return passages

    def _fits(self, present: int) -> bool:
        """True if the tensors fit at one time."""
        fits = self._fitting.get(present)
        if fits is None:
            room = self._indexed.room
            fits = self._fitting[present] = room.holds(present, room.units_of(present))
        return fits

    def _choices(self, state: PlanState, operator: int, most_cost: int) -> list[Passage]:
        """Return the passages of an operator: each operand that is read again stays or leaves."""
        indexed, executed = self._indexed, state.executed | 1 << operator
        dead, choices = 0, [(0, state.kept & ~indexed.operands[operator], state.copied)]
        for tensor in indexed.operand_lists[operator]:
            bit = 1 << tensor
            if not indexed.readers[tensor] & ~executed:
                dead |= bit
                continue
            price = indexed.load_costs[tensor] if state.copied & bit else self._evict_costs[tensor]
            copy = bit & ~indexed.backed
            leaving = [
                (cost + price, kept, copied | copy) for cost, kept, copied in choices if cost + price <= most_cost
            ]
            choices = [(cost, kept | bit, copied) for cost, kept, copied in choices] + leaving
        return [(cost, PlanState(executed, kept, copied & ~dead)) for cost, kept, copied in choices]

    def _least_rests(self) -> dict[PlanState, int]:
        """Go back from the end, the states that have run most first."""
        rests: dict[PlanState, int] = {}
        for state in sorted(self.passages, key=lambda one: -one.executed.bit_count()):
            if state.executed == self._indexed.all_operators:
                rests[state] = 0
                continue
            onward = [
                cost + rests[target]
                for ways in self.passages[state].values()
                for cost, target in ways
                if target in rests
            ]
            if onward:
                rests[state] = min(onward)
        return rests


Name: TypeAlias = tuple[int, int]
"""A tensor, and how many residencies of it come before this one."""


@dataclass(frozen=True, slots=True)
class ResidencyHistory:
    """The residencies that have `ended`, and those that go on: (tensor, step in which it began)."""

    ended: tuple[PlannedResidency, ...] = ()
    begun: tuple[tuple[int, int], ...] = ()

    def until(self, stop: int) -> tuple[PlannedResidency, ...]:
        """Return all residencies, those that go on as far as `stop`."""
        return (*self.ended, *(PlannedResidency(tensor, start, stop) for tensor, start in self.begun))

    def pairs(self, stop: int) -> frozenset[tuple[Name, Name]]:
        """Return the pairs of residencies that have met, one of them ended: packing depends on nothing else.

        Residencies that go on meet each other in any case.
        """
        named = list(_named(self.ended))
        going_on = [((tensor, -1), PlannedResidency(tensor, start, stop)) for tensor, start in self.begun]
        return frozenset(
            (name, other)
            for index, (name, one) in enumerate(named)
            for other, another in named[index + 1 :] + going_on
            if _meet(one, another)
        )


NO_HISTORY = ResidencyHistory()


class Histories:
    """Carries histories of one problem on from step to step."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self._indexed = indexed
        units, room = indexed.room.units, indexed.room
        unit = gcd(*units) or 1
        self._sizes = [size // unit for size in units]
        self._capacity = room.capacity_units // unit

    def with_operands(self, history: ResidencyHistory, operator: int, step: int) -> ResidencyHistory:
        """Return the history with an operator's operands resident; absent ones begin in its step."""
        there = {tensor for tensor, _ in history.begun}
        new = ((tensor, step) for tensor in self._indexed.operand_lists[operator] if tensor not in there)
        return ResidencyHistory(history.ended, (*history.begun, *new))

    def packing_problem(self, history: ResidencyHistory, stop: int) -> PackingProblem:
        """Return the packing of all that the history still knows of."""
        memory, sizes = self._indexed.memory, self._indexed.sizes_bytes
        buffers = tuple(Buffer(one.start, one.stop, sizes[one.tensor]) for one in history.until(stop))
        return PackingProblem(buffers, memory.capacity_bytes, memory.alignment_bytes)

    def after(self, history: ResidencyHistory, kept: int, stop: int) -> ResidencyHistory:
        """Return the part of a packed history that still matters when all but `kept` leave.

        For every continuation, the whole history packs exactly if this part does.
        """
        begun = tuple(sorted((tensor, start) for tensor, start in history.begun if kept >> tensor & 1))
        left = (PlannedResidency(tensor, start, stop) for tensor, start in history.begun if not kept >> tensor & 1)
        ended = self._constraining((*history.ended, *left), begun, stop)
        return ResidencyHistory(
            tuple(sorted(_connected(ended, begun, stop), key=lambda one: (one.start, one.tensor))), begun
        )

    def _constraining(
        self, ended: Iterable[PlannedResidency], begun: Iterable[tuple[int, int]], stop: int
    ) -> list[PlannedResidency]:
        """Repeatedly leave out residencies that always find a place among those that they meet (`Core`)."""
        rest = list(ended)
        others = [PlannedResidency(tensor, start, stop) for tensor, start in begun]
        while (free := next((one for one in rest if self._finds_a_place(one, (*rest, *others))), None)) is not None:
            rest.remove(free)
        return rest

    def _finds_a_place(self, one: PlannedResidency, everyone: Iterable[PlannedResidency]) -> bool:
        size = self._sizes[one.tensor]
        taken = sum(
            self._sizes[other.tensor] + size - 1 for other in everyone if other is not one and _meet(one, other)
        )
        return self._capacity - size + 1 > taken


def _named(residencies: Iterable[PlannedResidency]) -> Iterator[tuple[Name, PlannedResidency]]:
    """Name residencies that come in order of time."""
    earlier: dict[int, int] = {}
    for one in residencies:
        earlier[one.tensor] = earlier.get(one.tensor, -1) + 1
        yield (one.tensor, earlier[one.tensor]), one


def _connected(ended: Iterable[PlannedResidency], begun: Iterable[tuple[int, int]], stop: int) -> set[PlannedResidency]:
    """Return the residencies that have met one that goes on, directly or through others."""
    waiting = [PlannedResidency(tensor, start, stop) for tensor, start in begun]
    rest = set(ended)
    connected: set[PlannedResidency] = set()
    while waiting:
        one = waiting.pop()
        met = {other for other in rest if _meet(one, other)}
        rest -= met
        connected |= met
        waiting += met
    return connected


def _meet(one: PlannedResidency, other: PlannedResidency) -> bool:
    return one.start < other.stop and other.start < one.stop


@dataclass(frozen=True, slots=True)
class PlacedPlan:
    """A schedule with the offset in bytes of each of its residencies."""

    schedule: OperatorSchedule
    offsets_bytes: tuple[int, ...]
    cost: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first steps of a plan, which pack, and their cost."""

    cost: int
    step: int
    state: PlanState
    history: ResidencyHistory
    before: Beginning | None
    operator: int


class PlacedPlans:
    """Goes through the plans of a graph. `lower_bound` holds for all plans with addresses; `plan` attains it."""

    def __init__(self, indexed: IndexedProblem, graph: PlanGraph, run: Run) -> None:
        self._indexed = indexed
        self._graph = graph
        self._run = run
        self._histories = Histories(indexed)
        self._waiting: list[tuple[int, int, int, Beginning]] = []
        self._number = count()
        self._seen: set[object] = set()
        self.lower_bound = 0
        self.plan: PlacedPlan | None = None

    def solve(self, most_beginnings: int) -> None:
        """Search until a plan is found, none is left, `most_beginnings` have failed, or the run has to stop."""
        self._wait(Beginning(0, 0, START, NO_HISTORY, None, -1))
        for _ in range(most_beginnings):
            if not self._waiting:
                self.lower_bound = max(0, self._graph.most_cost + 1)
                return
            self.lower_bound, _, _, beginning = heapq.heappop(self._waiting)
            if self._run.stop is not None:
                return
            if beginning.state.executed == self._indexed.all_operators:
                self.plan = self._placed(beginning)
                return
            if not self._is_new(beginning) or self._go_on(beginning):
                continue
            return

    def _wait(self, beginning: Beginning) -> None:
        """Let a beginning wait for its turn, if some plan goes on from it; of equals the longest is first."""
        rest = self._graph.least_rest.get(beginning.state)
        if rest is not None and beginning.cost + rest <= self._graph.most_cost:
            least_cost = beginning.cost + rest
            heapq.heappush(self._waiting, (least_cost, -beginning.step, next(self._number), beginning))

    def _is_new(self, beginning: Beginning) -> bool:
        """True if no beginning has left the same; it would have come first and cost no more."""
        key = beginning.state, beginning.history.pairs(beginning.step)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _go_on(self, beginning: Beginning) -> bool:
        """Extend the beginning by each operator that can run; return False if it stays open whether that packs."""
        step = beginning.step
        for operator, passages in self._graph.passages[beginning.state].items():
            history = self._histories.with_operands(beginning.history, operator, step)
            finding = finding_of(self._histories.packing_problem(history, step + 1), self._run, STEP.check_nodes)
            if finding is Knowledge.OPEN:
                return False
            if finding is Knowledge.UNPACKABLE:
                continue
            for more, target in passages:
                after = self._histories.after(history, target.kept, step + 1)
                self._wait(Beginning(beginning.cost + more, step + 1, target, after, beginning, operator))
        return True

    def _placed(self, last: Beginning) -> PlacedPlan | None:
        """Give the whole of a plan its addresses."""
        schedule = schedule_of_moves(self._indexed, self._moves(last))
        attempt = Attempt(packing_problem(self._indexed, schedule), self._run)
        attempt.go_on(float("inf"))
        return None if attempt.offsets_bytes is None else PlacedPlan(schedule, attempt.offsets_bytes, last.cost)

    def _moves(self, last: Beginning) -> list[SearchMove]:
        """Return the moves of a plan; tensors that do not stay are evicted before the next operator."""
        path = [last]
        while path[-1].before is not None:
            path.append(path[-1].before)
        moves, evicted = [], 0
        for before, after in pairwise(reversed(path)):
            moves.append(SearchMove(after.operator, tuple(bits(evicted))))
            present = before.state.kept | self._indexed.operands[after.operator]
            live = sum(1 << t for t, readers in enumerate(self._indexed.readers) if readers & ~after.state.executed)
            evicted = present & live & ~after.state.kept
        return moves
