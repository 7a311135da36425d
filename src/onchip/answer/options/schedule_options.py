"""Options of a search for schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from onchip.answer.options.choices import CACHE, PARTIAL_BITS, as_choices
from onchip.answer.options.fusion_options import (
    GROUPS,
    LAYERS,
    MODE,
    OPTIMAL,
    PLACEMENTS,
    TILE,
    FusionOptions,
    Placements,
)
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.schedule import Schedule
from onchip.answer.stacks import OverlapMode

WEIGHED: Final = "the front of LOMA's orders, and the best found by energy, latency and their product"
CUT: Final = (
    "stacks of one operator, whole or in a few tiles that units divide more evenly, and those of all schedules found"
)
"""Stacks that are selected jointly from Pareto fronts."""


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """Options of `schedule` and `pareto`; None means that the choice is searched.

    Attributes
    ----------
    groups
        Fused groups: `optimal`, `layers`, `one`, `greedy`, or a list such as `0-3,4-7`.
    tile
        Columns and rows of a group's last feature map.
    mode
        Data that tiles share instead of computing it again.
    placements
        Operand placements: on chip where that is best, or every operand is streamed from and to DRAM.
    weighs_mappings
        Whether mappings are selected jointly; if not, each loop nest has the mapping that is best for it alone.
    start
        An earlier legal schedule of the network, also on another machine, that the search may start from.
    partial_bits
        Width of a partial sum; by default 16 bits more than an element, up to 32, limited by the memories.
    uses_cache
        Whether mappings that earlier runs proved are used again.

    """

    groups: str = field(default=OPTIMAL, metadata=GROUPS)
    tile: tuple[int, int] | None = field(default=None, metadata=TILE)
    mode: OverlapMode | None = field(default=None, metadata=MODE)
    placements: Placements = field(default=Placements.SEARCH, metadata=PLACEMENTS)
    weighs_mappings: bool = True
    start: Schedule | None = None
    partial_bits: int | None = field(default=None, metadata=PARTIAL_BITS)
    uses_cache: bool = field(default=True, metadata=CACHE)

    def __post_init__(self) -> None:
        as_choices(self, mode=OverlapMode, placements=Placements)

    @property
    def maps_stay(self) -> bool:
        """True if operands may stay on chip."""
        return self.placements is Placements.SEARCH

    @property
    def leaves_stacks_open(self) -> bool:
        """Return True if neither groups nor tiles are given."""
        return self.groups == OPTIMAL and self.tile is None and self.mode is None

    @property
    def runs_layers_whole(self) -> bool:
        """Return True if every operator is to run alone and no tile is given."""
        return self.groups == LAYERS and self.tile is None and self.mode is None

    @property
    def of_fusion(self) -> FusionOptions:
        """Return the groups and tilings that are searched, or given."""
        return FusionOptions(self.groups, self.tile, self.mode, TileSizes.HALVES, placements=self.placements)

    @property
    def space(self) -> Mapping[str, str]:
        """Return the degrees of freedom by name: `any`, or the restriction in words.

        The bound covers every choice except mappings that bypass a memory, so it holds for any options.
        """
        return {
            "order": "any",
            "stacks": "any" if self.groups == OPTIMAL else self.groups,
            "tilings": "any" if self.tile is None else f"{self.tile[0]}x{self.tile[1]}",
            "homes": "any" if self.maps_stay else "DRAM",
            "mappings": "no memory bypass",
            "residencies": "any",
            "prefetch": "any",
        }

    def weighed(self, objective: ScheduleObjective) -> str:
        """Return a description of the mappings and stacks from which the search selects.

        The search omits all others for lack of time.
        """
        is_joined = self.weighs_mappings and objective is not ScheduleObjective.ENERGY
        if not is_joined:
            return "the best found for each nest alone"
        return f"{WEIGHED}; {CUT}" if objective.is_timed and self.leaves_stacks_open else WEIGHED
