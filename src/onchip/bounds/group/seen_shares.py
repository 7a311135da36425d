"""The least fraction of a block of a feature map that a layer's windows touch, given strides and dilated taps."""

from __future__ import annotations

from collections.abc import Iterator

from onchip.ops.fusable import FeatureMap, FusableLayer, Read, Stack


def shares_of(layer: FusableLayer, source: FeatureMap) -> Iterator[tuple[int, float]]:
    """Yield the index of each of the layer's reads of a map, and its least touched fraction of a block."""
    return ((at, share_of(layer, read)) for at, read in enumerate(layer.reads) if read.source == source.name)


def skips_nothing(stack: Stack) -> bool:
    """Return True if every layer touches all pixels between the first and the last one in view."""
    return all(share_of(layer, read) == 1.0 for layer in stack.layers for read in layer.reads)


def share_of(layer: FusableLayer, read: Read) -> float:
    """Return the least fraction of a block that windows touch.

    They touch at least every `gap`th pixel, and the first ones may be zeros that are not stored. They may touch nothing
    of a padded map smaller than the gap.
    """
    found = 1.0
    for window, axis in zip((read.rows, read.columns), layer.layer.axes, strict=True):
        gap = max(window.dilation if window.kernel > 1 else 1, window.stride - (window.kernel - 1) * window.dilation)
        if window.pad > 0 and axis.size < gap:
            return 0.0
        found /= gap if window.pad <= 0 else 2 * gap - 1
    return found
