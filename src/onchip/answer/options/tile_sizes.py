"""Lists of tile sizes for the search of fused groups."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

CASE_STUDY_COLUMNS: Final = (1, 4, 16, 60, 240, 960)
CASE_STUDY_ROWS: Final = (1, 4, 18, 72, 270, 540)
"""Figure 12 of DeFiNES (HPCA 2023): 36 sizes for a map of 960 x 540."""
SWEEP_COLUMNS: Final = (1, 2, 4, 8, 16, 32, 60, 120, 240, 480, 960)
SWEEP_ROWS: Final = (1, 2, 4, 9, 18, 36, 72, 135, 270, 540)
"""The same number as the 110 of the paper's whole sweep, which it does not list: the sizes of Figure 12 and
intermediate ones.
"""


class TileSizes(StrEnum):
    """A list of sizes along an axis, which always includes the whole axis.

    CASE_STUDY, SWEEP: those of the paper up to the axis length. HALVES: the axis halved repeatedly, rounded up. POWERS
    of two, DIVISORS of the axis, ALL.
    """

    CASE_STUDY = "case-study"
    SWEEP = "sweep"
    HALVES = "halves"
    POWERS = "powers"
    DIVISORS = "divisors"
    ALL = "all"

    def along_columns(self, pixels: int) -> tuple[int, ...]:
        """Return the tile widths for an axis of `pixels`, ascending."""
        published = {TileSizes.CASE_STUDY: CASE_STUDY_COLUMNS, TileSizes.SWEEP: SWEEP_COLUMNS}
        return _within(published.get(self) or self._sizes(pixels), pixels)

    def along_rows(self, pixels: int) -> tuple[int, ...]:
        """Return the tile heights for an axis of `pixels`, ascending."""
        published = {TileSizes.CASE_STUDY: CASE_STUDY_ROWS, TileSizes.SWEEP: SWEEP_ROWS}
        return _within(published.get(self) or self._sizes(pixels), pixels)

    def _sizes(self, pixels: int) -> Sequence[int]:
        if self is TileSizes.HALVES:
            return [-(-pixels >> shift) for shift in range(pixels.bit_length() + 1)]
        if self is TileSizes.POWERS:
            return [1 << shift for shift in range(pixels.bit_length())]
        every = range(1, pixels + 1)
        return every if self is TileSizes.ALL else [size for size in every if pixels % size == 0]


def _within(sizes: Sequence[int], pixels: int) -> tuple[int, ...]:
    return tuple(sorted({size for size in sizes if size <= pixels} | {pixels}))
