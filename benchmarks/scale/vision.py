"""ResNet-50 and a training step of it, stated by hand (He et al. 2016, table 1)."""

from __future__ import annotations

from typing import Final

from scale.training import ForwardPass, trained
from scale.wiring import Wiring

from onchip.ir.graph import Graph

STAGES: Final = ((3, 64), (4, 128), (6, 256), (3, 512))
"""Blocks, and channels of their 3x3 convolution; the last convolution of a block has four times as many."""
CLASSES: Final = 1000


def resnet50_training(batch: int = 8, side: int = 224) -> Graph:
    """Return a training step of ResNet-50 on square images with `side` pixels a side, in two-byte elements."""
    layers = _ResNet(batch, side)
    logits = layers.logits()
    target = layers.forward.wiring.input("target", batch)
    return trained("resnet50-training", layers.forward, logits, target)


class _ResNet:
    def __init__(self, batch: int, side: int) -> None:
        self._batch, self._side, self._channels = batch, side, 3
        self.forward = ForwardPass(Wiring())

    def logits(self) -> str:
        image = self.forward.wiring.input("image", self._batch * 3 * self._side**2)
        hidden = self._active(self._conv(image, 3, 64, 7, 2))
        self._side //= 2
        hidden = self.forward.add("MaxPool", (hidden,), self._batch * 64 * self._side**2)
        self._channels = 64
        for number, (blocks, channels) in enumerate(STAGES):
            for block in range(blocks):
                hidden = self._block(hidden, channels, 2 if number and not block else 1)
        pooled = self.forward.add("AveragePool", (hidden,), self._batch * self._channels)
        weights = self._channels * CLASSES
        return self.forward.add("Linear", (pooled,), self._batch * CLASSES, weights, self._batch * weights)

    def _block(self, read: str, channels: int, stride: int) -> str:
        wide, incoming = 4 * channels, self._channels
        shortcut = read
        side = self._side
        if incoming != wide or stride > 1:
            shortcut = self._conv(read, incoming, wide, 1, stride)
            self._side = side
        inner = self._active(self._conv(read, incoming, channels, 1, 1))
        inner = self._active(self._conv(inner, channels, channels, 3, stride))
        inner = self._conv(inner, channels, wide, 1, 1)
        self._channels = wide
        return self._active(self.forward.add("Add", (inner, shortcut), self.forward.wiring.elements(inner)))

    def _conv(self, read: str, incoming: int, channels: int, kernel: int, stride: int) -> str:
        """Add a convolution and its normalisation, and update the side."""
        self._side //= stride
        elements = self._batch * channels * self._side**2
        weights = incoming * channels * kernel**2
        found = self.forward.add("Conv", (read,), elements, weights, elements // channels * weights)
        return self.forward.add("BatchNorm", (found,), elements, 2 * channels)

    def _active(self, read: str) -> str:
        return self.forward.add("Relu", (read,), self.forward.wiring.elements(read))
