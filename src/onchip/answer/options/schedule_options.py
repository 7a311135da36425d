"""Options of a search for schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from onchip.answer.options.choices import as_choices
from onchip.answer.options.fusion_options import LAYERS, OPTIMAL, FusionOptions
from onchip.answer.options.schedule_objective import ScheduleObjective
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
    stacks
        Fused groups: `optimal`, `layers`, `one`, `greedy`, or a list such as `0-3,4-7`.
    tile
        Columns and rows of a group's last feature map.
    mode
        Data that tiles share instead of computing it again.
    maps_stay
        Whether operands may stay on chip; if not, every operand is streamed from and to DRAM.
    weighs_mappings
        Whether mappings are selected jointly; if not, each loop nest has the mapping that is best for it alone.
    start
        An earlier legal schedule of the network, also on another machine, that the search may start from.
    partial_bits
        Width of a partial sum; by default 16 bits more than an element, up to 32, limited by the memories.
    uses_cache
        Whether mappings that earlier runs proved are used again.

    """

    stacks: str = OPTIMAL
    tile: tuple[int, int] | None = None
    mode: OverlapMode | None = None
    maps_stay: bool = True
    weighs_mappings: bool = True
    start: Schedule | None = None
    partial_bits: int | None = None
    uses_cache: bool = True

    def __post_init__(self) -> None:
        as_choices(self, mode=OverlapMode)

    @property
    def leaves_stacks_open(self) -> bool:
        """Return True if neither stacks nor tiles are given."""
        return self.stacks == OPTIMAL and self.tile is None and self.mode is None

    @property
    def runs_layers_whole(self) -> bool:
        """Return True if every operator is to run alone and no tile is given."""
        return self.stacks == LAYERS and self.tile is None and self.mode is None

    @property
    def of_fusion(self) -> FusionOptions:
        """Return the corresponding options of the search for fused stacks."""
        return FusionOptions(self.stacks, self.tile, self.mode, maps_stay=self.maps_stay)

    @property
    def space(self) -> Mapping[str, str]:
        """Return the degrees of freedom by name: `any`, or the restriction in words.

        The bound covers every choice except mappings that bypass a memory, so it holds for any options.
        """
        return {
            "order": "any",
            "stacks": "any" if self.stacks == OPTIMAL else self.stacks,
            "tilings": "any" if self.tile is None else f"{self.tile[0]}x{self.tile[1]}",
            "homes": "any" if self.maps_stay else "DRAM",
            "mappings": "every memory keeps what it holds",
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
