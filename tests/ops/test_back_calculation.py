"""Back calculation compared with sets of pixels, propagated one by one from every tile of the output."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod
from random import Random

import pytest

from onchip.errors import InputError
from onchip.ir.window import Window
from onchip.ops.fusable import AxisName, BackCalculation, FeatureMap, Stack, back_calculation, tiled_axis
from support.series import in_one_test
from support.stacks import ONE, addition, chain, convolution, random_stack

SEEDS = range(300)


@dataclass(slots=True)
class Pixels:
    """The pixels of one tile along one axis."""

    wanted: dict[str, set[int]] = field(default_factory=dict)
    computed: dict[str, set[int]] = field(default_factory=dict)
    seen: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    zeros: dict[tuple[int, int], set[int]] = field(default_factory=dict)


def edges(size: int, tile: int) -> list[tuple[int, int]]:
    """Return the tile edges, with the smaller tile first."""
    stops = [size - tile * number for number in range(-(-size // tile))][::-1]
    return list(zip([0, *stops[:-1]], stops, strict=True))


def propagated(stack: Stack, axis: AxisName, tile: int, *, cached: bool) -> list[Pixels]:
    """Propagate pixels: a map's pixel is wanted if a layer reads it, or if it lies between two that a layer reads."""
    done: dict[str, set[int]] = {}
    tiles = []
    for start, stop in edges(axis.pixels(stack.output), tile):
        now = Pixels()
        now.wanted[stack.output.name] = now.computed[stack.output.name] = set(range(start, stop))
        for number in reversed(range(len(stack.layers))):
            layer = stack.layers[number]
            mine = now.computed.setdefault(layer.output.name, _new(now, layer.output, done, cached=cached))
            for at, read in enumerate(layer.reads):
                size = next(axis.pixels(one) for one in maps_of(stack) if one.name == read.source)
                positions = _between(_positions(mine, axis.window(read)))
                now.seen[number, at] = {one for one in positions if 0 <= one < size}
                now.zeros[number, at] = positions - now.seen[number, at]
                now.wanted[read.source] = now.wanted.get(read.source, set()) | now.seen[number, at]
        for source in stack.inputs:
            now.computed[source.name] = _new(now, source, done, cached=cached)
        for name, pixels in now.computed.items():
            done[name] = done.get(name, set()) | pixels
        tiles.append(now)
    return tiles


def _new(now: Pixels, feature_map: FeatureMap, done: dict[str, set[int]], *, cached: bool) -> set[int]:
    """Return the pixels to compute; with caches, those up to the last wanted one that are not computed yet."""
    wanted = _between(now.wanted.get(feature_map.name, set()))
    before = done.get(feature_map.name, set()) if cached else set()
    return _between(wanted | before) - before


def _positions(pixels: set[int], window: Window) -> set[int]:
    return {p * window.stride - window.pad + k * window.dilation for p in pixels for k in range(window.kernel)}


def _between(pixels: set[int]) -> set[int]:
    return set(range(min(pixels), max(pixels) + 1)) if pixels else set()


def maps_of(stack: Stack) -> tuple[FeatureMap, ...]:
    return (*stack.inputs, *(layer.output for layer in stack.layers))


def cases(seed: int) -> tuple[Stack, AxisName, int, bool, BackCalculation, list[Pixels]]:
    """Return a random case in which every tile reads some input."""
    random = Random(seed)
    while True:
        stack = random_stack(random.randrange(1 << 30))
        axis = random.choice(list(AxisName))
        tile, cached = random.randint(1, axis.pixels(stack.output)), random.random() < 0.6
        try:
            found = back_calculation(stack, axis, tile, cached=cached)
        except InputError:
            continue
        return stack, axis, tile, cached, found, propagated(stack, axis, tile, cached=cached)


@in_one_test("seed", SEEDS)
def test_pixels_are_those_of_the_propagation(seed: int) -> None:
    stack, _, _, _, found, tiles = cases(seed)
    for at, tile in enumerate(tiles):
        for one in maps_of(stack):
            use = found.maps[one.name]
            assert set(range(use.computed.starts[at], use.computed.stops[at])) == tile.computed[one.name]
            assert set(range(use.needed.starts[at], use.needed.stops[at])) == _between(tile.wanted[one.name])
        for (number, place), seen in tile.seen.items():
            read = found.reads[number][place]
            assert set(range(read.seen.starts[at], read.seen.stops[at])) == seen
            zeros = tile.zeros[number, place]
            assert read.zeros_before[at] == sum(one < 0 for one in zeros)
            assert read.zeros_after[at] == sum(one > 0 for one in zeros)


@in_one_test("seed", SEEDS)
def test_caches_hold_what_later_tiles_see_of_earlier_ones(seed: int) -> None:
    stack, _, _, cached, found, tiles = cases(seed)
    for one in maps_of(stack):
        use, done, waiting = found.maps[one.name], set[int](), set[int]()
        for at, tile in enumerate(tiles):
            for (number, place), seen in tile.seen.items():
                if stack.layers[number].reads[place].source == one.name:
                    assert found.reads[number][place].cached[at] == (len(seen & done) if cached else 0)
                    assert not cached or seen <= waiting | tile.computed[one.name]
            done |= tile.computed[one.name]
            later = set().union(*(after.wanted[one.name] for after in tiles[at + 1 :])) & done
            before, waiting = waiting, _between(later | {max(done)}) if later and cached else set()
            assert use.kept[at] == len(waiting)
            assert use.written[at] == len(waiting - before)


