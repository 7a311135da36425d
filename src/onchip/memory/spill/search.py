"""Best-first search over orders and residencies, and strategies for the minimum cost in bytes, addresses aside.

The search is `native/joint.hpp`; `docs/search.md` proves that it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from onchip.answer.problem import Order
from onchip.answer.result import Stop
from onchip.memory.allocate.residencies import LARGEST_SUM
from onchip.memory.decisions import SearchMove
from onchip.memory.effort import STEP
from onchip.memory.spill.min_peak import with_given_order
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import JointOperator, JointOutcome, JointSearch, JointTensor, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched
from onchip.search.strategy.portfolio import Incumbent, Stepped, Strategy
from onchip.search.strategy.start import without_bound, without_figures

UNLIMITED: Final = 1 << 62
MOST_WORKERS: Final = 256


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """Moves of a plan and its cost, or None; the plan is optimal if the search completed without greed.

    `lower_bound` holds in any case; several stopped workers may have a plan above it. `states` counts states built and
    kept, and listed choices of evictions.
    """

    moves: tuple[SearchMove, ...] | None
    cost: int | None
    lower_bound: int
    states: int
    stop: Stop


class BestFirstSearch:
    """Minimum non-compulsory cost below `upper_bound` over all orders and residencies, without addresses.

    Each executed operator counts as `greed` of saved cost. With greed, plans are found at once, and only an exhausted
    search is a proof. Another `seed` breaks ties in another way and finds another optimum.

    One worker searches `states_alone` states; a longer search is restarted by all workers of the run. A search that was
    paused or ran out of states can be resumed.
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
        states_alone: int = STEP.states_alone,
    ) -> None:
        self._indexed = indexed
        self._run = run
        self.upper_bound = min(upper_bound, UNLIMITED)
        self._seed = seed
        self._greed = greed
        self._most_states = min(run.limits.node_limit or UNLIMITED, state_limit)
        self._states_alone = states_alone
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
        """Search until done, stopped, or out of memory, which it is at once if sums need more than 60 bits.

        If no plan costs less than the upper bound, `cost` is None and `lower_bound` is the upper bound.
        """
        return self.go_on(self._run, self._most_states)

    def go_on(self, turn: Run, most_states: int) -> SearchOutcome:
        """Search up to `most_states` states in total; the end of the turn pauses, that of the whole run is final."""
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
            joint_tensors(indexed),
            joint_operators(indexed),
            capacity_units=min(indexed.room.capacity_units, LARGEST_SUM),
            upper_bound=self.upper_bound,
            greed=self._greed,
            seed=self._seed,
            most_bytes=STEP.search_bytes,
            workers=workers,
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
    """Return a move; evicted operands leave after the operator."""
    read = indexed.read_lists[operator]
    evicted = tuple(sorted(tensor for tensor in leaving if tensor not in read))
    return SearchMove(operator, evicted, tuple(sorted(tensor for tensor in leaving if tensor in read)))


def _is_countable(indexed: IndexedProblem) -> bool:
    """True if all units, and all costs, add up within the native integers."""
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


@dataclass(frozen=True, slots=True)
class LeastBytesParams:
    """Constants of the search for the minimum cost in bytes."""

    first_states: int = 1_000
    """States of the first turn of the search: they prove most networks, in milliseconds."""
    greedy_states: int = 20_000
    """States of a greedy search: about a second for a thousand operators. The greediest needs a few hundred."""
    far_states: int = 1 << 16
    """States after which a bound below `near` of the best cost says that the search will not end: some seconds."""
    far_share: float = 0.1
    """Part of the time limit after which the same is said, and of the time left for a greedy search."""
    near: float = 2 / 3
    """Part of the best cost. From a higher bound a search mostly ends."""


