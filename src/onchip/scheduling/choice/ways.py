"""Shortest paths through a graph of choices, or Pareto fronts of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from onchip.answer.options.fusion_objective import Criteria, value_of
from onchip.search.budget.limits import Run

ChoiceT = TypeVar("ChoiceT", bound=Hashable)


class NoBoundError(Exception):
    """Time ran out before every choice was examined, so no bound is proven."""


def ensure_time(run: Run) -> None:
    """Raise NoBoundError if the run must stop."""
    if run.stop is not None:
        raise NoBoundError


@dataclass(frozen=True, slots=True)
class Arc(Generic[ChoiceT]):
    """An arc from a node to a later one (nodes are numbered), with alternative choices."""

    source: int
    target: int
    choices: tuple[ChoiceT, ...]


@dataclass(frozen=True, slots=True)
class PathToPlace(Generic[ChoiceT]):
    """A path from the first node: its last choice and the path before; without a choice it is the start."""

    cost: Criteria
    choice: ChoiceT | None = None
    before: PathToPlace[ChoiceT] | None = None

    @property
    def value(self) -> int:
        """Return the cost of the path in the objective's unit."""
        return value_of(self.cost)

    @property
    def choices(self) -> tuple[ChoiceT, ...]:
        """Return the choices along the path, the first one first."""
        found: list[ChoiceT] = []
        at: PathToPlace[ChoiceT] | None = self
        while at is not None and at.choice is not None:
            found.append(at.choice)
            at = at.before
        return tuple(reversed(found))


def front_of(
    choices: Iterable[ChoiceT], cost_of: Callable[[ChoiceT], Criteria | None]
) -> tuple[PathToPlace[ChoiceT], ...]:
    """Return the Pareto front of the choices over all criteria."""
    costs = ((choice, cost_of(choice)) for choice in choices)
    return pareto(PathToPlace(cost, choice) for choice, cost in costs if cost is not None)


def pareto(ways: Iterable[PathToPlace[ChoiceT]]) -> tuple[PathToPlace[ChoiceT], ...]:
    """Return the Pareto front; the first of equal paths, and with one criterion the minimum."""
    kept: list[PathToPlace[ChoiceT]] = []
    for way in sorted(ways, key=lambda way: way.cost):
        if not kept or way.cost[-1] < kept[-1].cost[-1]:
            kept.append(way)
        if len(way.cost) == 1:
            break
    return tuple(kept)


def cheapest_way(
    arcs: Sequence[Arc[ChoiceT]],
    fronts: Sequence[tuple[PathToPlace[ChoiceT], ...]],
    last: int,
    begun: Criteria,
    at_most: int | None = None,
    run: Run | None = None,
) -> PathToPlace[ChoiceT] | None:
    """Return the cheapest path from node 0 to `last` over the arcs' fronts; None without one of at most `at_most`.

    Arcs lead to higher nodes. Every path begins with the cost `begun`. Raises NoBoundError if the run must stop.
    """
    leaving: list[list[int]] = [[] for _ in range(last + 1)]
    for at, arc in enumerate(arcs):
        if fronts[at]:
            leaving[arc.source].append(at)
    nothing = (0,) * len(begun)
    rest = _least_from(arcs, fronts, leaving, nothing)
    reached: list[list[PathToPlace[ChoiceT]]] = [[] for _ in range(last + 1)]
    reached[0].append(PathToPlace(begun))
    for place in range(last):
        if run is not None and leaving[place]:
            ensure_time(run)
        going_on = [way for way in pareto(reached[place]) if _may_lead(way, rest[place], at_most)]
        reached[place] = []
        for at in leaving[place]:
            for way in going_on:
                for step in fronts[at]:
                    cost = tuple(map(int.__add__, way.cost, step.cost))
                    reached[arcs[at].target].append(PathToPlace(cost, step.choice, way))
    ends = [way for way in pareto(reached[last]) if _may_lead(way, nothing, at_most)]
    return min(ends, key=lambda way: way.value, default=None)


def _least_from(
    arcs: Sequence[Arc[ChoiceT]],
    fronts: Sequence[tuple[PathToPlace[ChoiceT], ...]],
    leaving: Sequence[Sequence[int]],
    nothing: Criteria,
) -> list[Criteria | None]:
    """Return for each node the minimum of each criterion to the last node; None without a path."""
    last = len(leaving) - 1
    least: list[Criteria | None] = [None] * last + [nothing]
    for place in range(last - 1, -1, -1):
        sums = [
            tuple(map(int.__add__, step.cost, behind))
            for at in leaving[place]
            if (behind := least[arcs[at].target]) is not None
            for step in fronts[at]
        ]
        least[place] = tuple(map(min, zip(*sums, strict=True))) if sums else None
    return least


def _may_lead(way: PathToPlace[ChoiceT], rest: Criteria | None, at_most: int | None) -> bool:
    if rest is None:
        return False
    return at_most is None or value_of(tuple(map(int.__add__, way.cost, rest))) <= at_most
