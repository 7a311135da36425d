"""Options of a search for fusion strategies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.stacks import OverlapMode

OPTIMAL: Final = "optimal"
"""Value of `stacks`: any legal stacks."""
LAYERS: Final = "layers"
"""Value of `stacks`: each layer alone."""


class Combination(StrEnum):
    """The combination of tilings: one per stack, or the same for all fused stacks, clipped to their last maps.

    SINGLE is the subset of BEST with one tiling for all stacks.
    """

    BEST = "best"
    SINGLE = "single"


@dataclass(frozen=True, slots=True)
class FusionOptions:
    """Options of a fusion search; None means that the choice is searched.

    `stacks` is `one`, `greedy`, `optimal`, `layers`, or a list of stacks. A given tile (columns, rows) is clipped to
    smaller maps. With `maps_stay` maps between stacks may stay on the chip.
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
        """Return the overlap modes that are searched."""
        return tuple(OverlapMode) if self.mode is None else (self.mode,)