@in_one_test("seed", SEEDS)
def test_with_caches_each_pixel_is_computed_once(seed: int) -> None:
    random = Random(seed)
    stack = random_stack(seed)
    whole = [back_calculation(stack, axis, axis.pixels(stack.output), cached=False) for axis in AxisName]
    for axis, once in zip(AxisName, whole, strict=True):
        try:
            tiled = back_calculation(stack, axis, random.randint(1, axis.pixels(stack.output)), cached=True)
        except InputError:
            continue
        for name, use in tiled.maps.items():
            assert (use.computed.starts[1:] == use.computed.stops[:-1]).all()
            assert use.computed.lengths.sum() == once.maps[name].computed.lengths.sum()


@in_one_test("seed", range(60))
def test_multiplications_of_tile_classes_match_an_explicit_count(seed: int) -> None:
    """The count is one per tile, layer, computed pixel and product of that pixel, with recomputed overlaps."""
    random = Random(seed)
    stack = random_stack(seed)
    height, width = random.randint(1, stack.output.rows), random.randint(1, stack.output.columns)
    try:
        rows = tiled_axis(stack, AxisName.ROWS, height, cached=False)
        columns = tiled_axis(stack, AxisName.COLUMNS, width, cached=False)
    except InputError:
        return
    counted = 0
    down = propagated(stack, AxisName.ROWS, height, cached=False)
    across = propagated(stack, AxisName.COLUMNS, width, cached=False)
    for above in down:
        for beside in across:
            for layer in stack.layers:
                name = layer.output.name
                pixels = {(row, column) for row in above.computed[name] for column in beside.computed[name]}
                counted += len(pixels) * layer.layer.macs // (layer.output.rows * layer.output.columns)
    by_class = 0
    for row, column in product(rows.order, columns.order):
        for layer in stack.layers:
            name = layer.output.name
            extents = rows.classes[row].maps[name].computed, columns.classes[column].maps[name].computed
            by_class += prod(extents) * layer.layer.macs // (layer.output.rows * layer.output.columns)
    assert by_class == counted


@pytest.mark.parametrize("cached", [False, True])
def test_layer_by_layer_is_one_tile_as_large_as_the_map(cached: bool) -> None:
    stack = chain(9, Window(3, 1, 1, 1), Window(3, 2, 1, 1))
    for axis in AxisName:
        found = tiled_axis(stack, axis, axis.pixels(stack.output), cached=cached)
        assert found.order == (0,)
        assert {name: extent.computed for name, extent in found.classes[0].maps.items()} == {"m0": 9, "m1": 9, "m2": 5}
        assert not any(found.kept.values())


def test_the_smaller_tile_comes_first() -> None:
    found = back_calculation(chain(9, ONE), AxisName.ROWS, 4, cached=False)
    assert found.maps["m1"].computed.lengths.tolist() == [1, 4, 4]


def test_a_skip_connection_waits_in_the_cache_until_the_longer_branch_has_come() -> None:
    """The convolution reads a pixel before the addition does: with tiles of one pixel, one tile earlier."""
    source = FeatureMap("in", 1, 6, 6)
    through = convolution(source, "through", Window(3, 1, 1, 1), Window(3, 1, 1, 1), 1)
    stack = Stack((source,), (through, addition(through.output, source, "sum")))
    found = back_calculation(stack, AxisName.COLUMNS, 1, cached=True)
    assert found.maps["in"].computed.lengths.tolist() == [2, 1, 1, 1, 1, 0]
    assert found.reads[0][0].cached.tolist() == [0, 2, 2, 2, 2, 2]
    assert found.reads[1][1].cached.tolist() == [0, 1, 1, 1, 1, 1]
    assert found.maps["in"].kept.tolist() == [2, 2, 2, 2, 2, 0]


def test_tiles_of_one_pixel_fall_into_few_classes() -> None:
    stack = chain(974, *(Window(3, 1, 1, 1) for _ in range(8)))
    rows, columns = (tiled_axis(stack, axis, 1, cached=True) for axis in AxisName)
    assert len(rows.order) == len(columns.order) == 974
    assert len(rows.classes) * len(columns.classes) < 500


def test_a_tile_larger_than_the_map_is_refused() -> None:
    with pytest.raises(InputError, match="a tile has 9 rows of 'm1'"):
        back_calculation(chain(8, ONE), AxisName.ROWS, 9, cached=False)


def test_a_map_that_nobody_reads_is_refused() -> None:
    source = FeatureMap("in", 1, 6, 6)
    layers = (convolution(source, "lost", ONE, ONE, 1), convolution(source, "out", ONE, ONE, 1))
    with pytest.raises(InputError, match="feature map 'lost': no layer of its stack reads it"):
        back_calculation(Stack((source,), layers), AxisName.ROWS, 2, cached=False)


def test_a_tile_that_sees_nothing_but_padding_is_refused() -> None:
    with pytest.raises(InputError, match="nothing but padding along its rows"):
        back_calculation(chain(6, Window(1, 1, 1, 1)), AxisName.ROWS, 1, cached=False)
