"""The mappings of a schedule: one for each nest at its homes, within the room that every step leaves for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.schedule import Homes
from onchip.cost.schedule.compute_cost import NestCost
from onchip.ir.layer import Layer
from onchip.solve.schedule.runs import NestPlace

Room = Mapping[str, int]
"""Bytes that tiles may take, by addressed memory."""


@dataclass(frozen=True, slots=True)
class MappedNest:
    """A mapping, and what the nest costs with it; a makeshift one was not searched for: the time was over."""

    mapping: LayerMapping
    cost: NestCost
    is_makeshift: bool = False

    def fits(self, room: Room) -> bool:
        """Whether its workspaces are within the room."""
        return all(room.get(memory, 0) >= size for memory, size in self.cost.workspace_bytes.items())


NestMapper = Callable[[NestPlace, Room], MappedNest | None]
"""The best mapping of a nest within a room; None if none fits."""


def _nobody_is_told(_count: int) -> None:
    """A mapper that shares out no time."""


@dataclass(slots=True)
class KnownMappings:
    """Remembers what a mapper found.

    A mapping that is best in a room is best in every smaller one in which it fits; where none fits in a room, none
    fits in a smaller one.
    """

    mapper: NestMapper
    expect: Callable[[int], None] = field(default=_nobody_is_told)
    """Is told how many nests the mapper will be asked for next."""
    _found: dict[tuple[Layer, Homes, bool], list[tuple[Room, MappedNest | None]]] = field(default_factory=dict)

    def best(self, nest: NestPlace, room: Room) -> MappedNest | None:
        """Of a nest in a room; None if none fits."""
        key = (nest.layer, nest.homes, nest.weight_is_an_input)
        for larger, mapped in self._found.get(key, []):
            if _is_within(room, larger) and (mapped is None or mapped.fits(room)):
                return mapped
        found = self.mapper(nest, room)
        if found is None or not found.is_makeshift:
            self._found.setdefault(key, []).append((room, found))
        return found


def _is_within(room: Room, larger: Room) -> bool:
    return all(size <= larger.get(memory, 0) for memory, size in room.items())
