"""What a search of schedules is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from onchip.answer.options.fusion_options import LAYERS, OPTIMAL, FusionOptions
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import Schedule
from onchip.answer.stacks import OverlapMode

WEIGHED: Final = "the front of LOMA's orders, and the best found by energy, latency and their product"
CUT: Final = (
    "stacks of one operator, whole or in a few tiles that units divide more evenly, and those of all schedules found"
)
"""Stacks that are chosen together from fronts."""


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """What is asked; what is None is searched.

    `stacks` is `optimal`, `layers`, `one`, `greedy`, or says them, as `fuse` does. Without `maps_stay` every operand
    is streamed from and to DRAM. Without `weighs_mappings` each nest has the mapping that is best for it alone, which
    shows what weighing the others brings. `start` is an earlier legal schedule of the network, on this machine or
    another one, from which a search may begin; it restricts nothing.
    """

    stacks: str = OPTIMAL
    tile: tuple[int, int] | None = None
    mode: OverlapMode | None = None
    maps_stay: bool = True
    weighs_mappings: bool = True
    start: Schedule | None = None

    @property
    def leaves_stacks_open(self) -> bool:
        """Whether nothing is said of stacks and tiles."""
        return self.stacks == OPTIMAL and self.tile is None and self.mode is None

    @property
    def runs_layers_whole(self) -> bool:
        """Whether every operator is to run alone, and without tiles as far as is said."""
        return self.stacks == LAYERS and self.tile is None and self.mode is None

    @property
    def of_fusion(self) -> FusionOptions:
        """The same as the search of fused stacks is asked it."""
        return FusionOptions(self.stacks, self.tile, self.mode, maps_stay=self.maps_stay)

    @property
    def space(self) -> Mapping[str, str]:
        """What may be chosen, by name: `any`, or the restriction in words.

        The bound is one over everything but mappings that leave out a memory, so it holds whatever is given.
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
        """Of which mappings of each nest the search chooses one, and of which stacks: others are left out for time."""
        is_joined = self.weighs_mappings and objective is not ScheduleObjective.ENERGY
        if not is_joined:
            return "the best found for each nest alone"
        return f"{WEIGHED}; {CUT}" if objective.is_timed and self.leaves_stacks_open else WEIGHED
