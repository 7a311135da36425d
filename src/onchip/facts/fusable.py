"""A network as depth-first execution sees it: layers, and through which windows each looks at feature maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onchip.answer.fused_network import MovedOperator
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.ir.window import Window


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A tensor of `channels` (batch included) times `rows` x `columns` pixels of `bits` an element."""

    name: str
    channels: int
    rows: int
    columns: int
    bits: int = 8

    @property
    def size_bits(self) -> int:
        """Return the bits of all channels, rows and columns."""
        return self.channels * self.rows * self.columns * self.bits


@dataclass(frozen=True, slots=True)
class Read:
    """A feature map, by name, seen through a window along its rows and one along its columns.

    A negative `pad` crops: networks without padding add feature maps of different sizes, their middles aligned.
    """

    source: str
    rows: Window
    columns: Window


@dataclass(frozen=True, slots=True)
class FusableLayer:
    """`layer` is the loop nest over the whole output; of two reads (an addition) the second stands for its weights."""

    name: str
    layer: Layer
    output: FeatureMap
    reads: tuple[Read, ...]
    weight_bits: int = 0


@dataclass(frozen=True, slots=True)
class FusableNetwork:
    """Layers in an order in which they can run; the `inputs` come from outside.

    Its `outputs`, feature maps by name, leave it, whoever reads them; so does what nobody reads. Operators that are
    `moved` run beside the layers: what they read leaves, what they write comes from outside.
    """

    name: str
    inputs: tuple[FeatureMap, ...]
    layers: tuple[FusableLayer, ...]
    outputs: tuple[str, ...] = ()
    moved: tuple[MovedOperator, ...] = ()
    maps: Mapping[str, FeatureMap] = field(init=False, repr=False, compare=False)
    """All feature maps by name."""
    last_readers: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Of each feature map that is read, the place of the last layer that reads it."""

    def __post_init__(self) -> None:
        readers = {read.source: at for at, layer in enumerate(self.layers) for read in layer.reads}
        object.__setattr__(self, "last_readers", readers)
        maps = {one.name: one for one in (*self.inputs, *(layer.output for layer in self.layers))}
        object.__setattr__(self, "maps", maps)
        if unknown := set(self.outputs) - self.maps.keys():
            raise InputError(f"it has no {min(unknown)!r}", file=self.name, place="outputs", expected="a feature map")


@dataclass(frozen=True, slots=True)
class Stack:
    """Layers of a network that run together; `inputs` are the feature maps that they read from outside.

    Only the last layer's output leaves it; `ends_in_output` says that it is an output of the network, whoever reads it.
    """

    inputs: tuple[FeatureMap, ...]
    layers: tuple[FusableLayer, ...]
    ends_in_output: bool = False

    @property
    def output(self) -> FeatureMap:
        """The feature map that the last layer writes, and that tiles cut."""
        return self.layers[-1].output
