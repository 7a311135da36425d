"""Memories of the caches and the weights of a small stack, computed by hand to the bit.

One layer of 3 x 3 over a map of 4 x 4, padded, in tiles of 2 x 2. Every tile reads 9 elements of 8 bits and makes 4.
Two of 3 pixels wait along each axis: 2 x 3 = 6 elements to the right of a tile, 2 x 4 = 8 below a row of tiles, and
2 x 2 = 4 in both.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.fused_network import FusedNetwork, MapInNetwork, NestInNetwork
from onchip.answer.stacks import OverlapMode, StackStrategy, Tiling
from onchip.answer.strategy import FusionStrategy
from onchip.arch.memory import Operand
from onchip.ir.layer import Layer
from onchip.ir.window import Window
from onchip.ops.fusable import FusableLayer, FusableNetwork
from onchip.transform.groups.tile_graph import network_to_replay
from onchip.verify.stack.caches import TiledStackOnChip, most_alive_bits, running_stacks
from onchip.verify.stack.chip import ChipInUse
from onchip.verify.stack.strips import ComputedPart, LayerPart, SeenPart, StackPart
from support.fused import level, machine
from support.stacks import ONE, chain

FEATURES = Operand.INPUT, Operand.OUTPUT
SEEN_AND_MADE, BESIDE, BELOW, IN_BOTH = 13, 6, 8, 4


def with_weight_bits(layer: FusableLayer, all_weights: int, each: int = 8) -> FusableLayer:
    return replace(layer, layer=replace(layer.layer, weight_bits=each), weight_bits=all_weights)


def tiled(chip: ChipInUse, mode: OverlapMode, layers: tuple[FusableLayer, ...]) -> TiledStackOnChip:
    inputs = chain(4, ONE).inputs
    network: FusedNetwork = network_to_replay(FusableNetwork("small", inputs, layers))
    names = tuple(layer.name for layer in layers)
    (stack,) = running_stacks(network, FusionStrategy((StackStrategy(names, Tiling(2, 2, mode)),)))
    return TiledStackOnChip(stack, chip)


def three_by_three(chip: ChipInUse, mode: OverlapMode, weight_bits: int = 72) -> TiledStackOnChip:
    (layer,) = chain(4, Window(3, 1, 1, 1)).layers
    return tiled(chip, mode, (with_weight_bits(layer, weight_bits),))


def chip_of(near: int, shared: int, taken_bits: int = 0) -> ChipInUse:
    """Return a chip with two memories of features of the given bytes; the larger one may hold weights, too."""
    levels = level("weights", 1, Operand.WEIGHT), level("near", near, *FEATURES), level("shared", shared)
    return ChipInUse(machine(*levels), {"near": taken_bits})


@pytest.mark.parametrize(("taken_bits", "place"), [(0, "near"), (1, "shared")])
def test_columns_are_cached_where_all_that_is_alive_fits_to_the_bit(taken_bits: int, place: str) -> None:
    chip = chip_of(SEEN_AND_MADE + BESIDE, 100, taken_bits)
    found = three_by_three(chip, OverlapMode.H_CACHED)
    assert {one.caches.columns_to for one in found.tiles()} == {None, place}


@pytest.mark.parametrize(("taken_bits", "place"), [(0, "near"), (1, "shared")])
def test_rows_are_cached_beside_columns_without_what_is_in_both(taken_bits: int, place: str) -> None:
    chip = chip_of(SEEN_AND_MADE + BESIDE + BELOW - IN_BOTH, 100, taken_bits)
    found = list(three_by_three(chip, OverlapMode.FULLY_CACHED).tiles())
    assert {one.caches.rows_to for one in found} == {None, place}
    assert {one.caches.columns_to for one in found} == {None, "near"}


@pytest.mark.parametrize(("more_bits", "place"), [(0, "shared"), (1, "dram")])
def test_rows_cached_apart_from_columns_leave_no_corner_to_weights(more_bits: int, place: str) -> None:
    """The shared memory has 30 bytes; live data and both caches take 27, and 24 bits are left."""
    chip = chip_of(SEEN_AND_MADE + BESIDE, SEEN_AND_MADE + BESIDE + BELOW + 3)
    found = three_by_three(chip, OverlapMode.FULLY_CACHED, 24 + more_bits)
    assert {one.caches.rows_to for one in found.tiles()} == {None, "shared"}
    assert found.weights() == (place,)


@pytest.mark.parametrize(("more_bits", "place"), [(0, "shared"), (1, "dram")])
def test_rows_cached_beside_columns_leave_the_corner_to_weights(more_bits: int, place: str) -> None:
    """The near memory is too small; the shared memory of 30 bytes holds the corner once, and 56 bits are left."""
    chip = chip_of(1, SEEN_AND_MADE + BESIDE + BELOW + 3)
    assert three_by_three(chip, OverlapMode.FULLY_CACHED, 56 + more_bits).weights() == (place,)


@pytest.mark.parametrize(("bits", "place"), [(64, "weights"), (65, "dram")])
def test_weights_that_stay_leave_room_for_the_widest_weight(bits: int, place: str) -> None:
    """The single unit has 80 bits; the second layer's weights take 16 and leave 64."""
    first, second = chain(4, ONE, ONE).layers
    chip = ChipInUse(machine(level("weights", 10, Operand.WEIGHT), level("near", 100, *FEATURES)), {})
    layers = with_weight_bits(first, bits), with_weight_bits(second, 320, 16)
    assert tiled(chip, OverlapMode.RECOMPUTE, layers).weights() == (place, "dram")


def test_a_map_that_no_layer_of_a_tile_reads_waits() -> None:
    """The tile has 5 waiting elements, 3 that a layer reads, and 2 that it makes."""
    unread, read, made = (MapInNetwork(name, 1, 1, size, 8) for name, size in (("z", 5), ("x", 3), ("y", 2)))
    nest = Layer(q=2)
    layer = LayerPart(
        0, NestInNetwork("a", nest, (), made, 8), nest, (SeenPart(read, 3, 3, 3, 0, 0),), ComputedPart(made, 2, 0, 0, 0)
    )
    loaded = ComputedPart(unread, 5, 0, 0, 0), ComputedPart(read, 3, 0, 0, 0)
    assert most_alive_bits(StackPart(loaded, (layer,)), {}) == 8 * (5 + 3 + 2)
