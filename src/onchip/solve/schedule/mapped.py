"""The mappings of a schedule: one for each nest at its homes, within the room that every step leaves for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.schedule import Homes
from onchip.cost.schedule.compute_cost import NestCost
from onchip.ir.layer import Layer
from onchip.solve.schedule.runs import NestPlace

Room = Mapping[str, int]
"""Bytes that tiles may take, by addressed memory."""
Edition = tuple[int, bool]
"""How often known mappings were replaced by better ones, and whether quick ones will do."""


@dataclass(frozen=True, slots=True)
class MappedNest:
    """A mapping, and what the nest costs with it.

    A makeshift one was not searched for, since the time was over; for a quick one only what is known and LOMA were
    asked. Beside one that is not proven there may be better ones.
    """

    mapping: LayerMapping
    cost: NestCost
    is_makeshift: bool = False
    is_quick: bool = False
    is_proven: bool = False

    def fits(self, room: Room) -> bool:
        """Whether its workspaces are within the room."""
        return all(room.get(memory, 0) >= size for memory, size in self.cost.workspace_bytes.items())


class NestMapper(Protocol):
    """Finds mappings of nests; a quick one takes the first that it has."""

    is_quick: bool

    def __call__(self, nest: NestPlace, room: Room, similar: Sequence[LayerMapping]) -> MappedNest | None:
        """The best mapping of a nest within a room; None if none fits. `similar` are of its layer at other homes."""

    def expect(self, count: int) -> None:
        """So many nests are asked for next."""


@dataclass(slots=True)
class KnownMappings:
    """Remembers what a mapper found.

    A mapping that is best in a room is best in every smaller one in which it fits; where none fits in a room, none
    fits in a smaller one.
    """

    mapper: NestMapper
    _found: dict[tuple[Layer, Homes, bool], list[_FoundInRoom]] = field(default_factory=dict)
    _replaced: int = 0

    @property
    def edition(self) -> Edition:
        """Return what stays the same as long as what was best in a room still is."""
        return self._replaced, self.mapper.is_quick

    def best(self, nest: NestPlace, room: Room) -> MappedNest | None:
        """Of a nest in a room; None if none fits."""
        known = self._known(nest, room)
        if known is not None:
            return known.mapped
        found = self.mapper(nest, room, self._similar(nest))
        if found is None or not found.is_makeshift:
            is_quick = self.mapper.is_quick if found is None else found.is_quick
            self._found.setdefault(_key(nest), []).insert(0, _FoundInRoom(room, found, is_quick))
        return found

    def announce(self, asked: Iterable[tuple[NestPlace, Room]]) -> None:
        """Say which nests in which rooms are asked for next, so that the mapper can share its time among new ones."""
        self.mapper.expect(sum(self._known(nest, room) is None for nest, room in asked))

    def replace(self, nest: NestPlace, room: Room, better: MappedNest) -> None:
        """From now on this one is the best of the nest in the room, and wherever it fits in a smaller one."""
        self._found.setdefault(_key(nest), []).insert(0, _FoundInRoom(room, better, better.is_quick))
        self._replaced += 1

    def _known(self, nest: NestPlace, room: Room) -> _FoundInRoom | None:
        """What was found in a larger room, if it is what would be found in this one."""
        is_quick = self.mapper.is_quick
        found = self._found.get(_key(nest), [])
        return next((one for one in found if one.holds_within(room) and (is_quick or not one.is_quick)), None)

    def _similar(self, nest: NestPlace) -> list[LayerMapping]:
        """The last that was found of the same layer at each choice of homes."""
        mapped = (
            next((one.mapped for one in found if one.mapped is not None), None)
            for (layer, _, is_input), found in self._found.items()
            if (layer, is_input) == (nest.layer, nest.weight_is_an_input)
        )
        return [one.mapping for one in mapped if one is not None]


@dataclass(frozen=True, slots=True)
class _FoundInRoom:
    """What was found in a room, quickly or not; None: nothing fits."""

    room: Room
    mapped: MappedNest | None
    is_quick: bool

    def holds_within(self, room: Room) -> bool:
        return _is_within(room, self.room) and (self.mapped is None or self.mapped.fits(room))


def _key(nest: NestPlace) -> tuple[Layer, Homes, bool]:
    return nest.layer, nest.homes, nest.weight_is_an_input


def _is_within(room: Room, larger: Room) -> bool:
    return all(size <= larger.get(memory, 0) for memory, size in room.items())
