"""The minimum peak M_P over all orders without spills, and the minimum arena of a plan without spills.

The search is `native/peak.hpp`; docs/search.md, *Minimum peak*, proves that it is exact.
M_P bounds the arena from below.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count
from math import inf
from typing import Final

from onchip.answer.problem import Order, Problem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.arch.memory import Memory
from onchip.bounds.retention.sure_gaps import pooled
from onchip.memory.allocate.pack import least_capacity
from onchip.memory.allocate.residencies import chained, pack_with_ties, packing_problem
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, PlannedResidency, SearchMove, schedule_of_moves
from onchip.memory.effort import STEP
from onchip.memory.retention.addressed import prove_with_addresses
from onchip.memory.retention.kept_gaps import KeptGaps
from onchip.model.lifetimes.indexed import IndexedProblem, sure_needs_bytes
from onchip.native import PeakOperator, PeakOutcome, PeakSearch, StopToken, peak_needs
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, run_watched
from onchip.search.strategy.portfolio import Incumbent, Portfolio, Stepped, Strategy
from onchip.search.strategy.start import without_figures


@dataclass(frozen=True, slots=True)
class PeakProgram:
    """Operators with their tensors, numbered locally."""

    operators: tuple[PeakOperator, ...]
    sizes_bytes: tuple[int, ...]
    alignment_bytes: int

    @classmethod
    def of(cls, indexed: IndexedProblem) -> PeakProgram:
        """Return the program of all operators, with unchanged numbers."""
        return cls.part(indexed, range(indexed.operator_count))

    @classmethod
    def part(cls, indexed: IndexedProblem, numbers: Sequence[int]) -> PeakProgram:
        """State operators that follow one another in some order; number k is that of `numbers[k]`.

        A tensor is known from its first use among them to its last. A whole order restricted to the part is an order of
        the part in which no step needs more, so no whole order needs less than the best order of the part.
        """
        place = places_of(indexed, numbers)
        sizes_bytes = tuple(indexed.sizes_bytes[tensor] for tensor in place)
        return cls(tuple(operators_of(indexed, numbers, place, 0)), sizes_bytes, indexed.room.alignment_bytes)

    def search(self, least_bytes: int, most_bytes: int, most_memory_bytes: int = STEP.search_bytes) -> PeakSearch:
        """Return a search for an order between these peaks."""
        return PeakSearch(
            self.sizes_bytes,
            self.operators,
            alignment_bytes=self.alignment_bytes,
            least_bytes=least_bytes,
            most_bytes=most_bytes,
            most_memory_bytes=most_memory_bytes,
        )

    def needs_bytes(self, order: Sequence[int]) -> list[int]:
        """Return the bytes that each step of an order needs; raises ValueError if it is no order."""
        return peak_needs(self.sizes_bytes, self.operators, self.alignment_bytes, order)


def places_of(indexed: IndexedProblem, numbers: Sequence[int]) -> dict[int, int]:
    """Map the tensors that operators use, in ascending order, to local numbers."""
    tensors = sorted({tensor for number in numbers for tensor in indexed.operand_lists[number]})
    return {tensor: at for at, tensor in enumerate(tensors)}


def operators_of(
    indexed: IndexedProblem, numbers: Sequence[int], place: Mapping[int, int], behind: int
) -> list[PeakOperator]:
    """Return the operators, numbered after `behind` other operators that all run before."""
    at = {number: index + behind for index, number in enumerate(numbers)}
    return [
        PeakOperator(
            reads=[place[tensor] for tensor in indexed.read_lists[number]],
            writes=[place[tensor] for tensor in indexed.write_lists[number]],
            predecessors=[*range(behind), *sorted(at[one] for one in indexed.predecessor_lists[number] if one in at)],
            overwritables=[
                (place[one.tensor], one.group, [place[tensor] for tensor in one.inside])
                for one in indexed.overwritable_lists[number]
            ],
        )
        for number in numbers
    ]


class MovableOrder:
    """`needs_bytes` of each step are those of the whole order, at most one unit of the alignment more."""

    def __init__(self, indexed: IndexedProblem, order: Sequence[int]) -> None:
        self._indexed = indexed
        self.order = list(order)
        self.needs_bytes = PeakProgram.of(indexed).needs_bytes(order)
        self._step_of = [0] * len(self.order)
        for step, operator in enumerate(self.order):
            self._step_of[operator] = step
        self._first = [0] * len(indexed.tensors)
        self._last = [-1] * len(indexed.tensors)
        self._find_uses(range(len(indexed.tensors)))
        self._resident_units = self._units_before_steps()

    def between(self, begin: int, stop: int) -> PeakProgram:
        """State the steps [begin, stop), which may be reordered while all others stay.

        A first operator writes the tensors resident before them, a last one reads those resident after them; one tensor
        stands for all that they do not use. Number k + 1 is that of step begin + k.
        """
        indexed, numbers = self._indexed, self.order[begin:stop]
        place = places_of(indexed, numbers)
        stay_before = [tensor for tensor in place if self._is_there(tensor, begin)]
        stay_after = [tensor for tensor in place if self._is_there(tensor, stop)]
        rest_units = self._resident_units[begin] - indexed.room.units_of_all(stay_before)
        rest, alignment_bytes = len(place), indexed.room.alignment_bytes
        writes = [*(place[tensor] for tensor in stay_before), rest]
        reads = [*(place[tensor] for tensor in stay_after), rest]
        first = PeakOperator(reads=(), writes=writes, predecessors=())
        last = PeakOperator(reads=reads, writes=(), predecessors=range(len(numbers) + 1))
        sizes_bytes = (*(indexed.sizes_bytes[tensor] for tensor in place), rest_units * alignment_bytes)
        return PeakProgram((first, *operators_of(indexed, numbers, place, 1), last), sizes_bytes, alignment_bytes)

    def put(self, begin: int, program: PeakProgram, order: Sequence[int]) -> None:
        """Put the steps of a program that was stated from `begin` on into an order of it."""
        steps = [self.order[begin + number - 1] for number in order[1:-1]]
        stop = begin + len(steps)
        self.order[begin:stop] = steps
        self.needs_bytes[begin:stop] = program.needs_bytes(order)[1:-1]
        for step in range(begin, stop):
            self._step_of[self.order[step]] = step
        tensors = places_of(self._indexed, steps)
        rest = self._resident_units[begin] - self._units_at(tensors, begin)
        self._find_uses(tensors)
        for step in range(begin + 1, stop):
            self._resident_units[step] = rest + self._units_at(tensors, step)

    def _find_uses(self, tensors: Sequence[int] | dict[int, int]) -> None:
        """Set live ranges: from the writer, or first reader, to the last reader; an unread tensor leaves at once."""
        for tensor in tensors:
            writer = self._indexed.producer[tensor]
            steps = [self._step_of[reader] for reader in self._indexed.reader_lists[tensor]]
            self._last[tensor] = max(steps, default=-1)
            self._first[tensor] = self._step_of[writer] if writer >= 0 else min(steps, default=0)

    def _units_before_steps(self) -> list[int]:
        changes = [0] * (len(self.order) + 1)
        for units, first, last in zip(self._indexed.room.units, self._first, self._last, strict=True):
            if first < last:
                changes[first + 1] += units
                changes[last + 1] -= units
        return list(accumulate(changes))

    def _units_at(self, tensors: Sequence[int] | dict[int, int], step: int) -> int:
        return self._indexed.room.units_of_all(tensor for tensor in tensors if self._is_there(tensor, step))

    def _is_there(self, tensor: int, step: int) -> bool:
        """True if the tensor is resident between this step and the one before."""
        return self._first[tensor] < step <= self._last[tensor]


@dataclass(frozen=True, slots=True)
class MinPeakParams:
    """Constants of the search for the minimum peak."""

    first_states: int = 1 << 14
    """States of the first search of all operators, which prove most networks, and of a part in the first round."""
    first_width: int = 32
    """Operators of a part in the first round. The width doubles each round; states grow with its square."""
    parts: int = 16
    """Parts of each order in each round, those of the highest needs."""
    flattened_from: float = 0.8
    """Part of the peak below which the steps of an order are left as they are."""


PARAMS: Final = MinPeakParams()


def min_peak_bytes(problem: Problem, run: Run) -> SearchResult[tuple[int, ...]]:
    """Return M_P in bytes as the objective, and an order of operator indices that attains it.

    Stopped early, the answer is the best order found with the bound proven so far.
    """
    return MinPeakSearch(IndexedProblem.of(problem), run).solve()


def peak_of_order(indexed: IndexedProblem, order: Sequence[int]) -> int:
    """Return the peak in bytes of one order without spills; raises ValueError if the order is invalid."""
    return max(PeakProgram.of(indexed).needs_bytes(order))


class MinPeakSearch(Incumbent[tuple[int, ...]]):
    """Two strategies for an order of minimum peak: a search of all operators, and rounds from both sides.

    Each round has more states. From above: for a peak halfway to the bound, any order below it will do. From below: no
    order needs less than the best order of some of its operators that follow one another.
    """

    def __init__(self, indexed: IndexedProblem, run: Run) -> None:
        given = tuple(range(indexed.operator_count))
        told = replace(run, listener=lambda heard: run.listener(replace(heard, best=None)))
        super().__init__(told, max(map(indexed.required_bytes, given)))
        self.whole = PeakProgram.of(indexed)
        self._indexed = indexed
        self.rounds = 0
        self.keep_order(given, "given order")

    def keep_order(self, order: tuple[int, ...], phase: str) -> None:
        """Keep an order if its peak is lower than the best."""
        self.keep(order, max(self.whole.needs_bytes(order)), phase)

    def solve(self) -> SearchResult[tuple[int, ...]]:
        """Search until an order is proven, or the run has to stop."""
        whole = _AllOperators(self)
        rounds = Stepped(
            "least peak from both sides",
            self,
            self.run,
            self._rounds,
            is_ready=lambda: whole.search is not None and whole.ended_by is None,
        )
        self.stopped_by = Portfolio(self, [whole, rounds], Budget(self.run)).solve()
        return self.result("min-peak")

    def _rounds(self, turn: Stepped) -> Iterator[float]:
        """Yield the states of each search, without end."""
        self.raise_bound(max(sure_needs_bytes(self._indexed)))
        for number in count():
            effort, width = 4**number, PARAMS.first_width << number
            yield from self._narrow(turn, 2 * effort * self._indexed.operator_count)
            yield from self._mend(turn, width, effort * PARAMS.first_states)
            for order in (range(self._indexed.operator_count), self.answer or ()):
                yield from self._look_at_parts(turn, order, width, effort * PARAMS.first_states)
            self.rounds += 1

    def _narrow(self, turn: Stepped, states: int) -> Iterator[float]:
        """Search for the bound itself, then halve the gap between the bound and the best peak."""
        low = middle = self.lower_bound
        while low < (best := self.value or 0):
            search = self.whole.search(middle, middle)
            outcome = run_search(search, turn.whole_run, states)
            if middle <= self.lower_bound or outcome is PeakOutcome.EXHAUSTED:
                self.raise_bound(min(search.lower_bound, best))
            if outcome is PeakOutcome.FOUND:
                self.keep_order(tuple(search.order), turn.name)
            else:
                low = middle + 1
            yield search.states
            middle = (low + (self.value or 0)) // 2

    def _mend(self, turn: Stepped, width: int, states: int) -> Iterator[float]:
        """Reorder the steps around the highest need while that helps; then bound by these steps alone."""
        movable = MovableOrder(self._indexed, self.answer or ())
        while True:
            begin = max(0, movable.needs_bytes.index(max(movable.needs_bytes)) - width // 2)
            steps = movable.order[begin : begin + width]
            program = movable.between(begin, begin + len(steps))
            search = program.search(self.lower_bound, (self.value or 0) - 1)
            run_search(search, turn.whole_run, states)
            yield search.states
            if not search.order:
                break
            movable.put(begin, program, search.order)
            self.keep_order(tuple(movable.order), turn.name)
        yield self._look_at_part(turn, steps, states)

    def _look_at_parts(self, turn: Stepped, order: Sequence[int], width: int, states: int) -> Iterator[float]:
        """Raise the bound to the minimum peaks of the parts of the highest needs; parts overlap by half."""
        needs = self.whole.needs_bytes(order)
        begins = range(0, max(1, len(order) - width // 2), width // 2)
        for begin in sorted(begins, key=lambda begin: -max(needs[begin : begin + width]))[: PARAMS.parts]:
            yield self._look_at_part(turn, order[begin : begin + width], states)

    def _look_at_part(self, turn: Stepped, operators: Sequence[int], states: int) -> int:
        best = self.value or 0
        search = PeakProgram.part(self._indexed, operators).search(self.lower_bound, best - 1)
        run_search(search, turn.whole_run, states)
        self.raise_bound(min(search.lower_bound, best))
        return search.states


class _AllOperators(Strategy):
    """The resumable search of all operators, between the bound and the best peak; restarted if these are closer now."""

    name = "least peak"

    def __init__(self, best: MinPeakSearch) -> None:
        super().__init__(best, best.run, PARAMS.first_states)
        self._best = best
        self._between = (0, 0)
        self._turns = 0
        self.search: PeakSearch | None = None

    @property
    def is_ready(self) -> bool:
        """True before the rounds, and once after each of them: they mostly close the gap sooner."""
        return self._turns <= self._best.rounds

    def advance(self, nodes: float) -> float:
        """Search about `nodes` more states."""
        best = self._best
        self._turns += 1
        between = best.lower_bound, (best.value or 0) - 1
        if self.search is None or (between != self._between and self.search.states <= nodes):
            self._between, self.search = between, best.whole.search(*between)
        before = self.search.states
        outcome = run_search(self.search, self.run, before + int(nodes))
        best.raise_bound(min(self.search.lower_bound, self._between[1] + 1))
        if outcome is PeakOutcome.FOUND:
            best.keep_order(tuple(self.search.order), self.name)
        if outcome in (PeakOutcome.FOUND, PeakOutcome.EXHAUSTED):
            self.ended_by = Stop.COMPLETED
        elif outcome is PeakOutcome.MEMORY_SPENT:
            self.ended_by = Stop.MEMORY_LIMIT
        return self.search.states - before


def run_search(search: PeakSearch, run: Run, states: int) -> PeakOutcome:
    """Continue the search to `states` states in total, or until the run has to stop."""
    token = StopToken()
    return run_watched(lambda: search.run(token, states), token.ask, run)


def with_given_order(problem: Problem, order: Sequence[int]) -> Problem:
    """Return the problem with its operators in this (topological) order, which is now the given one.

    Its plans are plans of `problem` in any order.
    """
    operators = tuple(problem.graph.operators[operator] for operator in order)
    return replace(problem, graph=replace(problem.graph, operators=operators), order=Order.GIVEN)


def with_order_settled(problem: Problem, run: Run) -> Problem:
    """Return a problem that asks for an order of minimum peak with that order given; other problems unchanged.

    If the minimum peak is not found in time, the given order stays.
    """
    if problem.order is not Order.MIN_PEAK:
        return problem
    least = min_peak_bytes(replace(problem, order=Order.FREE), without_figures(run))
    return with_given_order(problem, least.answer or range(len(problem.graph.operators)))


def orders_to_start_from(problem: Problem, run: Run) -> Iterator[tuple[int, ...]]:
    """Yield the given order and, if orders are free, an order of minimum peak if one is found soon."""
    given = tuple(range(len(problem.graph.operators)))
    yield given
    if problem.order is not Order.FREE:
        return
    most = min(run.limits.node_limit or STEP.whole_states, STEP.whole_states)
    soon = without_figures(run.within(STEP.share * run.seconds_left))
    least = min_peak_bytes(problem, replace(soon, limits=replace(run.limits, node_limit=most)))
    if least.answer is not None and least.answer != given:
        yield least.answer


def solve_peak(incumbent: PlanIncumbent) -> None:
    """Prove M_P by search, pack its order at M_P, and let addresses join the model if it does not.

    With several scratchpads the objective is the sum of their arenas; M_P bounds that sum, too.
    """
    indexed, run = incumbent.indexed, incumbent.run
    outcome = min_peak_bytes(_unaligned(indexed.problem), run)
    incumbent.raise_bound(outcome.lower_bound)
    incumbent.stopped_by = outcome.stopped_by
    capacity = indexed.memory.capacity_bytes
    if outcome.lower_bound > capacity:
        incumbent.is_infeasible = True
        return
    order = outcome.answer or tuple(range(indexed.operator_count))
    if len(indexed.views) > 1:
        _pack_into_several(incumbent, order)
    else:
        _pack_into_one(incumbent, order)
    if outcome.status is Status.OPTIMAL:
        prove_with_addresses(incumbent, run)


def _pack_into_one(incumbent: PlanIncumbent, order: tuple[int, ...]) -> None:
    """Pack an order of minimum peak, or one as good whose other steps need less."""
    indexed, run = incumbent.indexed, incumbent.run
    if indexed.problem.graph.shares_bytes:
        _pack_apart(incumbent)
    schedule = _without_spills(indexed, order)
    _pack_into_least_arena(incumbent, schedule, STEP.quick_nodes)
    if not incumbent.is_proven and run.stop is None:
        schedule = _without_spills(indexed, flattened(indexed, order, run))
        _pack_into_least_arena(incumbent, schedule, STEP.proof_nodes if indexed.problem.graph.shares_bytes else inf)
    if indexed.problem.graph.shares_bytes and not incumbent.is_proven:
        most = (incumbent.value or indexed.memory.capacity_bytes + 1) - 1
        _narrow(incumbent, schedule, incumbent.lower_bound, most)


def _pack_apart(incumbent: PlanIncumbent) -> None:
    """Pack an order of minimum peak without overwriting: this is also a plan, and often as good."""
    graph = incumbent.indexed.problem.graph
    operators = tuple(replace(operator, in_place=()) for operator in graph.operators)
    apart = IndexedProblem.of(replace(incumbent.indexed.problem, graph=replace(graph, operators=operators)))
    order = min_peak_bytes(apart.problem, without_figures(incumbent.run)).answer or tuple(range(apart.operator_count))
    _pack_into_least_arena(incumbent, _without_spills(apart, order), STEP.proof_nodes)


def _without_spills(indexed: IndexedProblem, order: tuple[int, ...]) -> OperatorSchedule:
    return schedule_of_moves(indexed, (SearchMove(operator) for operator in order))


def _pack_into_least_arena(incumbent: PlanIncumbent, schedule: OperatorSchedule, most_nodes: float = inf) -> None:
    """Pack as low as is found; outputs that overwrite inputs lie in their bytes."""
    chains = chained(incumbent.indexed, schedule)
    packed = least_capacity(chains.problem, without_figures(incumbent.run), most_nodes).answer
    if packed is not None:
        offsets_bytes = chains.offsets_bytes(packed.offsets_bytes)
        arena = arena_bytes(incumbent.indexed, chains.schedule, offsets_bytes)
        incumbent.offer(chains.schedule, offsets_bytes, arena, "packed")


def _narrow(incumbent: PlanIncumbent, schedule: OperatorSchedule, low: int, high: int) -> None:
    """Pack with any ties at the least capacity at which that is found, from below at first, then halfway."""
    capacity = low
    while low <= high and incumbent.run.stop is None:
        packed = _packed_with_other_ties(incumbent, schedule, capacity)
        if packed is None:
            low = capacity + 1
        else:
            arena = arena_bytes(incumbent.indexed, *packed)
            incumbent.offer(*packed, arena, "packed")
            high = arena - 1
        capacity = min((low + high) // 2, low + low // 16)


def _packed_with_other_ties(
    incumbent: PlanIncumbent, schedule: OperatorSchedule, capacity_bytes: int
) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
    """Choose the ties and the addresses by CP-SAT."""
    problem = incumbent.indexed.problem
    memory = replace(problem.memories[0], capacity_bytes=capacity_bytes)
    smaller = IndexedProblem.of(replace(problem, memories=(memory,)))
    return pack_with_ties(smaller, schedule, incumbent.run, STEP.short_work).answer


def _unaligned(problem: Problem) -> Problem:
    """Return the problem; several scratchpads as one that aligns nothing, since each ends as its own top does."""
    if len(problem.memories) == 1:
        return problem
    capacity_bytes = sum(memory.capacity_bytes for memory in problem.memories)
    return replace(problem, memories=(Memory("scratchpads", capacity_bytes),))


def _pack_into_several(incumbent: PlanIncumbent, order: tuple[int, ...]) -> None:
    """Choose one scratchpad for each tensor's whole life, with the minimum sum of peaks; then pack each."""
    indexed, run = incumbent.indexed, incumbent.run
    if not cp_sat_is_within_reach(run):
        return
    chosen = KeptGaps(indexed, order).solve(run)
    if chosen.answer is None:
        has_no_order = indexed.has_one_order or bool(pooled(indexed).forced_cost)
        incumbent.is_infeasible = chosen.status is Status.INFEASIBLE and has_no_order
        return
    offsets_bytes: dict[PlannedResidency, int] = {}
    arenas = 0
    for memory, view in enumerate(indexed.views):
        part = chosen.answer.in_memory(memory)
        packed = least_capacity(packing_problem(view, part), without_figures(run))
        if packed.answer is None:
            return
        arenas += arena_bytes(view, part, packed.answer.offsets_bytes) if part.residencies else 0
        offsets_bytes |= zip(part.residencies, packed.answer.offsets_bytes, strict=True)
    placed = [offsets_bytes[residency] for residency in chosen.answer.residencies]
    incumbent.offer(chosen.answer, placed, arenas, "packed")


