"""The choice of operator splits by estimated traffic.

Tiles run in the order of `tiles_in_order`. Elements that two consecutive tiles share stay resident; everything else is
loaded again, except operands held whole (docs/tiling.md has the formulas).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import combinations, islice, permutations
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.arch.memory import Operand
from onchip.model.capacity.room import SplitRoom
from onchip.ops.slicing import Geometry, OperandAccess, Span, TileAxis, cut_lines, tile_sizes
from onchip.transform.slices.tile_choice import Cuts, Order, TileChoice

Integers: TypeAlias = npt.NDArray[np.int64]
_MOST_HELD_TOGETHER = 3


@dataclass(frozen=True, slots=True)
class Lengths:
    """Length sums of an operand's ranges along one axis, by tile size (or split).

    `total` sums the lengths, `shared` the overlaps of consecutive ranges, `alternating` the overlaps with alternating
    signs. `first`, `last` and `greatest` are lengths of single tiles; `count` is the number of tiles.
    """

    count: Integers
    total: Integers
    shared: Integers
    alternating: Integers
    first: Integers
    last: Integers
    greatest: Integers

    def at(self, indices: Integers) -> Lengths:
        """Return the entries of some sizes, possibly repeated."""
        fields = (self.count, self.total, self.shared, self.alternating, self.first, self.last, self.greatest)
        return Lengths(*(values[indices] for values in fields))


@lru_cache(maxsize=4096)
def lengths(axis: TileAxis, sizes: tuple[int, ...], span: Span | None) -> Lengths:
    """Return the lengths for every tile size along the axis; `span` is None if the operand does not depend on it."""
    rows = [_lengths_of_size(axis.size, size, span) for size in sizes]
    return Lengths(*np.array(rows, np.int64).reshape(-1, 7).T)


def _lengths_of_size(axis_size: int, size: int, span: Span | None) -> tuple[int, ...]:
    count = -(-axis_size // size)
    if span is None:
        return count, count, count - 1, (count - 1) % 2, 1, 1, 1
    starts = np.arange(0, axis_size, size)
    stops = np.minimum(starts + size, axis_size)
    low = np.clip(starts // span.per * span.step + span.offset, 0, span.size)
    reach = (stops - 1) // span.per * span.step + span.offset + span.extent
    following = np.where(stops == axis_size, span.size, stops // span.per * span.step + span.offset)
    high = np.maximum(low, np.clip(np.maximum(reach, following), 0, span.size))
    taken = high - low
    shared = np.maximum(np.minimum(high[:-1], high[1:]) - np.maximum(low[:-1], low[1:]), 0)
    alternating = int(shared[::2].sum() - shared[1::2].sum())
    return (count, int(taken.sum()), int(shared.sum()), alternating, int(taken[0]), int(taken[-1]), int(taken.max()))


def elements_loaded(order: Order, by_axis: Mapping[int, Lengths]) -> Integers:
    """Return the elements of an operand in all tiles, minus the overlap of each tile with the one before.

    Two consecutive tiles differ along one axis. Axes outside it are at any index. Axes inside it are at an end, the
    first or the last by the parity of the passes over them.
    """
    outside = np.ones_like(by_axis[order[0]].count)
    shared_twice = np.zeros_like(outside)
    for place, axis in enumerate(order):
        shared_twice = shared_twice + outside * _shared_twice(order[place:], by_axis)
        outside = outside * by_axis[axis].total
    loaded: Integers = outside - shared_twice // 2
    return loaded


def partial_sums_passed_on(order: Order, by_axis: Mapping[int, Lengths], reduction: int) -> Integers:
    """Return the elements of partial sums that the next tile adds to, over all reduction steps."""
    place = order.index(reduction)
    outside = np.ones_like(by_axis[reduction].count)
    for outer in order[:place]:
        outside = outside * by_axis[outer].total
    passed: Integers = outside * _shared_twice(order[place:], by_axis) // 2
    return passed


def _shared_twice(order: Order, by_axis: Mapping[int, Lengths]) -> Integers:
    """Return twice the overlap of tiles that differ along the first axis of `order`, per element outside it."""
    here = by_axis[order[0]]
    even = odd = is_odd = np.ones_like(here.count)
    for inner in order[1:]:
        within = by_axis[inner]
        even, odd = even * within.first, odd * np.where(is_odd == 1, within.last, within.first)
        is_odd = is_odd * (within.count % 2)
    shared: Integers = (even + odd) * here.shared + (odd - even) * here.alternating
    return shared


@dataclass(frozen=True)
class Splits:
    """Candidate splits of an operator: tile sizes along each axis, as indices into `sizes`."""

    geometry: Geometry
    room: SplitRoom
    sizes: tuple[tuple[int, ...], ...]
    indices: tuple[Integers, ...]

    @classmethod
    def of(cls, geometry: Geometry, room: SplitRoom, *, last_resort: bool) -> Splits:
        """Return the splits whose largest operand regions have capacity, with bytes spread freely over scratchpads."""
        every = cls.every(geometry, room, last_resort=last_resort)
        return every.only(every._have_room(every.items()))

    @classmethod
    def every(cls, geometry: Geometry, room: SplitRoom, *, last_resort: bool) -> Splits:
        """Return all splits, without a capacity check."""
        sizes = tuple(
            tile_sizes(axis.size) if last_resort or not axis.is_last_resort else (axis.size,) for axis in geometry.axes
        )
        grids = np.meshgrid(*(np.arange(len(each)) for each in sizes), indexing="ij")
        return cls(geometry, room, sizes, tuple(grid.reshape(-1) for grid in grids))

    def only(self, chosen: npt.NDArray[np.bool_] | Integers) -> Splits:
        """Return the splits selected by a mask or by numbers."""
        return Splits(self.geometry, self.room, self.sizes, tuple(each[chosen] for each in self.indices))

    @property
    def count(self) -> int:
        """Return the number of splits."""
        return len(self.indices[0])

    def tiles(self) -> Integers:
        """Return the number of tiles of each split."""
        made = np.ones(self.count, np.int64)
        for axis, sizes, indices in zip(self.geometry.axes, self.sizes, self.indices, strict=True):
            made = made * np.array([-(-axis.size // size) for size in sizes])[indices]
        return made

    def items(self) -> list[tuple[Operand, Integers]]:
        """Return the bytes of each operand of the largest tile, including an accumulated partial sum."""
        taken = [(access.operand, self._greatest(access)) for access in self.geometry.reads]
        for access in self.geometry.writes:
            taken.append((access.operand, self._greatest(access)))
            if self.geometry.reduction is not None:
                is_split = self.indices[self.geometry.reduction] > 0
                taken.append((Operand.INPUT, self._greatest(access) * is_split))
        return taken

    def that_may_fit(self) -> Splits:
        """Return the splits whose first and last tile have capacity, with bytes spread freely over scratchpads.

        No other split fits, whatever the rounding of tensor tiles. Operands that only some tiles of a sum read or write
        are omitted. For several reads of one tensor only the largest counts, since they may be the same tensor tiles.
        """
        may_fit = np.ones(self.count, np.bool_)
        for end in ("first", "last"):
            most: dict[tuple[str, Operand], Integers] = {}
            for access in (*self.geometry.reads, *self.geometry.writes):
                key, taken = (access.tensor, access.operand), self._taken_at(end, access)
                most[key] = np.maximum(most.get(key, 0), taken)
            items = [(operand, taken) for (_, operand), taken in most.items()]
            may_fit &= self._have_room(items, spread=range(len(items)))
        return self.only(may_fit)

    def _taken_at(self, end: str, access: OperandAccess) -> Integers:
        """Return the bytes that the first or last tile surely takes, without operands of only some tiles of a sum."""
        taken, reduction = np.full(self.count, self._whole(access)), self.geometry.reduction
        for each in self._lengths(access, range(len(self.sizes))).values():
            taken = taken * getattr(each, end)
        if reduction is None or access in self.geometry.writes or any(span.axis == reduction for span in access.spans):
            return taken
        return np.where(self.indices[reduction] > 0, 0, taken)

    def items_at(self, place: int) -> list[tuple[Operand, int]]:
        """Return the bytes of each operand of the largest tile of one split."""
        return [(operand, int(taken[0])) for operand, taken in self.only(np.array([place])).items() if taken[0]]

    def least_traffic(self) -> tuple[Integers, list[Order]]:
        """Return the bytes of DRAM traffic of each split in its best order of axes, and that order."""
        cut = [axis for axis, sizes in enumerate(self.sizes) if len(sizes) > 1]
        orders = list(permutations(cut)) or [()]
        best = np.full(self.count, np.iinfo(np.int64).max)
        chosen = np.zeros(self.count, np.int64)
        holdings = list(self._holdings())
        by_read = [self._lengths(access, cut) for access in self.geometry.reads]
        by_write = [self._lengths(access, cut) for access in self.geometry.writes]
        for number, order in enumerate(orders):
            loaded = [self._loaded(*each, order) for each in zip(self.geometry.reads, by_read, strict=True)]
            written = np.zeros_like(best)
            for access, by_axis in zip(self.geometry.writes, by_write, strict=True):
                written = written + self._written(access, by_axis, order)
            for held, has_room in holdings:
                traffic = written + sum(
                    access.size_bytes if index in held else loaded[index]
                    for index, access in enumerate(self.geometry.reads)
                )
                is_better = has_room & (traffic < best)
                best = np.where(is_better, traffic, best)
                chosen = np.where(is_better, number, chosen)
        return best, [orders[number] for number in chosen]

    def traffic_in(self, order: Order) -> Integers:
        """Return the bytes of DRAM traffic of each split with this axis order, outermost first, nothing held whole."""
        traffic = np.zeros(self.count, np.int64)
        for access in self.geometry.reads:
            traffic = traffic + self._loaded(access, self._lengths(access, order), order)
        for access in self.geometry.writes:
            traffic = traffic + self._written(access, self._lengths(access, order), order)
        return traffic

    def _lengths(self, access: OperandAccess, axes: Sequence[int]) -> dict[int, Lengths]:
        spans = {span.axis: span for span in access.spans}
        return {
            axis: lengths(self.geometry.axes[axis], self.sizes[axis], spans.get(axis)).at(self.indices[axis])
            for axis in axes
        }

    def _whole(self, access: OperandAccess) -> int:
        """Return the bytes per element along the cut axes."""
        return access.element_bytes * prod(span.size for span in access.spans if span.axis is None)

    def _greatest(self, access: OperandAccess) -> Integers:
        greatest = np.full(self.count, self._whole(access))
        for each in self._lengths(access, range(len(self.sizes))).values():
            greatest = greatest * each.greatest
        return greatest

    def _uncut(self, access: OperandAccess) -> int:
        """Return the bytes per element along the axes that have several tile sizes."""
        return access.element_bytes * prod(
            span.size for span in access.spans if span.axis is None or len(self.sizes[span.axis]) == 1
        )

    def _loaded(self, access: OperandAccess, by_axis: Mapping[int, Lengths], order: Order) -> Integers:
        if not order:
            return np.full(self.count, access.size_bytes)
        return self._uncut(access) * elements_loaded(order, by_axis)

    def _written(self, access: OperandAccess, by_axis: Mapping[int, Lengths], order: Order) -> Integers:
        """Return the output's bytes, plus a write and read of each partial sum unless the next tile adds to it."""
        written = np.full(self.count, access.size_bytes)
        reduction = self.geometry.reduction
        if reduction is None or reduction not in order:
            return written
        steps = by_axis[reduction].count - 1
        passed = self._uncut(access) * partial_sums_passed_on(order, by_axis, reduction)
        if self.room.can_pass_on():
            written = written - 2 * passed
        return np.asarray(written + 2 * steps * access.size_bytes, np.int64)

    def _holdings(self) -> Iterator[tuple[frozenset[int], npt.NDArray[np.bool_]]]:
        """Yield sets of inputs held whole, and the splits with capacity for them and the other operands."""
        items = self.items()
        reads = [index for index, access in enumerate(self.geometry.reads) if self._is_worth_holding(access)]
        most = len(reads) if len(reads) <= _MOST_HELD_TOGETHER else 1
        sets = [held for count in range(most + 1) for held in combinations(reads, count)]
        for held in dict.fromkeys((*sets, tuple(reads))):
            if not held:
                yield frozenset(), np.ones(self.count, np.bool_)
                continue
            beside = list(items)
            for index in held:
                access = self.geometry.reads[index]
                beside[index] = (access.operand, np.full(self.count, access.size_bytes))
            yield frozenset(held), self._have_room(beside, spread=held)

    def _is_worth_holding(self, access: OperandAccess) -> bool:
        """Return True if tiles may load a part of the operand twice."""
        used = {span.axis for span in access.spans if span.extent <= span.step and span.per == 1}
        return any(len(sizes) > 1 and axis not in used for axis, sizes in enumerate(self.sizes))

    def _have_room(
        self, items: Sequence[tuple[Operand, Integers]], spread: Sequence[int] = ()
    ) -> npt.NDArray[np.bool_]:
        """Return a necessary condition of a packing: all operands together, and each unless in `spread`, fit."""
        fit = np.ones(self.count, np.bool_)
        for kinds, limit in self.room.limits:
            together = sum((taken for operand, taken in items if operand in kinds), np.zeros(self.count, np.int64))
            fit &= together <= limit
        for index, (operand, taken) in enumerate(items):
            if index not in spread:
                fit &= taken <= self.room.greatest(operand)
        return fit


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
