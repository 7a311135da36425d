"""Dominance by capacity: known mappings of a layer at the same homes with more capacity for tiles.

The best mapping with more capacity costs no more; if it fits in less capacity, it is optimal there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from onchip.answer.layer_mapping import MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.ir.layer import Layer
from onchip.model.group.mapper import Mapper
from onchip.model.layer.cost import LayerCost, layer_cost

_Place: TypeAlias = tuple[Layer, Homes, bool]
"""A problem on a given machine without its capacities."""


@dataclass(slots=True)
class Roomier:
    """The best mappings `known` on one machine, None for infeasible problems, indexed without the tiles' capacity."""

    known: Mapping[LayerProblem, LayerCost | None]
    _by_place: dict[_Place, list[tuple[Mapping[str, int], LayerCost | None]]] = field(default_factory=dict)
    _taken_note_of: int = 0

    def of(self, problem: LayerProblem) -> Iterator[LayerCost | None]:
        """Yield the costs of the same layer with at least as much capacity in every memory, None if nothing fits."""
        for known, cost in islice(self.known.items(), self._taken_note_of, None):
            self._by_place.setdefault(_place(known), []).append((known.room_bytes, cost))
        self._taken_note_of = len(self.known)
        for room_bytes, cost in self._by_place.get(_place(problem), ()):
            if _is_within(problem.room_bytes, room_bytes):
                yield cost


@dataclass(frozen=True, slots=True)
class RoomierFirst:
    """A mapper with proofs, called only if no known mapping with more capacity fits."""

    mapper: Mapper
    roomier: Roomier

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Return the mapper's answer, possibly another mapping of equal cost."""
        for cost in self.roomier.of(problem):
            if cost is None:
                return None
            if (fitting := _fitting(problem, cost)) is not None:
                return fitting
        return self.mapper(problem)


def _fitting(problem: LayerProblem, known: LayerCost) -> LayerCost | None:
    """Return the cost of the same mapping here, if it fits and costs as much."""
    try:
        found = layer_cost(problem, known.mapping)
    except MappingError:
        return None
    return found if (found.energy_pj, found.cycles) == (known.energy_pj, known.cycles) else None


def _place(problem: LayerProblem) -> _Place:
    return problem.layer, problem.homes, problem.weight_is_an_input


def _is_within(room: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Return True if no memory has more capacity; unlisted memories have all of theirs."""
    return all(name in room and room[name] <= most for name, most in other.items())
