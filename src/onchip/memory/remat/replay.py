"""A plan with recomputation for one order of first runs, step by step.

A missing operand is loaded, or its operator runs again, whichever is cheaper. If tensors must leave, those without
a later first run leave first, then the cheapest by the cost of their return, their bytes and the steps until then.
Tensors named by a guide leave last.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from onchip.memory.decisions import SearchMove, schedule_of_moves
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
        """Map each tensor to the step in which it is written first; -1 if it comes from DRAM."""
        producer = self.indexed.producer
        return tuple(self.step_of[one] if one >= 0 else -1 for one in producer)

    @cached_property
    def reads(self) -> tuple[tuple[int, ...], ...]:
        """Map each tensor to the steps whose first runs read it, ascending."""
        return tuple(tuple(sorted(self.step_of[one] for one in readers)) for readers in self.indexed.reader_lists)

    @cached_property
    def costs(self) -> tuple[int, ...]:
        """Map each operator to the cost of one more run; NEVER if it may not run again."""
        problem = self.indexed.problem
        return tuple(
            problem.cost_again(one) if problem.may_run_again(one) else NEVER for one in problem.graph.operators
        )

    @cached_property
    def may_spill(self) -> bool:
        """True if tensors may be stored and loaded again."""
        return not self.indexed.problem.objective.forbids_spills

    def return_costs(self, tensor: int) -> tuple[int, int]:
        """Return the cost of storing a tensor once, if DRAM has no copy, and of each load."""
        indexed = self.indexed
        if not self.may_spill:
            return NEVER, NEVER
        return (0 if indexed.backed >> tensor & 1 else indexed.store_costs[tensor]), indexed.load_costs[tensor]

    def live(self, step: int) -> list[int]:
        """Return the tensors that were there before a step and that first runs from that step on read."""
        return [
            tensor
            for tensor, reads in enumerate(self.reads)
            if reads
            and reads[-1] >= step > self.born[tensor]
            and (self.born[tensor] >= 0 or reads[0] < step)  # written before, or loaded for an earlier reader
        ]

    def live_units(self) -> list[int]:
        """Return per step the units of its operands and of tensors live across it."""
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


@dataclass(frozen=True, slots=True)
class Guide:
    """Tensors that leave last, and weights of the others.

    `kept` are pairs of a step and the tensors that should be resident then, ascending. The price of a tensor is the
    cost of its return, divided by its units and by the `distance` power of the steps until its next use; `weights`
    multiply it. `firmness` multiplies the price of a kept tensor; if it is infinite, kept tensors leave after all
    others. A tensor leaves only if more than `patience` times the capacity is taken: tensors without a further reader
    leave with their last use, and then all may fit.
    """

    kept: tuple[tuple[int, frozenset[int]], ...] = ()
    distance: float = 0.0
    firmness: float = float("inf")
    patience: float = 1.0
    weights: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Replayed:
    """Moves, and their cost beyond the compulsory cost, in the objective's unit."""

    moves: tuple[SearchMove, ...]
    cost: int


