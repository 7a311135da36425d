"""Stacks of a fusion strategy: which layers run together, in which tiles, and what overlapping tiles share.

After DeFiNES (Mei, Goetschalckx et al., HPCA 2023), its three axes: tile size, overlap mode, fuse depth. Tiles run from
left to right, then from top to bottom; each is computed through all layers of its stack before the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from re import fullmatch

from onchip.arch.memory import DRAM
from onchip.errors import InputError


class StrategyError(InputError):
    """A strategy that cannot be, or a file of one that cannot be read."""


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
                raise StrategyError(f"a tile has {pixels} {name}", place="tile", expected="at least 1")

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows} {self.mode}"

    def within(self, columns: int, rows: int) -> Tiling:
        """The same of a map of that size: no tile is larger, and of modes that do the same there it is the first.

        Nothing is cached towards a neighbour that no tile has.
        """
        mode = self.mode
        if mode.caches_rows and self.rows >= rows:
            mode = OverlapMode.H_CACHED
        if mode is OverlapMode.H_CACHED and self.columns >= columns:
            mode = OverlapMode.RECOMPUTE
        return Tiling(min(self.columns, columns), min(self.rows, rows), mode)


def tile_of_text(text: str) -> tuple[int, int]:
    """Columns and rows of `4x72`; raises StrategyError."""
    match = fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text)
    if match is None or "0" in (match[1].strip("0") or "0", match[2].strip("0") or "0"):
        raise StrategyError(f"{text!r} is no tile", place="tile", expected="columns x rows, like 4x72")
    return int(match[1]), int(match[2])


@dataclass(frozen=True, slots=True)
class StackStrategy:
    """Layers, by name and in the network's order, that run tile by tile; the last one's output is tiled.

    It lies whole in memory `output_home` until the last layer that reads it has run.
    """

    layers: tuple[str, ...]
    tiling: Tiling
    output_home: str = DRAM

    def __post_init__(self) -> None:
        if not self.layers:
            raise StrategyError("a stack has no layers", place="strategy", expected="at least one")


@dataclass(frozen=True, slots=True)
class LayerInNetwork:
    """What a strategy has to respect of a layer: the feature maps that it reads and writes, by name.

    What it writes has `columns` x `rows` pixels and `output_bits` in all; with `is_output` it is an output of the
    network, whoever reads it. One that `runs_alone` is a stack in one tile.
    """

    name: str
    reads: tuple[str, ...]
    writes: str
    columns: int
    rows: int
    output_bits: int
    is_output: bool = False
    runs_alone: bool = False
