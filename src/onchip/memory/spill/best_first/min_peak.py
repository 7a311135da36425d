"""M_P: the least peak over all orders without spills, by best-first search on the bottleneck.

The search is `native/peak.hpp`; docs/search.md, *Least peak*, says why it is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from onchip.answer.problem import Problem
from onchip.answer.result import Result, Status, Stop
from onchip.memory.spill.best_first.peak_program import PeakProgram
from onchip.memory.spill.large.movable_order import MovableOrder
from onchip.model.lifetimes.components import IndependentPart, components_of
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.sure_needs import sure_needs_bytes
from onchip.native import PeakOutcome, PeakSearch, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

MOST_BYTES: Final = 5 << 30
UNLIMITED: Final = 1 << 62
FIRST_STATES: Final = 1 << 14
"""Most networks need no more; only after so many is the peak closed in on from both sides."""
FIRST_STATES_OF_PART: Final = 1 << 16
FIRST_WIDTH: Final = 32
"""Operators of a part, in the first round."""
PARTS: Final = 16
"""Of each order in each round."""
ROUNDS_GROW_BY: Final = 4


def min_peak_bytes(problem: Problem, run: Run) -> Result[tuple[int, ...]]:
    """Return M_P in bytes as the objective, and an order of operator indices that attains it.

    Stopped early, the answer is the best order found with the bound proven so far. Independent components are ordered
    alone, since the least peak of the whole is the greatest of theirs (docs/search.md, *Independent components*).
    """
    components = components_of(problem)
    if len(components) == 1:
        parts = [MinPeakSearch(IndexedProblem.of(components[0].problem), run).solve()]
    else:
        parts = list(_least_peaks(components, run))
    order = tuple(_joined(problem, components, parts))
    peak, bound = max(one.objective_value or 0 for one in parts), max(one.lower_bound for one in parts)
    stops = (one.stopped_by for one in parts if one.stopped_by is not Stop.COMPLETED)
    status, stop = Status.FEASIBLE, next(stops, Stop.COMPLETED)
    if bound >= peak:
        status, stop = Status.OPTIMAL, Stop.COMPLETED
    return Result(status, order, peak, bound, run.seconds, "min-peak", stop)


def _least_peaks(components: Sequence[IndependentPart], run: Run) -> Iterator[Result[tuple[int, ...]]]:
    """Order each component; none is looked at further than until it needs no more than another surely does."""
    bound = 0
    for number, component in enumerate(components):
        share = run.within(run.seconds_left / (len(components) - number))
        found = MinPeakSearch(IndexedProblem.of(component.problem), share, enough_bytes=bound).solve()
        bound = max(bound, found.lower_bound)
        yield found


def _joined(
    problem: Problem, components: Sequence[IndependentPart], parts: Sequence[Result[tuple[int, ...]]]
) -> Iterator[int]:
    """Return the operators of the components, and of their copies, one component after another."""
    number = {operator.name: index for index, operator in enumerate(problem.graph.operators)}
    for component, found in zip(components, parts, strict=True):
        listed = component.problem.graph.operators
        for names in component.operator_names:
            yield from (number[names[listed[at].name]] for at in found.answer or range(len(listed)))


def peak_of_order(indexed: IndexedProblem, order: Sequence[int]) -> int:
    """Return the peak in bytes of one order without spills; raises ValueError for what is no order."""
    return max(PeakProgram.of(indexed).needs_bytes(order))


class MinPeakSearch:
    """Looks for an order of the least peak; what that leaves open is closed in on in rounds, each of more states.

    From above: for a peak halfway to the bound, any order that stays below it; paths then differ in how far they lead
    and in nothing else. From below: parts of an order, operators that follow one another; no order of the whole needs
    less than the best one of a part. A peak of `enough_bytes` is not improved.
    """

    def __init__(self, indexed: IndexedProblem, run: Run, enough_bytes: int = 0) -> None:
        self._indexed = indexed
        self._run = run
        self._enough_bytes = enough_bytes
        self._whole = PeakProgram.of(indexed)
        self._order: tuple[int, ...] = tuple(range(indexed.operator_count))
        self._best = max(self._whole.needs_bytes(self._order))
        self._bound = max(map(indexed.required_bytes, self._order))
        self._states = 0
        self._stop: Stop | None = None

    def solve(self) -> Result[tuple[int, ...]]:
        """Search until an order is proven, or something stops it.

        No order has less than M_R, so the peak starts there and more moves are safe.
        """
        for _ in self._steps():
            self._stop = self._stop or self._run.stop
            if max(self._bound, self._enough_bytes) >= self._best or self._stop is not None:
                break
        status, stop = Status.FEASIBLE, self._stop or Stop.COMPLETED
        if self._bound >= self._best:
            status, stop = Status.OPTIMAL, Stop.COMPLETED
        return Result(status, self._order, self._best, self._bound, self._run.seconds, "min-peak", stop)

    def _steps(self) -> Iterator[None]:
        """Hand back after each look, without end."""
        yield
        self._look_at_all(self._bound, self._best - 1, FIRST_STATES)
        yield
        self._bound = max(self._bound, *sure_needs_bytes(self._indexed))
        for number in count():
            effort = ROUNDS_GROW_BY**number
            yield from self._narrow(effort * 2 * self._indexed.operator_count)
            width, states = FIRST_WIDTH << number, effort * FIRST_STATES_OF_PART
            yield from self._mend(width, states)
            for order in (tuple(range(self._indexed.operator_count)), self._order):
                yield from self._look_at_parts(order, width, states)
            self._look_at_all(self._bound, self._best - 1, effort * FIRST_STATES)
            yield

    def _narrow(self, states: int) -> Iterator[None]:
        """Halve what is between the bound and the best order, after asking for the bound itself."""
        low, middle = self._bound, self._bound
        while low < self._best:
            yield
            if not self._look_at_all(middle, middle, states):
                low = middle + 1
            middle = (low + self._best) // 2

    def _mend(self, width: int, states: int) -> Iterator[None]:
        """Put the steps around the neediest into their best order while that helps; then ask what they need alone."""
        movable = MovableOrder(self._indexed, self._order)
        while True:
            yield
            begin = max(0, movable.needs_bytes.index(max(movable.needs_bytes)) - width // 2)
            steps = movable.order[begin : begin + width]
            program = movable.between(begin, begin + len(steps))
            search = self._searched(program, states, f"{width} steps anew")
            if not search.order:
                break
            movable.put(begin, program, search.order)
            self._keep(tuple(movable.order))
        yield
        self._look_at_part(steps, states)

    def _look_at_parts(self, order: Sequence[int], width: int, states: int) -> Iterator[None]:
        """Raise the bound to the least peaks of the parts that need most in this order; they overlap by half."""
        needs = self._whole.needs_bytes(order)
        begins = range(0, max(1, len(order) - width // 2), width // 2)
        for begin in sorted(begins, key=lambda begin: -max(needs[begin : begin + width]))[:PARTS]:
            yield
            self._look_at_part(order[begin : begin + width], states)

    def _look_at_part(self, operators: Sequence[int], states: int) -> None:
        part = PeakProgram.part(self._indexed, operators)
        self._raise_bound(self._searched(part, states, f"{len(operators)} operators alone").lower_bound)

    def _searched(self, program: PeakProgram, states: int, where: str) -> PeakSearch:
        """Search between the bound and the best order."""
        search = program.search(self._bound, self._best - 1, MOST_BYTES)
        self._run_search(search, states, where)
        return search

    def _look_at_all(self, least: int, most: int, states: int) -> bool:
        """Search all operators between two peaks; return whether that found a better order."""
        search = self._whole.search(least, most, MOST_BYTES)
        outcome = self._run_search(search, states, "all operators")
        if least <= self._bound or outcome is PeakOutcome.EXHAUSTED:
            self._raise_bound(search.lower_bound)
        if outcome is PeakOutcome.MEMORY_SPENT:
            self._stop = Stop.MEMORY_LIMIT
        if outcome is PeakOutcome.FOUND:
            self._keep(tuple(search.order))
        return outcome is PeakOutcome.FOUND

    def _keep(self, order: tuple[int, ...]) -> None:
        self._order, self._best = order, max(self._whole.needs_bytes(order))

    def _raise_bound(self, bound: int) -> None:
        self._bound = max(self._bound, min(bound, self._best))

    def _run_search(self, search: PeakSearch, states: int, where: str) -> PeakOutcome:
        """Run a search within the limits; whoever listens hears how many states there are in all."""
        token, before, limit = StopToken(), self._states, self._run.limits.node_limit

        def report() -> None:
            self._run.report(None, self._bound, f"least peak, {where}, {before + search.states} states")

        most_states = states if limit is None else min(states, limit - before)
        outcome = run_watched(lambda: search.run(token, most_states), token.ask, self._run, report)
        self._states += search.states
        if limit is not None and self._states >= limit:
            self._stop = Stop.NODE_LIMIT
        return outcome
