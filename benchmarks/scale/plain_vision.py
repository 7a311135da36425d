"""VGG-16, MobileNet and U-Net, and a training step of each, stated by hand from their papers' tables.

Simonyan and Zisserman 2015 (configuration D), Howard et al. 2017 (table 1), Ronneberger et al. 2015 (figure 1, with
padded convolutions). Square images, two-byte elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scale.training import ForwardPass, trained
from scale.wiring import Wiring

from onchip.ir.graph import Graph

VGG_BLOCKS: Final = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
"""Convolutions of 3x3, and their channels; each block ends with a pool of 2x2."""
VGG_WIDTHS: Final = (4096, 4096, 1000)
MOBILENET_BLOCKS: Final = (
    *((1, 64), (2, 128), (1, 128), (2, 256), (1, 256), (2, 512)),
    *((1, 512), (1, 512), (1, 512), (1, 512), (1, 512), (2, 1024), (1, 1024)),
)
"""The stride of the depthwise convolution, and the channels of the pointwise one."""
UNET_CHANNELS: Final = (64, 128, 256, 512, 1024)
UNET_CLASSES: Final = 2
CLASSES: Final = 1000


def vgg16_training(batch: int = 16, side: int = 224) -> Graph:
    """Return a training step of VGG-16."""
    layers = _Layers(ForwardPass(Wiring()), batch, side)
    hidden = layers.image()
    for convolutions, channels in VGG_BLOCKS:
        for _ in range(convolutions):
            hidden = layers.active(layers.convolution(hidden, channels, 3))
        hidden = layers.pool(hidden)
    for width in VGG_WIDTHS[:-1]:
        hidden = layers.active(layers.linear(hidden, width))
    return layers.trained("vgg16-training", layers.linear(hidden, VGG_WIDTHS[-1]))


def mobilenet_training(batch: int = 16, side: int = 224) -> Graph:
    """Return a training step of MobileNet (version 1, width 1)."""
    layers = _Layers(ForwardPass(Wiring()), batch, side)
    hidden = layers.active(layers.normed(layers.convolution(layers.image(), 32, 3, 2)))
    for stride, channels in MOBILENET_BLOCKS:
        hidden = layers.active(layers.normed(layers.depthwise(hidden, stride)))
        hidden = layers.active(layers.normed(layers.convolution(hidden, channels, 1)))
    pooled = layers.forward.add("AveragePool", (hidden,), batch * layers.channels)
    layers.side = 1
    return layers.trained("mobilenet-training", layers.linear(pooled, CLASSES))


def unet_training(batch: int = 2, side: int = 416) -> Graph:
    """Return a training step of U-Net; `side` is a multiple of 16."""
    layers = _Layers(ForwardPass(Wiring()), batch, side)
    hidden, skips = layers.image(), []
    for channels in UNET_CHANNELS[:-1]:
        hidden = layers.twice(hidden, channels)
        skips.append(hidden)
        hidden = layers.pool(hidden)
    hidden = layers.twice(hidden, UNET_CHANNELS[-1])
    for channels, skip in zip(UNET_CHANNELS[-2::-1], skips[::-1], strict=True):
        hidden = layers.twice(layers.joined(layers.up(hidden, channels), skip), channels)
    return layers.trained("unet-training", layers.convolution(hidden, UNET_CLASSES, 1))


@dataclass(slots=True)
class _Layers:
    """The state of a network under construction: the channels of its last map, and the pixels of a side."""

    forward: ForwardPass
    batch: int
    side: int
    channels: int = 3

    def image(self) -> str:
        return self.forward.wiring.input("image", self._elements(self.channels))

    def convolution(self, read: str, channels: int, kernel: int, stride: int = 1) -> str:
        self.side //= stride
        weights = self.channels * channels * kernel**2
        self.channels = channels
        return self.forward.add("Conv", (read,), self._elements(channels), weights, self._pixels * weights)

    def depthwise(self, read: str, stride: int) -> str:
        self.side //= stride
        weights = self.channels * 3**2
        return self.forward.add("Conv", (read,), self._elements(self.channels), weights, self._pixels * weights)

    def up(self, read: str, channels: int) -> str:
        """Add a transposed convolution of 2x2: each output element is one product over the input channels."""
        self.side *= 2
        macs, weights = self._elements(channels) * self.channels, self.channels * channels * 4
        self.channels = channels
        return self.forward.add("ConvTranspose", (read,), self._elements(channels), weights, macs)

    def joined(self, one: str, other: str) -> str:
        self.channels *= 2
        return self.forward.add("Concat", (one, other), self._elements(self.channels))

    def linear(self, read: str, width: int) -> str:
        rows = self.batch
        weights = self.forward.wiring.elements(read) // rows * width
        return self.forward.add("Linear", (read,), rows * width, weights, rows * weights)

    def normed(self, read: str) -> str:
        return self.forward.add("BatchNorm", (read,), self._elements(self.channels), 2 * self.channels)

    def active(self, read: str) -> str:
        return self.forward.add("Relu", (read,), self.forward.wiring.elements(read))

    def twice(self, read: str, channels: int) -> str:
        """Two convolutions of 3x3, each with its activation."""
        hidden = self.active(self.convolution(read, channels, 3))
        return self.active(self.convolution(hidden, channels, 3))

    def pool(self, read: str) -> str:
        self.side //= 2
        return self.forward.add("MaxPool", (read,), self._elements(self.channels))

    def trained(self, name: str, logits: str) -> Graph:
        target = self.forward.wiring.input("target", self.batch)
        return trained(name, self.forward, logits, target)

    @property
    def _pixels(self) -> int:
        return self.batch * self.side**2

    def _elements(self, channels: int) -> int:
        return self._pixels * channels
