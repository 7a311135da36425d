"""Tilings of a fused group: which are tried, and a descent to a good one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ops.fusable import FeatureMap

PriceOf = Callable[[Tiling], int | None]
"""Returns the price of a group in a tiling; None if no tile fits."""
TIMES_AS_NARROW = 4
"""Ratio of the widths of tiles from which a descent may start."""
TIMES_AS_FEW = 4
"""Sizes of first tiles that are tried until one fits, each with a quarter of the pixels before."""
MOST_HALVES = 6
"""Times that channels are halved for slices: more slices than 64 hardly save bytes."""


@dataclass(frozen=True, slots=True)
class TilingList:
    """The tilings that are tried: columns and rows of a group's last map, ascending, in some overlap modes."""

    output: FeatureMap
    columns: tuple[int, ...]
    rows: tuple[int, ...]
    modes: tuple[OverlapMode, ...]

    @classmethod
    def of(cls, output: FeatureMap, options: FusionOptions) -> TilingList:
        """Return the tilings of the options: the given tile, clipped to the map, or sizes of their list."""
        if options.tile is not None:
            columns, rows = options.tile
            return cls(output, (min(columns, output.columns),), (min(rows, output.rows),), options.modes)
        sizes = options.tile_sizes
        return cls(output, sizes.along_columns(output.columns), sizes.along_rows(output.rows), options.modes)

    def every(self) -> Iterator[Tiling]:
        """Yield each distinct tiling once; of modes that are equivalent only the simplest."""
        yield from dict.fromkeys(
            self._tiling(*at, mode)
            for mode in self.modes
            for at in product(range(len(self.columns)), range(len(self.rows)))
        )

    def descend(self, most_pixels: int, price_of: PriceOf, *, is_coarse: bool = False) -> Tiling | None:
        """Return the tiling to which a descent leads: a step changes a size to the next of the list, or the mode.

        It begins with the best of wide and narrow tiles of about `most_pixels`. If it is coarse, it tries only fewer
        rows. None if no tile fits.
        """
        known: dict[Tiling, int | None] = {}

        def price(tiling: Tiling) -> int | None:
            if tiling not in known:
                known[tiling] = price_of(tiling)
            return known[tiling]

        starts: list[tuple[int, tuple[int, int, OverlapMode]]] = []
        for smaller in range(TIMES_AS_FEW if most_pixels else 0):
            priced = ((price(self._tiling(*at)), at) for at in self._starts(most_pixels // TIMES_AS_NARROW**smaller))
            starts = [(found, at) for found, at in priced if found is not None]
            if starts:
                break
        if not starts:
            smallest = ((0, 0, mode) for mode in self.modes)
            starts = [(found, at) for at in smallest if (found := price(self._tiling(*at))) is not None]
        if not starts:
            return None
        best, at = min(starts)
        steps, tried = list(_COARSE_STEPS if is_coarse else (*_STEPS, *self._jumps())), 0
        while tried < len(steps):
            near = self._after(at, steps[tried])
            found = None if near is None else price(self._tiling(*near))
            if near is None or found is None or found >= best:
                tried += 1
                continue
            best, at = found, near
            steps.insert(0, steps.pop(tried))
            tried = 0
        return self._tiling(*at)

    def _starts(self, most_pixels: int) -> Iterator[tuple[int, int, OverlapMode]]:
        """Yield tiles with the most sharing that the modes allow, from wide to narrow ones."""
        mode, width = self.modes[-1], self.columns[-1]
        while True:
            column = max(at for at, size in enumerate(self.columns) if size <= width or not at)
            fitting = [at for at, size in enumerate(self.rows) if size * self.columns[column] <= most_pixels]
            yield column, max(fitting, default=0), mode
            if not column or max(fitting, default=-1) == len(self.rows) - 1:
                return
            width = min(self.columns[column] // TIMES_AS_NARROW, self.columns[column - 1])

    def _jumps(self) -> Iterator[tuple[int, int, None]]:
        """Yield steps of several sizes along one axis: prices have flat stretches."""
        for size in range(2, max(len(self.columns), len(self.rows))):
            yield from ((0, size, None), (size, 0, None), (0, -size, None), (-size, 0, None))

    def _after(
        self, at: tuple[int, int, OverlapMode], step: tuple[int, int, OverlapMode | None]
    ) -> tuple[int, int, OverlapMode] | None:
        column, row, mode = at[0] + step[0], at[1] + step[1], step[2] or at[2]
        is_inside = 0 <= column < len(self.columns) and 0 <= row < len(self.rows) and mode in self.modes
        return (column, row, mode) if is_inside else None

    def _tiling(self, column: int, row: int, mode: OverlapMode) -> Tiling:
        return Tiling(self.columns[column], self.rows[row], mode).within(self.output.columns, self.output.rows)


def best_slices(
    output: FeatureMap, channels: int, price_of: PriceOf, than: tuple[int | None, Tiling | None], *, is_coarse: bool
) -> Tiling | None:
    """Return the best of 2, 4, 8, ... slices of an image's channels, or the given tiling if none has a lower price.

    Slices that are half as wide again as the best ones are tried, too. If the search is coarse, it tries 4 and 32
    slices.
    """
    best, found = than
    sizes = [-(-channels >> step) for step in range(1, MOST_HALVES + 1) if channels >> step]
    for size in sizes[1::3] if is_coarse else sizes:
        best, found = _better(best, found, _in_slices(output, size), price_of)
    if not is_coarse and found is not None and found.channels is not None:
        best, found = _better(best, found, _in_slices(output, found.channels * 3 // 2), price_of)
    return found


def _better(
    best: int | None, found: Tiling | None, tiling: Tiling, price_of: PriceOf
) -> tuple[int | None, Tiling | None]:
    """Return a tiling with its price if that is lower than the best so far, else the best."""
    price = price_of(tiling)
    return (price, tiling) if price is not None and (best is None or price < best) else (best, found)


def _in_slices(output: FeatureMap, channels: int) -> Tiling:
    return Tiling(output.columns, output.rows, OverlapMode.RECOMPUTE, channels)


_COARSE_STEPS = ((0, -1, None), (0, -2, None))
_STEPS = (
    (0, -1, None),
    (-1, 0, None),
    (-1, 1, None),
    (1, -1, None),
    *((0, 0, mode) for mode in OverlapMode),
    (1, 0, None),
    (0, 1, None),
)
