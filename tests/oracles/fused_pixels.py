"""A small network of layers, and the pixels that its tiles compute and read, one by one, as docs/fused.md says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final, TypeAlias

DRAM: Final = "dram"

Run: TypeAlias = tuple[int, int]
"""A stack: the index of its first layer, and the index after its last."""
Tile: TypeAlias = tuple[int, int, str]
"""Columns, rows, overlap mode."""


@dataclass(frozen=True, slots=True)
class Window:
    """A layer's window over a map along an axis: pixel `x` reads `x * stride - pad + tap * dilation`.

    Positions are counted over pixels that are each repeated `repeat` times in a row.
    """

    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pad: int = 0
    repeat: int = 1

    def taps(self, pixel: int) -> list[int]:
        """Return the positions read, stored or not."""
        places = [pixel * self.stride - self.pad + tap * self.dilation for tap in range(self.kernel)]
        return [place // self.repeat for place in places]


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer whose output has `channels` x `size` (rows, columns) elements; `reads` are map names with their windows.

    A layer that `runs_alone` is a stack in one tile. `part` is the first channel and the number of channels that it
    reads.
    """

    name: str
    output: str
    reads: tuple[tuple[str, tuple[Window, Window]], ...]
    channels: int
    size: tuple[int, int]
    macs_per_pixel: int
    weights: int = 0
    is_output: bool = False
    runs_alone: bool = False
    part: tuple[int, int] | None = None

    def channels_of(self, channels: int) -> range:
        """Return the channels that it reads of a map with that many channels."""
        first, count = self.part or (0, channels)
        return range(first, first + count)


@dataclass(frozen=True, slots=True)
class Network:
    """Layers in order; `inputs` gives channels, rows and columns by name. Every element has 8 bits."""

    inputs: Mapping[str, tuple[int, int, int]]
    layers: tuple[Layer, ...]

    def shape(self, name: str) -> tuple[int, int, int]:
        """Return channels, rows and columns of a map."""
        made = {one.output: (one.channels, *one.size) for one in self.layers}
        return made[name] if name in made else self.inputs[name]

    def bits(self, name: str) -> int:
        """Return the bits of a whole map."""
        return 8 * prod(self.shape(name))

    def readers(self, name: str) -> list[int]:
        """Return the indices of the layers that read a map."""
        return [at for at, layer in enumerate(self.layers) if name in [source for source, _ in layer.reads]]


def computed(network: Network, run: Run, tile: int, axis: int, *, is_cached: bool) -> list[dict[str, list[int]]] | None:
    """Return rows (axis 0) or columns (1) of each map that each tile computes or loads; None if one sees only padding.

    The first tile is the smaller one. A tile computes all pixels from the first to the last one seen; with a cache it
    starts at the end of the previous tile.
    """
    layers = network.layers[run[0] : run[1]]
    length = layers[-1].size[axis]
    first = length % tile or tile
    ends = [first + tile * number for number in range((length - first) // tile + 1)]
    tiles = [{layers[-1].output: list(range(max(end - tile, 0), end))} for end in ends]
    names = [*(layer.output for layer in reversed(layers[:-1])), *_from_outside(layers)]
    for name in names:
        done = None
        for own in tiles:
            seen = [_seen(network, layer, windows[axis], own, name, axis) for layer, windows in _readers(layers, name)]
            if any(one is not None and not one for one in seen):
                return None
            positions = [position for one in seen if one for position in one]
            begin = min(positions, default=0) if done is None or not is_cached else done
            end = max(positions, default=-1) + 1
            end = end if done is None or not is_cached else max(end, done)
            own[name] = list(range(begin, end))
            done = end
    return tiles


def _from_outside(layers: Sequence[Layer]) -> list[str]:
    inside = {layer.output for layer in layers}
    return list(dict.fromkeys(name for layer in layers for name, _ in layer.reads if name not in inside))


def _readers(layers: Sequence[Layer], name: str) -> list[tuple[Layer, tuple[Window, Window]]]:
    return [(layer, windows) for layer in layers for source, windows in layer.reads if source == name]


def _seen(
    network: Network, layer: Layer, window: Window, own: Mapping[str, list[int]], name: str, axis: int
) -> list[int] | None:
    """Return the stored positions from the first to the last that a layer reads in a tile.

    Returns None if the layer computes nothing in the tile.
    """
    pixels = own[layer.output]
    if not pixels:
        return None
    begin, end = window.taps(pixels[0])[0], window.taps(pixels[-1])[-1]
    return [position for position in range(begin, end + 1) if 0 <= position < network.shape(name)[1 + axis]]


def tiles_in(network: Network, run: Run, tile: Tile) -> list[tuple[dict[str, list[int]], dict[str, list[int]]]] | None:
    """Return rows and columns of every map in every tile of a stack; None if one sees only padding."""
    down = computed(network, run, tile[1], 0, is_cached=tile[2] == "fully-cached")
    across = computed(network, run, tile[0], 1, is_cached=tile[2] != "recompute")
    return None if down is None or across is None else list(product(down, across))


def macs(network: Network, run: Run, tile: Tile) -> int | None:
    """Return the multiply-accumulates of a stack, recomputation included; checks that tiles cover the output once."""
    tiles = tiles_in(network, run, tile)
    if tiles is None:
        return None
    last = network.layers[run[1] - 1]
    covered = [pixel for down, across in tiles for pixel in product(down[last.output], across[last.output])]
    assert sorted(covered) == list(product(*map(range, last.size)))
    return sum(
        layer.macs_per_pixel * len(down[layer.output]) * len(across[layer.output])
        for down, across in tiles
        for layer in network.layers[run[0] : run[1]]
    )


def dram_bits(network: Network, stacks: Sequence[tuple[Run, Tile, str]], *, is_roomy: bool) -> int:
    """Return the least DRAM traffic: elements read of inputs, weights and outputs once.

    With `is_roomy` it is the traffic with unlimited capacity on chip: each tile loads the pixels that it has not
    cached.
    """
    total, homes = 0, {network.layers[run[1] - 1].output: home for run, _, home in stacks}
    for run, tile, home in stacks:
        layers = network.layers[run[0] : run[1]]
        total += sum(layer.weights for layer in layers)
        total += prod(network.shape(layers[-1].output)) if home == DRAM else 0
        tiles = tiles_in(network, run, tile) or []
        for name in _from_outside(layers):
            if homes.get(name, DRAM) != DRAM:
                continue
            if is_roomy:
                pixels = sum(len(down[name]) * len(across[name]) for down, across in tiles)
                total += pixels * network.shape(name)[0]
            else:
                total += len(_touched(network, layers, name, tiles))
    return 8 * total


def _touched(
    network: Network,
    layers: Sequence[Layer],
    name: str,
    tiles: Sequence[tuple[dict[str, list[int]], dict[str, list[int]]]],
) -> set[tuple[int, int, int]]:
    """Return the elements of a map that are an operand of some product: channel, row and column."""
    channels, rows, columns = network.shape(name)
    return {
        element
        for down, across in tiles
        for layer, (above, beside) in _readers(layers, name)
        for element in product(
            layer.channels_of(channels),
            _taken(down[layer.output], above, rows),
            _taken(across[layer.output], beside, columns),
        )
    }


def _taken(pixels: Sequence[int], window: Window, size: int) -> set[int]:
    return {position for pixel in pixels for position in window.taps(pixel) if 0 <= position < size}
