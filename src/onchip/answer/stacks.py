"""Stacks of a fusion strategy: fused layers, their tile size, and the data shared by overlapping tiles.

After DeFiNES (Mei, Goetschalckx et al., HPCA 2023), with its three axes: tile size, overlap mode, fuse depth. Tiles run
from left to right, then from top to bottom; each is computed through all layers of its stack before the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from re import fullmatch

from onchip.arch.memory import DRAM
from onchip.errors import InputError


class StrategyError(InputError):
    """An error for an invalid strategy, or an unreadable strategy file."""


class OverlapMode(StrEnum):
    """The overlap data that a tile reuses instead of recomputing: none, columns, or columns and rows."""

    RECOMPUTE = "recompute"
    H_CACHED = "h-cached"
    FULLY_CACHED = "fully-cached"

    @property
    def caches_columns(self) -> bool:
        """Return True if results of the tile to the left are kept for this tile."""
        return self is not OverlapMode.RECOMPUTE

    @property
    def caches_rows(self) -> bool:
        """Return True if results of the tiles above are kept for this tile."""
        return self is OverlapMode.FULLY_CACHED


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of `columns` x `rows` pixels of a stack's last feature map; tiles at its edge may be smaller.

    With `channels`, tiles are slices of so many channels of that map, with all its pixels; no overlap is cached.
    """

    columns: int
    rows: int
    mode: OverlapMode
    channels: int | None = None

    def __post_init__(self) -> None:
        for name, size in (("columns", self.columns), ("rows", self.rows), ("channels", self.channels)):
            if size is not None and size < 1:
                raise StrategyError(f"a tile has {size} {name}", place="tile", expected="at least 1")
        if self.channels is not None and self.mode is not OverlapMode.RECOMPUTE:
            what, expected = f"slices of channels are {self.mode}", f"{OverlapMode.RECOMPUTE}: they do not overlap"
            raise StrategyError(what, place="tile", expected=expected)

    def __str__(self) -> str:
        channels = "" if self.channels is None else f"x{self.channels}"
        return f"{self.columns}x{self.rows}{channels} {self.mode}"

    def within(self, columns: int, rows: int) -> Tiling:
        """Return the equivalent tiling of a map of that size: the tile clipped to the map, in the simplest mode.

        Overlap is not cached in a direction in which no tile has a neighbour.
        """
        mode = self.mode
        if mode.caches_rows and self.rows >= rows:
            mode = OverlapMode.H_CACHED
        if mode is OverlapMode.H_CACHED and self.columns >= columns:
            mode = OverlapMode.RECOMPUTE
        return Tiling(min(self.columns, columns), min(self.rows, rows), mode, self.channels)


def tile_of_text(text: str) -> tuple[int, int]:
    """Return the columns and rows of a text such as `4x72`; raises StrategyError for invalid text."""
    match = fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text)
    if match is None or "0" in (match[1].strip("0") or "0", match[2].strip("0") or "0"):
        raise StrategyError(f"{text!r} is not a tile size", place="tile", expected="columns x rows, like 4x72")
    return int(match[1]), int(match[2])


@dataclass(frozen=True, slots=True)
class StackStrategy:
    """Layers, by name and in the network's order, that run tile by tile; the output of the last one is tiled.

    That output is stored whole in memory `output_home` until the last layer that reads it has run. Raises StrategyError
    for a stack without layers.
    """

    layers: tuple[str, ...]
    tiling: Tiling
    output_home: str = DRAM

    def __post_init__(self) -> None:
        if not self.layers:
            raise StrategyError("a stack has no layers", place="strategy", expected="at least one")


@dataclass(frozen=True, slots=True)
class LayerInNetwork:
    """The constraints of a layer on a strategy: the feature maps that it reads and writes, by name.

    Its output has `columns` x `rows` pixels and `output_bits` in total; with `is_output` it is an output of the
    network, even if layers read it. A layer that `runs_alone` is a stack in a single tile.
    """

    name: str
    reads: tuple[str, ...]
    writes: str
    columns: int
    rows: int
    output_bits: int
    is_output: bool = False
    runs_alone: bool = False
