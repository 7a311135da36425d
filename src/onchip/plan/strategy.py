"""A fusion strategy: which layers run together as a stack, in which tiles, and what overlapping tiles share.

After DeFiNES (Mei, Goetschalckx et al., HPCA 2023), its three axes: tile size, overlap mode, fuse depth. Tiles run from
left to right, then from top to bottom; each is computed through all layers of its stack before the next one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from onchip.errors import InputError


class OverlapMode(StrEnum):
    """What a tile takes from its neighbours instead of computing it again: nothing, columns, columns and rows."""

    RECOMPUTE = "recompute"
    H_CACHED = "h-cached"
    FULLY_CACHED = "fully-cached"

    @property
    def caches_columns(self) -> bool:
        """Whether what the tile to the left has computed is kept for this one."""
        return self is not OverlapMode.RECOMPUTE

    @property
    def caches_rows(self) -> bool:
        """Whether what the tiles above have computed is kept for this one."""
        return self is OverlapMode.FULLY_CACHED


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of `columns` x `rows` pixels of a stack's last feature map; those at its edge may be smaller."""

    columns: int
    rows: int
    mode: OverlapMode

    def __post_init__(self) -> None:
        for name, pixels in (("columns", self.columns), ("rows", self.rows)):
            if pixels < 1:
                raise InputError(f"a tile has {pixels} {name}", place="tile", expected="at least 1")

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows} {self.mode}"


@dataclass(frozen=True, slots=True)
class StackStrategy:
    """Layers, by name and in the network's order, that run tile by tile; the last one's output is tiled."""

    layers: tuple[str, ...]
    tiling: Tiling

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError("a stack has no layers", place="strategy", expected="at least one")


@dataclass(frozen=True, slots=True)
class FusionStrategy:
    """Stacks in the order in which they run; every layer is in one of them."""

    stacks: tuple[StackStrategy, ...]

    def __post_init__(self) -> None:
        names = Counter(name for stack in self.stacks for name in stack.layers)
        for name, times in names.items():
            if times > 1:
                raise InputError(f"layer {name!r} is in {times} stacks", place="strategy", expected="one")
