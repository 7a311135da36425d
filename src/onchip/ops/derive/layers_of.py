"""The layers of a network: the loop nests of each operator; operators without one are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT, Layer
from onchip.ir.operator import Operator
from onchip.ir.operator_kinds import nests_of_plugin
from onchip.ir.region import whole_region
from onchip.ir.tensor import Tensor
from onchip.ir.window import shapes_computed
from onchip.ops.contractions.attention import ATTENTION, attention, present_keys
from onchip.ops.contractions.contractions import nests_of
from onchip.ops.derive.without_nest import why_without_nest
from onchip.ops.registry.entries import ENTRIES
from onchip.ops.sequences.recurrences import RECURRENT, recurrence
from onchip.ops.windows.sliding_windows import WINDOWS, NoLayerError, Shape, loop_nests

PLAIN_BITS: Final = 8
"""Bits per element of a tensor that does not state them."""
_WIDEST_SUM: Final = 32


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An operator that is not a layer, and the reason."""

    operator: str
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class NetworkLayers:
    """Layers by name, in the network's order; one given as text is an unnamed network of one layer.

    `times` is the number of executions on different data of layers that run more than once, such as the steps of an
    LSTM. `graph` is the network of the layers, or None.
    """

    name: str | None
    layers: Mapping[str, Layer]
    left_out: tuple[LeftOut, ...] = ()
    times: Mapping[str, int] = field(default_factory=dict)
    graph: Graph | None = None

    def __post_init__(self) -> None:
        if not self.layers and not self.left_out:
            raise InputError("it has no layers", file=self.name, expected="at least one")

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates of all executions of all layers."""
        return sum(layer.macs * self.times.get(name, 1) for name, layer in self.layers.items())

    @property
    def distinct(self) -> Mapping[Layer, tuple[str, ...]]:
        """Return each distinct layer once, with the names of all layers equal to it."""
        found: dict[Layer, list[str]] = {}
        for name, layer in self.layers.items():
            found.setdefault(layer, []).append(name)
        return {layer: tuple(names) for layer, names in found.items()}

    def only(self, name: str) -> NetworkLayers:
        """Return the network with this layer only; raises UsageError for an unknown name."""
        if name not in self.layers:
            for one in self.left_out:
                if one.operator == name:
                    raise UsageError(f"{one.kind} {name!r} is no layer: {one.why}", file=self.name)
            some = ", ".join(list(self.layers)[:5])
            raise UsageError(f"no layer {name!r}", file=self.name, expected=f"one of its layers: {some}, ...")
        times = {name: self.times[name]} if name in self.times else {}
        return NetworkLayers(self.name, {name: self.layers[name]}, times=times)


@dataclass(frozen=True, slots=True)
class Precision:
    """Bits per element of every operand (None: each tensor's own), and of a partial sum.

    Without `partial_bits` a partial sum has 16 bits more than an element, up to 32, or 32 if elements have their
    tensor's width. It is never narrower than the output.
    """

    bits: int | None = 8
    partial_bits: int | None = None

    def __post_init__(self) -> None:
        if self.partial_bits is not None and self.partial_bits < (self.bits or 1):
            what = f"sums in the making have {self.partial_bits} bits"
            raise UsageError(what, place="--partial-bits", expected=f"at least those of an element ({self.bits or 1})")

    def on(self, accelerator: Accelerator) -> Precision:
        """Return the precision with partial sums of default width, limited by the smallest memory of outputs."""
        if self.partial_bits is not None:
            return self
        rooms = [level.memory.capacity_bytes * 8 for level in accelerator.levels if OUTPUT in level.memory.holds]
        return replace(self, partial_bits=max(min(self._wide, *rooms) if rooms else self._wide, self.bits or 1))

    @property
    def sum_bits(self) -> int:
        """Return the bits of a partial sum whose output is not wider."""
        return self._wide if self.partial_bits is None else self.partial_bits

    def of(self, layer: Layer) -> Layer:
        """Return the layer with elements of `bits`, or with its own widths if `bits` is None."""
        return self._with(layer, {operand: self.bits or layer.bits(operand) for operand in RELEVANT})

    def of_tensors(self, layer: Layer, source: Tensor, weight: Tensor | None, output: Tensor) -> Layer:
        """Return the layer with elements of `bits`, or as wide as its tensors' (8 bits for tensors given in bytes).

        A layer without a weight gets the input's width for it.
        """
        own = {INPUT: source, WEIGHT: weight or source, OUTPUT: output}
        return self._with(layer, {operand: self.bits or one.bits or PLAIN_BITS for operand, one in own.items()})

    def _with(self, layer: Layer, bits: Mapping[str, int]) -> Layer:
        partial_bits = self.sum_bits if self.bits is not None else max(self.sum_bits, bits[OUTPUT])
        return replace(
            layer,
            input_bits=bits[INPUT],
            weight_bits=bits[WEIGHT],
            output_bits=bits[OUTPUT],
            partial_bits=partial_bits,
        )

    @property
    def _wide(self) -> int:
        return _WIDEST_SUM if self.bits is None else max(self.bits, min(self.bits + 16, _WIDEST_SUM))


def layers_of(graph: Graph) -> NetworkLayers:
    """Return the layers of every operator that is a loop nest, at 8 bits per element.

    An operator of several layers gives each a name, like `up (0, 1)`. Operators that no loop nest describes exactly are
    left out. Fused activations cost nothing.
    """
    layers, left_out = layers_and_left_out(graph)
    without = {one.operator for one in left_out}
    recurrent = [one for one in graph.operators if one.kind in RECURRENT and one.name not in without]
    times = {
        _name(operator, part): count
        for operator in recurrent
        for part, count in recurrence(operator, shapes_of(graph, operator)).times.items()
    }
    return NetworkLayers(graph.name, layers, left_out, times, graph)


def layers_and_left_out(graph: Graph) -> tuple[Mapping[str, Layer], tuple[LeftOut, ...]]:
    """Return the layers by name, and the operators that are not layers."""
    layers: dict[str, Layer] = {}
    left_out: list[LeftOut] = []
    for operator in graph.operators:
        try:
            parts = layers_of_operator(graph, operator)
        except (NoLayerError, InputError) as error:
            left_out.append(LeftOut(operator.name, operator.kind, str(error)))
        else:
            layers |= {_name(operator, part): one for part, one in parts.items()}
    return layers, tuple(left_out)


def _name(operator: Operator, part: str) -> str:
    return f"{operator.name} ({part})" if part else operator.name


def layers_of_operator(graph: Graph, operator: Operator) -> Mapping[str, Layer]:
    """Return the operator's loop nests at 8 bits per element, by suffix; raises NoLayerError or InputError."""
    if any(graph.tensor[name].part_of for name in (*operator.reads, *operator.outputs)):
        raise NoLayerError("it is a tile of a layer")
    shapes = shapes_of(graph, operator)
    if len(shapes) < 2:
        raise NoLayerError("it reads nothing")
    kind = operator.kind
    if kind in WINDOWS:
        return loop_nests(WINDOWS[kind](operator, shapes), whole_region(shapes[0][2:]))
    if kind in ATTENTION:
        return attention(operator, shapes, present_keys(graph, operator))
    if kind in RECURRENT:
        return recurrence(operator, shapes).layers
    if kind in ENTRIES and ((entry := ENTRIES[kind](operator, shapes)).factors or entry.stated or entry.why):
        return nests_of(entry)
    nests = nests_of_plugin(operator, tuple(shapes))
    if nests is None:
        raise NoLayerError(why_without_nest(operator.kind))
    return {str(at) if len(nests.layers) > 1 else "": layer for at, layer in enumerate(nests.layers)}


def shapes_of(graph: Graph, operator: Operator) -> list[Shape]:
    """Return the shape of the output, then the shapes in which the operator computes with inputs and parameters.

    Raises NoLayerError if a shape is unknown.
    """
    stored: list[Shape] = []
    for name in (operator.outputs[0], *operator.inputs, *operator.parameters):
        shape = graph.tensor[name].shape
        if shape is None:
            raise NoLayerError(f"tensor {name!r} has no shape")
        stored.append(shape)
    return [stored[0], *shapes_computed(operator, stored[1:])]
