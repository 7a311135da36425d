"""M_P: the least peak over all orders without spills, by best-first search on the bottleneck."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from onchip.answer.problem import Problem
from onchip.answer.result import Result, Status, Stop
from onchip.facts.indexed import IndexedProblem, bits
from onchip.solve.run.limits import Run

REPORT_EVERY = 64


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """Without spills the resident tensors follow from what has been executed."""

    executed: int
    ready: int
    resident: int
    used_units: int
    parent: _State | None
    operator: int


def min_peak_bytes(problem: Problem, run: Run) -> Result[tuple[int, ...]]:
    """Return M_P in bytes as the objective, and an order of operator indices that attains it.

    Stopped early, the answer is the given order with the bound proven so far.
    """
    return MinPeakSearch(IndexedProblem.of(problem), run).solve()


def peak_of_order(indexed: IndexedProblem, order: tuple[int, ...]) -> int:
    """Return the peak in bytes of one order without spills."""
    search = MinPeakSearch(indexed, Run())
    state, peak = search.root(), 0
    for operator in order:
        peak = max(peak, search.need_bytes(state, operator))
        state = search.child(state, operator)
    return peak


class MinPeakSearch:
    """A state's cost is the greatest need on the way to it; a state is its executed set."""

    def __init__(self, indexed: IndexedProblem, run: Run) -> None:
        self._indexed = indexed
        self._run = run
        self._room = indexed.room

    def solve(self) -> Result[tuple[int, ...]]:
        """Pop the state with the least peak, most operators executed first.

        No order has less than M_R, so the peak starts there and more moves are safe.
        """
        root = self.root()
        required = max(self.need_bytes(root, operator) for operator in range(self._indexed.operator_count))
        heap = [(required, 0, 0, root)]
        least = {0: required}
        pushed = popped = 0
        while True:
            peak, _, _, state = heapq.heappop(heap)
            popped += 1
            if peak > least[state.executed]:
                continue
            if state.executed == self._indexed.all_operators:
                return self._result(Status.OPTIMAL, _order(state), peak, peak, Stop.COMPLETED)
            if stop := self._stop(peak, popped):
                given = tuple(range(self._indexed.operator_count))
                return self._result(Status.FEASIBLE, given, peak_of_order(self._indexed, given), peak, stop)
            for operator in self._branches(state, peak):
                child = self.child(state, operator)
                child_peak = max(peak, self.need_bytes(state, operator))
                if child_peak < least.get(child.executed, child_peak + 1):
                    least[child.executed] = child_peak
                    pushed += 1
                    heapq.heappush(heap, (child_peak, -child.executed.bit_count(), pushed, child))

    def _stop(self, peak: int, popped: int) -> Stop | None:
        if popped % REPORT_EVERY == 0:
            self._run.report(None, peak, f"least peak, {popped} states")
        limit = self._run.limits.node_limit
        return Stop.NODE_LIMIT if limit is not None and popped >= limit else self._run.stop

    def root(self) -> _State:
        """Return the state before any operator has run."""
        ready = sum(1 << o for o, befores in enumerate(self._indexed.predecessors) if not befores)
        return _State(0, ready, 0, 0, None, -1)

    def child(self, state: _State, operator: int) -> _State:
        """Return the state after one more operator; dead tensors have left."""
        indexed = self._indexed
        executed = state.executed | 1 << operator
        ready = state.ready & ~(1 << operator)
        for successor in indexed.successors[operator]:
            if not indexed.predecessors[successor] & ~executed:
                ready |= 1 << successor
        dead = sum(1 << tensor for tensor in indexed.operand_lists[operator] if not indexed.readers[tensor] & ~executed)
        operands = indexed.operands[operator]
        used = state.used_units + self._room.units_of(operands & ~state.resident) - self._room.units_of(dead)
        return _State(executed, ready, (state.resident | operands) & ~dead, used, state, operator)

    def need_bytes(self, state: _State, operator: int) -> int:
        """Return the packed bytes resident while the operator runs."""
        operands = self._indexed.operands[operator]
        used = state.used_units + self._room.units_of(operands & ~state.resident)
        return self._room.packed_bytes(state.resident | operands, used)

    def _branches(self, state: _State, peak: int) -> tuple[int, ...]:
        """Return one operator that is safe to run next, or else every ready one."""
        ready = tuple(bits(state.ready))
        return next(((operator,) for operator in ready if self._is_safe(state, operator, peak)), ready)

    def _is_safe(self, state: _State, operator: int, peak: int) -> bool:
        """Whether it fits under the peak reached so far and leaves no more resident than before."""
        if self.need_bytes(state, operator) > peak:
            return False
        child = self.child(state, operator)
        if child.used_units != state.used_units or self._room.alignment_bytes == 1:
            return child.used_units <= state.used_units
        padding = self._room.padding_bytes
        gone = max((padding[t] for t in bits(state.resident & ~child.resident)), default=0)
        come = max((padding[t] for t in bits(child.resident & ~state.resident)), default=0)
        return come >= gone

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
