"""The search for a partition of a network into fused groups: shortest paths over cuts of the network's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf

from onchip.scheduling.tiles.group_tiles import FINEST, FusedGroup, FusedGroups
from onchip.search.budget.clock import never


def groups_of_least_peak(groups: FusedGroups, is_late: Callable[[], bool] = never) -> tuple[FusedGroup, ...]:
    """Return groups in finest tiles whose greatest peak is least.

    Once `is_late` returns True, the operators left run whole.
    """
    count = len(groups.operators)
    least: list[float] = [0, *[inf] * count]
    chosen: list[FusedGroup] = []
    for stop in range(1, count + 1):
        best = groups.whole(stop - 1)
        least[stop] = max(least[stop - 1], best.peak_bytes) if groups.fits_whole(stop - 1) else inf

        def is_useful(first: int, _: int, stop: int = stop) -> bool:
            return max(least[first], groups.live_bytes[first]) < least[stop]

        for axis in () if is_late() else groups.axes(stop - 1):
            for group in groups.ending_at(stop, axis, FINEST, is_useful):
                peak = max(least[group.first], group.peak_bytes)
                if peak < least[stop]:
                    least[stop], best = peak, group
        chosen.append(best)
    return _path(chosen)


def groups_of_few_tiles(
    groups: FusedGroups, capacity_bytes: int, is_late: Callable[[], bool] = never, *, may_spill: bool = False
) -> tuple[FusedGroup, ...] | None:
    """Return groups that fit the capacity in few tiles, or None if no path of groups fits.

    Groups that `may_spill` let the fewest bytes leave the problem's scratchpad, in the groups' own order. An operator
    that fits runs whole unless a group with an operator that does not fit contains it. Once `is_late` is True, the
    operators left run whole.
    """
    count = len(groups.operators)
    fewest: list[tuple[float, float]] = [(0, 0), *[(inf, inf)] * count]
    chosen: list[FusedGroup | None] = []
    last_large = -1  # the last operator that does not fit whole: useful groups contain one

    def cost_of(group: FusedGroup) -> tuple[float, float]:
        fits, (spilled, tiles) = group.peak_bytes <= capacity_bytes, fewest[group.first]
        return (spilled + group.spilled_bytes * may_spill, tiles + group.tiles) if fits or may_spill else (inf, inf)

    for stop in range(1, count + 1):
        whole, best = groups.whole(stop - 1), None
        if whole.peak_bytes > capacity_bytes or not groups.fits_whole(stop - 1):
            last_large = stop - 1
        if groups.fits_whole(stop - 1) and (cost := cost_of(whole)) < fewest[stop]:
            fewest[stop], best = cost, whole

        def is_useful(first: int, tiles: int, stop: int = stop, last_large: int = last_large) -> bool:
            fits = may_spill or groups.live_bytes[first] <= capacity_bytes
            return first <= last_large and fits and (fewest[first][0], fewest[first][1] + tiles) < fewest[stop]

        for axis in groups.axes(stop - 1) if last_large >= 0 and not is_late() else ():
            for tile in tile_sizes(groups, stop - 1, axis):
                for group in groups.ending_at(stop, axis, tile, is_useful):
                    if (cost := cost_of(group)) < fewest[stop]:
                        fewest[stop], best = cost, group
        chosen.append(best)
    return None if fewest[count][0] == inf else _path(chosen)


@dataclass
class RecomputingGroups:
    """Groups in finest tiles of which some operators are recomputed, and whose peaks are below `most_bytes`.

    Once `is_late` returns True, no further groups are made.
    """

    groups: FusedGroups
    most_bytes: int
    is_late: Callable[[], bool] = never
    found: list[FusedGroup] = field(default_factory=list)

    def __post_init__(self) -> None:
        groups, sets = self.groups, [frozenset[int](), *self.groups.recomputed_sets()]
        for stop in range(1, len(groups.operators) + 1):
            own = [groups.whole(stop - 1)] if groups.fits_whole(stop - 1) else []
            for axis, again in product(() if self.is_late() else groups.axes(stop - 1), sets):
                own += groups.ending_at(stop, axis, FINEST, self._is_useful, again=again)
            self.found += (group for group in own if group.peak_bytes < self.most_bytes)

    def _is_useful(self, first: int, _: int) -> bool:
        return self.groups.live_bytes[first] < self.most_bytes

    def of_least_peak(self, most_macs: float) -> tuple[FusedGroup, ...] | None:
        """Return groups of the least peak found that recompute at most so many multiply-accumulates, or None."""
        peaks, best = sorted({group.peak_bytes for group in self.found}), None
        low, high = 0, len(peaks)
        while low < high:
            middle = (low + high) // 2
            found = self.within(peaks[middle])
            if found is not None and sum(group.macs_again for group in found) <= most_macs:
                best, high = found, middle
            else:
                low = middle + 1
        return best

    def within(self, capacity_bytes: int) -> tuple[FusedGroup, ...] | None:
        """Return groups that fit the capacity and recompute little, in few tiles; None if no path of groups fits."""
        count = len(self.groups.operators)
        least: list[tuple[float, float]] = [(0, 0), *[(inf, inf)] * count]
        chosen: list[FusedGroup | None] = [None] * count
        for group in self.found:
            macs, tiles = least[group.first]
            cost = macs + group.macs_again, tiles + group.tiles
            if group.peak_bytes <= capacity_bytes and cost < least[group.stop]:
                least[group.stop], chosen[group.stop - 1] = cost, group
        if chosen[-1] is None or least[count][0] == inf:
            return None
        return tuple(self._with_less_again(group, capacity_bytes) for group in _path(chosen))

    def _with_less_again(self, group: FusedGroup, capacity_bytes: int) -> FusedGroup:
        """Return the group with fewer recomputed operators, and in the tiles that recompute the least, if these fit."""
        if not group.again:
            return group
        for number in sorted(group.again, key=lambda one: -self.groups.macs[one]):
            other = self.groups.changed(group, group.tile, group.again - {number})
            group = other if other.peak_bytes <= capacity_bytes else group
        assert group.axis is not None
        sizes = tile_sizes(self.groups, group.stop - 1, group.axis)
        others = (self.groups.changed(group, tile, group.again) for tile in sizes)
        fitting = (other for other in others if other.peak_bytes <= capacity_bytes)
        return min((*fitting, group), key=lambda one: (one.macs_again, one.tiles))


def tile_sizes(groups: FusedGroups, number: int, axis: int) -> Sequence[int]:
    """Return the tile sizes that are tried along an axis of an operator: halves of the axis, and the finest."""
    geometry = groups.geometry(number)
    size = 1 if geometry is None else geometry.axes[axis].size
    halves = []
    while size > 1:
        size = -(-size // 2)
        halves.append(size)
    return (*halves, FINEST)


def _path(chosen: Sequence[FusedGroup | None]) -> tuple[FusedGroup, ...]:
    """Return the groups that lead to the last cut; `chosen` are the last groups of the paths to each cut."""
    found: list[FusedGroup] = []
    stop = len(chosen)
    while stop and (group := chosen[stop - 1]) is not None:
        found.append(group)
        stop = group.first
    return tuple(reversed(found))