class GuidedReplay:
    """Pass over the first runs with a capacity of `units`; ends as soon as its cost reaches `most_cost`.

    `missed_at` are the steps in which a tensor had to leave that should have stayed.
    """

    def __init__(self, first_runs: FirstRuns, units: int, guide: Guide, most_cost: int = NEVER) -> None:
        indexed = first_runs.indexed
        self._first_runs, self._units, self._guide, self._most_cost = first_runs, units, guide, most_cost
        self._most_waiting = int(units * guide.patience)
        self._sizes, self._producer = indexed.room.units, indexed.producer
        self._read_lists, self._write_lists = indexed.read_lists, indexed.write_lists
        self._weights = dict(guide.weights)
        self._resident: set[int] = set()
        self._used = 0
        self._been: set[int] = set()
        self._stored: set[int] = set()
        self._return_estimates: dict[int, float] = {}
        self._next = [0] * len(self._producer)
        self._step = 0
        self._cost = 0
        self._moves: list[SearchMove] = []
        self._leaving: list[int] = []
        self._kept: frozenset[int] = frozenset()
        self._kept_before: frozenset[int] = frozenset()
        self._until = NEVER
        self.missed_at: list[int] = []

    def replay(self) -> Replayed | None:
        """Return the moves; None if the capacity is too small for this method, or they cost too much."""
        stages = list(reversed(self._guide.kept))
        for step, operator in enumerate(self._first_runs.order):
            self._step = step
            while stages and stages[-1][0] < step:
                self._kept_before = stages.pop()[1]
            self._until, self._kept = stages[-1] if stages else (NEVER, frozenset())
            if not self._bring_inputs(operator) or not self._run(operator, set(self._read_lists[operator])):
                return None
            if self._cost >= self._most_cost:
                return None
        return Replayed(tuple(self._moves), self._cost) if self._all_fits() else None

    def _all_fits(self) -> bool:
        """True if the capacity is enough at every step when tensors leave with their last use."""
        if self._most_waiting <= self._units:
            return True
        change = [0] * (len(self._moves) + 1)
        for one in schedule_of_moves(self._first_runs.indexed, self._moves).residencies:
            change[one.start] += self._sizes[one.tensor]
            change[one.stop] -= self._sizes[one.tensor]
        return max(accumulate(change)) <= self._units

    # Missing inputs

    def _bring_inputs(self, operator: int) -> bool:
        """Run the producers of missing inputs again, with all that they need; loads come with their reader."""
        again = self._runs_for(operator)
        if again is None:
            return False
        pending: dict[int, int] = {}
        for one in (*again, operator):
            for tensor in self._read_lists[one]:
                pending[tensor] = pending.get(tensor, 0) + 1
        for one in again:
            if not self._run(one, {*pending}):
                return False
            self._cost += self._first_runs.costs[one]
            for tensor in self._read_lists[one]:
                pending[tensor] -= 1
                if not pending[tensor]:
                    del pending[tensor]
        return True

    def _runs_for(self, operator: int) -> list[int] | None:
        """Return the operators to run again, in order, before one can run; None if one of them may not."""
        step_of, again, waiting = self._first_runs.step_of, set[int](), list(self._read_lists[operator])
        estimates: dict[int, int] = {}
        while waiting:
            tensor = waiting.pop()
            producer = self._producer[tensor]
            if tensor in self._resident or producer < 0 or producer in again:
                continue
            if self._load_cost(tensor) <= self._cost_again(tensor, estimates):
                continue
            if self._first_runs.costs[producer] >= NEVER:
                return None
            again.add(producer)
            waiting += self._read_lists[producer]
        return sorted(again, key=step_of.__getitem__)

    def _load_cost(self, tensor: int) -> int:
        store, load = self._first_runs.return_costs(tensor)
        return load if tensor in self._stored else min(NEVER, store + load)

    def _cost_again(self, tensor: int, estimates: dict[int, int]) -> int:
        """Return the cost of computing a missing tensor again, its inputs coming the cheapest way."""
        waiting = [tensor]
        while waiting:
            one = waiting[-1]
            producer = self._producer[one]
            if one in estimates:
                waiting.pop()
                continue
            reads = self._read_lists[producer]
            missing = [one for one in reads if one not in self._resident and self._producer[one] >= 0]
            unknown = [other for other in missing if other not in estimates]
            if unknown:
                waiting += unknown
                continue
            parts = (min(self._load_cost(other), estimates[other]) for other in missing)
            estimates[one] = min(NEVER, self._first_runs.costs[producer] + sum(parts))
            waiting.pop()
        return estimates[tensor]

    # Running

    def _run(self, operator: int, pinned: set[int]) -> bool:
        """Make room, load the missing inputs and run; pinned tensors may not leave."""
        reads, writes = self._read_lists[operator], self._write_lists[operator]
        for tensor in writes:
            if tensor in self._resident:
                self._leave(tensor)
        missing = [tensor for tensor in reads if tensor not in self._resident]
        if not self._make_room(sum(self._sizes[tensor] for tensor in (*missing, *writes)), {*pinned, *reads}):
            return False
        for tensor in missing:
            if self._producer[tensor] >= 0 or tensor in self._been:
                self._cost += self._load_cost(tensor)
                self._stored.add(tensor)
        for tensor in (*missing, *writes):
            self._been.add(tensor)
            self._resident.add(tensor)
            self._used += self._sizes[tensor]
        self._moves.append(SearchMove(operator, tuple(self._leaving)))
        self._leaving = []
        return self._cost < NEVER

    def _make_room(self, units: int, pinned: set[int]) -> bool:
        excess = self._used + units - self._most_waiting
        if excess <= 0:
            return True
        prices = sorted((self._price(tensor), -self._sizes[tensor], tensor) for tensor in self._resident - pinned)
        leaving: list[int] = []
        for _, _, tensor in prices:
            if excess <= 0:
                break
            if self._should_stay(tensor) and self.missed_at[-1:] != [self._step]:
                self.missed_at.append(self._step)
            leaving.append(tensor)
            excess -= self._sizes[tensor]
        if excess > 0:
            return False
        for tensor in self._without_what_can_stay(leaving, -excess):
            self._leave(tensor)
        return True

    def _without_what_can_stay(self, leaving: Collection[int], spare: int) -> list[int]:
        """Return the tensors that must leave; the last, most expensive ones stay if they fit the `spare` units."""
        gone = []
        for tensor in reversed(tuple(leaving)):
            if self._sizes[tensor] <= spare:
                spare -= self._sizes[tensor]
            else:
                gone.append(tensor)
        return gone

    def _leave(self, tensor: int) -> None:
        self._return_estimates[tensor] = self._return_cost(tensor)
        self._resident.remove(tensor)
        self._used -= self._sizes[tensor]
        self._leaving.append(tensor)

    def _price(self, tensor: int) -> tuple[int, float]:
        """Return the class of a tensor, higher for more expensive ones, and its price within the class."""
        needed = self._needed(tensor)
        is_kept = self._should_stay(tensor)
        cost = self._return_cost(tensor)
        if cost >= NEVER and (needed < NEVER or self._producer[tensor] < 0):
            return 3, cost
        if needed >= NEVER and not is_kept:
            return 0, cost / max(1, self._sizes[tensor])
        price = cost / max(1, self._sizes[tensor]) * self._weights.get(tensor, 1.0)
        price /= float(max(1, needed - self._step)) ** self._guide.distance
        is_firm = is_kept and self._guide.firmness == float("inf")
        return (2 if is_firm else 1), price * self._guide.firmness if is_kept and not is_firm else price

    def _should_stay(self, tensor: int) -> bool:
        """True if the tensor is kept at the next moment, or was at the last and is needed before the next."""
        if tensor in self._kept:
            return True
        return tensor in self._kept_before and self._needed(tensor) < self._until

    def _needed(self, tensor: int) -> int:
        """The step of the next first run that reads it."""
        reads, at = self._first_runs.reads[tensor], self._next[tensor]
        while at < len(reads) and reads[at] < self._step:
            at += 1
        self._next[tensor] = at
        return reads[at] if at < len(reads) else NEVER

    def _return_cost(self, tensor: int) -> float:
        """About what bringing the tensor back would cost if it left now."""
        load, producer = self._load_cost(tensor), self._producer[tensor]
        if producer < 0:
            return load
        again: float = self._first_runs.costs[producer]
        for other in self._read_lists[producer]:
            if other not in self._resident:
                again += self._return_estimates.get(other, 0)
        return min(load, again, NEVER)
