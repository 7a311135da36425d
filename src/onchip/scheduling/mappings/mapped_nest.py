"""A mapping of a nest of a schedule, with what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onchip.answer.layer_mapping import LayerMapping
from onchip.model.program.compute_cost import NestCost

Room = Mapping[str, int]
"""Bytes that tiles may take, by addressed memory."""


@dataclass(frozen=True, slots=True)
class MappedNest:
    """A mapping, and what the nest costs with it. A wide one was searched for beyond even mappings, too.

    A makeshift one was not searched for, since the time was over; for a quick one only what is known and LOMA were
    asked. Beside one that is not proven there may be better ones. `others` were seen beside it, and are less in
    something.
    """

    mapping: LayerMapping
    cost: NestCost
    is_makeshift: bool = False
    is_quick: bool = False
    is_proven: bool = False
    is_wide: bool = False
    others: tuple[MappedNest, ...] = field(default=(), compare=False, repr=False)

    def fits(self, room: Room) -> bool:
        """Whether its workspaces are within the room."""
        return all(room.get(memory, 0) >= size for memory, size in self.cost.workspace_bytes.items())
