"""A graph as depth-first execution sees it: every operator is a layer that reads feature maps through windows.

The layers are those of `layers_of`; biases and fused activations cost nothing, as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.ops.derive.fusable import FusableLayer, FusableNetwork
from onchip.ops.derive.fusable_reading import FusableReading
from onchip.ops.derive.layers_of import LeftOut, Precision, layers_and_left_out
from onchip.ops.derive.moved_operators import moved_operators

_FUSABLE: Final = (
    "convolutions, pools, one or two maps of one size element by element (a Slice or Pad before them), "
    "fully connected layers, a transposed convolution as the last"
)


def fusable_of(graph: Graph, precision: Precision = Precision()) -> FusableNetwork:  # noqa: B008 (frozen)
    """Return all operators as layers, in the graph's order.

    A fully connected layer is a convolution to one pixel whose kernel is the whole map. A transposed convolution of
    stride s is one of stride 1 over its input, with s x s times the output channels: those of the square of outputs
    over an input pixel; taps that an output lacks are zeros among the weights. Operators that only change a shape are
    passed through. A Slice before an addition crops the addition's input (a negative pad, with its step as stride), and
    zeros that a Pad adds to the channels are not read. If an output of the graph is a view of a feature map, that map
    is an output. Raises InputError for any other operator.
    """
    reading = FusableReading(graph, *layers_and_left_out(graph), precision, all_in_tiles=True)
    reading.read()
    if reading.outside:
        first = reading.outside[0]
        place, what = f"{first.kind} {first.operator!r}", f"it cannot be fused: {first.why}"
        raise InputError(what, file=graph.name, place=place, expected=_FUSABLE)
    if reading.in_the_way:
        what = f"a view of what it joins leaves: {min(reading.in_the_way)!r}"
        raise InputError(what, file=graph.name, expected="layers that read what is joined")
    if not reading.inside:
        raise InputError("no operator is a layer", file=graph.name, expected="at least one beside views")
    return _network(reading)


@dataclass(frozen=True, slots=True)
class PartlyFusable:
    """A network of the operators that are layers, and the operators outside of its stacks.

    The maps that outside operators read leave the network, and the maps that they write come from outside, so no stack
    contains both sides. `alone` lists the layers that run alone, with the reason.
    """

    network: FusableNetwork
    outside: tuple[LeftOut, ...]
    alone: tuple[LeftOut, ...] = ()


def partly_fusable_of(graph: Graph, precision: Precision = Precision()) -> PartlyFusable:  # noqa: B008 (frozen)
    """Return `fusable_of`'s layers, where operators that cannot be fused run alone or stay outside, possibly all.

    An operator that is one loop nest over whole maps runs alone. A view is outside if a layer that reads through it
    could not be fused; it is then written instead of passed through.
    """
    layers, left_out = layers_and_left_out(graph)
    apart = frozenset[str]()
    while True:
        reading = FusableReading(graph, layers, left_out, precision, apart)
        reading.read()
        if reading.in_the_way <= apart:
            return PartlyFusable(_network(reading), tuple(reading.outside), tuple(reading.alone))
        apart |= reading.in_the_way


def _network(reading: FusableReading) -> FusableNetwork:
    """Return the network of the layers, with the operators that run outside of them."""
    graph, seen = reading.graph, reading.shown.seen
    outside = [graph.operator[left_out.operator] for left_out in reading.outside]
    given = [tensor.name for tensor in graph.with_role(Role.INPUT) if graph.readers[tensor.name]]
    come = (*given, *(name for operator in outside for name in operator.outputs))
    inputs = tuple(seen[name].whole for name in come if name in seen)
    left = [tensor.name for tensor in graph.with_role(Role.OUTPUT)]
    left += [name for operator in outside for name in operator.inputs]
    outputs = dict.fromkeys(seen[name].whole.name for name in left if name in seen)
    moved = moved_operators(graph, (operator.name for operator in outside), reading.precision.bits)
    return FusableNetwork(graph.name, inputs, _in_order(reading), tuple(outputs), moved)


def _in_order(reading: FusableReading) -> tuple[FusableLayer, ...]:
    """Return the layers in the graph's order, but each one that runs alone directly after the last layer it depends on.

    That layer's output leaves its stack in any case, so no stack is cut additionally.
    """
    ordered: list[FusableLayer] = []
    layers = {layer.name: layer for layer in reading.inside}
    behind: dict[str, str | None] = {}  # tensor name -> last layer that must run before the tensor exists
    for operator in reading.graph.operators:
        names = [one.name for one in ordered]
        waits = [names.index(last) for name in operator.inputs if (last := behind.get(name)) is not None]
        layer = layers.get(operator.name)
        if layer is not None:
            ordered.insert(max(waits, default=-1) + 1 if layer.runs_alone else len(ordered), layer)
        last = operator.name if layer is not None else (names[max(waits)] if waits else None)
        behind.update(dict.fromkeys(operator.outputs, last))
    return tuple(ordered)
