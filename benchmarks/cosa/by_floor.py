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
from onchip.model.layer.batch import LayerCosts

ValueOfMapping: TypeAlias = Callable[[LayerMapping], float]
WORTH_A_STEP: Final = 0.999
"""A floor that falls less is no reason to go on without a cost."""
MOST_STEPS: Final = 8
LOOKED_AT_PER_COST: Final = 4
"""So many that wait are looked at for each that is costed: the others are like one that was."""


@dataclass(frozen=True, slots=True)
class SearchedMapping:
    """The best mapping that was costed, its cost (infinite without any), and how many were."""

    mapping: LayerMapping | None
    cost: float
    costed: int


@dataclass(slots=True)
class FloorSearch:
    """One search on one layer; `floor` is never above `cost`, and both are infinite for what they do not know.

    Mappings of which `alike` is equal have the same floor and cost.
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
        """Cost the starts, which fit, then what is near what is best, until so many were costed or one is good enough.

        A start that is padded or ends short is only costed: nothing is near it.
        What waits is ranked by its floor times how far the mapping that it came from is above its own.
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
        """Cost a mapping unless one like it was, and let what is near it wait, unless it is like a worse one."""
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
