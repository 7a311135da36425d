"""The network model of the strategy verifier: loop nests, and the windows through which each reads its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onchip.arch.memory import Operand
from onchip.ir.layer import Layer
from onchip.ir.window import Window


@dataclass(frozen=True, slots=True)
class MapInNetwork:
    """A feature map of `channels` (batch included) x `rows` x `columns` elements of `bits` each."""

    name: str
    channels: int
    rows: int
    columns: int
    bits: int

    @property
    def size_bits(self) -> int:
        """Return the size of the whole map in bits."""
        return self.channels * self.rows * self.columns * self.bits


@dataclass(frozen=True, slots=True)
class ReadInNetwork:
    """A read of a feature map, by name, through a window along each axis; a negative pad crops.

    `channels` is the number of channels that are read; None for all.
    """

    source: str
    rows: Window
    columns: Window
    channels: int | None = None


@dataclass(frozen=True, slots=True)
class NestInNetwork:
    """A layer: the loop nest of its whole output, and the total bits of its weights.

    If a layer with an operand `weight` reads two maps, the second map is that operand, unless the layer `joins` its
    maps along the channels into one input. A layer that `runs_alone` is never tiled, whatever its windows.
    """

    name: str
    nest: Layer
    reads: tuple[ReadInNetwork, ...]
    writes: MapInNetwork
    weight_bits: int
    runs_alone: bool = False
    joins: bool = False

    @property
    def is_addition(self) -> bool:
        """Return True if the weight operand is a feature map."""
        return len(self.reads) > 1 and self.nest.has_weight and not self.joins


@dataclass(frozen=True, slots=True)
class StreamedOperator:
    """An operator outside all stacks that only moves data, each operand once from or to DRAM.

    `operands` are the reads and then the writes, each tensor once, with the bits moved: inputs, parameters as weights,
    outputs.
    """

    name: str
    operands: tuple[tuple[Operand, int], ...]


@dataclass(frozen=True, slots=True)
class FusedNetwork:
    """Layers in an executable order, the network `inputs`, and the `moved` operators outside the stacks."""

    inputs: tuple[MapInNetwork, ...]
    layers: tuple[NestInNetwork, ...]
    moved: tuple[StreamedOperator, ...] = ()

    @property
    def maps(self) -> Mapping[str, MapInNetwork]:
        """Return a map from name to feature map."""
        return {one.name: one for one in (*self.inputs, *(layer.writes for layer in self.layers))}
