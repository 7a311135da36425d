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

    One worker searches `states_alone` states; what needs more is begun anew by all workers of the run. A search that
    ran out of states, or was paused, can be resumed.
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
        self.upper_bound = min(upper_bound, UNLIMITED)
        self._seed = seed
        self._greed = greed
        self._most_states = min(run.limits.node_limit or UNLIMITED, state_limit)
        self._states_alone = states_alone
        self._two_parts = two_parts or TwoParts.unknown(indexed)
        self._search: JointSearch | None = None
        self._workers = min(run.limits.workers, MOST_WORKERS) if self._most_states > states_alone else 1
        self._before = (0, 0)

    @property
    def states(self) -> int:
        """Number of states of this search so far."""
        return self._before[1] + (self._search.states if self._search else 0)

    def lower_upper_bound(self, cost: int) -> None:
        """Look only for plans that cost less, from now on."""
        self.upper_bound = min(self.upper_bound, cost)
        if self._search is not None:
            self._search.lower_upper_bound(cost)

    def solve(self) -> SearchOutcome:
        """Search until done, stopped, or out of memory, which it is at once where sums need more than 60 bits.

        Where nothing costs less than the upper bound, `cost` is None and `lower_bound` the upper bound.
        """
        return self.go_on(self._run, self._most_states)

    def go_on(self, turn: Run, most_states: int) -> SearchOutcome:
        """Search until so many states are spent in all; the end of the turn pauses, that of the whole run is final."""
        if not _is_countable(self._indexed):
            return SearchOutcome(None, None, 0, 0, Stop.MEMORY_LIMIT)
        if self._search is None:
            self._search = self._begun(1)
        if self._workers > 1 and self._before == (0, 0):
            found = self._searched(self._search, turn, min(most_states, self._states_alone))
            if found.stop is not Stop.NODE_LIMIT or self.states < self._states_alone:
                return found
            self._before, self._search = (found.lower_bound, found.states), self._begun(self._workers)
        return self._searched(self._search, turn, most_states)

    def _begun(self, workers: int) -> JointSearch:
        indexed = self._indexed
        return JointSearch(
            joint_tensors(indexed, self._two_parts),
            joint_operators(indexed),
            capacity_units=min(indexed.room.capacity_units, LARGEST_SUM),
            upper_bound=self.upper_bound,
            greed=self._greed,
            seed=self._seed,
            most_bytes=MOST_BYTES,
            workers=workers,
            least_of_first=self._two_parts.least_of_first,
            least_of_second=self._two_parts.least_of_second,
        )

    def _searched(self, search: JointSearch, turn: Run, most_states: int) -> SearchOutcome:
        """Go on with a search; bounds and states of the one before it count, too."""
        token, (bound, states) = StopToken(), self._before

        def stop() -> None:
            token.ask() if self._run.stop is not None else search.pause()

        def report() -> None:
            turn.report(None, max(bound, search.lower_bound), f"{states + search.states} states")

        found = run_watched(lambda: search.run(token, most_states - states), stop, turn, report)
        if found is JointOutcome.EXHAUSTED:
            return SearchOutcome(None, None, self.upper_bound, self.states, Stop.COMPLETED)
        ends = {JointOutcome.FOUND: Stop.COMPLETED, JointOutcome.MEMORY_SPENT: Stop.MEMORY_LIMIT}
        end = ends.get(found, Stop.NODE_LIMIT)
        if end is not Stop.COMPLETED:
            end = self._run.stop or end
        cost, moves = None, None
        if search.cost >= 0:
            cost = search.cost
            moves = tuple(_move(self._indexed, operator, evicted) for operator, evicted in search.moves)
        return SearchOutcome(moves, cost, max(bound, search.lower_bound), self.states, end)


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
