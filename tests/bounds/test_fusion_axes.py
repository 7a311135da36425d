"""Tiles along an axis as bounds need them: of a size, of many at once, of ranges; docs/fusion.md has the claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from adversary.fusing import ODD_KINDS, oracle_network
from onchip.bounds.group.axis_grids import AxisGrid, LayerAxis
from onchip.bounds.group.seen_shares import skips_nothing
from onchip.bounds.group.size_tiles import SizeTiles
from onchip.bounds.group.tile_ranges import SizeRange, paced_alike, range_totals
from onchip.bounds.group.tile_totals import AxisTotals, LayerTotals, axis_totals
from onchip.errors import InputError
from onchip.ops.fusable import AxisName, FusableNetwork, Stack
from onchip.transform.groups.stacks import legal_spans, stack_of
from oracles.fused_pixels import computed
from support.replayed import random_network
from support.series import series
from support.tiny_networks import tiny

SEEDS = pytest.mark.parametrize("seed", series(range(60), 10))


@SEEDS
@pytest.mark.parametrize("axis", AxisName)
@pytest.mark.parametrize("cached", [False, True])
def test_totals_of_tiles_are_those_of_their_pixels(seed: int, axis: AxisName, cached: bool) -> None:
    facts, network = tiny(seed)
    pixels = oracle_network(facts)
    for span in legal_spans(network):
        stack = stack_of(network, span)
        for tile in range(1, axis.pixels(stack.output) + 1):
            run, number = (span.start, span.stop), 0 if axis is AxisName.ROWS else 1
            tiles = computed(pixels, run, tile, number, is_cached=cached)
            try:
                found = axis_totals(stack, axis, tile, cached=cached)
            except InputError:
                assert tiles is None
                continue
            assert tiles is not None
            for layer in stack.layers:
                each = [len(one[layer.output.name]) for one in tiles]
                totals = found.layers[layer.name]
                assert (totals.computed, totals.most, totals.first) == (sum(each), max(each), each[0])
                assert totals.tiles == sum(count > 0 for count in each)


@SEEDS
@pytest.mark.parametrize("cached", [False, True])
def test_rows_and_columns_of_what_is_square_have_the_same_totals(seed: int, cached: bool) -> None:
    _, network = tiny(3000 + seed)
    maps = {name: replace(one, columns=one.rows) for name, one in network.maps.items()}
    layers = tuple(
        replace(
            layer, output=maps[layer.output.name], reads=tuple(replace(one, columns=one.rows) for one in layer.reads)
        )
        for layer in network.layers
    )
    square = replace(network, inputs=tuple(maps[one.name] for one in network.inputs), layers=layers)
    for span in legal_spans(square):
        stack = stack_of(square, span)
        assert stack.is_square
        for tile in range(1, stack.output.rows + 1):
            try:
                rows = axis_totals(stack, AxisName.ROWS, tile, cached=cached)
            except InputError:
                continue
            assert axis_totals(stack, AxisName.COLUMNS, tile, cached=cached) == rows


def smallest_of_a_range(stack: Stack, axis: AxisName, *, cached: bool) -> Iterator[tuple[SizeRange, list[int]]]:
    """Ranges of sizes, and the sizes in them of which every tile sees something."""
    pixels = axis.pixels(stack.output)

    def sees(size: int) -> bool:
        try:
            axis_totals(stack, axis, size, cached=cached)
        except InputError:
            return False
        return True

    seeing = [size for size in range(1, pixels + 1) if sees(size)]
    for least, most in pairwise(sorted({1, *seeing, pixels})):
        yield SizeRange(least, most, pixels), [size for size in seeing if least <= size <= most]
    yield SizeRange(1, pixels, pixels), seeing


def is_at_most(least: LayerTotals, own: LayerTotals) -> bool:
    """What a range says of all its sizes is true of one."""
    reads = range(len(own.cached))
    return (
        least.computed <= own.computed
        and least.most >= own.most
        and least.tiles <= own.tiles
        and least.inner <= own.inner
        and all(least.new(read) <= own.new(read) for read in reads)
        and all(least.total[1][read] <= own.total[1][read] for read in reads)
    )


@SEEDS
@pytest.mark.parametrize("axis", AxisName)
@pytest.mark.parametrize("cached", [False, True])
def test_a_range_of_sizes_says_less_than_each_of_them(seed: int, axis: AxisName, cached: bool) -> None:
    _, network = tiny(1000 + seed)
    for span in legal_spans(network):
        stack = stack_of(network, span)
        if not (skips_nothing(stack) and paced_alike(stack)):
            continue
        try:
            whole = axis_totals(stack, axis, axis.pixels(stack.output), cached=False)
        except InputError:
            continue
        for sizes, seeing in smallest_of_a_range(stack, axis, cached=cached):
            ranged = range_totals(stack, axis, sizes, whole, cached=cached)
            for size in seeing:
                own = axis_totals(stack, axis, size, cached=cached)
                for layer in stack.layers:
                    assert is_at_most(ranged.layers[layer.name], own.layers[layer.name]), (span, sizes, size)


def each_size(stack: Stack, axis: AxisName, *, cached: bool) -> dict[int, AxisTotals]:
    """Totals of each size in which every tile sees something else than padding."""
    found = {}
    for size in range(1, axis.pixels(stack.output) + 1):
        try:
            found[size] = axis_totals(stack, axis, size, cached=cached)
        except InputError:
            continue
    return found


def assert_alike(found: LayerAxis, every: list[LayerTotals]) -> None:
    """Both count as many tiles of each size of which a layer computes and sees equally much."""
    for at, totals in enumerate(every):
        mine = {
            (
                found.computed[one],
                tuple(found.seen[:, one]),
                found.inner[one],
                tuple(found.cached[:, one]),
                found.written[one],
            ): found.times[at, one]
            for one in np.flatnonzero(found.times[at])
        }
        own = {(one.computed, one.seen, one.inner, one.cached, one.written): one.times for one in totals.slices}
        assert mine == own
        first = found.first_class[at]
        assert 0 < found.computed[first] == totals.first
        assert found.times[at, first] > 0
        assert tuple(found.new[:, at]) == tuple(totals.new(read) for read in range(len(totals.cached)))
    assert found.tiles.tolist() == [one.tiles for one in every]


def networks(seed: int) -> tuple[FusableNetwork, ...]:
    return random_network(seed), tiny(4000 + seed, ODD_KINDS)[1]


@SEEDS
@pytest.mark.parametrize("axis", AxisName)
@pytest.mark.parametrize("cached", [False, True])
def test_tiles_of_many_sizes_told_together_are_those_of_each(seed: int, axis: AxisName, cached: bool) -> None:
    for network in networks(seed):
        for span in legal_spans(network):
            stack = stack_of(network, span)
            if stack.layers[0].runs_alone or not (each := each_size(stack, axis, cached=cached)):
                continue
            grid = AxisGrid(SizeTiles(stack, axis, tuple(each), cached))
            assert grid.sees_all(0)
            for at, layer in enumerate(stack.layers):
                assert_alike(grid.layer(at), [one.layers[layer.name] for one in each.values()])
            for name in next(iter(each.values())).kept:
                assert grid.kept(name).tolist() == [one.kept[name] for one in each.values()]
                assert grid.whole(name).tolist() == [one.whole[name] for one in each.values()]


@SEEDS
@pytest.mark.parametrize("axis", AxisName)
@pytest.mark.parametrize("cached", [False, True])
def test_of_a_stack_s_end_all_tiles_see_something_where_they_do_of_the_stack(
    seed: int, axis: AxisName, cached: bool
) -> None:
    """Asked layer by layer, from the last one on, in whatever stack the layers end."""
    for network in networks(seed):
        for span in legal_spans(network):
            stack = stack_of(network, span)
            if stack.layers[0].runs_alone:
                continue
            sizes = tuple(range(1, axis.pixels(stack.output) + 1))
            grid = AxisGrid(SizeTiles(stack, axis, sizes, cached))
            seen = [grid.sees_all(at) for at in reversed(range(len(stack.layers)))]
            assert seen == sorted(seen, reverse=True)
            assert seen[-1] is (len(each_size(stack, axis, cached=cached)) == len(sizes))
