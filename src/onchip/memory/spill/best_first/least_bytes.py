"""The least cost in bytes, addresses aside: strategies that share the best moves and the best bound.

* given orders, each solved by itself: a free order is then as good at least, and the best often is;
* the search that proves, paused and resumed;
* greedy searches: each is at a plan soon. With less greed plans are better and take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onchip.answer.problem import Order
from onchip.answer.result import Stop
from onchip.memory.decisions.compose import SearchMove
from onchip.memory.spill.best_first.given import with_given_order
from onchip.memory.spill.best_first.search import UNLIMITED, BestFirstSearch, SearchOutcome
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.search.strategy.incumbent import Incumbent
from onchip.search.strategy.portfolio import Stepped, Strategy
from onchip.search.strategy.stage import without_bound, without_figures


@dataclass(frozen=True, slots=True)
class LeastBytesParams:
    """Constants of the search for the least cost in bytes."""

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
            Stepped("best at an order", incumbent, self.run, self._solve_orders, is_ready=lambda: not self.is_settled),
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
        """A greedy search that found nothing is worth more states only where the proof is out of memory."""
        has_failed = self._greedy_states > self.params.greedy_states
        return not self.is_settled and (not has_failed or self.search_ended_by is Stop.MEMORY_LIMIT)

    def _search_greedily(self, turn: Stepped) -> Iterator[float]:
        """Halve the greed while that finds plans; double the states where it does not."""
        greed, stop = _mean_cost_of_evicting_all_an_operator_writes(self.indexed), Stop.COMPLETED
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
        """True until the least cost in bytes is known."""
        return not self._best.is_settled

    def advance(self, nodes: float) -> float:
        """Search about so many states."""
        before = self._best.search.states
        outcome = self._best.search.go_on(self.run, before + int(nodes))
        self._best.take(outcome, self.name)
        if outcome.stop is not Stop.NODE_LIMIT:
            self.ended_by = self._best.search_ended_by = outcome.stop
        return outcome.states - before


def optimal_moves(
    indexed: IndexedProblem, run: Run, upper_bound: int | None, seed: int, state_limit: int = UNLIMITED
) -> tuple[SearchMove, ...] | None:
    """Return moves of least cost below the upper bound, with ties broken by the seed; None if none were found."""
    bound = UNLIMITED if upper_bound is None else upper_bound
    return BestFirstSearch(indexed, run, state_limit, upper_bound=bound, seed=seed).solve().moves


def _mean_cost_of_evicting_all_an_operator_writes(indexed: IndexedProblem) -> int:
    """Return what an executed operator is worth to the greediest search."""
    return max(1, (sum(indexed.load_costs) + sum(indexed.store_costs)) // indexed.operator_count)
