"""The layers of a network: each operator that is a loop nest, as one or several; what is none is left out."""

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
"""Of an element, where nothing says it."""
_WIDEST_SUM: Final = 32


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An operator that is no layer, and why."""

    operator: str
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class NetworkLayers:
    """Layers by name, in the network's order. One given as text is a network without a name of one layer.

    `times` are those that a layer runs on other data, for those that run more than once (the steps of an LSTM);
    `graph` is the network that the layers are of, None where there is none.
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
        """Return the multiply-accumulates of all layers, as often as they run."""
        return sum(layer.macs * self.times.get(name, 1) for name, layer in self.layers.items())

    @property
    def distinct(self) -> Mapping[Layer, tuple[str, ...]]:
        """Each layer once, with the names of all that are like it."""
        found: dict[Layer, list[str]] = {}
        for name, layer in self.layers.items():
            found.setdefault(layer, []).append(name)
        return {layer: tuple(names) for layer, names in found.items()}

    def only(self, name: str) -> NetworkLayers:
        """One of them; raises UsageError for another name."""
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
    """Bits of an element of every operand (None: each tensor's own), and of a sum in the making.

    Without `partial_bits` a sum has 16 more than an element, up to 32; 32 where elements have their tensor's own. It
    never has fewer than the output.
    """

    bits: int | None = 8
    partial_bits: int | None = None

    def __post_init__(self) -> None:
        if self.partial_bits is not None and self.partial_bits < (self.bits or 1):
            what = f"sums in the making have {self.partial_bits} bits"
            raise UsageError(what, place="--partial-bits", expected=f"at least those of an element ({self.bits or 1})")

    def on(self, accelerator: Accelerator) -> Precision:
        """With sums as wide as they are by default, but for what a memory of outputs has no room for."""
        if self.partial_bits is not None:
            return self
        rooms = [level.memory.capacity_bytes * 8 for level in accelerator.levels if OUTPUT in level.memory.holds]
        return replace(self, partial_bits=max(min(self._wide, *rooms) if rooms else self._wide, self.bits or 1))

    @property
    def sum_bits(self) -> int:
        """Of a sum in the making whose output has no more."""
        return self._wide if self.partial_bits is None else self.partial_bits

    def of(self, layer: Layer) -> Layer:
        """The layer with elements of so many bits; its own where these are each tensor's."""
        return self._with(layer, {operand: self.bits or layer.bits(operand) for operand in RELEVANT})

    def of_tensors(self, layer: Layer, source: Tensor, weight: Tensor | None, output: Tensor) -> Layer:
        """The layer with elements of so many bits, or of those of its tensors; 8 where these are given in bytes.

        A weight that the layer does not have is as wide as its input.
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
    """Of every operator that is a loop nest, at 8 bits an element.

    An operator that is several layers gives each a name of its own, like `up (0, 1)`; what no loop nest describes
    exactly is left out. Fused activations cost nothing.
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
    """The layers by name, and the operators that are none."""
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
    """Its loop nests at 8 bits an element, by what tells them apart; raises NoLayerError, or InputError."""
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
    """Return the shape of the output, then those of inputs and parameters with which the operator computes.

    Raises NoLayerError if a shape is unknown.
    """
    stored: list[Shape] = []
    for name in (operator.outputs[0], *operator.inputs, *operator.parameters):
        shape = graph.tensor[name].shape
        if shape is None:
            raise NoLayerError(f"tensor {name!r} has no shape")
        stored.append(shape)
    return [stored[0], *shapes_computed(operator, stored[1:])]
