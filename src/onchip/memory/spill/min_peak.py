"""The minimum peak M_P over all orders without spills, by best-first search on the bottleneck, and given orders.

The search is `native/peak.hpp`; docs/search.md, *Minimum peak*, proves that it is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count
from typing import Final

from onchip.answer.problem import Order, Problem
from onchip.answer.result import SearchResult, Stop
from onchip.memory.effort import STEP
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.precedence import sure_needs_bytes
from onchip.native import PeakOperator, PeakOutcome, PeakSearch, StopToken, peak_needs
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.interruptible import run_watched
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
    start_states: int = 200_000
    """States of an order to start from: mostly some seconds, for an order of low peak without proof."""
    start_share: float = 0.1
    """Part of the time left for an order to start from."""


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
    most = min(run.limits.node_limit or PARAMS.start_states, PARAMS.start_states)
    soon = without_figures(run.within(PARAMS.start_share * run.seconds_left))
    least = min_peak_bytes(problem, replace(soon, limits=replace(run.limits, node_limit=most)))
    if least.answer is not None and least.answer != given:
        yield least.answer
