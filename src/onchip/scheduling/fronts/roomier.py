"""What is known of a layer whose operands lie at the same homes, and whose tiles have more room.

Its best mapping costs no more than the best with less room; where it fits there, it is the best.
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
"""All of a problem but its room, on one machine."""


@dataclass(slots=True)
class Roomier:
    """Best mappings that are `known` on one machine, None where there is none, by all but the room of tiles."""

    known: Mapping[LayerProblem, LayerCost | None]
    _by_place: dict[_Place, list[tuple[Mapping[str, int], LayerCost | None]]] = field(default_factory=dict)
    _taken_note_of: int = 0

    def of(self, problem: LayerProblem) -> Iterator[LayerCost | None]:
        """Yield what the same layer costs where no memory has less room for its tiles, None where nothing fits."""
        for known, cost in islice(self.known.items(), self._taken_note_of, None):
            self._by_place.setdefault(_place(known), []).append((known.room_bytes, cost))
        self._taken_note_of = len(self.known)
        for room_bytes, cost in self._by_place.get(_place(problem), ()):
            if _is_within(problem.room_bytes, room_bytes):
                yield cost


@dataclass(frozen=True, slots=True)
class RoomierFirst:
    """A mapper that proves its mappings best, asked only where none of those with more room fits."""

    mapper: Mapper
    roomier: Roomier

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """As the mapper itself; of mappings that cost the same it may be another."""
        for cost in self.roomier.of(problem):
            if cost is None:
                return None
            if (fitting := _fitting(problem, cost)) is not None:
                return fitting
        return self.mapper(problem)


def _fitting(problem: LayerProblem, known: LayerCost) -> LayerCost | None:
    """The same mapping, if it fits and costs as much."""
    try:
        found = layer_cost(problem, known.mapping)
    except MappingError:
        return None
    return found if (found.energy_pj, found.cycles) == (known.energy_pj, known.cycles) else None


def _place(problem: LayerProblem) -> _Place:
    return problem.layer, problem.homes, problem.weight_is_an_input


def _is_within(room: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether there is no more room in any memory; what is not listed is all of it."""
    return all(name in room and room[name] <= most for name, most in other.items())
