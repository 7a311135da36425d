"""The strategy verifier and the cost model agree on tiles and on the memories of their data."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from onchip.answer.stacks import OverlapMode, StackStrategy, Tiling
from onchip.answer.strategy import FusionStrategy
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.model.accounting.conventions import DEFINES, OURS, Conventions
from onchip.model.group.levels import CacheLevels, TiledStack, placement
from onchip.model.group.machine import FusedMachine
from onchip.model.group.tiles import StackTile
from onchip.ops.fusable import AxisName, FusableNetwork, Stack, TileClass, tiled_axis
from onchip.transform.groups.tile_graph import network_to_replay
from onchip.verify.stack.caches import CachePlaces, RunningStack, TiledStackOnChip, running_stacks
from onchip.verify.stack.chip import ChipInUse
from onchip.verify.stack.strips import Axis1D, PaddingAloneError, StackPart, Strip, tiled_length
from support.fused import level, machine
from support.series import with_slow
from support.stacks import random_stack

SEEDS = (*range(150), 603, 908)
"""The seeds: in 603 and 908 the first tile of a row decides, as DeFiNES counts, whether weights find room."""
MODES = tuple(OverlapMode)


def running(stack: Stack, tiling: Tiling) -> RunningStack:
    network = network_to_replay(FusableNetwork("random", stack.inputs, stack.layers))
    names = tuple(layer.name for layer in stack.layers)
    (found,) = running_stacks(network, FusionStrategy((StackStrategy(names, tiling),)))
    return found


def of_strip(one: Strip) -> object:
    maps = {name: (each.needed, each.computed, each.kept, each.written) for name, each in one.maps.items()}
    return maps, [[(each.seen, each.cached, each.before, each.behind) for each in own] for own in one.reads]


def of_class(one: TileClass) -> object:
    maps = {name: (each.needed, each.computed, each.kept, each.written) for name, each in one.maps.items()}
    return maps, [[(each.seen, each.cached, each.zeros_before, each.zeros_after) for each in own] for own in one.reads]


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_along_an_axis_are_those_of_the_back_calculation(seed: int) -> None:
    random, stack = Random(seed), random_stack(seed)
    for axis in AxisName:
        tile, is_cached = random.randint(1, axis.pixels(stack.output)), random.random() < 0.7
        own = running(stack, Tiling(1, 1, OverlapMode.RECOMPUTE))
        along = Axis1D(own.layers, own.inputs, is_rows=axis is AxisName.ROWS)
        try:
            expected = tiled_axis(stack, axis, tile, cached=is_cached)
        except InputError:
            with pytest.raises(PaddingAloneError):
                tiled_length(along, tile, is_cached=is_cached)
            continue
        found = tiled_length(along, tile, is_cached=is_cached)
        assert [of_strip(one) for one in found.strips] == [of_class(one) for one in expected.classes]
        assert (found.order, found.kept, found.whole) == (expected.order, expected.kept, expected.whole)


def random_chip(random: Random) -> Accelerator:
    """Return a chip with features in one to three memories and weights in one or two, of any sizes."""
    features = Operand.INPUT, Operand.OUTPUT
    sizes = sorted(int(2 ** random.uniform(3, 13)) for _ in range(3))
    holds = [random.choice((features, features, tuple(Operand), (Operand.INPUT,), (Operand.OUTPUT,))) for _ in sizes]
    own = level("weights", int(2 ** random.uniform(1, 9)), Operand.WEIGHT)
    return machine(own, *(level(f"m{at}", size, *holds[at]) for at, size in enumerate(sizes)))


def of_part(one: StackPart) -> object:
    made = [(each.map.name, each.elements, each.to_columns, each.to_rows, each.to_both) for each in one.loaded]
    layers = []
    for layer in one.layers:
        own = layer.made
        seen = tuple((each.elements, each.new, each.from_columns, each.from_rows) for each in layer.seen)
        numbers = own.elements, own.to_columns, own.to_rows, own.to_both
        layers.append((layer.number, layer.nest, seen, numbers, layer.layer.is_addition, layer.seen_bits))
    return tuple(made), tuple(layers)


def of_tile(one: StackTile) -> object:
    made = [(each.map.name, each.computed, each.to_columns, each.to_rows, each.to_both) for each in one.inputs]
    layers = []
    for layer in one.layers:
        own = layer.made
        seen = tuple((each.all, each.new, each.from_columns, each.from_rows) for each in layer.seen)
        numbers = own.computed, own.to_columns, own.to_rows, own.to_both
        layers.append((layer.at, layer.layer, seen, numbers, layer.is_addition, layer.seen_bits))
    return tuple(made), tuple(layers)


def places(one: CachePlaces | CacheLevels) -> tuple[str | None, ...]:
    return one.columns_from, one.columns_to, one.rows_from, one.rows_to


@pytest.mark.parametrize("conventions", [OURS, DEFINES])
@pytest.mark.parametrize("seed", with_slow(SEEDS, lambda seed: seed < 150 and seed % 5))
def test_tiles_and_the_places_of_caches_and_weights_are_those_of_the_cost_model(
    seed: int, conventions: Conventions
) -> None:
    random, stack = Random(seed), random_stack(seed)
    output, mode = stack.output, random.choice(MODES[1:] * 3 + MODES[:1])
    tiling = Tiling(random.randint(1, output.columns), random.randint(1, output.rows), mode)
    try:
        rows = tiled_axis(stack, AxisName.ROWS, tiling.rows, cached=mode.caches_rows)
        columns = tiled_axis(stack, AxisName.COLUMNS, tiling.columns, cached=mode.caches_columns)
        measured = tiled_axis(stack, AxisName.ROWS, tiling.rows, cached=True) if conventions == DEFINES else rows
    except InputError:
        return
    for _ in range(12):
        accelerator = random_chip(random)
        taken = {level.memory.name: 8 * random.choice((0, 0, 7, 40)) for level in accelerator.levels}
        tiled = TiledStack(stack, mode, rows, columns, measured, conventions)
        expected = placement(tiled, FusedMachine(accelerator, taken_bits=taken))
        found = TiledStackOnChip(
            running(stack, tiling), ChipInUse(accelerator, taken), as_defines=conventions == DEFINES
        )
        assert found.weights() == expected.weights
        ours, theirs = Counter[object](), Counter[object]()
        for one in found.tiles():
            ours[of_part(one.part), places(one.caches), one.is_first] += one.times
        for other in expected.tiles:
            tile = of_tile(tiled.tile(other.rows, other.columns))
            theirs[tile, places(other.caches), other.is_first_tile] += other.times
        assert ours == theirs
