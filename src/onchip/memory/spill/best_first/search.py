"""The heart: a best-first search over order and residencies that proves the least cost in bytes.

The search is `native/joint.hpp`; `docs/search.md` has the argument why each part of it is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onchip.answer.result import Stop
from onchip.memory.decisions.compose import SearchMove
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import JointOperator, JointOutcome, JointSearch, JointTensor, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

MOST_BYTES: Final = 5 << 30
UNLIMITED: Final = 1 << 62
LARGEST_SUM: Final = 1 << 60
MOST_WORKERS: Final = 256
STATES_ALONE: Final = 1 << 16
"""Below so many states several workers would begin for nothing."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """`moves` and `cost` are None unless a plan was found, which is optimal if the search completed without greed.

    `lower_bound` holds in any case; several workers that are stopped may have a plan that is above it.

    `states` counts those built and kept, and the choices of evictions that were listed.
    """

    moves: tuple[SearchMove, ...] | None
    cost: int | None
    lower_bound: int
    states: int
    stop: Stop


@dataclass(frozen=True, slots=True)
class TwoParts:
    """What the first of two parts, which divide each cost, pays by tensor, and what each pays at least in any plan.

    A search that knows it looks at fewer states: what a part has not paid yet is still to come.
    """

    first_load_costs: tuple[int, ...]
    first_store_costs: tuple[int, ...]
    least_of_first: int
    least_of_second: int

    @classmethod
    def unknown(cls, indexed: IndexedProblem) -> TwoParts:
        """Return what is true of every problem: the second part pays all, and it is not known how much."""
        nothing = (0,) * len(indexed.tensors)
        return cls(nothing, nothing, 0, 0)


class BestFirstSearch:
    """Least non-compulsory cost over all orders and residencies, addresses aside; only below `upper_bound`.

    With `greed`, each executed operator counts as so much cost saved: plans are found at once, and only an exhausted
    search proves anything. Another `seed` breaks ties otherwise, so that another of several optima is found.

    One worker searches `states_alone` states; what needs more is begun anew by all workers of the run.
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
        states_alone: int = STATES_ALONE,
        two_parts: TwoParts | None = None,
    ) -> None:
        self._indexed = indexed
        self._run = run
        self._upper_bound = min(upper_bound, UNLIMITED)
        self._seed = seed
        self._greed = greed
        self._most_states = min(run.limits.node_limit or UNLIMITED, state_limit)
        self._states_alone = states_alone
        self._two_parts = two_parts or TwoParts.unknown(indexed)

    def solve(self) -> SearchOutcome:
        """Search until done, stopped, or out of memory, which it is at once where sums need more than 60 bits.

        Where nothing costs less than the upper bound, `cost` is None and `lower_bound` the upper bound.
        """
        if not _is_countable(self._indexed):
            return SearchOutcome(None, None, 0, 0, Stop.MEMORY_LIMIT)
        workers = min(self._run.limits.workers, MOST_WORKERS)
        if workers == 1 or self._most_states <= self._states_alone:
            return self._searched(1, self._most_states)
        alone = self._searched(1, self._states_alone)
        if alone.stop is not Stop.NODE_LIMIT:
            return alone
        return self._searched(workers, self._most_states - alone.states, alone.lower_bound, alone.states)

    def _searched(self, workers: int, most_states: int, bound: int = 0, states: int = 0) -> SearchOutcome:
        """Search by so many workers for so many states; the bound and the states are of what was searched before."""
        indexed, token = self._indexed, StopToken()
        search = JointSearch(
            joint_tensors(indexed, self._two_parts),
            joint_operators(indexed),
            capacity_units=min(indexed.room.capacity_units, LARGEST_SUM),
            upper_bound=self._upper_bound,
            greed=self._greed,
            seed=self._seed,
            most_states=most_states,
            most_bytes=MOST_BYTES,
            workers=workers,
            least_of_first=self._two_parts.least_of_first,
            least_of_second=self._two_parts.least_of_second,
        )

        def report() -> None:
            self._run.report(None, max(bound, search.lower_bound), f"{states + search.states} states")

        found = run_watched(lambda: search.run(token), token.ask, self._run, report)
        best_bound, all_states = max(bound, search.lower_bound), states + search.states
        if found is JointOutcome.EXHAUSTED:
            return SearchOutcome(None, None, self._upper_bound, all_states, Stop.COMPLETED)
        stop = Stop.COMPLETED
        if found is not JointOutcome.FOUND:
            spent = Stop.MEMORY_LIMIT if found is JointOutcome.MEMORY_SPENT else Stop.NODE_LIMIT
            stop = self._run.stop or spent
        if search.cost < 0:
            return SearchOutcome(None, None, best_bound, all_states, stop)
        moves = tuple(_move(indexed, operator, evicted) for operator, evicted in search.moves)
        return SearchOutcome(moves, search.cost, best_bound, all_states, stop)


def _move(indexed: IndexedProblem, operator: int, leaving: Sequence[int]) -> SearchMove:
    """What the operator reads leaves when it has run."""
    read = indexed.read_lists[operator]
    evicted = tuple(sorted(tensor for tensor in leaving if tensor not in read))
    return SearchMove(operator, evicted, tuple(sorted(tensor for tensor in leaving if tensor in read)))


def _is_countable(indexed: IndexedProblem) -> bool:
    """Whether all units, and all costs, add up to what the search counts."""
    costs = sum(indexed.load_costs) + sum(indexed.store_costs)
    return sum(indexed.room.units) <= LARGEST_SUM and costs <= LARGEST_SUM


def joint_tensors(indexed: IndexedProblem, two_parts: TwoParts | None = None) -> list[JointTensor]:
    """Return the tensors as the search takes them: storing what DRAM has a copy of anyway costs nothing."""
    room = indexed.room
    parts = two_parts or TwoParts.unknown(indexed)
    return [
        JointTensor(
            units=room.units[tensor],
            load_cost=indexed.load_costs[tensor],
            store_cost=0 if indexed.backed >> tensor & 1 else indexed.store_costs[tensor],
            may_end_short=bool(room.may_end_short >> tensor & 1),
            first_load_cost=parts.first_load_costs[tensor],
            first_store_cost=0 if indexed.backed >> tensor & 1 else parts.first_store_costs[tensor],
        )
        for tensor in range(len(indexed.tensors))
    ]


def joint_operators(indexed: IndexedProblem) -> list[JointOperator]:
    """Return the operators as the search takes them."""
    lists = zip(
        indexed.read_lists, indexed.write_lists, indexed.predecessor_lists, indexed.overwritable_lists, strict=True
    )
    return [
        JointOperator(
            reads=reads,
            writes=writes,
            predecessors=befores,
            overwritables=[(one.tensor, one.units, one.group) for one in inputs],
        )
        for reads, writes, befores, inputs in lists
    ]
