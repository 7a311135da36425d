"""Tiles along an axis as bounds need them: of one size, and of many at once; docs/fusion.md has the claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from adversary.fusing import ODD_KINDS, oracle_network
from onchip.bounds.group.tile_axes import AxisGrid
from onchip.errors import InputError
from onchip.ops.fusable import AxisName, BackCalculation, FusableNetwork, SizeTiles, Stack, back_calculation
from onchip.transform.groups.stacks import legal_spans, stack_of
from oracles.fusion import computed
from support.fusion_strategies import random_network
from support.random_schedules import tiny
from support.series import series

SEEDS = pytest.mark.parametrize("seed", series(range(60), 10))


@SEEDS
@pytest.mark.parametrize("axis", AxisName)
@pytest.mark.parametrize("cached", [False, True])
def test_tiles_compute_the_pixels_of_the_oracle(seed: int, axis: AxisName, cached: bool) -> None:
    facts, network = tiny(seed)
    pixels = oracle_network(facts)
    for span in legal_spans(network):
        stack = stack_of(network, span)
        for tile in range(1, axis.pixels(stack.output) + 1):
            run, number = (span.start, span.stop), 0 if axis is AxisName.ROWS else 1
            tiles = computed(pixels, run, tile, number, is_cached=cached)
            grid = AxisGrid(SizeTiles(stack, axis, (tile,), cached))
            assert grid.sees_all(0) is (tiles is not None)
            if tiles is None:
                continue
            for at, layer in enumerate(stack.layers):
                each, found = [len(one[layer.output.name]) for one in tiles], grid.layer(at)
                assert (found.times @ found.computed).tolist() == [sum(each)]
                assert found.computed[found.times[0] > 0].max() == max(each)
                assert found.computed[found.first_class[0]] == each[0]
                assert found.tiles.tolist() == [sum(count > 0 for count in each)]


def each_size(stack: Stack, axis: AxisName, *, cached: bool) -> dict[int, BackCalculation]:
    """Return the pixels for each size in which every tile sees something else than padding."""
    found = {}
    for size in range(1, axis.pixels(stack.output) + 1):
        try:
            found[size] = back_calculation(stack, axis, size, cached=cached)
        except InputError:
            continue
    return found


def assert_alike(grid: AxisGrid, at: int, every: Sequence[BackCalculation]) -> None:
    """Assert that both have as many tiles of each size in which a layer computes and sees equally much."""
    found, layer = grid.layer(at), grid.of_sizes.stack.layers[at]
    stride = grid.of_sizes.axis.window(layer.reads[0]).stride
    for number, one in enumerate(every):
        output, reads = one.maps[layer.output.name], one.reads[at]
        pixels = output.computed.lengths
        outer = -(-reads[0].zeros_before // stride) - (-reads[0].zeros_after // stride)
        seen, cached = [read.seen.lengths for read in reads], [read.cached for read in reads]
        table = np.stack([pixels, *seen, np.maximum(pixels - outer, 0), *cached, output.written])
        own = Counter(map(tuple, table[:, pixels > 0].T.tolist()))
        arrays = np.stack([found.computed, *found.seen, found.inner, *found.cached, found.written])
        times = found.times[number]
        assert own == {tuple(arrays[:, place].tolist()): times[place] for place in np.flatnonzero(times)}
        first = found.first_class[number]
        assert 0 < found.computed[first] == pixels[0]
        assert times[first] > 0
        assert found.new[:, number].tolist() == [int((read.seen.lengths - read.cached).sum()) for read in reads]
        assert found.tiles[number] == (pixels > 0).sum()


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
            for at in range(len(stack.layers)):
                assert_alike(grid, at, list(each.values()))
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
