"""The cheapest way through a network of choices whose true costs are dear to learn.

Every choice has a bound that is cheap. The cheapest way by bounds is found; its choices are costed; and so on until
the cheapest way has none that is only a bound. It is then the best of all, and a choice whose bound is too high has
never been costed (lazy shortest paths, Dellin and Srinivasa, ICAPS 2016).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from onchip.plan.result import Status, Stop
from onchip.solve.fusion.ledger import Ledger
from onchip.solve.fusion.objective import Criteria, value_of
from onchip.solve.fusion.ways import Arc, Way, cheapest_way, front_of
from onchip.solve.limits import Run

ChoiceT = TypeVar("ChoiceT", bound=Hashable)

MANY_CHOICES: Final = 1024


@dataclass(frozen=True, slots=True)
class Found(Generic[ChoiceT]):
    """The best way, or the best so far; `lower_bound` is of any way."""

    status: Status
    way: Way[ChoiceT] | None
    lower_bound: int
    stopped_by: Stop


@dataclass(slots=True)
class LazySearch(Generic[ChoiceT]):
    """Ways from place 0 to `last`. So many choices are costed at a time (`ahead`), where there are as many.

    Where an arc has many choices, or the run has to stop, they are looked at one by one only when the cheapest way
    leads over it: until then one floor stands for all of them, and the first in their place.
    """

    arcs: Sequence[Arc[ChoiceT]]
    last: int
    zero: Criteria
    ledger: Ledger[ChoiceT]
    ahead: int = 1
    run: Run = field(default_factory=Run)
    way: Way[ChoiceT] | None = field(init=False)
    best: Way[ChoiceT] | None = field(init=False, default=None)
    _fronts: list[tuple[Way[ChoiceT], ...]] = field(init=False)
    _known: list[tuple[Way[ChoiceT], ...]] = field(init=False)
    _arcs_of: dict[ChoiceT, list[int]] = field(init=False, default_factory=dict)
    _closed: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self._known = [() for _ in self.arcs]
        self._fronts = [() for _ in self.arcs]
        self._closed = set(range(len(self.arcs)))
        for at, arc in enumerate(self.arcs):
            for choice in arc.choices[:1]:
                self._arcs_of.setdefault(choice, []).append(at)
            if len(arc.choices) <= MANY_CHOICES and self.run.stop is None:
                self._open(at)
            else:
                self._fronts[at] = tuple(Way(self.ledger.costs.floor(arc.choices), one) for one in arc.choices[:1])
        self._find_ways()

    def refresh(self) -> None:
        """Take note of what the ledger has learned elsewhere."""
        for at in set(range(len(self.arcs))) - self._closed:
            self._look_at(at)
        self._find_ways()

    def advance(self, run: Run) -> None:
        """Look at the arcs of the cheapest way by bounds; if all are open, cost some of it that is not known.

        All of it as long as no way is known.
        """
        choices = self.way.choices if self.way else ()
        closed = {at for choice in choices for at in self._arcs_of[choice]} & self._closed
        if closed:
            for at in sorted(closed):
                self._open(at)
            self._find_ways()
        else:
            self._cost(run)

    def _open(self, at: int) -> None:
        self._closed.remove(at)
        for choice in self.arcs[at].choices[1:]:
            self._arcs_of.setdefault(choice, []).append(at)
        self._look_at(at)

    def _cost(self, run: Run) -> None:
        own = list(dict.fromkeys(self.way.choices)) if self.way else []
        unknown = [choice for choice in own if choice not in self.ledger.known]
        batch = [*unknown[: self.ahead], *self._beside(unknown)]
        while batch:
            self.ledger.learn(batch)
            self._refresh([*own, *batch])
            unknown = [choice for choice in unknown if choice not in self.ledger.known]
            batch = unknown[: self.ahead] if self.best is None and run.stop is None else []
        self._refresh(own)
        self._find_ways()

    def _refresh(self, choices: Sequence[ChoiceT]) -> None:
        for at in {at for choice in choices for at in self._arcs_of[choice]}:
            if at not in self._closed:
                self._look_at(at)

    def _look_at(self, at: int) -> None:
        self._fronts[at] = front_of(self.arcs[at].choices, self.ledger.at_least)
        self._known[at] = front_of(self.arcs[at].choices, self.ledger.true)

    def _beside(self, unknown: Sequence[ChoiceT]) -> list[ChoiceT]:
        """What is next best on the same arcs, where the way has fewer choices than are costed at a time."""
        room = self.ahead - len(unknown)
        if not unknown or room <= 0:
            return []
        arcs = {at for choice in unknown for at in self._arcs_of[choice]}
        others = {choice for at in sorted(arcs) for choice in self.arcs[at].choices} - set(unknown)
        bounds = {choice: self.ledger.bound(choice) for choice in others if choice not in self.ledger.known}
        left = [(value_of(bound), str(choice), choice) for choice, bound in bounds.items() if bound is not None]
        return [choice for _, _, choice in sorted(left, key=lambda each: each[:2])[:room]]

    def _find_ways(self) -> None:
        self.best = cheapest_way(self.arcs, self._known, self.last, self.zero)
        at_most = None if self.best is None else self.best.value
        self.way = cheapest_way(self.arcs, self._fronts, self.last, self.zero, at_most)


def best_of(
    searches: Sequence[LazySearch[ChoiceT]], run: Run, phase: str, start: Way[ChoiceT] | None = None
) -> Found[ChoiceT]:
    """The cheapest way of all searches, which share a ledger: always the one of the least bound goes on.

    `start` is a way, all of it costed, to improve on.
    """
    proven = 0
    while True:
        bounds = [search.way.value for search in searches if search.way is not None]
        known = [way for way in (start, *(search.best for search in searches)) if way is not None]
        best = min(known, key=lambda way: way.value, default=None)
        if not bounds:
            return Found(Status.INFEASIBLE, None, 0, Stop.COMPLETED)
        proven = max(proven, min(bounds))
        if best is not None and best.value <= proven:
            return Found(Status.OPTIMAL, best, best.value, Stop.COMPLETED)
        if stopped := run.stop:
            return Found(Status.UNKNOWN if best is None else Status.FEASIBLE, best, proven, stopped)
        run.report(None if best is None else best.value, proven, phase)
        least = next(search for search in searches if search.way is not None and search.way.value == min(bounds))
        least.advance(run)
