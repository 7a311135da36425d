"""Which part of a block of a map the windows of a layer touch at least: strides skip pixels, dilated taps lie apart."""

from __future__ import annotations

from collections.abc import Iterator

from onchip.ops.derive.fusable import FeatureMap, FusableLayer, Read, Stack


def shares_of(layer: FusableLayer, source: FeatureMap) -> Iterator[tuple[int, float]]:
    """Its reads of a map by number, and of a block at least the part that is neither skipped nor between taps."""
    return ((at, share_of(layer, read)) for at, read in enumerate(layer.reads) if read.source == source.name)


def skips_nothing(stack: Stack) -> bool:
    """Whether every layer sees all pixels between the first and the last one."""
    return all(share_of(layer, read) == 1.0 for layer in stack.layers for read in layer.reads)


def share_of(layer: FusableLayer, read: Read) -> float:
    """Where windows touch every `gap`th pixel of a block, and the first ones may be zeros that are not stored.

    Of a map smaller than the gap they may touch nothing, from one zero to the next.
    """
    found = 1.0
    for window, axis in zip((read.rows, read.columns), layer.layer.axes, strict=True):
        gap = max(window.dilation if window.kernel > 1 else 1, window.stride - (window.kernel - 1) * window.dilation)
        if window.pad > 0 and axis.size < gap:
            return 0.0
        found /= gap if window.pad <= 0 else 2 * gap - 1
    return found
