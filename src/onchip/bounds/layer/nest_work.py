"""The work of a loop nest that every schedule does, for any tiling of the network."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod

from onchip.bounds.layer.needed import NeededPixels, touched_positions
from onchip.ir.layer import OUTPUT, WEIGHT, Axis, Layer
from onchip.ir.tensor import Tensor


@dataclass(frozen=True, slots=True)
class NestWork:
    """Counts over the needed outputs: MACs, MACs whose input is no padded zero, and elements of each operand.

    At least `uses_of_input` MACs use each input element, and at least `uses_of_weight` use each weight. `windows` are
    pairs of a number of taps that meet no padded zero, and the number of outputs with this number.
    """

    macs: int = 0
    macs_with_input: int = 0
    inputs: int = 0
    weights: int = 0
    outputs: int = 0
    uses_of_input: int = 0
    uses_of_weight: int = 0
    windows: tuple[tuple[int, int], ...] = ()


def work_of(layer: Layer, needed: NeededPixels, output: Tensor) -> NestWork:
    """Return the work of one of the nests that write `output`, or empty work if it is unknown."""
    if needed.are_all:
        return work_of_all(layer)
    shape = output.shape or ()
    if shape[-2:] == (layer.p, layer.q):
        rows, columns = needed.rows, needed.columns
        all_rows, all_columns = frozenset(range(layer.p)), frozenset(range(layer.q))
        return _counted(layer, all_rows if rows is None else rows, all_columns if columns is None else columns)
    if layer.elements(OUTPUT) == prod(shape) and layer.p == layer.q == 1:
        return _of_a_share(layer, needed.share(output))
    return NestWork()


@lru_cache(maxsize=1 << 8)
def work_of_all(layer: Layer) -> NestWork:
    """Return the work of a nest if every output is needed."""
    return _counted(layer, frozenset(range(layer.p)), frozenset(range(layer.q)))


def _counted(layer: Layer, rows: frozenset[int], columns: frozenset[int]) -> NestWork:
    """Return the work for these rows and columns of the output."""
    pixels = len(rows) * len(columns)
    if not pixels:
        return NestWork()
    height, width = layer.axes
    (tall, high), (broad, wide) = _seen(height, rows, layer.r), _seen(width, columns, layer.s)
    high_taps, wide_taps = (sum(taps * count for taps, count in windows.items()) for windows in (tall, broad))
    batch = layer.n * layer.g
    windows = Counter[int]()
    for (row, often), (column, times) in product(tall.items(), broad.items()):
        windows[row * column] += batch * layer.k * often * times
    return NestWork(
        macs=batch * layer.k * layer.c * layer.r * layer.s * pixels,
        macs_with_input=batch * layer.k * layer.c * high_taps * wide_taps,
        inputs=batch * layer.c * high * wide,
        weights=layer.elements(WEIGHT),
        outputs=batch * layer.k * pixels,
        uses_of_input=layer.k,
        uses_of_weight=layer.n * pixels,
        windows=tuple(sorted(windows.items())),
    )


def _of_a_share(layer: Layer, share: Fraction) -> NestWork:
    """Return the work for a share of the outputs.

    Pixels are groups of the nest, or batch elements if the parameter is smaller than the map.
    """
    macs = int(layer.macs * share)
    in_groups = layer.n == 1
    return NestWork(
        macs=macs,
        macs_with_input=macs,
        inputs=macs // layer.k,
        weights=int(layer.elements(WEIGHT) * (share if in_groups else 1)),
        outputs=int(layer.elements(OUTPUT) * share),
        uses_of_input=layer.k,
        uses_of_weight=1 if in_groups else int(layer.n * share),
        windows=((layer.r * layer.s, int(layer.elements(OUTPUT) * share)),),
    )


def _seen(axis: Axis, outputs: frozenset[int], taps: int) -> tuple[Counter[int], int]:
    """Return the number of outputs by their taps on stored positions, and the number of distinct positions touched."""
    met = [
        [position for position in touched_positions(axis, frozenset((output,)), taps) if 0 <= position < axis.size]
        for output in outputs
    ]
    return Counter(map(len, met)), len({position for positions in met for position in positions})
