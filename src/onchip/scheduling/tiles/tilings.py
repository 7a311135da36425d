"""Tilings of a network for one scratchpad: the tiles of each operator and an order of all tiles, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Objective, Problem
from onchip.scheduling.tiles.group_tiles import FusedGroup, FusedGroups
from onchip.scheduling.tiles.search import RecomputingGroups, groups_of_few_tiles, groups_of_least_peak
from onchip.search.budget.clock import never
from onchip.transform.slices.emission import counted_geometries


@dataclass(frozen=True, slots=True)
class NetworkTiling:
    """The tiles of the operators that do not run whole, by name, and all tiles by name in execution order.

    `peak_bytes` are the most bytes on chip in that order, without spills. `macs_again` are the multiply-accumulates
    beyond those of the network.
    """

    tiles: dict[str, OperatorTiles]
    order: tuple[str, ...]
    peak_bytes: int
    macs_again: int = 0


def tilings(
    problem: Problem, *, is_model: bool, is_late: Callable[[], bool] = never, most_again: float = 0.0
) -> Iterator[NetworkTiling]:
    """Yield tilings: for the least peak, or in few tiles for the capacity and, if that does not pack, for less.

    If no tiling fits the capacity without spills, one with few spills precedes those of least peak. Tilings that
    recompute up to the share `most_again` of the network's multiply-accumulates are tried where they need less than all
    others, and where others do not fit. Once `is_late` returns True, the search leaves operators whole.
    """
    groups = FusedGroups(problem, counted_geometries(problem, is_model=is_model))
    least = tiling_of(groups, groups_of_least_peak(groups, is_late))
    capacity = problem.memories[0].capacity_bytes
    high = least.peak_bytes if problem.objective is Objective.PEAK else capacity
    recomputing = list(_recomputing(groups, least.peak_bytes, high, most_again, is_late))
    is_needed = high < least.peak_bytes
    yield from (one for one in recomputing if is_needed and one.peak_bytes <= high)
    if is_needed and (spilling := groups_of_few_tiles(groups, capacity, is_late, may_spill=True)) is not None:
        yield tiling_of(groups, spilling)
    high = max(high, least.peak_bytes)
    for limit in dict.fromkeys((high, (least.peak_bytes + high) // 2, least.peak_bytes)):
        found = groups_of_few_tiles(groups, limit, is_late)
        if found is not None:
            yield tiling_of(groups, found)
        if limit == least.peak_bytes and (found is None or is_needed):
            yield least
    yield from (one for one in recomputing if not (is_needed and one.peak_bytes <= high))


def tilings_within(
    problem: Problem, limits: Callable[[int], Iterable[int]], is_late: Callable[[], bool]
) -> Iterator[NetworkTiling]:
    """Yield a tiling of a model in few tiles for each limit of the peak; `limits` are a function of the least peak."""
    groups = FusedGroups(problem, counted_geometries(problem, is_model=True))
    least = tiling_of(groups, groups_of_least_peak(groups, is_late))
    for limit in limits(least.peak_bytes):
        found = groups_of_few_tiles(groups, limit, is_late)
        yield least if found is None else tiling_of(groups, found)


def _recomputing(
    groups: FusedGroups, least: int, capacity: int, most_again: float, is_late: Callable[[], bool]
) -> Iterator[NetworkTiling]:
    """Yield tilings below the peak of those that recompute nothing, first the one that recomputes least in a capacity.

    None is yielded if a tiling that recomputes nothing fits a capacity below its peak.
    """
    if most_again == 0 or least < capacity:
        return
    found, most_macs = RecomputingGroups(groups, least, is_late), most_again * sum(groups.macs)
    smallest = found.of_least_peak(most_macs)
    for chosen in (smallest,) if capacity == least else (found.within(capacity), smallest):
        if chosen is not None and sum(group.macs_again for group in chosen) <= most_macs:
            yield tiling_of(groups, chosen)


def least_peaks_found(
    problem: Problem, is_model: bool, limits: Sequence[float], is_late: Callable[[], bool] = never
) -> Iterator[tuple[int, int]]:
    """Yield the peak in bytes of the fused groups of least peak, in their own order without spills, by limit.

    A limit is the share of multiply-accumulates that may be recomputed; the second number are those recomputed.
    """
    groups = FusedGroups(problem, counted_geometries(problem, is_model=is_model))
    without = groups_of_least_peak(groups, is_late)
    least = max(group.peak_bytes for group in without)
    recomputing = RecomputingGroups(groups, least, is_late) if any(limits) else None
    for limit in limits:
        chosen = recomputing.of_least_peak(limit * sum(groups.macs)) if recomputing and limit else None
        own = chosen or without
        yield max(group.peak_bytes for group in own), sum(group.macs_again for group in own)


def tiling_of(groups: FusedGroups, chosen: Sequence[FusedGroup]) -> NetworkTiling:
    """Return the tiling of groups that cover all operators in order."""
    ends: dict[int, list[int]] = {at: [] for at in range(len(groups.operators))}
    axes: dict[int, int | None] = {}
    order: list[tuple[int, int]] = []
    again = frozenset(at for group in chosen for at in group.again)
    for group in chosen:
        steps = groups.steps(group)
        axes |= steps.axes
        for number, end in steps.order:
            own = ends[_partitioned(groups, number, again)]
            order.append((number, len(own)))
            if number not in again:
                own.append(end)
    tiles = {
        groups.operators[number].name: OperatorTiles(axis, () if number in again else tuple(own))
        for number, own in ends.items()
        if (axis := axes[number]) is not None and len(ends[_partitioned(groups, number, again)]) > 1
    }
    names = (groups.operators[number].name for number, _ in order)
    listed = (f"{name}#{tile}" if name in tiles else name for name, (_, tile) in zip(names, order, strict=True))
    peak_bytes, macs_again = max(group.peak_bytes for group in chosen), sum(group.macs_again for group in chosen)
    return NetworkTiling(tiles, tuple(listed), peak_bytes, macs_again)


def _partitioned(groups: FusedGroups, number: int, again: frozenset[int]) -> int:
    """Return the operator whose tiles a recomputed operator follows; any other operator is its own."""
    while number in again:
        (use,) = groups.uses[groups.operators[number].outputs[0]]
        number = use.operator
    return number
