"""Offsets within a capacity, in the least arena, or a proof that there are none (docs/packing.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd
from typing import Final

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.allocate.construct import order_by_size
from onchip.memory.allocate.exact import (
    Attempt,
    Knowledge,
    arena_bytes,
    fixed_overlap,
    least_arena_bytes,
)
from onchip.memory.allocate.general import NO_NODE_LIMIT, solve_general
from onchip.memory.allocate.residencies import chained
from onchip.memory.allocate.sections import has_too_many_pairs, lives_of, sections_of
from onchip.memory.decisions import OperatorSchedule
from onchip.memory.effort import STEP
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import ArenaBlock, ArenaBlocks, ArenaRepair, ArenaSearch, JoinedBlocks, StopToken
from onchip.search.budget.clock import Stopwatch
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.interruptible import run_watched
from onchip.search.strategy.portfolio import Incumbent, Portfolio, Strategy

NO_ARENA: Final = 1 << 60
"""The arena while there is no packing."""


@dataclass(frozen=True, slots=True)
class LowParams:
    """Constants of packings of any size."""

    given_rounds: int = 6
    """Skylines whose ranking is given; later rankings are drawn."""
    first_rounds: int = 60
    """Skylines before the exact search begins, and for joined blocks."""
    skylines: int = 20
    """Skylines between two looks at the clock."""
    repairs_to_skylines: int = 3
    """Ratio of the efforts: repair gains more of large problems."""
    looks_of_a_skyline: int = 15
    """Looks for each block of a repair that takes as long as a skyline."""
    rounds_without_limit: int = 2_000
    """Skylines, or repairs that take as long, without a time or node limit."""
    searched_pairs: int = 1_000_000
    """Pairs of buffers alive together above which one attempt of the exact search takes many seconds."""
    joined_pairs: int = 50_000
    """Pairs of joined blocks alive together up to which an attempt takes tenths of a second."""


PARAMS: Final = LowParams()


class LowPacking:
    """The lowest packing found so far of a problem of at least one buffer; it may be above the capacity."""

    def __init__(self, problem: PackingProblem, run: Run) -> None:
        self._problem = problem
        self._run = run
        watch = Stopwatch()
        self._blocks = blocks_of(problem)
        self._search = ArenaSearch(self._blocks, run.limits.seed)
        self._setup_seconds = watch.seconds
        self._repair: ArenaRepair | None = None
        self._is_greedy_only = problem.has_fixed

    @property
    def is_greedy_only(self) -> bool:
        """True if only greedy orders place the buffers: skylines and repair do not know fixed offsets."""
        return self._is_greedy_only

    @property
    def arena_bytes(self) -> int:
        """The highest end of any buffer; 2^60 while there is no packing."""
        return self._search.arena

    @property
    def offsets_bytes(self) -> tuple[int, ...]:
        """Offsets of the buffers; all 0 if there is no packing yet."""
        return tuple(self._search.offsets)

    def place_quickly(self, target_bytes: int) -> None:
        """Fill the given skylines, pack joined blocks, then place by size and by life; end at the target.

        There is always a packing: if the time is over before, each buffer goes into the smallest free range when it
        begins. Greedy orders take half of the time left. Fixed buffers must not overlap.
        """
        if not self.is_greedy_only:
            self.fill(1, target_bytes)
            self.fill(PARAMS.given_rounds - 1, target_bytes)
            if self.arena_bytes > target_bytes and self._run.stop is None:
                self._pack_joined(target_bytes)
        if self.arena_bytes > target_bytes and self._run.stop is None:
            greedy = self._run
            if self._run.deadline.is_set and not self.is_greedy_only:
                greedy = self._run.within(self._run.seconds_left / 2)
            self._watched(lambda token: self._place_in_orders(target_bytes, token), greedy)
        if self.arena_bytes == NO_ARENA:
            self._search.sweep()

    def fill(self, rounds: int, target_bytes: int) -> None:
        """Fill so many skylines more, or until the arena is the target or the run has to stop."""
        if self.is_greedy_only:
            return
        if self._run.stop is None:
            self._watched(lambda token: self._search.fill_skylines(rounds, target_bytes, token), self._run)

    def repair(self, rounds: int, target_bytes: int) -> None:
        """Place again the buffers that end too high, for the time of so many skylines or until the target is met."""
        if self.is_greedy_only or self.arena_bytes <= target_bytes or self._run.stop is not None:
            return
        if self._repair is None and self._run.seconds_left < self._setup_seconds:  # its set-up takes about as long
            return
        repair = self._repair or ArenaRepair(self._blocks, self._search.offsets, self._run.limits.seed)
        self._repair = repair
        repair.offer(self._search.offsets)
        looks = rounds * PARAMS.looks_of_a_skyline * len(self._blocks)
        self._watched(lambda token: repair.lower(looks, target_bytes, token), self._run)
        self._search.offer(repair.offsets)

    def _pack_joined(self, target_bytes: int) -> None:
        """Join blocks without waste, and pack them if they are far fewer."""
        token = StopToken()
        joined = run_watched(lambda: JoinedBlocks(self._blocks, token), token.ask, self._run)
        left = joined.left()
        if 2 * len(left) > len(self._blocks):
            return
        buffers = tuple(Buffer(one.first, one.stop, one.size) for one in left)
        search, token = ArenaSearch(_in_their_sections(left), self._run.limits.seed), StopToken()
        run_watched(lambda: search.fill_skylines(PARAMS.first_rounds, target_bytes, token), token.ask, self._run)
        if search.arena > target_bytes:
            self._search_for_joined(buffers, search, target_bytes)
        if search.arena < self.arena_bytes:
            self._search.offer(joined.offsets(search.offsets))

    def _search_for_joined(self, buffers: tuple[Buffer, ...], search: ArenaSearch, target_bytes: int) -> None:
        """Search for a packing of few joined blocks at the target."""
        alignment = self._problem.alignment_bytes
        if self._run.stop is not None or has_too_many_pairs(buffers, PARAMS.joined_pairs):
            return
        attempt = Attempt(PackingProblem(buffers, -(-target_bytes // alignment) * alignment, alignment), self._run)
        attempt.go_on(STEP.quick_nodes)
        if attempt.offsets_bytes is not None:
            search.offer(attempt.offsets_bytes)

    def _place_in_orders(self, target_bytes: int, token: StopToken) -> None:
        """Best fit by size, TFLite's and TFLite Micro's; best fit by life, the longest and the shortest first."""
        buffers = self._problem.buffers
        sizes, starts = [-one.size_bytes for one in buffers], [one.start for one in buffers]
        lives = [one.start - one.stop for one in buffers]
        numbers, last_first = range(len(buffers)), range(len(buffers) - 1, -1, -1)
        orders: tuple[tuple[Callable[[], list[int]], bool], ...] = (
            (lambda: sorted(sorted(numbers, key=starts.__getitem__), key=sizes.__getitem__), True),
            (lambda: sorted(sorted(numbers, key=sizes.__getitem__), key=lives.__getitem__), True),
            (lambda: order_by_size(self._problem), True),
            (lambda: sorted(last_first, key=sizes.__getitem__), False),
        )
        for order, in_smallest_gap in orders:
            if self.arena_bytes > target_bytes and not token.is_asked:
                self._search.place(order(), in_smallest_gap=in_smallest_gap, stop=token)

    def _watched(self, work: Callable[[StopToken], None], run: Run) -> None:
        token = StopToken()
        run_watched(lambda: work(token), token.ask, run)


def blocks_of(problem: PackingProblem) -> ArenaBlocks:
    """Count lives in sections and pad sizes to the alignment."""
    return lives_of(problem).blocks()


def _in_their_sections(blocks: ArenaBlocks) -> ArenaBlocks:
    """Count lives in the sections of these blocks alone; they have theirs in others."""
    lives, _ = sections_of([Buffer(one.first, one.stop, one.size) for one in blocks])
    return ArenaBlocks(
        [
            ArenaBlock(first=first, stop=stop, size=one.size, used=one.used, steps=one.steps)
            for (first, stop), one in zip(lives, blocks, strict=True)
        ]
    )


METHOD = "branching"


def pack_schedule(
    indexed: IndexedProblem, schedule: OperatorSchedule, run: Run, capacity_bytes: int | None = None
) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
    """Return the schedule, with what is overwritten in it, and its offsets in bytes; None if none were found.

    `capacity_bytes` may be less than the scratchpad's.
    """
    chains = chained(indexed, schedule, capacity_bytes)
    packing = pack(chains.problem, run, STEP.proof_nodes).answer
    return None if packing is None else (chains.schedule, chains.offsets_bytes(packing.offsets_bytes))


def pack(
    problem: PackingProblem, run: Run, most_nodes: float = float("inf"), repair_rounds: int = 0
) -> SearchResult[Packing]:
    """Find offsets within the capacity, or prove that there are none, in about so many nodes.

    Large problems, and those with rounds of repair, are first tried by greedy orders, skylines and repair. The
    objective value is the arena. It is OPTIMAL only if it equals the bound.
    """
    if not problem.is_uniform:
        return solve_general(problem, run, minimize=False, most_nodes=int(min(most_nodes, NO_NODE_LIMIT)))
    bound = least_arena_bytes(problem)
    if bound > problem.capacity_bytes or fixed_overlap(problem):
        return _infeasible(problem, bound, run)
    is_large = has_too_many_pairs(problem.buffers, PARAMS.searched_pairs)
    if is_large:
        repair_rounds = max(repair_rounds, PARAMS.first_rounds)
    if problem.buffers and repair_rounds > 0:
        low_packing = LowPacking(problem, run)
        low_packing.place_quickly(problem.capacity_bytes)
        low_packing.repair(repair_rounds, problem.capacity_bytes)
        low_packing.fill(PARAMS.first_rounds, problem.capacity_bytes)
        if low_packing.arena_bytes <= problem.capacity_bytes:
            return found(problem, low_packing.offsets_bytes, bound, run)
    if is_large and run.stop is not None:
        return SearchResult(Status.UNKNOWN, None, None, bound, run.seconds, METHOD, run.stop)
    attempt = Attempt(problem, run)
    finding = attempt.go_on(most_nodes)
    if finding is Knowledge.UNPACKABLE:
        return _infeasible(problem, bound, run)
    if attempt.offsets_bytes is None:
        stop = run.stop or Stop.NODE_LIMIT
        return SearchResult(Status.UNKNOWN, None, None, bound, run.seconds, METHOD, stop)
    return found(problem, attempt.offsets_bytes, bound, run)


def _infeasible(problem: PackingProblem, bound: int, run: Run) -> SearchResult[Packing]:
    proven = max(bound, problem.capacity_bytes + 1)
    return SearchResult(Status.INFEASIBLE, None, None, proven, run.seconds, METHOD)


def found(
    problem: PackingProblem, offsets_bytes: tuple[int, ...], bound: int, run: Run, stop: Stop = Stop.COMPLETED
) -> SearchResult[Packing]:
    """Return the result that a packing is."""
    arena = arena_bytes(problem, offsets_bytes)
    status = Status.OPTIMAL if arena == bound else Status.FEASIBLE
    return SearchResult(status, Packing(offsets_bytes), arena, bound, run.seconds, METHOD, stop)


def least_capacity(problem: PackingProblem, run: Run) -> SearchResult[Packing]:
    """Find the lowest arena within the capacity: a portfolio of skylines with repair, and of the exact search.

    Greedy orders come first, so there is an answer in any case. Fixed buffers that overlap are INFEASIBLE.
    """
    if not problem.is_uniform:
        return solve_general(problem, run, minimize=True)
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
        super().__init__(incumbent, incumbent.run, 2 * PARAMS.first_rounds * each, PARAMS.rounds_without_limit * each)
        self._problem = problem
        self._nodes_per_round = each
        self.low_packing = LowPacking(problem, incumbent.run)

    def place_quickly(self) -> None:
        """Fill the given skylines, pack joined blocks, then place by size and by life; end at the target.

        There is always a packing: if the time is over before, each buffer goes into the smallest free range when it
        begins. Greedy orders take half of the time left. Fixed buffers must not overlap.
        """
        self.low_packing.place_quickly(self.incumbent.lower_bound)
        self._offer()

    def advance(self, nodes: float) -> float:
        """Repair, then fill; at least a skyline."""
        skylines = int(min(PARAMS.skylines, max(1, nodes / self._nodes_per_round / (1 + PARAMS.repairs_to_skylines))))
        self.low_packing.repair(PARAMS.repairs_to_skylines * skylines, self.incumbent.lower_bound)
        self.low_packing.fill(skylines, self.incumbent.lower_bound)
        self._offer()
        return skylines * (1 + PARAMS.repairs_to_skylines) * self._nodes_per_round

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
        return incumbent.value is None or not has_too_many_pairs(problem.buffers, PARAMS.searched_pairs)

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
        watch = Stopwatch()
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
