"""M_P: the least peak over all orders without spills, by best-first search on the bottleneck."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

from onchip.answer.problem import Problem
from onchip.answer.result import Result, Status, Stop
from onchip.facts.indexed import IndexedProblem
from onchip.solve.ordering.position import NOTHING_HAS_RUN, Position
from onchip.solve.run.limits import Run

REPORT_EVERY: Final = 64
LOOK_AT_THE_CLOCK_EVERY: Final = 256
MOST_BYTES: Final = 5 << 30
STATE_BYTES: Final = 400
"""What a state takes beside the key that tells it apart."""


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """The end of a path from the root; `key` says which operators have run, `count` how many."""

    key: bytes
    count: int
    parent: _State | None
    operator: int


def min_peak_bytes(problem: Problem, run: Run) -> Result[tuple[int, ...]]:
    """Return M_P in bytes as the objective, and an order of operator indices that attains it.

    Stopped early, the answer is the given order with the bound proven so far.
    """
    return MinPeakSearch(IndexedProblem.of(problem), run).solve()


def peak_of_order(indexed: IndexedProblem, order: tuple[int, ...]) -> int:
    """Return the peak in bytes of one order without spills."""
    position, peak = Position(indexed), 0
    for operator in order:
        peak = max(peak, position.need_bytes(operator))
        position.run(operator)
    return peak


class MinPeakSearch:
    """A state's cost is the greatest need on the way to it; a state is its executed set.

    States are as small as the step to them: the one position walks from one to the next. Most are children of the last.
    """

    def __init__(self, indexed: IndexedProblem, run: Run) -> None:
        self._indexed = indexed
        self._run = run
        self._room = indexed.room
        self._position = Position(indexed)
        self._here = _State(NOTHING_HAS_RUN, 0, None, -1)
        self._heap: list[tuple[int, int, int, _State]] = []
        self._least: dict[bytes, int] = {}
        self._pushed = 0
        self._bytes = 0

    def solve(self) -> Result[tuple[int, ...]]:
        """Pop the state with the least peak, most operators executed first.

        No order has less than M_R, so the peak starts there and more moves are safe.
        """
        operators = range(self._indexed.operator_count)
        required = max(map(self._indexed.required_bytes, operators))
        self._heap.append((required, 0, 0, self._here))
        self._least = {self._here.key: required}
        popped = 0
        while True:
            peak, _, _, state = heapq.heappop(self._heap)
            popped += 1
            if peak > self._least[state.key]:
                continue
            if state.count == len(operators):
                return self._result(Status.OPTIMAL, _order(state), peak, peak, Stop.COMPLETED)
            stop = self._stop(peak, popped) or self._expand(state, peak)
            if stop is not None:
                given = tuple(operators)
                return self._result(Status.FEASIBLE, given, peak_of_order(self._indexed, given), peak, stop)

    def _expand(self, state: _State, peak: int) -> Stop | None:
        """Push the children that are reached at less than before; return why not all of them, if so."""
        self._go_to(state)
        for number, operator in enumerate(self._branches(peak), start=1):
            child_peak = max(peak, self._position.need_bytes(operator))
            key = self._position.key_after(operator)
            if child_peak < self._least.get(key, child_peak + 1):
                self._least[key] = child_peak
                self._pushed += 1
                self._bytes += STATE_BYTES + len(key)
                child = _State(key, state.count + 1, state, operator)
                heapq.heappush(self._heap, (child_peak, -child.count, self._pushed, child))
            if number % LOOK_AT_THE_CLOCK_EVERY == 0 and self._run.stop is not None:
                return self._run.stop
        return Stop.MEMORY_LIMIT if self._bytes > MOST_BYTES else None

    def _stop(self, peak: int, popped: int) -> Stop | None:
        if popped % REPORT_EVERY == 0:
            self._run.report(None, peak, f"least peak, {popped} states")
        limit = self._run.limits.node_limit
        return Stop.NODE_LIMIT if limit is not None and popped >= limit else self._run.stop

    def _go_to(self, state: _State) -> None:
        """Walk back to where the paths part, then on."""
        here, there = self._here, state
        ahead: list[int] = []
        while here is not there:
            if there.parent is not None and there.count >= here.count:
                ahead.append(there.operator)
                there = there.parent
            elif here.parent is not None:
                self._position.take_back(here.operator)
                here = here.parent
        for operator in reversed(ahead):
            self._position.run(operator)
        self._here = state

    def _branches(self, peak: int) -> tuple[int, ...]:
        """Return one operator that is safe to run next, or else every ready one."""
        ready = tuple(self._position.ready)
        return next(((operator,) for operator in ready if self._is_safe(operator, peak)), ready)

    def _is_safe(self, operator: int, peak: int) -> bool:
        """Whether it fits under the peak reached so far and leaves no more resident than before."""
        if self._position.need_bytes(operator) > peak:
            return False
        come, gone = self._position.exchange(operator)
        growth = self._room.units_of_all(come) - self._room.units_of_all(gone)
        if growth or self._room.alignment_bytes == 1:
            return growth <= 0
        padding = self._room.padding_bytes
        return max((padding[t] for t in come), default=0) >= max((padding[t] for t in gone), default=0)

    def _result(
        self, status: Status, order: tuple[int, ...], peak: int, bound: int, stop: Stop
    ) -> Result[tuple[int, ...]]:
        return Result(status, order, peak, bound, self._run.seconds, "min-peak", stop)


def _order(state: _State) -> tuple[int, ...]:
    operators: list[int] = []
    node = state
    while node.parent is not None:
        operators.append(node.operator)
        node = node.parent
    return tuple(reversed(operators))
