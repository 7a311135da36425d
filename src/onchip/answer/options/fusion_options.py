"""Options of a search for fusion strategies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from onchip.answer.options.choices import as_choices
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
    """Options of `fuse`; None means that the choice is searched.

    Attributes
    ----------
    stacks
        Fused groups: `one`, `greedy`, `optimal`, `layers`, or a list such as `0-3,4-7`.
    tile
        Columns and rows of a group's last feature map, clipped to smaller maps.
    mode
        Data that tiles share instead of computing it again.
    sizes
        Tile sizes that are tried along columns and rows.
    combination
        One tiling per group, or the same tiling for all groups.
    maps_stay
        Whether maps between groups may stay on chip.
    ahead
        Number of groups that are costed ahead by several workers.
    mapper
        Search that maps the layers of a tile: by default `exact`, and `uneven` if DeFiNES's accounting is used.
    partial_bits
        Width of a partial sum; by default 16 bits more than an element, up to 32, limited by the memories.
    accounting
        How energy and cycles are counted: by `interpreter`, or as `defines` does.
    uses_cache
        Whether mappings that earlier runs proved are used again.

    """

    stacks: str = OPTIMAL
    tile: tuple[int, int] | None = None
    mode: OverlapMode | None = None
    sizes: TileSizes = TileSizes.SWEEP
    combination: Combination = Combination.BEST
    maps_stay: bool = True
    ahead: int = 1
    mapper: str | None = None
    partial_bits: int | None = None
    accounting: str = "interpreter"
    uses_cache: bool = True

    def __post_init__(self) -> None:
        as_choices(self, mode=OverlapMode, sizes=TileSizes, combination=Combination)

    @property
    def modes(self) -> tuple[OverlapMode, ...]:
        """Return the overlap modes that are searched."""
        return tuple(OverlapMode) if self.mode is None else (self.mode,)
