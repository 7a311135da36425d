"""Options of a search for fusion strategies."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from onchip.answer.options.choices import CACHE, PARTIAL_BITS, as_choices, described
from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.stacks import OverlapMode, tile_of_text

OPTIMAL: Final = "optimal"
"""Value of `groups`: any legal fused groups."""
LAYERS: Final = "layers"
"""Value of `groups`: each layer alone."""


class Placements(StrEnum):
    """The allowed placements of feature maps: on chip where that is best, or always in DRAM."""

    SEARCH = "search"
    DRAM = "dram"


GROUPS: Final = described(
    "Layers that run together, tile by tile: a search, or runs of layers by number or by name.",
    "one|greedy|optimal|layers|0-3,4-7",
)
TILE: Final = described(
    "Tile size, columns x rows of a group's last feature map.", "4x72", "searched", parse=tile_of_text
)
MODE: Final = described("Overlap mode: data that tiles share instead of recomputing it.", default="searched")
PLACEMENTS: Final = described("Keep feature maps on chip where that is best, or always in DRAM.")


class Combination(StrEnum):
    """The combination of tilings: one per fused group, or the same for all, clipped to their last feature maps."""

    BEST = "best"
    SINGLE = "single"


@dataclass(frozen=True, slots=True)
class FusionOptions:
    """Options of `fuse`; None means that the choice is searched.

    Attributes
    ----------
    groups
        Fused groups: `one`, `greedy`, `optimal`, `layers`, or a list such as `0-3,4-7`.
    tile
        Columns and rows of a group's last feature map, clipped to smaller maps.
    mode
        Data that tiles share instead of computing it again.
    tile_sizes
        Tile sizes that are tried along columns and rows.
    combination
        One tiling per group, or the same tiling for all groups.
    placements
        Placements of the feature maps between groups: on chip where that is best, or in DRAM.
    mapper
        Search that maps the layers of a tile: by default `exact`, and `uneven` if DeFiNES's accounting is used.
    partial_bits
        Width of a partial sum; by default 16 bits more than an element, up to 32, limited by the memories.
    accounting
        How energy and cycles are counted: by `interpreter`, or as `defines` does.
    uses_cache
        Whether mappings that earlier runs proved are used again.

    """

    groups: str = field(default=OPTIMAL, metadata=GROUPS)
    tile: tuple[int, int] | None = field(default=None, metadata=TILE)
    mode: OverlapMode | None = field(default=None, metadata=MODE)
    tile_sizes: TileSizes = field(
        default=TileSizes.SWEEP, metadata=described("Tile sizes that are tried along columns and rows.")
    )
    combination: Combination = field(
        default=Combination.BEST, metadata=described("Tile and mode: the best of each group, or a single one for all.")
    )
    placements: Placements = field(default=Placements.SEARCH, metadata=PLACEMENTS)
    mapper: str | None = field(
        default=None,
        metadata=described(
            "Search for the loop nests of a tile: exact, dive, loma or uneven.",
            "NAME",
            "exact; uneven as DeFiNES counts",
            flag="--method",
        ),
    )
    partial_bits: int | None = field(default=None, metadata=PARTIAL_BITS)
    accounting: str = field(
        default="interpreter",
        metadata=described("Cost model: onchip's interpreter, or that of DeFiNES.", "interpreter|defines"),
    )
    uses_cache: bool = field(default=True, metadata=CACHE)

    def __post_init__(self) -> None:
        as_choices(self, mode=OverlapMode, tile_sizes=TileSizes, combination=Combination, placements=Placements)

    @property
    def maps_stay(self) -> bool:
        """True if feature maps may stay on chip."""
        return self.placements is Placements.SEARCH

    @property
    def modes(self) -> tuple[OverlapMode, ...]:
        """Return the overlap modes that are searched."""
        return tuple(OverlapMode) if self.mode is None else (self.mode,)
