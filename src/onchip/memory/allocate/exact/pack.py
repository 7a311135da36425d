"""Addresses within a capacity, or in the least arena, or the proof that there are none."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from onchip.answer.packing import Packing, PackingProblem
from onchip.answer.result import Result, Status, Stop
from onchip.memory.allocate.construct.best_fit import has_too_many_pairs
from onchip.memory.allocate.construct.chains import chained
from onchip.memory.allocate.construct.low_packing import LowPacking
from onchip.memory.allocate.exact.attempt import (
    Attempt,
    arena_bytes,
    fixed_overlap,
    least_arena_bytes,
)
from onchip.memory.allocate.exact.branching import Knowledge
from onchip.memory.decisions.compose import OperatorSchedule
from onchip.memory.effort import STEP
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.budget import Budget
from onchip.search.budget.limits import Run
from onchip.search.strategy.incumbent import Incumbent
from onchip.search.strategy.portfolio import Portfolio, Strategy

METHOD = "branching"
SCHEDULE_NODES = 5_000_000
MOST_PAIRS_TO_SEARCH = 1_000_000
"""Of buffers that live together: above that even one attempt of the exact search takes many seconds."""
FIRST_ROUNDS = 60
SKYLINES = 20
"""Skylines between two looks at the clock."""
REPAIRS_TO_SKYLINES = 3
"""Ratio of the efforts: repair gains more of large problems."""
ROUNDS_WITHOUT_LIMIT = 2_000


def pack_schedule(
    indexed: IndexedProblem, schedule: OperatorSchedule, run: Run, capacity_bytes: int | None = None
) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
    """Return the schedule, with what is overwritten in it, and its offsets in bytes; None if none were found.

    `capacity_bytes` may be less than the scratchpad's.
    """
    chains = chained(indexed, schedule, capacity_bytes)
    packing = pack(chains.problem, run, SCHEDULE_NODES).answer
    return None if packing is None else (chains.schedule, chains.offsets_bytes(packing.offsets_bytes))


def pack(
    problem: PackingProblem, run: Run, most_nodes: float = float("inf"), repair_rounds: int = 0
) -> Result[Packing]:
    """Find offsets within the capacity, or prove that there are none, in about so many nodes.

    Before the search greedy orders, skylines and their repair are tried: of large problems, and where rounds of repairs
    are asked for. The objective value is the arena; it is OPTIMAL only if it happens to be the bound.
    """
    bound = least_arena_bytes(problem)
    if bound > problem.capacity_bytes or fixed_overlap(problem):
        return _infeasible(problem, bound, run)
    is_large = has_too_many_pairs(problem.buffers, MOST_PAIRS_TO_SEARCH)
    if is_large:
        repair_rounds = max(repair_rounds, FIRST_ROUNDS)
    if problem.buffers and repair_rounds > 0:
        low_packing = LowPacking(problem, run)
        low_packing.place_quickly(problem.capacity_bytes)
        low_packing.repair(repair_rounds, problem.capacity_bytes)
        low_packing.fill(FIRST_ROUNDS, problem.capacity_bytes)
        if low_packing.arena_bytes <= problem.capacity_bytes:
            return found(problem, low_packing.offsets_bytes, bound, run)
    if is_large and run.stop is not None:
        return Result(Status.UNKNOWN, None, None, bound, run.seconds, METHOD, run.stop)
    attempt = Attempt(problem, run)
    finding = attempt.go_on(most_nodes)
    if finding is Knowledge.UNPACKABLE:
        return _infeasible(problem, bound, run)
    if attempt.offsets_bytes is None:
        stop = run.stop or Stop.NODE_LIMIT
        return Result(Status.UNKNOWN, None, None, bound, run.seconds, METHOD, stop)
    return found(problem, attempt.offsets_bytes, bound, run)


def _infeasible(problem: PackingProblem, bound: int, run: Run) -> Result[Packing]:
    proven = max(bound, problem.capacity_bytes + 1)
    return Result(Status.INFEASIBLE, None, None, proven, run.seconds, METHOD)


def found(
    problem: PackingProblem, offsets_bytes: tuple[int, ...], bound: int, run: Run, stop: Stop = Stop.COMPLETED
) -> Result[Packing]:
    """Return the result that a packing is."""
    arena = arena_bytes(problem, offsets_bytes)
    status = Status.OPTIMAL if arena == bound else Status.FEASIBLE
    return Result(status, Packing(offsets_bytes), arena, bound, run.seconds, METHOD, stop)


def least_capacity(problem: PackingProblem, run: Run) -> Result[Packing]:
    """Find the lowest arena within the capacity: a portfolio of skylines with repair, and of the exact search.

    Greedy orders come first, so there is an answer in any case. Fixed buffers that overlap are INFEASIBLE.
    """
    bound = least_arena_bytes(problem)
    if not problem.buffers or bound > problem.capacity_bytes or fixed_overlap(problem):
        return pack(problem, run)
    incumbent = Incumbent[Packing](run, bound)
    lowering = Lowering(problem, incumbent)
    lowering.place_quickly()
    strategies: list[Strategy] = [] if lowering.low_packing.is_greedy_only else [lowering]
    if not incumbent.is_proven and run.stop is None and Narrowing.applies_to(problem, incumbent):
        strategies.append(Narrowing(problem, incumbent))
    incumbent.stopped_by = Portfolio(incumbent, strategies, Budget(run)).solve()
    return incumbent.result(METHOD)


class Lowering(Strategy):
    """Skylines and their repair; a skyline counts as many nodes as there are buffers."""

    name = "packing"

    def __init__(self, problem: PackingProblem, incumbent: Incumbent[Packing]) -> None:
        each = len(problem.buffers)
        super().__init__(incumbent, incumbent.run, 2 * FIRST_ROUNDS * each, ROUNDS_WITHOUT_LIMIT * each)
        self._problem = problem
        self._nodes_per_round = each
        self.low_packing = LowPacking(problem, incumbent.run)

    def place_quickly(self) -> None:
        """Place by greedy orders: an answer at once."""
        self.low_packing.place_quickly(self.incumbent.lower_bound)
        self._offer()

    def advance(self, nodes: float) -> float:
        """Repair, then fill; at least a skyline."""
        skylines = int(min(SKYLINES, max(1, nodes / self._nodes_per_round / (1 + REPAIRS_TO_SKYLINES))))
        self.low_packing.repair(REPAIRS_TO_SKYLINES * skylines, self.incumbent.lower_bound)
        self.low_packing.fill(skylines, self.incumbent.lower_bound)
        self._offer()
        return skylines * (1 + REPAIRS_TO_SKYLINES) * self._nodes_per_round

    def _offer(self) -> None:
        arena = self.low_packing.arena_bytes
        if arena <= self._problem.capacity_bytes:
            self.incumbent.keep(Packing(self.low_packing.offsets_bytes), arena, self.name)


class Narrowing(Strategy):
    """The exact search at capacities between the bound and the best arena: each attempt moves one of the two."""

    name = "packing exactly"

    def __init__(self, problem: PackingProblem, incumbent: Incumbent[Packing]) -> None:
        super().__init__(incumbent, incumbent.run, STEP.quick_nodes)
        multiples = (each for one in problem.buffers for each in (one.size_bytes, one.offset_bytes or 0))
        self._unit = gcd(*multiples) if problem.alignment_bytes == 1 else 1
        self._problem = problem
        self._above = 0
        self._seconds_of_first = 0.0
        self._tight: tuple[int, Attempt] | None = None

    @classmethod
    def applies_to(cls, problem: PackingProblem, incumbent: Incumbent[Packing]) -> bool:
        """True if one attempt takes no more than a few seconds, or nothing else may find a packing that fits."""
        return incumbent.value is None or not has_too_many_pairs(problem.buffers, MOST_PAIRS_TO_SEARCH)

    def advance(self, nodes: float) -> float:
        """Attempt one capacity: close to the bound at first, then halfway, and at last just below the best arena.

        Setting up an attempt cannot be interrupted, so none begins without twice the time that the first one took.
        """
        low, best = self.incumbent.lower_bound, self.incumbent.value
        highest = self._problem.capacity_bytes if best is None else best - self._unit
        capacity = highest if best is None else min(low + self._above, highest)
        attempt, finding, spent = self._attempted(
            capacity, nodes if capacity == highest else min(nodes, STEP.quick_nodes)
        )
        if attempt.offsets_bytes is not None:
            arena = arena_bytes(self._problem, attempt.offsets_bytes)
            self.incumbent.keep(Packing(attempt.offsets_bytes), arena, self.name)
            self._above //= 2
        elif finding is Knowledge.UNPACKABLE:
            self.incumbent.is_infeasible = best is None
            self.incumbent.raise_bound((capacity // self._unit + 1) * self._unit)
            self._above = 2 * self._above + self._unit
        elif capacity == highest:
            self._tight, self._above = (capacity, attempt), 0
        else:
            self._above = (capacity + highest + self._unit) // 2 - low
        return spent

    def _attempted(self, capacity: int, nodes: float) -> tuple[Attempt, Knowledge, float]:
        """Attempt a capacity, or go on with the last attempt just below the best arena; return the nodes spent, too."""
        watch = self.run.deadline.stopwatch()
        if self._tight is not None and self._tight[0] == capacity:
            attempt = self._tight[1]
        else:
            attempt = Attempt(replace(self._problem, capacity_bytes=capacity), self.incumbent.run)
        before = attempt.nodes
        finding = attempt.go_on(nodes)
        self._seconds_of_first = self._seconds_of_first or watch.seconds
        if self.incumbent.run.seconds_left <= 2 * self._seconds_of_first:
            self.ended_by = Stop.TIME_LIMIT
        return attempt, finding, max(attempt.nodes - before, len(self._problem.buffers))
