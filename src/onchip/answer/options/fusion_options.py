"""What a search of fusion strategies is asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.stacks import OverlapMode

OPTIMAL: Final = "optimal"
"""Of `stacks`: all that are legal may be used."""
LAYERS: Final = "layers"
"""Of `stacks`: every layer alone."""


class Combination(StrEnum):
    """Each stack in its own tiling, or all of several layers in the same one, cut to the last map of each.

    SINGLE is the part of BEST in which one tiling does for all stacks; none of its strategies is outside that.
    """

    BEST = "best"
    SINGLE = "single"


@dataclass(frozen=True, slots=True)
class FusionOptions:
    """What is asked; what is None is searched.

    `stacks` is `one`, `greedy`, `optimal`, `layers`, or says them. A given tile (columns, rows) is cut to maps that
    are smaller. With `maps_stay` maps between stacks may lie on the chip.
    """

    stacks: str = OPTIMAL
    tile: tuple[int, int] | None = None
    mode: OverlapMode | None = None
    sizes: TileSizes = TileSizes.SWEEP
    combination: Combination = Combination.BEST
    maps_stay: bool = True
    ahead: int = 1

    @property
    def modes(self) -> tuple[OverlapMode, ...]:
        """Return the overlap modes that are tried."""
        return tuple(OverlapMode) if self.mode is None else (self.mode,)
