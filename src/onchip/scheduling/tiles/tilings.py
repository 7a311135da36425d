"""Tilings of a network for one scratchpad: the tiles of each operator and an order of all tiles, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Objective, Problem
from onchip.scheduling.tiles.group_tiles import FusedGroup, FusedGroups
from onchip.scheduling.tiles.search import groups_of_few_tiles, groups_of_least_peak, never
from onchip.transform.slices.emission import counted_geometries


@dataclass(frozen=True, slots=True)
class NetworkTiling:
    """The tiles of the operators that do not run whole, by name, and all tiles by name in execution order.

    `peak_bytes` are the most bytes on chip in that order, without spills.
    """

    tiles: dict[str, OperatorTiles]
    order: tuple[str, ...]
    peak_bytes: int


def tilings(problem: Problem, *, is_model: bool, is_late: Callable[[], bool] = never) -> Iterator[NetworkTiling]:
    """Yield tilings: for the least peak, or in few tiles for the capacity and, if that does not pack, for less.

    If no tiling fits the capacity without spills, that of least peak is the only one. Once `is_late` returns True, the
    search leaves operators whole.
    """
    groups = FusedGroups(problem, counted_geometries(problem, is_model=is_model))
    least = tiling_of(groups, groups_of_least_peak(groups, is_late))
    capacity = problem.memories[0].capacity_bytes
    high = least.peak_bytes if problem.objective is Objective.PEAK else capacity
    high = max(high, least.peak_bytes)
    for limit in dict.fromkeys((high, (least.peak_bytes + high) // 2, least.peak_bytes)):
        found = groups_of_few_tiles(groups, limit, is_late)
        if found is not None:
            yield tiling_of(groups, found)
        elif limit == least.peak_bytes:
            yield least


def least_peak_found(problem: Problem, is_model: bool, is_late: Callable[[], bool] = never) -> int:
    """Return the peak in bytes of the fused groups of least peak, in their own order without spills."""
    groups = FusedGroups(problem, counted_geometries(problem, is_model=is_model))
    return max(group.peak_bytes for group in groups_of_least_peak(groups, is_late))


def tiling_of(groups: FusedGroups, chosen: Sequence[FusedGroup]) -> NetworkTiling:
    """Return the tiling of groups that cover all operators in order."""
    ends: dict[int, list[int]] = {}
    axes: dict[int, int | None] = {}
    order: list[tuple[int, int]] = []
    for group in chosen:
        steps = groups.steps(group)
        axes |= steps.axes
        for number, end in steps.order:
            own = ends.setdefault(number, [])
            order.append((number, len(own)))
            own.append(end)
    tiles = {
        groups.operators[number].name: OperatorTiles(axis, tuple(own))
        for number, own in ends.items()
        if (axis := axes[number]) is not None and len(own) > 1
    }
    names = (groups.operators[number].name for number, _ in order)
    listed = (f"{name}#{tile}" if name in tiles else name for name, (_, tile) in zip(names, order, strict=True))
    return NetworkTiling(tiles, tuple(listed), max(group.peak_bytes for group in chosen))
