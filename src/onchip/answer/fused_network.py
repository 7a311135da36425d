"""A network as the verifier of fusion strategies has it: loop nests, and through which windows each sees its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onchip.arch.memory import Operand
from onchip.ir.layer import Layer
from onchip.ir.window import Window


@dataclass(frozen=True, slots=True)
class MapInNetwork:
    """A feature map of `channels` (batch included) times `rows` x `columns` pixels, of `bits` an element."""

    name: str
    channels: int
    rows: int
    columns: int
    bits: int

    @property
    def size_bits(self) -> int:
        """What the whole map takes, in bits."""
        return self.channels * self.rows * self.columns * self.bits


@dataclass(frozen=True, slots=True)
class ReadInNetwork:
    """A feature map, by name, that a layer sees through a window along each axis; a negative pad crops.

    It sees so many of the map's `channels`; None stands for all.
    """

    source: str
    rows: Window
    columns: Window
    channels: int | None = None


@dataclass(frozen=True, slots=True)
class NestInNetwork:
    """A layer: its loop nest over all that it writes, and the bits of all its weights together.

    Of two maps that a layer with an operand `weight` reads, the second is that operand, unless it `joins` all maps that
    it reads, side by side along the channels, to its input. One that `runs_alone` is in no tiles, whatever its windows
    say.
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
        """Whether the weight is a feature map."""
        return len(self.reads) > 1 and self.nest.has_weight and not self.joins


@dataclass(frozen=True, slots=True)
class StreamedOperator:
    """An operator outside of all stacks that only moves data: it reads and writes each operand once in DRAM.

    `operands` are what it reads and then what it writes, each tensor once, with the bits that are moved of it: inputs,
    parameters as weights, outputs.
    """

    name: str
    operands: tuple[tuple[Operand, int], ...]


@dataclass(frozen=True, slots=True)
class FusedNetwork:
    """Layers in an order in which they can run; `inputs` come from outside, `moved` run beside the stacks."""

    inputs: tuple[MapInNetwork, ...]
    layers: tuple[NestInNetwork, ...]
    moved: tuple[StreamedOperator, ...] = ()

    @property
    def maps(self) -> Mapping[str, MapInNetwork]:
        """All feature maps, by name."""
        return {one.name: one for one in (*self.inputs, *(layer.writes for layer in self.layers))}
