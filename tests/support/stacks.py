"""Small stacks of layers, some of them random: strides, padding, dilation, pools, branches that are added."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from onchip.answer.options.verb_options import FusionOptions, TileSizes
from onchip.answer.stacks import Tiling
from onchip.ir.layer import Layer
from onchip.ir.window import Window
from onchip.ops.fusable import FeatureMap, FusableLayer, FusableNetwork, Read, Stack
from onchip.scheduling.candidates.tile_sizes import TilingList
from onchip.transform.groups.stacks import LayerSpan, is_legal

ONE = Window(1, 1, 1, 0)


def chain(size: int, *windows: Window, channels: int = 1) -> Stack:
    """Return consecutive convolutions over a square map, with equal padding at both ends."""
    maps = [FeatureMap("m0", channels, size, size)]
    layers = []
    for at, window in enumerate(windows):
        layers.append(convolution(maps[-1], f"m{at + 1}", window, window, channels))
        maps.append(layers[-1].output)
    return Stack((maps[0],), tuple(layers))


def convolution(source: FeatureMap, name: str, rows: Window, columns: Window, channels: int) -> FusableLayer:
    """Return a convolution; `name` is also the name of its output."""
    after = Layer(
        k=channels,
        c=source.channels,
        p=outputs(source.rows, rows),
        q=outputs(source.columns, columns),
        r=rows.kernel,
        s=columns.kernel,
        stride=(rows.stride, columns.stride),
        dilation=(rows.dilation, columns.dilation),
    )
    bits = channels * source.channels * rows.kernel * columns.kernel * 8
    output = FeatureMap(name, channels, after.p, after.q)
    return FusableLayer(name, after, output, (Read(source.name, rows, columns),), bits)


def pool(source: FeatureMap, name: str, rows: Window, columns: Window) -> FusableLayer:
    found = convolution(source, name, rows, columns, source.channels)
    layer = replace(found.layer, k=1, c=1, g=source.channels, has_weight=False)
    return replace(found, layer=layer, weight_bits=0)


def addition(first: FeatureMap, second: FeatureMap, name: str) -> FusableLayer:
    """Return an addition of maps aligned at their centres; pixels are groups, so the second map stands for weights."""
    rows, columns = min(first.rows, second.rows), min(first.columns, second.columns)
    reads = tuple(
        Read(one.name, Window(1, 1, 1, -((one.rows - rows) // 2)), Window(1, 1, 1, -((one.columns - columns) // 2)))
        for one in (first, second)
    )
    return FusableLayer(
        name, Layer(g=first.channels * rows * columns), FeatureMap(name, first.channels, rows, columns), reads
    )


def outputs(size: int, window: Window) -> int:
    return max((size + 2 * max(window.pad, 0) - window.reach) // window.stride + 1, 0)


def random_stack(seed: int) -> Stack:
    """Return a reproducible stack of two to five layers with 1 to 3 channels, where every map has a reader."""
    random = Random(seed)
    while True:
        source = FeatureMap("in", random.randint(1, 3), random.randint(8, 16), random.randint(8, 16))
        layers: list[FusableLayer] = []
        last = source
        for _ in range(random.randint(1, 3)):
            added = _branch(random, last, len(layers)) if random.random() < 0.4 else [_one(random, last, len(layers))]
            layers.extend(added)
            last = added[-1].output
        if all(min(layer.output.rows, layer.output.columns) >= 1 for layer in layers):
            return Stack((source,), tuple(layers))


def _one(random: Random, source: FeatureMap, number: int, channels: int | None = None) -> FusableLayer:
    rows, columns = _window(random), _window(random)
    if min(outputs(source.rows, rows), outputs(source.columns, columns)) < 1:
        rows = columns = ONE
    if channels is None and random.random() < 0.2:
        return pool(source, f"m{number}", rows, columns)
    return convolution(source, f"m{number}", rows, columns, channels or random.randint(1, 3))


def _branch(random: Random, source: FeatureMap, number: int) -> list[FusableLayer]:
    """Return one or two layers in parallel to the map itself, or to one other layer, and their sum."""
    left = [_one(random, source, number, source.channels)]
    if random.random() < 0.5:
        left.append(_one(random, left[-1].output, number + 1, source.channels))
    right = [] if random.random() < 0.5 else [_one(random, source, number + len(left), source.channels)]
    other = right[-1].output if right else source
    return [*left, *right, addition(left[-1].output, other, f"m{number + len(left) + len(right)}")]


def _window(random: Random) -> Window:
    kernel, dilation = random.choice((1, 2, 3, 3)), random.choice((1, 1, 2))
    reach = (kernel - 1) * dilation + 1
    return Window(kernel, random.choice((1, 1, 2)), dilation, random.choice((0, 0, reach // 2)))


def fsrcnn() -> Stack:
    """Return DeFiNES's FSRCNN (KULeuven-MICAS/DeFiNES, 7097d60, inputs/WL): 8 layers, no padding, 960 x 540 out."""
    maps = [FeatureMap("input", 1, 554, 974)]
    layers: list[FusableLayer] = []
    for channels, kernel in ((56, 5), (12, 1), (12, 3), (12, 3), (12, 3), (12, 3), (56, 1), (16, 3)):
        window = Window(kernel, 1, 1, 0)
        found = convolution(maps[-1], f"L{len(layers)}", window, window, channels)
        layers.append(replace(found, layer=replace(found.layer, partial_bits=16)))
        maps.append(found.output)
    return Stack((maps[0],), tuple(layers))


def tilings_of(output: FeatureMap, sizes: TileSizes) -> tuple[Tiling, ...]:
    """Return each distinct tiling."""
    return tuple(TilingList.of(output, FusionOptions(tile_sizes=sizes)).every())


def legal_spans(network: FusableNetwork) -> tuple[LayerSpan, ...]:
    """Return all legal runs of layers, ordered by their first and then their last layer."""
    count = len(network.layers)
    every = (LayerSpan(start, stop) for start in range(count) for stop in range(start + 1, count + 1))
    return tuple(span for span in every if is_legal(network, span))
