"""The stacks of a strategy in order, with the maps that are whole on the chip while each runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from onchip.answer.fused_network import FusedNetwork, MapInNetwork, NestInNetwork
from onchip.answer.stacks import Tiling
from onchip.answer.strategy import FusionStrategy
from onchip.arch.memory import DRAM


@dataclass(frozen=True, slots=True)
class RunningStack:
    """A stack by its number; its `inputs` come from outside, and `input_homes` maps those on chip to their memory.

    `taken_bits` are the bits of whole maps in each memory: the inputs, the output, and maps that later stacks read.
    """

    number: int
    layers: tuple[NestInNetwork, ...]
    inputs: tuple[MapInNetwork, ...]
    tiling: Tiling
    input_homes: Mapping[str, str]
    output_home: str
    taken_bits: Mapping[str, int]


def running_stacks(network: FusedNetwork, strategy: FusionStrategy) -> Iterator[RunningStack]:
    """Yield the stacks of a structurally legal strategy in order."""
    layer_named = {layer.name: layer for layer in network.layers}
    maps = network.maps
    lying: dict[str, str] = {}
    left = list(network.layers)
    for number, stack in enumerate(strategy.stacks):
        read_later = {read.source for layer in left for read in layer.reads}
        lying = {name: memory for name, memory in lying.items() if name in read_later}
        layers = tuple(layer_named[name] for name in stack.layers)
        written = {layer.writes.name for layer in layers}
        sources = dict.fromkeys(read.source for layer in layers for read in layer.reads)
        inputs = tuple(maps[name] for name in sources if name not in written)
        output = layers[-1].writes
        taken: dict[str, int] = {}
        for name, memory in (*lying.items(), (output.name, stack.output_home)):
            if memory != DRAM:
                taken[memory] = taken.get(memory, 0) + maps[name].size_bits
        homes = {one.name: lying[one.name] for one in inputs if one.name in lying}
        yield RunningStack(number, layers, inputs, stack.tiling, homes, stack.output_home, taken)
        left = [layer for layer in left if layer not in layers]
        if stack.output_home != DRAM:
            lying[output.name] = stack.output_home
