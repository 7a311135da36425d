"""A mapping of a schedule's nest, with its cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onchip.answer.layer_mapping import LayerMapping
from onchip.model.program.compute_cost import NestCost

Room = Mapping[str, int]
"""Bytes available for tiles, by addressed memory."""


@dataclass(frozen=True, slots=True)
class MappedNest:
    """A mapping and the cost of the nest with it.

    `is_makeshift`: built without a search, for lack of time. `is_quick`: only known mappings and LOMA were used.
    Without `is_proven` there may be better ones. `is_wide`: the search included uneven mappings. `others` are mappings
    met in the same search that are better in some criterion.
    """

    mapping: LayerMapping
    cost: NestCost
    is_makeshift: bool = False
    is_quick: bool = False
    is_proven: bool = False
    is_wide: bool = False
    others: tuple[MappedNest, ...] = field(default=(), compare=False, repr=False)

    def fits(self, room: Room) -> bool:
        """Return True if its workspaces fit the capacity."""
        return all(room.get(memory, 0) >= size for memory, size in self.cost.workspace_bytes.items())
