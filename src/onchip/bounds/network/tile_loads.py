"""Bits on the chip while the operators of a fused group run in tiles (docs/schedule.md, section 8).

Tiles of the last map run row by row, from left to right. If they do not fill the map, the first ones are smaller. In
each tile, an operator computes at least the pixels that no earlier tile needs, and it reads at least the windows of
these pixels, in every overlap mode. A pixel of the group's input that stays on the chip does so until its last read, a
pixel of the group's output from its write on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.bounds.layer.needed import Reach

Counts: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Product: TypeAlias = tuple[Floats, Floats]
"""Factors by tile size of the rows and of the columns, each by set of row or column tiles."""
Until: TypeAlias = Sequence[Counts]
"""By axis, the number of an operator's positions that the first n positions of the last map need, for n = 0, 1, ..."""

NEVER: Final = 1 << 40
"""Position in the last map that no tile reaches."""
MOST_LINES: Final = 256
"""Limit on the rows and columns of the last map. Arrays have an element for each tile size and tile."""
_MOST_SIZES: Final = 64
"""Limit on the distinct tile sizes along an axis. Beyond it, ranges of sizes are merged."""
_ALL, _LAST, _BEGIN, _END = range(4)
SETS: Final = ((_ALL, _ALL), (_BEGIN, _ALL), (_END, _ALL), (_ALL, _LAST), (_ALL, _BEGIN), (_LAST, _LAST))
"""Sets of tiles, each of which bounds the cost: row and column tiles (all, the last, the first half, the others)."""
_OF_ROWS, _OF_COLUMNS = ([each[axis] for each in SETS] for axis in (0, 1))
NUMBER_OF_SETS: Final = len(SETS)
LAST_TILE: Final = NUMBER_OF_SETS - 1


