"""The least cost in bytes, in stages that each take about ten times as long as the one before.

Most networks are proven by the search in Python before anything is compiled. For the others, beams
give good plans at once and an upper bound for the compiled search to prune with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from onchip.analysis.indexed import IndexedProblem
from onchip.plan.problem import Order
from onchip.plan.result import Stop
from onchip.solve.compose import Move
from onchip.solve.joint.search import BestFirstSearch, SearchOutcome
from onchip.solve.limits import Run

GIVEN_ORDER_STATES = 2_000
PYTHON_STATES = 1_000
BEAM_WIDTHS = (8, 64, 512)
WIDEST_BEAM = 4096


class StagedSearch:
    """Keeps the best moves and the best bound; hands every improvement to `on_plan`."""

    def __init__(
        self, indexed: IndexedProblem, run: Run, on_plan: Callable[[tuple[Move, ...], int, str], None]
    ) -> None:
        self._indexed = indexed
        self._run = run
        self._on_plan = on_plan
        self.moves: tuple[Move, ...] | None = None
        self.cost: int | None = None
        self.lower_bound = 0
        self.stop = Stop.COMPLETED

    @property
    def is_proven(self) -> bool:
        """Whether the best moves attain the bound."""
        return self.cost is not None and self.cost <= self.lower_bound

    def solve(self) -> None:
        """Run the stages until the optimum is proven or the run has to stop."""
        for stage in (self._given_order, self._python, self._beams, self._compiled, self._wider_beams):
            if not self.is_proven and self._run.stop is None:
                stage()
        if not self.is_proven:
            self.stop = self._run.stop or self.stop

    def _given_order(self) -> None:
        """Solve the given order to optimality: a good plan for the free order."""
        if self._indexed.problem.order is Order.FREE:
            given = IndexedProblem.of(replace(self._indexed.problem, order=Order.GIVEN))
            outcome = BestFirstSearch(given, self._run, GIVEN_ORDER_STATES).solve()
            self._take(replace(outcome, lower_bound=0), "best at the given order")

    def _python(self) -> None:
        self._take(BestFirstSearch(self._indexed, self._run, PYTHON_STATES).solve(), "search")

    def _beams(self) -> None:
        for width in BEAM_WIDTHS:
            self._compiled(width)

    def _wider_beams(self) -> None:
        """Out of memory for the proof: go on for better plans while time is left."""
        width = 2 * BEAM_WIDTHS[-1]
        while self.stop is Stop.MEMORY_LIMIT and width <= WIDEST_BEAM and self._run.stop is None:
            self._compiled(width)
            width *= 2

    def _compiled(self, width: int = 0) -> None:
        from onchip.solve.joint.compiled import CompiledSearch, TooManyResidentsError

        try:
            outcome = CompiledSearch(self._indexed, self._run, self.cost, width).solve()
        except TooManyResidentsError:
            outcome = BestFirstSearch(self._indexed, self._run).solve()
        self._take(outcome, f"beam of {width}" if width else "search")

    def _take(self, outcome: SearchOutcome, phase: str) -> None:
        self.lower_bound = max(self.lower_bound, outcome.lower_bound)
        if outcome.stop is not Stop.COMPLETED:
            self.stop = outcome.stop
        if outcome.moves is not None and outcome.cost is not None and (self.cost is None or outcome.cost < self.cost):
            self.moves, self.cost = outcome.moves, outcome.cost
            self._on_plan(outcome.moves, outcome.cost, phase)


def optimal_moves(indexed: IndexedProblem, run: Run, upper_bound: int | None, seed: int) -> tuple[Move, ...] | None:
    """Return moves of least cost below the upper bound, with ties broken by the seed; None if none were found."""
    from onchip.solve.joint.compiled import CompiledSearch, TooManyResidentsError

    try:
        for width in (BEAM_WIDTHS[1], 0):
            outcome = CompiledSearch(indexed, run, upper_bound, width, seed).solve()
            if outcome.moves is not None and outcome.cost is not None:
                if outcome.cost + 1 == upper_bound or not width:
                    return outcome.moves
                upper_bound = outcome.cost + 1
    except TooManyResidentsError:
        pass
    return None
