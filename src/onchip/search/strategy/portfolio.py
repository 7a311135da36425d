"""One scheduler for all anytime searches: strategies take turns, and those that improve the answer get more turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar

from onchip.answer.result import Stop
from onchip.search.budget.budget import Budget
from onchip.search.budget.limits import Run
from onchip.search.strategy.incumbent import Incumbent


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

    name: ClassVar[str]

    def __init__(
        self, incumbent: Incumbent[Any], run: Run, first_quantum: float, nodes_without_limit: float = inf
    ) -> None:
        """Take the incumbent to improve and the run that may stop the search.

        `first_quantum` is the number of nodes of the first turn. `nodes_without_limit` is the number of nodes of a
        strategy that does not end by itself, if the budget has no limit.
        """
        self.incumbent = incumbent
        self.run = run
        self.first_quantum = first_quantum
        self.nodes_without_limit = nodes_without_limit
        self.ended_by: Stop | None = None

    @property
    def has_to_stop(self) -> bool:
        """True if nothing is left to improve, or the run has to stop."""
        return self.ended_by is not None or self.incumbent.is_settled or self.run.stop is not None

    @abstractmethod
    def advance(self, nodes: float) -> float:
        """Do the smallest piece of work, of at most about so many nodes; return the number of nodes it took.

        Sets `ended_by` if the strategy has nothing left to do, or cannot go on.
        """

    def step(self, quantum: float) -> float:
        """Search until about so many nodes are spent, or it has to stop; return the number of nodes spent."""
        spent = 0.0
        while spent < quantum and not self.has_to_stop:
            spent += self.advance(quantum - spent)
        return spent


@dataclass(slots=True)
class _Member:
    """A strategy, its next quantum in nodes, and its recent gains; `turn` grows slowly while it gains much."""

    strategy: Strategy
    quantum: float
    nodes: float = 0.0
    turn: float = 0.0
    gain: float = 0.0
    effort: float = 0.0

    @property
    def rate(self) -> float:
        """Recent gain per unit of effort."""
        return self.gain / self.effort if self.effort > 0 else 0.0


@dataclass(slots=True)
class Portfolio:
    """Runs strategies that share an incumbent within one budget.

    Stride scheduling (Waldspurger and Weihl, 1995): the member of the lowest `turn` has the next quantum. Its turn then
    grows by the effort divided by its share of all effort: half of that is divided equally, half by recent gain (part
    of the gap between answer and bound that is closed) per unit of effort. Effort is in seconds, or in nodes if the
    budget counts these: the same seed and node limit then give the same answer.

    A strategy that raises MemoryError has ended; the error is raised again if no other strategy has an answer.
    """

    incumbent: Incumbent[Any]
    strategies: Sequence[Strategy]
    budget: Budget
    params: PortfolioParams = field(default_factory=PortfolioParams)
    _members: list[_Member] = field(init=False)

    def __post_init__(self) -> None:
        self._members = [_Member(one, one.first_quantum) for one in self.strategies]

    def solve(self) -> Stop:
        """Run until the incumbent is settled, the budget is spent, or all strategies have ended; return which."""
        failure: MemoryError | None = None
        while not self.incumbent.is_settled:
            if (stop := self.budget.stop) is not None:
                return stop
            active = [one for one in self._members if self._is_active(one)]
            if not active:
                break
            member = min(active, key=lambda one: one.turn)
            try:
                self._run(member)
            except MemoryError as error:
                failure, member.strategy.ended_by = error, Stop.MEMORY_LIMIT
        if self.incumbent.is_settled:
            return Stop.COMPLETED
        if failure is not None and self.incumbent.value is None:
            raise failure
        ends = (one.ended_by or Stop.NODE_LIMIT for one in self.strategies)
        return next((one for one in ends if one is not Stop.COMPLETED), Stop.COMPLETED)

    def _is_active(self, member: _Member) -> bool:
        is_spent = not self.budget.is_limited and member.nodes >= member.strategy.nodes_without_limit
        return member.strategy.ended_by is None and not is_spent

    def _run(self, member: _Member) -> None:
        """Give a member its quantum, and account for it."""
        incumbent, budget, params = self.incumbent, self.budget, self.params
        budget.run.report(incumbent.value, incumbent.lower_bound, member.strategy.name)
        value, bound, spent = incumbent.value, incumbent.lower_bound, budget.spent
        quantum = min(member.quantum, budget.nodes_left)
        nodes = max(member.strategy.step(quantum), 1.0)
        member.nodes += nodes
        budget.nodes += nodes
        effort = max(budget.spent - spent, 1e-9)
        member.gain = params.remembered * member.gain + self._gain(value, bound)
        member.effort = params.remembered * member.effort + effort
        member.turn += effort / self._share(member)
        if nodes >= quantum:
            member.quantum *= params.growth

    def _gain(self, value: int | None, bound: int) -> float:
        """Return the part of the gap that has been closed since the incumbent had this value and bound."""
        now = self.incumbent.value
        if value is None or now is None:
            return 0.0 if now is None else 1.0
        return (value - now + self.incumbent.lower_bound - bound) / max(value - bound, 1)

    def _share(self, member: _Member) -> float:
        active = [one for one in self._members if one is member or self._is_active(one)]
        rates = sum(one.rate for one in active)
        equal = 1 / len(active)
        gained = member.rate / rates if rates > 0 else equal
        return self.params.equal_share * equal + (1 - self.params.equal_share) * gained
