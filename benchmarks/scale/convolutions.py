"""Networks of convolutions by configuration, with shapes: chains, U-Nets, detectors with heads at several scales."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor


@dataclass(slots=True)
class _Maps:
    """Operators in the order in which they were added; maps are (channels, rows, columns) of one byte an element."""

    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    roles: dict[str, Role] = field(default_factory=dict)

    def image(self, channels: int, side: int) -> str:
        self.shapes["image"], self.roles["image"] = (1, channels, side, side), Role.INPUT
        return "image"

    def convolution(
        self, read: str, channels: int, kernel: int = 3, stride: int = 1, *, by_channel: bool = False
    ) -> str:
        name, (_, incoming, rows, columns) = f"conv{len(self.operators)}", self.shapes[read]
        weight, group = f"{name}.weight", incoming if by_channel else 1
        self.shapes[weight], self.roles[weight] = (channels, incoming // group, kernel, kernel), Role.PARAMETER
        attributes = _window(kernel, stride, kernel // 2) | {"dilations": [1, 1], "group": group}
        self._add(Operator(name, "Conv", (read,), (name,), (weight,), attributes))
        self.shapes[name] = (1, channels, -(-rows // stride), -(-columns // stride))
        return name

    def sum(self, one: str, other: str) -> str:
        name = f"add{len(self.operators)}"
        self._add(Operator(name, "Add", (one, other), (name,)))
        self.shapes[name] = self.shapes[one]
        return name

    def joined(self, one: str, other: str) -> str:
        name, (_, channels, rows, columns) = f"concat{len(self.operators)}", self.shapes[one]
        self._add(Operator(name, "Concat", (one, other), (name,), attributes={"axis": 1}))
        self.shapes[name] = (1, channels + self.shapes[other][1], rows, columns)
        return name

    def enlarged(self, read: str) -> str:
        name, (_, channels, rows, columns) = f"resize{len(self.operators)}", self.shapes[read]
        attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        self._add(Operator(name, "Resize", (read,), (name,), attributes=attributes))
        self.shapes[name] = (1, channels, rows * 2, columns * 2)
        return name

    def pooled(self, read: str) -> str:
        name, (_, channels, rows, columns) = f"pool{len(self.operators)}", self.shapes[read]
        self._add(Operator(name, "MaxPool", (read,), (name,), attributes=_window(2, 2, 0)))
        self.shapes[name] = (1, channels, rows // 2, columns // 2)
        return name

    def risen(self, read: str, channels: int) -> str:
        name, (_, incoming, rows, columns) = f"up{len(self.operators)}", self.shapes[read]
        self.shapes[f"{name}.weight"], self.roles[f"{name}.weight"] = (incoming, channels, 2, 2), Role.PARAMETER
        attributes = _window(2, 2, 0) | {"dilations": [1, 1], "group": 1}
        self._add(Operator(name, "ConvTranspose", (read,), (name,), (f"{name}.weight",), attributes))
        self.shapes[name] = (1, channels, rows * 2, columns * 2)
        return name

    def graph(self, name: str) -> Graph:
        read = {tensor for operator in self.operators for tensor in operator.inputs}
        tensors = []
        for tensor, shape in self.shapes.items():
            role = self.roles.get(tensor, Role.ACTIVATION if tensor in read else Role.OUTPUT)
            tensors.append(Tensor.of_shape(tensor, shape, 8, role))
        return Graph(name, tuple(tensors), tuple(self.operators))

    def _add(self, operator: Operator) -> None:
        self.operators.append(operator)


def _window(kernel: int, stride: int, padding: int) -> dict[str, AttributeValue]:
    return {"kernel_shape": [kernel, kernel], "strides": [stride, stride], "pads": [padding] * 4}


def chain(layers: int, seed: int = 0, channels: int = 32, side: int = 128) -> Graph:
    """Return a chain of convolutions, some of them depthwise, of stride 2 or of one pixel."""
    random, maps = Random(seed), _Maps()
    read = maps.image(3, side)
    for at in range(layers):
        kind = random.choice(("plain", "plain", "point", "by channel"))
        stride = 2 if at and at % (layers // 4 + 1) == 0 else 1
        if kind == "by channel" and at:
            read = maps.convolution(read, maps.shapes[read][1], 3, stride, by_channel=True)
        else:
            width = channels * (2 ** (at // (layers // 4 + 1)))
            read = maps.convolution(read, width, 1 if kind == "point" else 3, stride)
    return maps.graph(f"chain-{layers}")


def u_net(depth: int = 4, channels: int = 32, side: int = 256) -> Graph:
    """Return an encoder of `depth` levels and its decoder, which reads the encoder's map of each level again."""
    maps = _Maps()
    hidden, skips = maps.image(3, side), list[str]()
    for level in range(depth):
        width = channels * 2**level
        hidden = maps.convolution(maps.convolution(hidden, width), width)
        skips.append(hidden)
        hidden = maps.convolution(hidden, width, 3, 2)
    hidden = maps.convolution(hidden, channels * 2**depth)
    for level in reversed(range(depth)):
        width = channels * 2**level
        hidden = maps.convolution(maps.enlarged(hidden), width, 1)
        hidden = maps.convolution(maps.convolution(maps.joined(skips[level], hidden), width), width)
    maps.convolution(hidden, 2, 1)
    return maps.graph(f"u-net-{depth}")


def published_u_net(side: int = 512, levels: tuple[int, ...] = (64, 128, 256, 512, 1024)) -> Graph:
    """Return the U-Net of Ronneberger et al. (MICCAI 2015) with padded convolutions, on one channel."""
    maps, skips = _Maps(), list[str]()
    hidden = maps.image(1, side)
    for channels in levels:
        hidden = maps.convolution(maps.convolution(hidden, channels), channels)
        if channels != levels[-1]:
            skips.append(hidden)
            hidden = maps.pooled(hidden)
    for channels, skip in zip(reversed(levels[:-1]), reversed(skips), strict=True):
        joined = maps.joined(skip, maps.risen(hidden, channels))
        hidden = maps.convolution(maps.convolution(joined, channels), channels)
    maps.convolution(hidden, 2, 1)
    return maps.graph("unet")


def detector(blocks: int = 2, channels: int = 16, side: int = 416) -> Graph:
    """Return a residual backbone with three heads at its last three scales, as detectors of YOLO's kind have them."""
    maps = _Maps()
    hidden, scales = maps.convolution(maps.image(3, side), channels), list[str]()
    for level in range(1, 6):
        width = channels * 2**level
        hidden = maps.convolution(hidden, width, 3, 2)
        for _ in range(blocks):
            inner = maps.convolution(maps.convolution(hidden, width // 2, 1), width)
            hidden = maps.sum(hidden, inner)
        scales.append(hidden)
    above = None
    for scale in reversed(scales[-3:]):
        width = maps.shapes[scale][1] // 2
        read = scale if above is None else maps.joined(maps.enlarged(maps.convolution(above, width, 1)), scale)
        above = maps.convolution(maps.convolution(maps.convolution(read, width, 1), width * 2), width, 1)
        maps.convolution(maps.convolution(above, width * 2), 255, 1)
    return maps.graph(f"detector-{blocks}")