class LeastBytes(Incumbent[tuple[SearchMove, ...]]):
    """The best moves, known or not, their cost, and a bound; `strategies` improve them.

    Every improvement of moves goes to `on_plan`, and every bound to `on_bound`.
    """

    def __init__(
        self,
        indexed: IndexedProblem,
        run: Run,
        on_plan: Callable[[tuple[SearchMove, ...], int, str], None],
        on_bound: Callable[[int], None],
        orders: Sequence[Sequence[int]] = (),
        params: LeastBytesParams = LeastBytesParams(),
    ) -> None:
        super().__init__(without_figures(run))
        self.indexed = indexed
        self.params = params
        self.search = BestFirstSearch(indexed, run)
        self.search_ended_by: Stop | None = None
        self.has_solved_the_orders = True
        self.is_paused = False
        self._on_plan = on_plan
        self._on_bound = on_bound
        self._greedy_states = params.greedy_states
        self._orders = orders if indexed.problem.order is Order.FREE else ()

    def keep(self, answer: tuple[SearchMove, ...] | None, value: int, phase: str) -> bool:
        """Keep moves, or the cost of moves that are not known, if it is lower than the best so far."""
        is_better = super().keep(answer, value, phase)
        if is_better:
            self.search.lower_upper_bound(value)
            if answer is not None:
                self._on_plan(answer, value, phase)
        return is_better

    def raise_bound(self, lower_bound: int) -> None:
        """Keep a bound if it is higher than the best so far."""
        super().raise_bound(lower_bound)
        self._on_bound(self.lower_bound)

    def take(self, outcome: SearchOutcome, phase: str) -> None:
        """Keep what a search has found."""
        if outcome.moves is not None and outcome.cost is not None:
            self.keep(outcome.moves, outcome.cost, phase)
        self.raise_bound(outcome.lower_bound)

    @property
    def is_open(self) -> bool:
        """True if the strategies may go on: the minimum is not known, and nothing better has the time."""
        return not (self.is_settled or self.is_paused)

    @property
    def is_far(self) -> bool:
        """True if the search has gone on for a while, and its bound is still far below the best cost."""
        limit = self.run.deadline.limit_seconds
        has_searched = self.search.states >= self.params.far_states or (
            self.run.deadline.is_set and self.run.deadline.seconds >= self.params.far_share * limit
        )
        return has_searched and (self.value is None or self.lower_bound < self.params.near * self.value)

    def strategies(self, incumbent: Incumbent[Any]) -> list[Strategy]:
        """Return the strategies for a portfolio of this incumbent, or of one that follows it."""
        return [
            Stepped("best at an order", incumbent, self.run, self._solve_orders, is_ready=lambda: self.is_open),
            _Proof(incumbent, self),
            Stepped(
                "greedy search",
                incumbent,
                self.run,
                self._search_greedily,
                is_ready=self._may_be_greedy,
                nodes_without_limit=self.params.greedy_states << 8,
            ),
        ]

    def _solve_orders(self, turn: Stepped) -> Iterator[float]:
        """Solve some orders to optimality: a search needs a state for each step even where nothing has to leave."""
        for order in self._orders:
            given = IndexedProblem.of(with_given_order(self.indexed.problem, order))
            limit, best = 2 * max(self.params.first_states, len(order)), self.search.upper_bound
            outcome = BestFirstSearch(given, without_bound(turn.whole_run), limit, upper_bound=best).solve()
            self.has_solved_the_orders &= outcome.stop is Stop.COMPLETED
            moves = outcome.moves and tuple(replace(one, operator=order[one.operator]) for one in outcome.moves)
            self.take(replace(outcome, lower_bound=0, moves=moves), turn.name)
            yield outcome.states

    def _may_be_greedy(self) -> bool:
        """True if greedy searches may go on; after one without a plan, only if the proof is out of memory."""
        has_failed = self._greedy_states > self.params.greedy_states
        return self.is_open and (not has_failed or self.search_ended_by is Stop.MEMORY_LIMIT)

    def _search_greedily(self, turn: Stepped) -> Iterator[float]:
        """Halve the greed while that finds plans; double the states if it does not."""
        moved = sum(self.indexed.load_costs) + sum(self.indexed.store_costs)
        greed, stop = max(1, moved // self.indexed.operator_count), Stop.COMPLETED
        while stop is not Stop.MEMORY_LIMIT:
            best, states = self.search.upper_bound, self._greedy_states
            run = turn.run.within(self.params.far_share * turn.run.seconds_left)
            outcome = BestFirstSearch(self.indexed, run, states, upper_bound=best, greed=greed).solve()
            self.take(outcome, turn.name)
            greed, stop = max(1, greed // 2), outcome.stop
            if outcome.cost is None:
                self._greedy_states *= 2
            yield outcome.states


class _Proof(Strategy):
    """The search without greed: its bound rises until it has found the optimum, or is out of memory."""

    name = "search"

    def __init__(self, incumbent: Incumbent[Any], best: LeastBytes) -> None:
        super().__init__(incumbent, best.run, best.params.first_states)
        self._best = best

    @property
    def is_ready(self) -> bool:
        """True until the minimum cost in bytes is known."""
        return self._best.is_open

    def advance(self, nodes: float) -> float:
        """Search about `nodes` states."""
        before = self._best.search.states
        outcome = self._best.search.go_on(self.run, before + int(nodes))
        self._best.take(outcome, self.name)
        if outcome.stop is not Stop.NODE_LIMIT:
            self.ended_by = self._best.search_ended_by = outcome.stop
        return outcome.states - before


def optimal_moves(
    indexed: IndexedProblem, run: Run, upper_bound: int | None, seed: int, state_limit: int = UNLIMITED
) -> tuple[SearchMove, ...] | None:
    """Return moves of minimum cost below the upper bound, with ties broken by the seed; None if none were found."""
    bound = UNLIMITED if upper_bound is None else upper_bound
    return BestFirstSearch(indexed, run, state_limit, upper_bound=bound, seed=seed).solve().moves
