"""Runs the compiled search in a thread of its own: clock, interruption, memory, and the way back to moves."""

from __future__ import annotations

import threading

import numpy as np

from onchip.answer.result import Stop
from onchip.facts.indexed import IndexedProblem, mask_of
from onchip.solve.joint import kernel
from onchip.solve.joint.kernel_tables import (
    WORD_BITS,
    Deferred,
    Pool,
    empty_heap,
    empty_pool,
    empty_workspace,
    grown,
    tables_of,
)
from onchip.solve.joint.search import SearchOutcome
from onchip.solve.run.compose import SearchMove
from onchip.solve.run.limits import Run

FIRST_STATES = 1 << 14
FIRST_HEAP = 1 << 18
MOST_BYTES = 5 << 30
POLL_SECONDS = 0.02
NO_LIMIT = 1 << 62


class TooManyResidentsError(Exception):
    """A state has more residents than fit one word; the search in Python has no such limit."""


class CompiledSearch:
    """The compiled form of `BestFirstSearch`, with the same answers.

    With `greed`, each executed operator counts as so much cost saved: plans are found at once, and only an exhausted
    search proves anything. Another `seed` breaks ties otherwise, so that another of several optima is found.
    """

    def __init__(
        self,
        indexed: IndexedProblem,
        run: Run,
        upper_bound: int | None = None,
        seed: int = 0,
        greed: int = 0,
        state_limit: int = NO_LIMIT,
    ) -> None:
        self._indexed = indexed
        self._run = run
        self._tables = tables_of(indexed)
        self._pool = empty_pool(indexed, FIRST_STATES)
        self._heap = empty_heap(FIRST_HEAP)
        self._workspace = empty_workspace(indexed)
        self._counters = np.zeros(kernel.COUNTERS, np.int64)
        self._counters[kernel.GOAL] = -1
        self._counters[kernel.PENDING] = -1
        self._counters[kernel.SEED] = seed
        self._counters[kernel.GREED] = greed
        self._counters[kernel.UPPER_BOUND] = NO_LIMIT if upper_bound is None else upper_bound
        self._counters[kernel.STATE_LIMIT] = min(run.limits.node_limit or NO_LIMIT, state_limit)
        self._code = kernel.STOPPED
        self._out_of_memory = False
        self._failure: BaseException | None = None

    def solve(self) -> SearchOutcome:
        """Search until done, stopped, or out of memory; only plans below the upper bound count.

        If there is none, `cost` is None and `lower_bound` the upper bound.
        Raises TooManyResidentsError.
        """
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            self._run.report(None, int(self._counters[kernel.BOUND]), f"{self._states} states")
            if self._run.stop:
                self._counters[kernel.STOP] = 1
                thread.join(POLL_SECONDS)
                break
        if self._failure is not None:
            raise self._failure
        if self._code == kernel.TOO_MANY_RESIDENTS:
            raise TooManyResidentsError
        return self._outcome()

    @property
    def _states(self) -> int:
        return int(self._counters[kernel.STATES])

    def _work(self) -> None:
        try:
            kernel.start(self._tables, self._pool, self._counters)
            while not self._counters[kernel.STOP]:
                self._code = kernel.best_first(self._tables, self._pool, self._heap, self._workspace, self._counters)
                if self._code not in (kernel.STATES_FULL, kernel.HEAP_FULL) or not self._grow():
                    return
        except MemoryError:
            self._out_of_memory = True
        except BaseException as failure:  # handed to the thread that waits
            self._failure = failure

    def _grow(self) -> bool:
        """Double what is full; False if the memory limit forbids it."""
        growing: Pool | Deferred = self._pool if self._code == kernel.STATES_FULL else self._heap
        resting = self._heap if growing is self._pool else self._pool
        if 3 * _bytes(growing) + _bytes(resting) > MOST_BYTES:
            self._out_of_memory = True
            return False
        if self._code == kernel.STATES_FULL:
            self._pool = grown(self._pool)
            kernel.rehash(self._pool, self._states)
        else:
            self._heap = grown(self._heap)
        return True

    def _outcome(self) -> SearchOutcome:
        goal, bound = int(self._counters[kernel.GOAL]), int(self._counters[kernel.BOUND])
        upper_bound = int(self._counters[kernel.UPPER_BOUND])
        stop = Stop.COMPLETED
        if self._code not in (kernel.FOUND, kernel.EXHAUSTED):
            stop = self._run.stop or (Stop.MEMORY_LIMIT if self._out_of_memory else Stop.NODE_LIMIT)
        if goal >= 0:
            cost = int(self._pool.cost[goal])
            return SearchOutcome(self._path(goal), cost, bound, self._states, stop)
        if self._code == kernel.EXHAUSTED:
            bound = upper_bound
        return SearchOutcome(None, None, bound, self._states, stop)

    def _path(self, state: int) -> tuple[SearchMove, ...]:
        """Return all moves from the start to this state."""
        stretches: list[tuple[SearchMove, ...]] = []
        while state >= 0:
            first, last = int(self._pool.moves_at[state]), int(self._pool.moves_at[state + 1])
            operators = [int(operator) for operator in self._pool.moves[first:last]]
            evicted = self._evicted_before(state)
            stretches.append(tuple(SearchMove(o, evicted if i == 0 else 0) for i, o in enumerate(operators)))
            state = int(self._pool.parent[state])
        return tuple(move for stretch in reversed(stretches) for move in stretch)

    def _evicted_before(self, state: int) -> int:
        """Return the mask of the tensors that left before the state's first operator."""
        places = int(self._pool.evicted[state])
        words = self._pool.resident[self._pool.parent[state]] if places else ()
        residents = [
            index * WORD_BITS + bit
            for index, word in enumerate(words)
            for bit in range(WORD_BITS)
            if int(word) >> bit & 1
        ]
        return mask_of(tensor for place, tensor in enumerate(residents) if places >> place & 1)


def _bytes(arrays: Pool | Deferred) -> int:
    return sum(array.nbytes for array in arrays)
