"""Strategies run in turn by one scheduler, with the best answer and bound so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Generic, TypeVar

from onchip.answer.result import SearchResult, Status, Stop
from onchip.search.budget.limits import Budget, Run

AnswerT = TypeVar("AnswerT")


class Incumbent(Generic[AnswerT]):
    """The best answer and bound of a minimisation; reports each improvement, and ends as a SearchResult."""

    def __init__(self, run: Run, lower_bound: int = 0) -> None:
        self.run = run
        self.answer: AnswerT | None = None
        self.value: int | None = None
        self.lower_bound = lower_bound
        self.stopped_by = Stop.COMPLETED
        self.is_infeasible = False

    @property
    def is_proven(self) -> bool:
        """Return True if the best answer attains the bound."""
        return self.value is not None and self.value <= self.lower_bound

    @property
    def is_settled(self) -> bool:
        """Return True if the best answer is proven optimal, or the problem is proven infeasible."""
        return self.is_proven or self.is_infeasible

    def keep(self, answer: AnswerT | None, value: int, phase: str) -> bool:
        """Keep and report an answer if it improves on the incumbent; return True if it does.

        The answer may be None if it is built later.
        """
        if self.value is not None and value >= self.value:
            return False
        self.answer, self.value = answer, value
        self.run.report(value, self.lower_bound, phase)
        return True

    def raise_bound(self, lower_bound: int) -> None:
        """Keep and report a bound if it is higher than the best so far."""
        if lower_bound > self.lower_bound:
            self.lower_bound = lower_bound
            self.run.report(self.value, lower_bound, "bound")

    def result(self, method: str) -> SearchResult[AnswerT]:
        """Return the state of the search as a result."""
        seconds = self.run.seconds
        if self.answer is None or self.value is None:
            status = Status.INFEASIBLE if self.is_infeasible else Status.UNKNOWN
            return SearchResult(status, None, None, self.lower_bound, seconds, method, self.stopped_by)
        status = Status.OPTIMAL if self.is_proven else Status.FEASIBLE
        stopped_by = Stop.COMPLETED if self.is_proven else self.stopped_by
        return SearchResult(status, self.answer, self.value, self.lower_bound, seconds, method, stopped_by)


@dataclass(frozen=True, slots=True)
class PortfolioParams:
    """Constants of the scheduler, which no strategy changes."""

    growth: float = 2.0
    """Ratio of a strategy's next quantum to the one before. One that restarts then repeats at most half of its work."""
    remembered: float = 0.5
    """Part of a strategy's gain and effort that still counts after its next turn: quanta double, so gains halve."""
    equal_share: float = 0.5
    """Part of the effort that is divided equally. A search that proves by its end gains nothing before."""


class Strategy(ABC):
    """A resumable search that offers answers and bounds to an incumbent and counts its own nodes.

    Subclasses implement `advance`, or `step` if a quantum of many nodes is cheaper than many small steps.
    """

    name: str

    def __init__(
        self, incumbent: Incumbent[Any], run: Run, first_quantum: float, nodes_without_limit: float = inf
    ) -> None:
        """Take the incumbent to improve and the run of the first turn.

        Each turn replaces the run by one that ends with the turn. `first_quantum` is the number of nodes of the first
        turn. `nodes_without_limit` is the number of nodes of a strategy that never finishes on its own, if the budget
        has no limit.
        """
        self.incumbent = incumbent
        self.run = run
        self.first_quantum = first_quantum
        self.nodes_without_limit = nodes_without_limit
        self.ended_by: Stop | None = None

    @property
    def is_ready(self) -> bool:
        """Return True if the strategy can take a turn; some wait for the results of another."""
        return True

    @property
    def has_to_stop(self) -> bool:
        """True if nothing is left to improve, or the turn is over."""
        return self.ended_by is not None or self.incumbent.is_settled or self.run.stop is not None

    @abstractmethod
    def advance(self, nodes: float) -> float:
        """Do the smallest piece of work, at most about `nodes` nodes; return the number of nodes spent.

        Sets `ended_by` if the strategy has nothing left to do, or cannot go on.
        """

    def step(self, quantum: float) -> float:
        """Search until about `quantum` nodes are spent, or it has to stop; return the number of nodes spent."""
        spent = 0.0
        while spent < quantum and self.is_ready and not self.has_to_stop:
            spent += self.advance(quantum - spent)
        return spent


class Stepped(Strategy):
    """A strategy given as a generator function, which yields the number of nodes after each piece of work (None: 1).

    If effort is counted in seconds, a piece has a node for each millisecond that it took instead. The function receives
    the strategy: `run` ends with the turn, `whole_run` with the last turn. Short pieces, and pieces whose results are
    lost if cut off, use `whole_run`. `end_turn` is called at the end of each turn.
    """

    def __init__(
        self,
        name: str,
        incumbent: Incumbent[Any],
        run: Run,
        steps: Callable[[Stepped], Iterator[float | None]],
        *,
        is_ready: Callable[[], bool] = lambda: True,
        end_turn: Callable[[], None] = lambda: None,
        nodes_without_limit: float = inf,
    ) -> None:
        super().__init__(incumbent, run, 1.0, nodes_without_limit)
        self.name = name
        self.whole_run = run
        self._steps = steps(self)
        self._is_ready = is_ready
        self._end_turn = end_turn

    @property
    def is_ready(self) -> bool:
        """True if the strategy can take a turn."""
        return self._is_ready()

    def step(self, quantum: float) -> float:
        """Do pieces of work of about `quantum` nodes."""
        spent = super().step(quantum)
        self._end_turn()
        return spent

    def advance(self, nodes: float) -> float:  # noqa: ARG002  (the size of a piece is fixed)
        """Do the next piece of work."""
        began = self.run.deadline.seconds
        spent = next(self._steps, 0.0)
        if spent == 0.0:
            self.ended_by = Stop.COMPLETED
        if not self.run.counts_nodes:
            return max(1.0, (self.run.deadline.seconds - began) * 1_000)
        return 1.0 if spent is None else spent

    def part(self, pieces: int) -> Run:
        """Return a run that ends after 1 / `pieces` of the time left of this turn."""
        return self.run.within(self.run.seconds_left / pieces) if self.run.deadline.is_set else self.run


