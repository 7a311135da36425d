"""The heart: a best-first search over order and residencies that proves the least cost in bytes.

The search is `native/joint.hpp`; `docs/search.md` has the argument why each part of it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onchip.answer.result import Stop
from onchip.facts.indexed import IndexedProblem
from onchip.native import JointOperator, JointOutcome, JointSearch, JointTensor, StopToken
from onchip.solve.run.compose import SearchMove
from onchip.solve.run.interruptible import run_watched
from onchip.solve.run.limits import Run

MOST_BYTES: Final = 5 << 30
UNLIMITED: Final = 1 << 62
LARGEST_SUM: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """`moves` and `cost` are None unless an optimum was found; `lower_bound` holds in any case.

    `states` counts those built and kept, and the choices of evictions that were listed.
    """

    moves: tuple[SearchMove, ...] | None
    cost: int | None
    lower_bound: int
    states: int
    stop: Stop


class BestFirstSearch:
    """Least non-compulsory cost over all orders and residencies, addresses aside; only below `upper_bound`.

    With `greed`, each executed operator counts as so much cost saved: plans are found at once, and only an exhausted
    search proves anything. Another `seed` breaks ties otherwise, so that another of several optima is found.
    """

    def __init__(
        self,
        indexed: IndexedProblem,
        run: Run,
        state_limit: int = UNLIMITED,
        *,
        upper_bound: int = UNLIMITED,
        seed: int = 0,
        greed: int = 0,
    ) -> None:
        self._run = run
        self._upper_bound = min(upper_bound, UNLIMITED)
        self._search: JointSearch | None = None
        if _is_countable(indexed):
            self._search = JointSearch(
                joint_tensors(indexed),
                joint_operators(indexed),
                capacity_units=min(indexed.room.capacity_units, LARGEST_SUM),
                upper_bound=self._upper_bound,
                greed=greed,
                seed=seed,
                most_states=min(run.limits.node_limit or UNLIMITED, state_limit),
                most_bytes=MOST_BYTES,
            )

    def solve(self) -> SearchOutcome:
        """Search until done, stopped, or out of memory, which it is at once where sums need more than 60 bits.

        Where nothing costs less than the upper bound, `cost` is None and `lower_bound` the upper bound.
        """
        search, token = self._search, StopToken()
        if search is None:
            return SearchOutcome(None, None, 0, 0, Stop.MEMORY_LIMIT)

        def report() -> None:
            self._run.report(None, search.lower_bound, f"{search.states} states")

        found = run_watched(lambda: search.run(token), token.ask, self._run, report)
        bound, states = search.lower_bound, search.states
        if found is JointOutcome.FOUND:
            moves = tuple(SearchMove(operator, tuple(sorted(evicted))) for operator, evicted in search.moves)
            return SearchOutcome(moves, search.cost, bound, states, Stop.COMPLETED)
        if found is JointOutcome.EXHAUSTED:
            return SearchOutcome(None, None, self._upper_bound, states, Stop.COMPLETED)
        stop = Stop.MEMORY_LIMIT if found is JointOutcome.MEMORY_SPENT else Stop.NODE_LIMIT
        return SearchOutcome(None, None, bound, states, self._run.stop or stop)


def _is_countable(indexed: IndexedProblem) -> bool:
    """Whether all units, and all costs, add up to what the search counts."""
    costs = sum(indexed.load_costs) + sum(indexed.store_costs)
    return sum(indexed.room.units) <= LARGEST_SUM and costs <= LARGEST_SUM


def joint_tensors(indexed: IndexedProblem) -> list[JointTensor]:
    """Return the tensors as the search takes them: storing what DRAM has a copy of anyway costs nothing."""
    room = indexed.room
    return [
        JointTensor(
            units=room.units[tensor],
            load_cost=indexed.load_costs[tensor],
            store_cost=0 if indexed.backed >> tensor & 1 else indexed.store_costs[tensor],
            may_end_short=bool(room.may_end_short >> tensor & 1),
        )
        for tensor in range(len(indexed.tensors))
    ]


def joint_operators(indexed: IndexedProblem) -> list[JointOperator]:
    """Return the operators as the search takes them."""
    lists = zip(indexed.read_lists, indexed.write_lists, indexed.predecessor_lists, strict=True)
    return [JointOperator(reads=reads, writes=writes, predecessors=befores) for reads, writes, befores in lists]
