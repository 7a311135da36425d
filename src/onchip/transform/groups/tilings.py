"""Tiles that are tried: sizes along rows and columns, and the modes that differ."""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass
from itertools import product

from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ops.derive.fusable import FeatureMap


@dataclass(frozen=True, slots=True)
class TileBox:
    """The tilings with these columns and rows, each in ascending order, in one overlap mode."""

    columns: tuple[int, ...]
    rows: tuple[int, ...]
    mode: OverlapMode

    @property
    def count(self) -> int:
        """Return how many tilings are in the box."""
        return len(self.columns) * len(self.rows)

    @property
    def tilings(self) -> tuple[Tiling, ...]:
        """Return all tilings of the box, by columns, then by rows."""
        return tuple(Tiling(columns, rows, self.mode) for columns in self.columns for rows in self.rows)

    def quarters(self) -> tuple[TileBox, ...]:
        """Return two to four smaller boxes that partition this one, which must have more than one tiling."""
        halves = product(_halves(self.columns), _halves(self.rows))
        return tuple(TileBox(columns, rows, self.mode) for columns, rows in halves if columns and rows)

    def thinned(self, some: Container[int]) -> TileBox:
        """Return the box with only the given sizes, and its least and greatest sizes."""
        columns, rows = (
            tuple(size for size in sizes if size in some or size in (sizes[0], sizes[-1]))
            for sizes in (self.columns, self.rows)
        )
        return TileBox(columns, rows, self.mode)

    def __str__(self) -> str:
        return f"{self.columns[0]}..{self.columns[-1]}x{self.rows[0]}..{self.rows[-1]} {self.mode}"


def boxes_of(
    output: FeatureMap, sizes: TileSizes, modes: Collection[OverlapMode] = tuple(OverlapMode)
) -> tuple[TileBox, ...]:
    """Return boxes that contain each distinct tiling once; of equivalent modes only the first is used."""
    columns, rows = sizes.along_columns(output.columns), sizes.along_rows(output.rows)
    found = []
    for mode in modes:
        for some_columns, some_rows in product((columns[:-1], columns[-1:]), (rows[:-1], rows[-1:])):
            if some_columns and some_rows:
                same = Tiling(some_columns[-1], some_rows[-1], mode).within(output.columns, output.rows).mode
                if same is mode or same not in modes:
                    found.append(TileBox(some_columns, some_rows, same))
    return tuple(dict.fromkeys(found))


def whole(output: FeatureMap) -> Tiling:
    """Return the tiling of one tile, as in layer-by-layer execution."""
    return Tiling(output.columns, output.rows, OverlapMode.RECOMPUTE)


def _halves(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    middle = len(sizes) // 2
    return sizes[:middle], sizes[middle:]