def ranges_of_sizes(size: int) -> list[Sequence[int]]:
    """Return all tile sizes along an axis as ranges. Larger sizes share ranges."""
    found, first = list[Sequence[int]](), 1
    while first <= size:
        step = max(1, first * 4 // _MOST_SIZES) if size > _MOST_SIZES else 1
        found.append(range(first, min(first + step, size + 1)))
        first += step
    return found


def first_needed(views: Sequence[tuple[Reach, Counts]], size: int) -> Counts | None:
    """Return for each position of a map the first position of the last map that needs it (NEVER if none does).

    `views` are the reaches of all readers and their own first positions. Returns None if positions are not needed in
    ascending order, from the first one on.
    """
    found = np.full(size, NEVER)
    for reach, first in views:
        if reach.size != size:
            return None
        touched = reach.touched(len(first))
        inside = touched >= 0
        np.minimum.at(found, touched[inside], np.broadcast_to(first[:, None], touched.shape)[inside])
    return found if np.all(np.diff(found) >= 0) else None


def numbers_until(first: Counts, size: int) -> Counts:
    """Return for n = 0, 1, ..., size the number of entries below n."""
    found: Counts = np.searchsorted(np.sort(first), np.arange(size + 1)).astype(np.int64)
    return found


@dataclass(frozen=True, slots=True)
class AxisReads:
    """The positions of an input along an axis that a reader's windows touch.

    `until` counts those that the first outputs touch; `kept` those that an output touches as earlier ones do. `unread`
    counts those that the reader surely reads in a tile with the n-th position of the last map or a later one.
    """

    until: Counts
    kept: Counts
    unread: Counts

    @classmethod
    def of(cls, reach: Reach, first: Counts, size: int) -> AxisReads:
        """Return the reads of outputs that the last map of `size` positions needs `first` there."""
        outputs, touched = np.arange(len(first)), reach.touched(len(first))
        inside = (touched >= 0) & (first < NEVER)[:, None]
        toucher, last = np.full(reach.size, NEVER), np.full(reach.size, -1)
        np.minimum.at(toucher, touched[inside], np.broadcast_to(outputs[:, None], touched.shape)[inside])
        np.maximum.at(last, touched[inside], np.broadcast_to(first[:, None], touched.shape)[inside])
        kept = (inside & (toucher[np.where(inside, touched, 0)] < outputs[:, None])).sum(axis=1)
        read = int((last >= 0).sum())
        return cls(numbers_until(toucher, len(first)), np.append(kept, 0), read - numbers_until(last[last >= 0], size))


@dataclass(frozen=True, slots=True)
class AxisTiles:
    """The tile sizes of a map along an axis of `size` positions, as `ranges` of sizes."""

    size: int
    ranges: Sequence[Sequence[int]]
    _ends: Counts
    """The last position of each tile + 1, by size, with 0 before the first."""
    _count: Counts

    @classmethod
    def of(cls, size: int) -> AxisTiles:
        """Return all tile sizes along an axis."""
        sizes = np.arange(1, size + 1)
        count = -(-size // sizes)
        ends = np.clip(size - (count[:, None] - np.arange(size + 1)) * sizes[:, None], 0, size)
        return cls(size, ranges_of_sizes(size), ends, count)

    @property
    def count(self) -> Floats:
        """Return the greatest number of tiles in each set, by range of sizes."""
        return self._by_range(self._in_sets((np.diff(self._ends) > 0).astype(np.int64)), np.maximum)

    def least(self, each: Counts) -> Floats:
        """Return the least sums over the tiles of each set, by range of sizes. `each` is by size and tile."""
        return self._by_range(self._in_sets(np.where(np.diff(self._ends) > 0, each, 0)), np.minimum)

    def least_in_any(self, each: Counts) -> Floats:
        """Return the least positive number in any tile, by range of sizes and for every set."""
        least = np.where(each > 0, each, NEVER).min(axis=1, keepdims=True)
        return self._by_range(np.repeat(least, _END + 1, axis=1), np.minimum)

    def between(self, until: Counts) -> Counts:
        """Return the increase of a count within each tile. `until` is by number of leading positions."""
        found: Counts = np.diff(until[self._ends], axis=1)
        return found

    def before(self, until: Counts) -> Counts:
        """Return a count before each tile."""
        found: Counts = until[self._ends[:, :-1]]
        return found

    def behind(self, until: Counts) -> Counts:
        """Return a count after each tile."""
        found: Counts = until[self._ends[:, 1:]]
        return found

    def _in_sets(self, each: Counts) -> Counts:
        until = np.zeros((each.shape[0], each.shape[1] + 1), np.int64)
        np.cumsum(each, axis=1, out=until[:, 1:])
        sizes = np.arange(len(until))
        everything, begin = until[:, -1], until[sizes, -(-self._count // 2)]
        return np.stack([everything, everything - until[sizes, self._count - 1], begin, everything - begin], axis=1)

    def _by_range(self, found: Counts, chosen: np.ufunc) -> Floats:
        return np.asarray(chosen.reduceat(found, [each[0] - 1 for each in self.ranges]), float)


@dataclass(slots=True)
class TiledMap:
    """The tile sizes of the last map of fused groups, and the pixels that other operators then compute and read.

    Results are sums of products over rows and columns.
    """

    axes: tuple[AxisTiles, AxisTiles]

    @classmethod
    def of(cls, pixels: tuple[int, int]) -> TiledMap | None:
        """Return all tile sizes of a map with these rows and columns, or None for more than MOST_LINES of either."""
        return cls((AxisTiles.of(pixels[0]), AxisTiles.of(pixels[1]))) if max(pixels) <= MOST_LINES else None

    @property
    def count(self) -> list[Product]:
        """Return the number of tiles."""
        return [(self.axes[0].count, self.axes[1].count)]

    def reads(self, reaches: Sequence[Reach], first: Sequence[Counts]) -> list[AxisReads]:
        """Return a reader's reads along both axes."""
        return [
            AxisReads.of(reach, each, axis.size) for reach, each, axis in zip(reaches, first, self.axes, strict=True)
        ]

    def computed(self, until: Until) -> list[Product]:
        """Return the new pixels of an operator."""
        rows, columns = (axis.least(axis.between(each)) for axis, each in zip(self.axes, until, strict=True))
        return [(rows, columns)]

    def written(self, until: Until) -> list[Product]:
        """Return the pixels of an operator that earlier tiles need."""
        rows, columns = self.axes
        down, _ = (axis.between(each) for axis, each in zip(self.axes, until, strict=True))
        above, left = (axis.before(each) for axis, each in zip(self.axes, until, strict=True))
        return [(rows.least(above), columns.count * until[1][-1]), (rows.least(down), columns.least(left))]

    def awaited(self, reads: Sequence[AxisReads], *, is_before: bool) -> list[Product]:
        """Return the pixels that a reader reads in later tiles, and in a tile itself if `is_before` the reader."""
        (rows, columns), (down, across) = self.axes, reads
        beside = columns.before(across.unread) if is_before else columns.behind(across.unread)
        return [
            (rows.least(rows.behind(down.unread)), columns.count * across.unread[0]),
            (rows.least(-rows.between(down.unread)), columns.least(beside)),
        ]

    def windows(self, until: Until, reads: Sequence[AxisReads], running: Until | None = None) -> list[Product]:
        """Return the pixels in the windows of a reader's new pixels, in tiles that `running` needs new pixels in."""
        rows, columns = (
            axis.least(np.where(axis.between(other) > 0, self._window(axis, each, read), 0))
            for axis, each, read, other in zip(self.axes, until, reads, running or until, strict=True)
        )
        return [(rows, columns)]

    def read_first(self, until: Until, reads: Sequence[AxisReads]) -> list[Product]:
        """Return the pixels that a reader's new pixels touch, and no earlier ones."""
        rows, columns = (
            axis.least(axis.between(read.until[each])) for axis, each, read in zip(self.axes, until, reads, strict=True)
        )
        return [(rows, columns)]

    def least_window(self, until: Until, reads: Sequence[AxisReads]) -> list[Product]:
        """Return the pixels in the least window of any Compute."""
        rows, columns = (
            axis.least_in_any(self._window(axis, each, read))
            for axis, each, read in zip(self.axes, until, reads, strict=True)
        )
        return [(rows, columns)]

    def least_computed(self, until: Until) -> list[Product]:
        """Return the least number of new pixels in any Compute."""
        rows, columns = (axis.least_in_any(axis.between(each)) for axis, each in zip(self.axes, until, strict=True))
        return [(rows, columns)]

    @staticmethod
    def _window(axis: AxisTiles, until: Counts, reads: AxisReads) -> Counts:
        kept = axis.before(reads.kept[until])
        return np.where(axis.between(until) > 0, axis.between(reads.until[until]) + kept, 0)


@dataclass(frozen=True, slots=True)
class SizeClasses:
    """Classes of tile sizes: `order` has the indices of sizes (rows x columns); `begins` has each class's first."""

    order: Counts
    begins: Counts
    columns: int

    def least(self, products: Sequence[Product]) -> Floats:
        """Return the least sum of products in a class, by class and set of tiles."""
        return np.asarray(np.minimum.reduceat(self._by_size(products), self.begins))

    def greatest(self, products: Sequence[Product]) -> Floats:
        """Return the greatest sum of products in a class, by class and set of tiles."""
        return np.asarray(np.maximum.reduceat(self._by_size(products), self.begins))

    def _by_size(self, products: Sequence[Product]) -> Floats:
        row, column = np.divmod(self.order, self.columns)
        found = np.zeros((len(self.order), len(SETS)))
        for rows, columns in products:
            found += rows[row][:, _OF_ROWS] * columns[column][:, _OF_COLUMNS]
        return found


@dataclass(frozen=True, slots=True)
class EdgeLoad:
    """Bits of a map between groups that are on the chip in an operator's Computes, if none passes DRAM.

    `bits` are by class and set of tiles, the others by class: `band` is what the last Compute itself reads or writes,
    `least` the least of any Compute.
    """

    bits: Floats
    band: Floats | None = None
    least: Floats | None = None


@dataclass(frozen=True, slots=True)
class ComputeLoad:
    """Bits on the chip in an operator's Computes, by class of tile sizes and set of tiles.

    `computes` bounds the Computes of a set from above. `own` are bits of maps inside the group that the operator reads
    or writes, `once` the same without those that it reads in an earlier tile, `waiting` bits of others. With
    `is_spread`, bits of `edges` count in one Compute.
    """

    computes: Floats
    own: Mapping[str, Floats]
    once: Mapping[str, Floats]
    waiting: Mapping[str, Floats]
    edges: Mapping[str, EdgeLoad]
    is_whole: bool = False
    is_spread: bool = False