@dataclass(slots=True)
class _Member:
    """A strategy with its next quantum, its recent gains and effort, and its `turn`, which grows with the effort."""

    strategy: Strategy
    quantum: float
    nodes: float = 0.0
    turn: float = 0.0
    gains: tuple[float, float] = (0.0, 0.0)
    effort: float = 1e-9

    def rate(self, kind: int) -> float:
        """Return the recent gain per unit of effort; kind 0 is answers, kind 1 is bounds."""
        return self.gains[kind] / self.effort


@dataclass(slots=True)
class Portfolio:
    """A set of strategies that share an incumbent and one budget.

    Stride scheduling (Waldspurger and Weihl, 1995): the member of the lowest `turn` has the next quantum. Its turn then
    grows by the effort divided by its share of all effort. Half of the effort is divided equally, a quarter by the
    recent gains of answers, and a quarter by the gains of bounds, per unit of effort. A gain is the part of the gap
    between answer and bound that is closed. Effort is in seconds, or in nodes if the budget counts nodes: the same seed
    and node limit then give the same answer. In seconds, no turn takes more than an equal part of the time that is
    left.

    A strategy that raises MemoryError has ended; the error is raised again if no other strategy has an answer.
    """

    incumbent: Incumbent[Any]
    strategies: Sequence[Strategy]
    budget: Budget
    params: PortfolioParams = field(default_factory=PortfolioParams)
    stopped_by: Stop = field(default=Stop.COMPLETED, init=False)
    _members: list[_Member] = field(init=False)
    _latest_turn: float = 0.0

    def __post_init__(self) -> None:
        self._members = [_Member(one, one.first_quantum) for one in self.strategies]

    def solve(self) -> Stop:
        """Run until the incumbent is settled, the budget is spent, or all strategies have ended; return the reason.

        Raises MemoryError if a strategy runs out of memory and no strategy has an answer.
        """
        for _ in self.turns():
            pass
        return self.stopped_by

    def turns(self) -> Iterator[float]:
        """Run as `solve` does, and yield the nodes of each turn; `stopped_by` is the reason in the end.

        Raises MemoryError if a strategy ran out of memory and there is no answer.
        """
        failure: MemoryError | None = None
        while not self.incumbent.is_settled:
            if (stop := self.budget.stop) is not None:
                self.stopped_by = stop
                return
            ready = [one for one in self._members if self._is_active(one) and one.strategy.is_ready]
            if not ready:
                break
            member = min(ready, key=lambda one: one.turn)
            try:
                yield self._run(member)
            except MemoryError as error:
                failure, member.strategy.ended_by = error, Stop.MEMORY_LIMIT
        if self.incumbent.is_settled:
            return
        if failure is not None and self.incumbent.value is None:
            raise failure
        ends = (one.ended_by or Stop.NODE_LIMIT for one in self.strategies if one.ended_by or one.is_ready)
        self.stopped_by = next((one for one in ends if one is not Stop.COMPLETED), Stop.COMPLETED)

    def _is_active(self, member: _Member) -> bool:
        is_spent = not self.budget.is_limited and member.nodes >= member.strategy.nodes_without_limit
        return member.strategy.ended_by is None and not is_spent

    def _run(self, member: _Member) -> float:
        """Run a member for its quantum, and account for the effort and the gains; return the nodes spent."""
        incumbent, budget, params = self.incumbent, self.budget, self.params
        budget.run.report(incumbent.value, incumbent.lower_bound, member.strategy.name)
        active = [one for one in self._members if self._is_active(one)]
        if not budget.run.counts_nodes:
            member.strategy.run = budget.run.within(budget.run.seconds_left / len(active))
        value, bound, spent = incumbent.value, incumbent.lower_bound, budget.spent
        quantum = min(member.quantum, budget.nodes_left)
        nodes = max(member.strategy.step(quantum), 1.0)
        member.nodes += nodes
        budget.nodes += nodes
        effort = max(budget.spent - spent, 1e-9)
        answers, bounds = self._gains(value, bound)
        member.gains = (params.remembered * member.gains[0] + answers, params.remembered * member.gains[1] + bounds)
        member.effort = params.remembered * member.effort + effort
        self._latest_turn = max(member.turn, self._latest_turn)  # missed turns are not made up for
        member.turn = self._latest_turn + effort / self._share(member, active)
        if nodes >= quantum:
            member.quantum *= params.growth
        return nodes

    def _gains(self, value: int | None, bound: int) -> tuple[float, float]:
        """Return the parts of the gap closed by answers and by bounds since the given value and bound."""
        now = self.incumbent.value
        if value is None or now is None:
            return (0.0 if now is None else 1.0), 0.0
        gap = max(value - bound, 1)
        return (value - now) / gap, (self.incumbent.lower_bound - bound) / gap

    def _share(self, member: _Member, active: Sequence[_Member]) -> float:
        equal = 1 / len(active)
        share = self.params.equal_share * equal
        for kind in (0, 1):
            rates = sum(one.rate(kind) for one in active)
            share += (1 - self.params.equal_share) / 2 * (member.rate(kind) / rates if rates > 0 else equal)
        return share