def arena_bytes(indexed: IndexedProblem, schedule: OperatorSchedule, offsets_bytes: tuple[int, ...]) -> int:
    """Return the highest end address of any residency."""
    ends = (
        offset + indexed.sizes_bytes[residency.tensor]
        for residency, offset in zip(schedule.residencies, offsets_bytes, strict=True)
    )
    return max(ends)


def flattened(indexed: IndexedProblem, order: Sequence[int], run: Run) -> tuple[int, ...]:
    """Put the steps around each needy step into an order in which none needs as much, the neediest first.

    No step comes to need more than the neediest of those it stood among.
    """
    movable = MovableOrder(indexed, order)
    level = PARAMS.flattened_from * max(movable.needs_bytes)
    waiting = [(-need, step) for step, need in enumerate(movable.needs_bytes) if need > level]
    heapq.heapify(waiting)
    while waiting and run.stop is None:
        need, step = heapq.heappop(waiting)
        if movable.needs_bytes[step] != -need:
            continue
        begin = max(0, step - PARAMS.first_width // 2)
        stop = min(begin + PARAMS.first_width, len(movable.order))
        program = movable.between(begin, stop)
        search = program.search(0, -need - 1)
        if search.run(StopToken(), PARAMS.first_states) is PeakOutcome.FOUND:
            movable.put(begin, program, search.order)
            for at in range(begin, stop):
                if movable.needs_bytes[at] > level:
                    heapq.heappush(waiting, (-movable.needs_bytes[at], at))
    return tuple(movable.order)
