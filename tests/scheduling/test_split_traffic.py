"""The traffic of a split, and the split of least traffic, against counting tile by tile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.arch.memory import Memory, Operand
from onchip.ir.tile import Region, size_of
from onchip.model.capacity.room import Item, SplitRoom
from onchip.ops.entries import geometry_of
from onchip.ops.slicing import Geometry, OperandAccess, tile_sizes, tiles_in_order
from onchip.scheduling.candidates.choice import Chooser, Splits
from support.series import HALVES
from support.tiled import networks

Taken = list[tuple[Region | None, ...]]


def common(one: Region, other: Region) -> int:
    """Return the number of elements in both regions."""
    return prod(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in zip(one, other, strict=True))


def loaded_bytes(regions: list[Region | None], element_bytes: int) -> int:
    """Each tile's region, less what the tile before had of it."""
    total, before = 0, None
    for region in regions:
        if region is not None:
            total += size_of(region) - (common(region, before) if before is not None else 0)
        before = region
    return total * element_bytes


def sums_bytes(
    geometry: Geometry, access: OperandAccess, tiles: tuple[tuple[tuple[int, int], ...], ...], passes: bool
) -> int:
    """Partial sums written and read again, but those that the very next tile adds to."""
    total, before, seen = 0, None, set()
    for tile in tiles:
        region = access.region(tile, geometry.axes)
        if region is not None and region in seen and not (passes and region == before):
            total += 2 * size_of(region) * access.element_bytes
        seen.add(region)
        before = region
    return total


def counted_traffic(
    geometry: Geometry, sizes: tuple[int, ...], order: tuple[int, ...], sets: Sequence[frozenset[int]], passes: bool
) -> list[int]:
    """With each set of operands held."""
    tiles = tiles_in_order(geometry, sizes, order)
    loads = [
        loaded_bytes([access.region(tile, geometry.axes) for tile in tiles], access.element_bytes)
        for access in geometry.reads
    ]
    written = sum(access.size_bytes + sums_bytes(geometry, access, tiles, passes) for access in geometry.writes)
    return [
        written + sum(one.size_bytes if at in held else loads[at] for at, one in enumerate(geometry.reads))
        for held in sets
    ]


def greatest_items(geometry: Geometry, sizes: tuple[int, ...]) -> list[Item]:
    tiles = tiles_in_order(geometry, sizes, range(len(sizes)))

    def greatest(access: OperandAccess) -> int:
        found = [access.region(tile, geometry.axes) for tile in tiles]
        return max((size_of(region) for region in found if region is not None), default=0) * access.element_bytes

    items = [(access.operand, greatest(access)) for access in (*geometry.reads, *geometry.writes)]
    reduction = geometry.reduction
    if reduction is not None and sizes[reduction] < geometry.axes[reduction].size:
        items += [(Operand.INPUT, greatest(access)) for access in geometry.writes]
    return items


def may_be_held(room: SplitRoom, items: list[Item], held: frozenset[int], geometry: Geometry) -> bool:
    """What is held may be spread over the scratchpads, as may the rest: bytes of each kind have room, and each tile."""
    beside = [
        (kind, geometry.reads[index].size_bytes if index in held else size) for index, (kind, size) in enumerate(items)
    ]
    for kinds in (each for count in (1, 2, 3) for each in combinations(Operand, count)):
        if sum(size for kind, size in beside if kind in kinds) > room.holding(kinds):
            return False
    return all(size <= room.greatest(kind) for index, (kind, size) in enumerate(beside) if index not in held)


def least_traffic_by_hand(geometry: Geometry, room: SplitRoom) -> int | None:
    """Over every tile size, order of axes and set of operands held; axes of last resort only if need be."""
    for last_resort in (False, True):
        choices = [
            tile_sizes(axis.size) if last_resort or not axis.is_last_resort else (axis.size,) for axis in geometry.axes
        ]
        found = []
        for sizes in product(*choices):
            items = greatest_items(geometry, sizes)
            if not room.holds([item for item in items if item[1]]):
                continue
            reads = range(len(geometry.reads))
            sets = [frozenset(each) for count in range(len(reads) + 1) for each in combinations(reads, count)]
            possible = [held for held in sets if may_be_held(room, items, held, geometry)]
            cut = [axis for axis, size in enumerate(sizes) if size < geometry.axes[axis].size]
            found += [
                traffic
                for order in permutations(cut)
                for traffic in counted_traffic(
                    geometry,
                    sizes,
                    (*(a for a in range(len(sizes)) if a not in cut), *order),
                    possible,
                    room.can_pass_on(),
                )
            ]
        if found:
            return min(found)
    return None


