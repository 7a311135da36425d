"""The best mapping by any cost that has a floor: steps go down the floors, and what promises most is costed.

The cost may be a simulation that takes a second, the floor a thousandth of it: a mapping whose floor is not below the
best cost is never costed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf, isfinite
from typing import Final, TypeAlias

from cosa.neighbours import neighbours

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.model.layer.tables import LayerCosts

ValueOfMapping: TypeAlias = Callable[[LayerMapping], float]
WORTH_A_STEP: Final = 0.999
"""A floor that falls less is no reason to go on without a cost."""
MOST_STEPS: Final = 8
LOOKED_AT_PER_COST: Final = 4
"""Waiting mappings examined per costed mapping; the others are equivalent to costed ones."""


@dataclass(frozen=True, slots=True)
class SearchedMapping:
    """The best mapping that was costed, its cost (infinite without any), and how many were."""

    mapping: LayerMapping | None
    cost: float
    costed: int


@dataclass(slots=True)
class FloorSearch:
    """A search for mappings of one layer.

    `floor` is a lower bound on `cost`, and both are infinite for invalid mappings. Mappings with equal `alike` have
    equal floors and costs.
    """

    problem: LayerProblem
    floor: ValueOfMapping
    cost: ValueOfMapping
    alike: Callable[[LayerMapping], Hashable]
    best: LayerMapping | None = None
    least: float = inf
    _costs: LayerCosts = field(init=False)
    _costed: dict[Hashable, float] = field(default_factory=dict)
    _seen: set[LayerMapping] = field(default_factory=set)
    _waiting: list[tuple[float, int, float, LayerMapping]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self._costs = LayerCosts(self.problem)

    def run(self, starts: Iterable[LayerMapping], most_costed: int, good_enough: float = 0.0) -> SearchedMapping:
        """Cost the starts, which fit, then neighbours of the best mappings.

        Ends after `most_costed` mappings, or when one is good enough. A start that is padded or imperfect is only
        costed, because it has no neighbours. Waiting mappings are ranked by their floor times the ratio of cost to
        floor of their origin.
        """
        for start in dict.fromkeys(one.without_loops_of_one() for one in starts):
            self._seen.add(start)
            self._offer(start)
        most = len(self._costed) + most_costed
        for _ in range(LOOKED_AT_PER_COST * most_costed):
            if not self._waiting or len(self._costed) >= most or self.least <= good_enough:
                break
            _, _, ratio, mapping = heappop(self._waiting)
            if self.floor(mapping) < self.least:
                self._offer(self._below(mapping, ratio))
        return SearchedMapping(self.best, self.least, sum(map(isfinite, self._costed.values())))

    def _offer(self, mapping: LayerMapping) -> None:
        """Cost a mapping unless an equivalent one was costed, and queue its neighbours.

        A mapping that is equivalent to a costed one queues neighbours only if its cost is the least so far.
        """
        kind = self.alike(mapping)
        is_new = kind not in self._costed
        cost = self._costed.setdefault(kind, self.cost(mapping)) if is_new else self._costed[kind]
        if cost < self.least:
            self.best, self.least = mapping, cost
        is_promising = isfinite(cost) and (is_new or cost <= self.least)
        if is_promising and mapping.bounds == self.problem.layer.bounds:
            self._look_around(mapping, cost / max(self.floor(mapping), 1.0))

    def _below(self, mapping: LayerMapping, ratio: float) -> LayerMapping:
        """Go down from a mapping while a neighbour's floor is lower."""
        for _ in range(MOST_STEPS):
            floor = self.floor(mapping)
            found = self._look_around(mapping, ratio)
            if not found or found[0][0] >= WORTH_A_STEP * floor:
                break
            mapping = found[0][1]
        return mapping

    def _look_around(self, mapping: LayerMapping, ratio: float) -> list[tuple[float, LayerMapping]]:
        """Return the neighbours that were not seen before, with floors below the best cost, ascending."""
        near = [one for one in dict.fromkeys(neighbours(self.problem, mapping)) if one not in self._seen]
        self._seen.update(near)
        found = [(floor, one) for one in self._fitting(near) if (floor := self.floor(one)) < self.least]
        found.sort(key=lambda one: one[0])
        for floor, one in found:
            heappush(self._waiting, (floor * ratio, next(self._numbers), ratio, one))
        return found

    def _fitting(self, mappings: Sequence[LayerMapping]) -> list[LayerMapping]:
        """Return those that the memories and the array have room for."""
        energies = self._costs.of(mappings).energy_pj.tolist() if mappings else []
        return [mapping for mapping, energy in zip(mappings, energies, strict=True) if isfinite(energy)]
