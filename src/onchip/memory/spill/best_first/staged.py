"""The least cost in bytes, in stages that each take about ten times as long as the one before.

Most networks are proven by a short search. For the others, greedy searches give good plans at once and an upper bound
for the long one to prune with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from onchip.answer.problem import Order
from onchip.answer.result import Stop
from onchip.memory.decisions.compose import SearchMove
from onchip.memory.spill.best_first.given import with_given_order
from onchip.memory.spill.best_first.search import UNLIMITED, BestFirstSearch, SearchOutcome
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.search.strategy.stage import without_bound

GIVEN_ORDER_STATES = 2_000
STATES_PER_STEP = 2
"""A search needs one state for each step of a given order even where nothing has to leave."""
FIRST_STATES = 1_000
GREEDY_STATES = 20_000
GREEDY_ROUNDS = 8
FEW_OPERATORS = 100
SOON_STATES = 1 << 16
SHARE_FOR_SOON = SHARE_TO_BE_GREEDY = 0.1
NEAR = 2 / 3
"""Of the best cost: a bound as high after a short search is one that a long search raises to the end."""


def _nothing() -> tuple[int | None, int]:
    """Find nothing before the proof."""
    return None, 0


class StagedSearch:
    """Keeps the best moves and the best bound; hands every improvement to `on_plan`.

    `orders` are solved first, each by itself: a free order is then as good at least, and the best often is.

    Before the search that takes longest `before_the_proof` is called, unless these orders were soon solved and
    a short search is near; it returns what it has found: the cost of a plan in bytes, and a bound.
    """

    def __init__(
        self,
        indexed: IndexedProblem,
        run: Run,
        on_plan: Callable[[tuple[SearchMove, ...], int, str], None],
        share_for_the_proof: Callable[[], float],
        before_the_proof: Callable[[], tuple[int | None, int]] = _nothing,
        orders: Sequence[Sequence[int]] = (),
    ) -> None:
        self._before_the_proof = before_the_proof
        self._orders = orders if indexed.problem.order is Order.FREE else ()
        self._has_solved_the_orders = True
        self._indexed = indexed
        self._run = run
        self._on_plan = on_plan
        self._share_for_the_proof = share_for_the_proof
        self.moves: tuple[SearchMove, ...] | None = None
        self.cost: int | None = None
        self.lower_bound = 0
        self.stop = Stop.COMPLETED
        self._greed = _mean_cost_of_evicting_all_an_operator_writes(indexed)

    @property
    def is_proven(self) -> bool:
        """Whether the best moves attain the bound."""
        return self.cost is not None and self.cost <= self.lower_bound

    def begin_with(self, cost: int | None, lower_bound: int) -> None:
        """Take what a plan that is known costs, and a bound: only cheaper moves are looked for."""
        self.cost, self.lower_bound = cost, lower_bound

    def solve(self) -> None:
        """Run the stages until the optimum is proven or the run has to stop."""
        first, then = (self._given_orders, self._first, self._greedy, self._soon), (self._ahead, self._proof)
        for stage in (*first, *then, self._greedier_for_longer):
            if not self.is_proven and self._run.stop is None:
                stage()
        if not self.is_proven:
            self.stop = self._run.stop or self.stop

    def _given_orders(self) -> None:
        """Solve some orders to optimality: good plans for the free order."""
        for order in self._orders:
            if self.is_proven or self._run.stop is not None:
                return
            given = IndexedProblem.of(with_given_order(self._indexed.problem, order))
            limit = max(GIVEN_ORDER_STATES, STATES_PER_STEP * len(order))
            outcome = _search(given, without_bound(self._run), self.cost, state_limit=limit)
            self._has_solved_the_orders &= outcome.stop is Stop.COMPLETED
            moves = outcome.moves and tuple(replace(one, operator=order[one.operator]) for one in outcome.moves)
            self._take(replace(outcome, lower_bound=0, moves=moves), "best at an order")

    def _first(self) -> None:
        self._take(_search(self._indexed, self._run, self.cost, state_limit=FIRST_STATES), "search")

    def _greedy(self) -> None:
        """Halve the greed while plans come quickly; with less of it they are better and take longer."""
        share = SHARE_TO_BE_GREEDY if self._indexed.operator_count > FEW_OPERATORS else 1.0
        run = self._run.within(share * self._run.seconds_left)
        for _ in range(GREEDY_ROUNDS):
            found = self._search_greedily(GREEDY_STATES, run)
            if found is None or self.is_proven or run.stop is not None:
                return
            self._greed = max(1, self._greed // 2)

    def _soon(self) -> None:
        """What is not small is searched for a little while: most is then proven, or is seen to be far from it."""
        if self._indexed.problem.order is Order.FREE and self._indexed.operator_count > FEW_OPERATORS:
            within = self._run.within(SHARE_FOR_SOON * self._run.seconds_left)
            self._take(_search(self._indexed, within, self.cost, state_limit=SOON_STATES), "search")

    @property
    def _is_far(self) -> bool:
        is_large = self._indexed.operator_count > FEW_OPERATORS
        return is_large and (self.cost is None or self.lower_bound < NEAR * self.cost)

    def _ahead(self) -> None:
        if self._has_solved_the_orders and not self._is_far:
            return
        cost, bound = self._before_the_proof()
        self.lower_bound = max(self.lower_bound, bound)
        if cost is not None and (self.cost is None or cost < self.cost):
            self.moves, self.cost = None, cost

    def _proof(self) -> None:
        """Search without greed, in what share of the time is not wanted for addresses."""
        seconds = self._share_for_the_proof() * self._run.seconds_left
        self._take(_search(self._indexed, self._run.within(seconds), self.cost), "search")

    def _greedier_for_longer(self) -> None:
        """Out of memory for the proof: go on for better plans while time is left."""
        if self.stop is not Stop.MEMORY_LIMIT:
            return
        for doubling in range(1, GREEDY_ROUNDS):
            if not self.is_proven and self._run.stop is None:
                self._search_greedily(GREEDY_STATES << doubling, self._run)
        self.stop = Stop.MEMORY_LIMIT

    def _search_greedily(self, state_limit: int, run: Run) -> int | None:
        """Search below the best cost so far; return the cost found."""
        outcome = _search(self._indexed, run, self.cost, greed=self._greed, state_limit=state_limit)
        self._take(outcome, "greedy search")
        return outcome.cost

    def _take(self, outcome: SearchOutcome, phase: str) -> None:
        self.lower_bound = max(self.lower_bound, outcome.lower_bound)
        if outcome.stop is not Stop.COMPLETED:
            self.stop = outcome.stop
        if outcome.moves is not None and outcome.cost is not None and (self.cost is None or outcome.cost < self.cost):
            self.moves, self.cost = outcome.moves, outcome.cost
            self._on_plan(outcome.moves, outcome.cost, phase)


def optimal_moves(
    indexed: IndexedProblem, run: Run, upper_bound: int | None, seed: int, state_limit: int = UNLIMITED
) -> tuple[SearchMove, ...] | None:
    """Return moves of least cost below the upper bound, with ties broken by the seed; None if none were found."""
    return _search(indexed, run, upper_bound, seed=seed, state_limit=state_limit).moves


def _search(
    indexed: IndexedProblem,
    run: Run,
    upper_bound: int | None,
    *,
    seed: int = 0,
    greed: int = 0,
    state_limit: int = UNLIMITED,
) -> SearchOutcome:
    bound = UNLIMITED if upper_bound is None else upper_bound
    return BestFirstSearch(indexed, run, state_limit, upper_bound=bound, seed=seed, greed=greed).solve()


def _mean_cost_of_evicting_all_an_operator_writes(indexed: IndexedProblem) -> int:
    """Return what an executed operator is worth to the greediest search."""
    return max(1, (sum(indexed.load_costs) + sum(indexed.store_costs)) // indexed.operator_count)