def geometries(graph_and: st.DataObject) -> list[Geometry]:
    graph = graph_and.draw(networks(2))
    found = [geometry_of(operator, graph, is_model=False) for operator in graph.operators]
    return [geometry for geometry in found if geometry is not None]


def ample() -> SplitRoom:
    return SplitRoom.of((Memory("sram", 2**30),))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_traffic_in_closed_form_is_that_counted_tile_by_tile(data: st.DataObject) -> None:
    for geometry in geometries(data):
        every = Splits.of(geometry, ample(), last_resort=True)
        at = data.draw(st.integers(0, every.count - 1))
        one = every.only(np.array([at]))
        sizes = tuple(each[int(index[0])] for each, index in zip(one.sizes, one.indices, strict=True))
        cut = [axis for axis, each in enumerate(one.sizes) if len(each) > 1]
        order = tuple(data.draw(st.permutations(cut)))
        outer = tuple(axis for axis in range(len(sizes)) if axis not in order)
        expected = counted_traffic(geometry, sizes, (*outer, *order), [frozenset()], passes=True)[0]
        assert int(one.traffic_in(order)[0]) == expected


@HALVES
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_no_split_has_less_traffic(half: int, data: st.DataObject) -> None:
    capacities = data.draw(st.lists(st.sampled_from((24, 48, 96, 200)), min_size=1, max_size=3))
    memories = tuple(Memory(f"s{at}", size) for at, size in enumerate(capacities))
    if data.draw(st.booleans()):
        memories = tuple(Memory(kind.value, capacities[0], holds=(kind,)) for kind in Operand)
    room = SplitRoom.of(memories)
    for geometry in geometries(data):
        if np.prod([len(tile_sizes(axis.size)) for axis in geometry.axes]) > 200 or len(geometry.reads) > 3:
            continue
        cuts = {access.tensor: [set[int]() for _ in access.spans] for access in (*geometry.reads, *geometry.writes)}
        split = Chooser().split_of_least_traffic(geometry, room, cuts)
        assert (None if split is None else split.traffic_bytes) == least_traffic_by_hand(geometry, room)


@pytest.mark.parametrize(
    ("sizes", "capacities", "fits"),
    [
        ((5, 5, 5), (5, 5, 5), True),
        ((5, 5, 5), (10, 5), True),
        ((6, 5, 5), (10, 5), False),
        ((4, 4, 3, 3, 3, 3), (10, 10), True),
        ((4, 4, 4, 4, 4), (10, 10), False),
    ],
)
def test_operands_lie_each_in_one_scratchpad(sizes: tuple[int, ...], capacities: tuple[int, ...], fits: bool) -> None:
    room = SplitRoom.of(tuple(Memory(f"s{at}", size) for at, size in enumerate(capacities)))
    assert room.holds([(Operand.INPUT, size) for size in sizes]) is fits


def test_an_operand_has_room_only_where_it_is_held() -> None:
    room = SplitRoom.of(
        (Memory("a", 9, holds=(Operand.INPUT, Operand.WEIGHT)), Memory("b", 9, holds=(Operand.OUTPUT,)))
    )
    assert room.holds([(Operand.INPUT, 4), (Operand.WEIGHT, 5), (Operand.OUTPUT, 9)])
    assert not room.holds([(Operand.INPUT, 4), (Operand.WEIGHT, 6), (Operand.OUTPUT, 3)])


def test_the_topmost_operand_is_not_rounded_up() -> None:
    room = SplitRoom.of((Memory("a", 21, 8),))
    assert room.holds([(Operand.INPUT, 13), (Operand.OUTPUT, 5)])
    assert not room.holds([(Operand.INPUT, 14), (Operand.OUTPUT, 6)])
