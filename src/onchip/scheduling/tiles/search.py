"""The search for a partition of a network into fused groups: shortest paths over cuts of the network's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from onchip.scheduling.tiles.group_tiles import FINEST, FusedGroup, FusedGroups


def never() -> bool:
    """Return False: no time limit is set."""
    return False


def groups_of_least_peak(groups: FusedGroups, is_late: Callable[[], bool] = never) -> tuple[FusedGroup, ...]:
    """Return groups in finest tiles whose greatest peak is least.

    Once `is_late` returns True, the operators left run whole.
    """
    count = len(groups.operators)
    least: list[float] = [0, *[inf] * count]
    chosen: list[FusedGroup] = []
    for stop in range(1, count + 1):
        best = groups.whole(stop - 1)
        least[stop] = max(least[stop - 1], best.peak_bytes)

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
    groups: FusedGroups, capacity_bytes: int, is_late: Callable[[], bool] = never
) -> tuple[FusedGroup, ...] | None:
    """Return groups that fit the capacity in few tiles, or None if no path of groups fits.

    An operator that fits runs whole unless a group with an operator that does not fit contains it. Once `is_late` is
    True, the operators left run whole.
    """
    count = len(groups.operators)
    fewest: list[float] = [0, *[inf] * count]
    chosen: list[FusedGroup | None] = []
    last_large = -1  # the last operator that does not fit whole: useful groups contain one
    for stop in range(1, count + 1):
        best: FusedGroup | None = groups.whole(stop - 1)
        if best is not None and best.peak_bytes > capacity_bytes:
            best, last_large = None, stop - 1
        else:
            fewest[stop] = fewest[stop - 1] + 1

        def is_useful(first: int, tiles: int, stop: int = stop, last_large: int = last_large) -> bool:
            fits = groups.live_bytes[first] <= capacity_bytes
            return first <= last_large and fits and fewest[first] + tiles < fewest[stop]

        for axis in groups.axes(stop - 1) if last_large >= 0 and not is_late() else ():
            for tile in tile_sizes(groups, stop - 1, axis):
                for group in groups.ending_at(stop, axis, tile, is_useful):
                    tiles = fewest[group.first] + group.tiles
                    if group.peak_bytes <= capacity_bytes and tiles < fewest[stop]:
                        fewest[stop], best = tiles, group
        chosen.append(best)
    return None if fewest[count] == inf else _path(chosen)


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
