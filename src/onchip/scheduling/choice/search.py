"""Shortest path through a graph of choices whose true costs are expensive.

Every choice has a cheap lower bound. The search finds the cheapest path by bounds and costs its choices, until the
cheapest path has only true costs. That path is optimal, and choices with high bounds are never costed (lazy shortest
paths, Dellin and Srinivasa, ICAPS 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Final, Generic, TypeVar

from onchip.answer.options.fusion_objective import Criteria, sum_of, value_of
from onchip.answer.result import Status, Stop
from onchip.scheduling.choice.ways import (
    Arc,
    NoBoundError,
    PathToPlace,
    cheapest_way,
    ensure_time,
    front_of,
)
from onchip.scheduling.fronts.cost_table import Ledger
from onchip.search.budget.limits import Run

ChoiceT = TypeVar("ChoiceT", bound=Hashable)

FAR: Final = 1.13
"""While the best known path exceeds the bound by this factor, whole paths are costed."""


@dataclass(frozen=True, slots=True)
class FoundWay(Generic[ChoiceT]):
    """The best path found; `lower_bound` holds for every path."""

    status: Status
    way: PathToPlace[ChoiceT] | None
    lower_bound: int
    stopped_by: Stop


@dataclass(slots=True)
class LazySearch(Generic[ChoiceT]):
    """A lazy search for paths from node 0 to `last` that begin with the cost `begun`.

    Up to `ahead` choices are costed at a time. A group of choices is expanded only when the cheapest path uses it. An
    arc is expanded only if its lower bound may give a cheaper path to its end, and until `listing` stops; lower bounds
    represent the other arcs until the cheapest path uses them. Raises NoBoundError if the `run` stops before there is a
    bound.
    """

    arcs: Sequence[Arc[ChoiceT]]
    last: int
    begun: Criteria
    ledger: Ledger[ChoiceT]
    ahead: int = 1
    run: Run = field(default_factory=Run)
    listing: Run | None = None
    far: Callable[[ChoiceT], bool] | None = None
    way: PathToPlace[ChoiceT] | None = field(init=False)
    best: PathToPlace[ChoiceT] | None = field(init=False, default=None)
    _fronts: list[tuple[PathToPlace[ChoiceT], ...]] = field(init=False)
    _known: list[tuple[PathToPlace[ChoiceT], ...]] = field(init=False)
    _arcs_of: dict[ChoiceT, list[int]] = field(init=False, default_factory=dict)
    _choices: list[list[ChoiceT]] = field(init=False)
    _not_looked_at: set[int] = field(init=False, default_factory=set)
    _into: list[list[int]] = field(init=False)
    """Incoming arcs by node, the shortest first."""

    def __post_init__(self) -> None:
        self._known = [() for _ in self.arcs]
        self._fronts = [() for _ in self.arcs]
        self._choices = [[] for _ in self.arcs]
        self._into = [[] for _ in range(self.last + 1)]
        for at, arc in enumerate(self.arcs):
            self._take(at, arc.choices)
            self._into[arc.target].append(at)
            if arc.choices:
                self._not_looked_at.add(at)
                self._fronts[at] = (PathToPlace(self.ledger.costs.least(arc.choices), arc.choices[0]),)
        for own in self._into:
            own.sort(key=lambda at: -self.arcs[at].source)
        self._look_where_cheaper(self.listing or self.run, self.far)
        self._find_ways()

    def look_farther(self, run: Run) -> None:
        """Expand all arcs, including far ones, that the cheapest paths may use, until the run stops."""
        self._look_where_cheaper(run)
        self._find_ways()

    @property
    def looked_at(self) -> list[bool]:
        """Return for each arc True if it has been expanded."""
        return [at not in self._not_looked_at for at in range(len(self.arcs))]

    def refresh(self) -> None:
        """Update the fronts with costs that the ledger learned elsewhere, if there is time."""
        with suppress(NoBoundError):
            for at in range(len(self.arcs)):
                ensure_time(self.run)
                if at not in self._not_looked_at:
                    self._look_at(at)
            self._find_ways()

    def advance(self, run: Run, at_most: int | None = None) -> None:
        """Advance the search by a step on the cheapest path: expand arcs, split groups of choices, or tighten bounds.

        If nothing of that is left, cost the most expensive choices of the path. The whole path is costed while no known
        path costs at most `at_most`, or only one that is FAR above the bound.
        """
        own = self.way.choices if self.way else ()
        if unseen := {at for choice in own for at in self._arcs_of[choice]} & self._not_looked_at:
            self._look_where_cheaper(run)
            for at in sorted(unseen & self._not_looked_at):
                if not self._raise_floor(at):
                    self._not_looked_at.remove(at)
                    self._look_at(at)
            self._find_ways()
            return
        several = {choice: parts for choice in own if (parts := self.ledger.costs.parts(choice))}
        if not several:
            if self.ledger.bring_closer(own, run):
                self._refresh(own)
                self._find_ways()
            else:
                self._cost(run, at_most)
            return
        concerned = {at for choice in several for at in self._arcs_of[choice]}
        for at in sorted(concerned):
            for choice in [one for one in self._choices[at] if one in several]:
                self._choices[at].remove(choice)
                self._take(at, several[choice])
            self._look_at(at)
        self._find_ways()

    def _look_where_cheaper(self, run: Run, far: Callable[[ChoiceT], bool] | None = None) -> None:
        """Expand the arcs over which a path to their ends may be cheapest, node by node, until the run stops."""
        reached: list[Criteria | None] = [self.begun] + [None] * self.last
        for place in range(1, self.last + 1):
            for at in self._into[place]:
                before, known = reached[self.arcs[at].source], reached[place]
                if before is None or not self._fronts[at]:
                    continue
                is_open = at in self._not_looked_at and not (far is not None and far(self._choices[at][0]))
                if is_open and run.stop is None and self._may_be_cheaper(at, before, known):
                    self._raise_floor(at)
                    if self._may_be_cheaper(at, before, known):
                        self._not_looked_at.remove(at)
                        self._look_at(at)
                if self._fronts[at]:
                    own = sum_of([before, _least_of(self._fronts[at])])
                    reached[place] = own if known is None else tuple(map(min, own, known))

    def _may_be_cheaper(self, at: int, before: Criteria, known: Criteria | None) -> bool:
        return known is None or any(map(int.__lt__, sum_of([before, _least_of(self._fronts[at])]), known))

    def _raise_floor(self, at: int) -> bool:
        """Raise the lower bound of an unexpanded arc from new knowledge; return True if it rose."""
        choices, before = self._choices[at], self._fronts[at][0].cost
        floor = tuple(map(max, before, self.ledger.costs.least(choices)))
        self._fronts[at] = (PathToPlace(floor, choices[0]),)
        return floor != before

    def _take(self, at: int, choices: Sequence[ChoiceT]) -> None:
        self._choices[at].extend(choices)
        for choice in choices:
            self._arcs_of.setdefault(choice, []).append(at)

    def _cost(self, run: Run, at_most: int | None) -> None:
        own = list(dict.fromkeys(self.way.choices)) if self.way else []
        unknown = [choice for choice in own if choice not in self.ledger.known]
        unknown.sort(key=self._least_value, reverse=True)
        at_least = self.way.value if self.way else 0
        is_far = at_most is None or at_most > FAR * at_least
        batch = [*unknown[: self.ahead], *self._beside(unknown)]
        while batch:
            self.ledger.learn(batch)
            self._refresh([*own, *batch])
            unknown = [choice for choice in unknown if choice not in self.ledger.known]
            batch = unknown[: self.ahead] if is_far and run.stop is None else []
        self._refresh(own)
        self._find_ways()

    def _least_value(self, choice: ChoiceT) -> int:
        return value_of(self.ledger.bound(choice) or ())

    def _refresh(self, choices: Sequence[ChoiceT]) -> None:
        for at in {at for choice in choices for at in self._arcs_of[choice]}:
            self._look_at(at)

    def _look_at(self, at: int) -> None:
        self._fronts[at] = front_of(self._choices[at], self.ledger.at_least)
        self._known[at] = front_of(self._choices[at], self.ledger.true)

    def _beside(self, unknown: Sequence[ChoiceT]) -> list[ChoiceT]:
        """Return the next best choices on the same arcs, if the path has fewer than `ahead` uncosted ones."""
        room = self.ahead - len(unknown)
        if not unknown or room <= 0:
            return []
        arcs = {at for choice in unknown for at in self._arcs_of[choice]}
        others = dict.fromkeys(choice for at in sorted(arcs) for choice in self._choices[at])
        bounds = {one: self.ledger.bound(one) for one in others if one not in self.ledger.known and one not in unknown}
        left = [(value_of(bound), choice) for choice, bound in bounds.items() if bound is not None]
        best = sorted(left, key=itemgetter(0))
        return list(islice((choice for _, choice in best if not self.ledger.costs.parts(choice)), room))

    def _find_ways(self) -> None:
        self.best = cheapest_way(self.arcs, self._known, self.last, self.begun)
        at_most = None if self.best is None else self.best.value
        self.way = cheapest_way(self.arcs, self._fronts, self.last, self.begun, at_most, self.run)


def _least_of(front: Sequence[PathToPlace[ChoiceT]]) -> Criteria:
    """Return the minimum of each criterion separately."""
    return front[0].cost if len(front) == 1 else tuple(map(min, *(way.cost for way in front)))


def best_of(
    searches: Sequence[LazySearch[ChoiceT]], run: Run, phase: str, start: PathToPlace[ChoiceT] | None = None
) -> FoundWay[ChoiceT]:
    """Return the cheapest path over searches that share a ledger; the search of least bound advances.

    `start` is a fully costed path to improve on.
    """
    proven = 0
    while True:
        bounds = [search.way.value for search in searches if search.way is not None]
        known = [way for way in (start, *(search.best for search in searches)) if way is not None]
        best = min(known, key=lambda way: way.value, default=None)
        if not bounds:
            return FoundWay(Status.INFEASIBLE, None, 0, Stop.COMPLETED)
        proven = max(proven, min(bounds))
        if best is not None and best.value <= proven:
            return FoundWay(Status.OPTIMAL, best, best.value, Stop.COMPLETED)
        if stopped := run.stop:
            return FoundWay(Status.UNKNOWN if best is None else Status.FEASIBLE, best, proven, stopped)
        run.report(None if best is None else best.value, proven, phase)
        least = next(search for search in searches if search.way is not None and search.way.value == min(bounds))
        with suppress(NoBoundError):  # the run stops, which the next iteration detects
            least.advance(run, None if best is None else best.value)
