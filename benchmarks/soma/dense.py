"""DenseNets (Huang et al., CVPR 2017) as SoMa states networks: maps are read where they lie, whole or in bands.

Cycles are those of an array of 16 cores of 16 x 32 multiply-accumulates, SoMa's edge machine: each core takes 16 input
and 32 output channels at once, and cores share output channels or pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import ChannelSplits, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor

CORES: Final = 16
LANES: Final = 32
VECTOR: Final = 16
PARTS: Final = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)


@dataclass(frozen=True, slots=True)
class DenseShape:
    """Layers of each block, channels that a layer adds, channels of the stem, and the side of the image in pixels."""

    layers: tuple[int, ...] = (6, 12, 24, 16)
    growth: int = 32
    stem: int = 64
    side: int = 224


SHAPES: Final = {
    "densenet121": DenseShape(),
    "densenet169": DenseShape((6, 12, 32, 32)),
    "densenet201": DenseShape((6, 12, 48, 32)),
}


def dense_net(name: str) -> Graph:
    """Return one of `SHAPES` as a graph whose operators state cycles and splits."""
    shape = SHAPES[name]
    wiring = _Wiring()
    side = shape.side // 2
    wiring.tensors.append(Tensor.of_shape("image", (3, shape.side, shape.side), 8, Role.INPUT))
    maps = [wiring.convolution("conv0", ["image"], 3, shape.stem, side, 7)]
    side //= 2
    maps = [wiring.pooling("pool0", maps, shape.stem, side, 9)]
    channels = shape.stem
    for block, layers in enumerate(shape.layers, start=1):
        for layer in range(layers):
            narrow = wiring.convolution(f"dense{block}_{layer}a", maps, channels, 4 * shape.growth, side, 1)
            added = wiring.convolution(f"dense{block}_{layer}b", [narrow], 4 * shape.growth, shape.growth, side, 3)
            maps.append(added)
            channels += shape.growth
        if block < len(shape.layers):
            half = wiring.convolution(f"transition{block}", maps, channels, channels // 2, side, 1)
            channels, side = channels // 2, side // 2
            maps = [wiring.pooling(f"pool{block}", [half], channels, side, 4)]
    maps = [wiring.pooling("pool", maps, channels, 1, side * side)]
    wiring.convolution("classes", maps, channels, 1000, 1, 1)
    return wiring.graph(name)


@dataclass
class _Wiring:
    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)

    def convolution(self, name: str, inputs: Sequence[str], channels: int, outputs: int, side: int, taps: int) -> str:
        weights = Tensor.of_shape(f"{name}.weight", (outputs, channels * taps * taps), 8, Role.PARAMETER)
        self.tensors.append(weights)
        steps = -(-channels // VECTOR) * taps * taps
        ways = {parts: steps * _rounds(outputs // parts, side * side) for parts in _parts(outputs)}
        whole = steps * _rounds(outputs, side * side)
        return self._add(
            name, inputs, (weights.name,), (outputs, side, side), whole, ChannelSplits(False, _listed(ways))
        )

    def pooling(self, name: str, inputs: Sequence[str], channels: int, side: int, taps: int) -> str:
        whole = -(-channels * side * side * taps // (CORES * LANES * 4))
        ways = {parts: -(-channels // parts * side * side * taps // (CORES * LANES * 4)) for parts in _parts(channels)}
        splits = ChannelSplits(True, _listed(ways)) if len(inputs) == 1 else None
        return self._add(name, inputs, (), (channels, side, side), whole, splits)

    def _add(
        self,
        name: str,
        inputs: Sequence[str],
        parameters: tuple[str, ...],
        shape: tuple[int, ...],
        cycles: int,
        splits: ChannelSplits | None,
    ) -> str:
        self.tensors.append(Tensor.of_shape(name, shape, 8, Role.ACTIVATION))
        stated = StatedCost(cycles, None, splits)
        self.operators.append(Operator(f"{name}.op", "conv", tuple(inputs), (name,), parameters, stated=stated))
        return name

    def graph(self, name: str) -> Graph:
        last = self.operators[-1].outputs[0]
        tensors = [
            Tensor.of_shape(t.name, t.shape or (), 8, Role.OUTPUT) if t.name == last else t for t in self.tensors
        ]
        return Graph(name, tuple(tensors), tuple(self.operators))


def _parts(channels: int) -> Iterator[int]:
    return (parts for parts in PARTS if channels % parts == 0)


def _listed(ways: dict[int, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(ways.items()))


def _rounds(outputs: int, pixels: int) -> int:
    """Return how often the array takes pixels by output channels, for the best split of these among cores."""
    return min(ceil(outputs / share / LANES) * ceil(pixels * share / CORES) for share in (1, 2, 4, 8, 16))
