"""The choice of an operator's split: least traffic, then the fewest tiles and tensor tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import islice, permutations
from math import prod

import numpy as np
import numpy.typing as npt

from onchip.model.capacity.room import SplitRoom
from onchip.ops.slicing import Geometry, OperandAccess, cut_lines, tile_sizes
from onchip.scheduling.candidates.traffic import Integers, Splits
from onchip.transform.slices.tile_choice import Cuts, Order, TileChoice

_COUNTED_TOGETHER = 64


@dataclass
class Chooser:
    """Split choices, cached by operator shape."""

    known: dict[tuple[Geometry, SplitRoom, bool], tuple[Splits, Integers, list[Order]]] = field(default_factory=dict)

    def split_of_least_traffic(self, geometry: Geometry, room: SplitRoom, cuts: Cuts) -> TileChoice | None:
        """Return the split of least traffic that fits, or None; axes of last resort stay whole if possible."""
        resorts = (False, True) if any(axis.is_last_resort for axis in geometry.axes) else (False,)
        for last_resort in resorts:
            splits, traffic, orders = self._evaluated(geometry, room, last_resort)
            for place in _from_the_best_on(splits, traffic, geometry, cuts):
                if room.holds(splits.items_at(place)):
                    return _split_at(place, splits, geometry, orders[place], int(traffic[place]))
        return None

    def variants_of_splits(
        self, geometry: Geometry, room: SplitRoom, most: int
    ) -> tuple[tuple[tuple[TileChoice, ...], ...], bool]:
        """Return the splits whose tiles may fit, least traffic first, and True if these are all splits.

        A split that cuts a sum has a variant for each order of its axes, since orders need different capacity; the
        variant of least traffic is first. If there are more than `most` splits, returns up to `most` whose largest
        regions fit, without cuts of axes of last resort.
        """
        are_all = prod(len(tile_sizes(axis.size)) for axis in geometry.axes) <= most
        uncut = {access.tensor: [set[int]() for _ in access.spans] for access in (*geometry.reads, *geometry.writes)}
        found: dict[tuple[int, ...], tuple[TileChoice, ...]] = {tuple(axis.size for axis in geometry.axes): ()}
        for last_resort in (False, True) if are_all else (False,):
            make = Splits.every if are_all else Splits.of
            splits = make(geometry, room, last_resort=last_resort).that_may_fit()
            traffic, orders = splits.least_traffic()
            for place in islice(_from_the_best_on(splits, traffic, geometry, uncut), most):
                split = _split_at(place, splits, geometry, orders[place], int(traffic[place]))
                found.setdefault(split.sizes, tuple(_variants(split)))
        return tuple(found.values())[1:], are_all

    def _evaluated(
        self, geometry: Geometry, room: SplitRoom, last_resort: bool
    ) -> tuple[Splits, Integers, list[Order]]:
        key = (_without_names(geometry), room, last_resort)
        if key not in self.known:
            splits = Splits.of(geometry, room, last_resort=last_resort)
            self.known[key] = (splits, *splits.least_traffic())
        return self.known[key]


def _without_names(geometry: Geometry) -> Geometry:
    def nameless(accesses: tuple[OperandAccess, ...]) -> tuple[OperandAccess, ...]:
        return tuple(replace(access, tensor="") for access in accesses)

    return Geometry(geometry.axes, nameless(geometry.reads), nameless(geometry.writes))


def _split_at(place: int, splits: Splits, geometry: Geometry, order: Order, traffic_bytes: int) -> TileChoice:
    sizes = tuple(each[int(indices[place])] for each, indices in zip(splits.sizes, splits.indices, strict=True))
    return TileChoice(geometry, sizes, _every_axis(order, len(sizes)), traffic_bytes)


def _variants(split: TileChoice) -> Iterator[TileChoice]:
    """Yield the split and, if it cuts a sum, its variants with every other order of the cut axes."""
    yield split
    if split.reduction is None:
        return
    axes = zip(split.geometry.axes, split.sizes, strict=True)
    is_cut = [size < axis.size for axis, size in axes]
    whole = tuple(axis for axis in split.order if not is_cut[axis])
    own = tuple(axis for axis in split.order if is_cut[axis])
    for order in permutations(own):
        if order != own:
            yield replace(split, order=(*whole, *order))


def _every_axis(order: Order, count: int) -> Order:
    return (*(axis for axis in range(count) if axis not in order), *order)


def _from_the_best_on(splits: Splits, traffic: Integers, geometry: Geometry, cuts: Cuts) -> Iterator[int]:
    """Yield splits by traffic, then by tiles and tensor tiles together, then by tiles."""
    remaining: npt.NDArray[np.bool_] = np.ones(splits.count, np.bool_)
    while remaining.any():
        least = traffic[remaining].min()
        alike = np.flatnonzero(remaining & (traffic == least))
        yield from (int(alike[place]) for place in _fewest_pieces_first(splits.only(alike), geometry, cuts))
        remaining[alike] = False


def _fewest_pieces_first(splits: Splits, geometry: Geometry, cuts: Cuts) -> Iterator[int]:
    """Yield all splits by number; tensor tiles are counted lazily, since they only add to the number of tiles."""
    tiles = splits.tiles()
    waiting = np.argsort(tiles, kind="stable")
    found: list[tuple[int, int, int]] = []
    at = 0
    while found or at < len(waiting):
        while at < len(waiting) and (not found or found[0][0] > tiles[waiting[at]]):
            some = waiting[at : at + _COUNTED_TOGETHER]
            for place, pieces in zip(some, _pieces(splits.only(some), geometry, cuts), strict=True):
                heappush(found, (int(pieces), int(tiles[place]), int(place)))
            at += len(some)
        yield heappop(found)[2]


def _pieces(splits: Splits, geometry: Geometry, cuts: Cuts) -> Integers:
    """Return the number of tiles and tensor tiles of each split."""
    accesses = (*geometry.reads, *geometry.writes)
    return splits.tiles() + sum(_bands(access, splits, geometry, cuts) for access in accesses)


def _bands(access: OperandAccess, splits: Splits, geometry: Geometry, cuts: Cuts) -> Integers:
    """Return the number of tiles of the tensor, including the cuts of other operators."""
    bands = np.ones(splits.count, np.int64)
    for span, made in zip(access.spans, cuts[access.tensor], strict=True):
        if span.axis is None:
            bands = bands * (len(made) + 1)
            continue
        size, sizes = geometry.axes[span.axis].size, splits.sizes[span.axis]
        used, places = np.unique(splits.indices[span.axis], return_inverse=True)
        counts = [len(cut_lines(span, size, sizes[each]) | made) + 1 for each in used]
        bands = bands * np.array(counts)[places]
    return bands
