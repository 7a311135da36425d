"""Tilings in which units divide a layer's loops more evenly than in the whole layer.

Schedule search uses mappings with whole factors of loop bounds. On a map of 55 x 55 pixels an array of 4 x 4 then has
one unit at work, on 52 x 52 all 16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from onchip.answer.stacks import OverlapMode, Tiling
from onchip.bounds.layer.unit_shares import AnyUnrolling
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.model.layer.limits import array_of
from onchip.scheduling.mappings.cycle_floors import CycleFloors
from onchip.scheduling.program.runs import NestPlace


@dataclass(frozen=True, slots=True)
class EvenTiling:
    """A tiling, and the lower bound on the cycles of all its tiles in even mappings."""

    tiling: Tiling
    least_cycles: float


@dataclass(slots=True)
class EvenTiles:
    """The tilings of layers on the machine of the bounds, cached."""

    floors: CycleFloors
    _sharing: AnyUnrolling = field(init=False)
    _known: dict[Layer, Sequence[EvenTiling]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._sharing = AnyUnrolling(self.floors.accelerator, every_memory_keeps=True, divides_loops=True)

    def of(self, layer: Layer) -> Sequence[EvenTiling]:
        """Return tilings of P x Q with a lower cycle bound than the whole layer, the fewest cycles first."""
        if layer not in self._known:
            whole = self.least_cycles(layer, layer.p, layer.q)
            found = [EvenTiling(one, self.least_cycles_in(layer, one)) for one in self._tilings(layer)]
            better = [one for one in found if one.least_cycles < whole]
            self._known[layer] = sorted(better, key=lambda one: one.least_cycles)
        return self._known[layer]

    def least_cycles_in(self, layer: Layer, tiling: Tiling) -> float:
        """Return the cycle bound of all tiles of P x Q: work over the units that even mappings can keep at work."""
        sizes = product(_tiles_along(layer.p, tiling.rows), _tiles_along(layer.q, tiling.columns))
        return sum(down * across * self.least_cycles(layer, p, q) for (p, down), (q, across) in sizes)

    def least_cycles(self, layer: Layer, rows: int, columns: int) -> float:
        """Return the cycle bound of one tile, without padding."""
        tile = replace(layer, p=rows, q=columns, padding=(0, 0, 0, 0))
        return tile.macs / self._sharing.of(tile).at_work

    def least_cycles_at_ports(self, nest: NestPlace, tiling: Tiling) -> float:
        """Return the cycle bound of all tiles of a nest from the traffic of each tile's busiest port.

        In a tile's input, every position that is padding in some tile counts as padding.
        """
        layer, found = nest.layer, 0.0
        for (p, down), (q, across) in product(
            _tiles_along(layer.p, tiling.rows), _tiles_along(layer.q, tiling.columns)
        ):
            try:
                tile = replace(layer, p=p, q=q)
            except InputError:
                continue
            found += down * across * self.floors.least_cycles(tile, weight_is_an_input=nest.weight_is_an_input)
        return found

    def _tilings(self, layer: Layer) -> Iterator[Tiling]:
        """Yield tilings with, along each axis, the whole or the largest multiple of some units; not both whole."""
        rows, columns = self._sizes(layer.p), self._sizes(layer.q)
        for down, across in product(rows, columns):
            if (down, across) != (layer.p, layer.q):
                yield Tiling(across, down, OverlapMode.FULLY_CACHED)

    def _sizes(self, size: int) -> Sequence[int]:
        units = array_of(self.floors.accelerator).sizes.values()
        return tuple(dict.fromkeys((size, *(size // one * one for one in units if 1 < one <= size))))


def _tiles_along(size: int, tile: int) -> Iterator[tuple[int, int]]:
    """Yield the tile sizes along an axis, with their counts."""
    yield tile, size // tile
    if size % tile:
        yield size % tile, 1
