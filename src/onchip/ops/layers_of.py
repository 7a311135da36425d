"""The layers that operators compute, and the tensors that they read and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT, Layer
from onchip.ir.operator import KEY_SLICE, RIGHT, SEEN_PARAMETER_SHAPES, SEEN_SHAPES, VIEWS, WEIGHT_FACTOR, Operator
from onchip.ir.operator_kinds import nests_of_plugin
from onchip.ir.tensor import Tensor, size_in_bytes
from onchip.ir.tile import whole_region
from onchip.ir.window import Shape, integer, shapes_as_read, shapes_computed, stated_factors
from onchip.ops.contractions import ATTENTION, MATRIX_KINDS, PACKED_PRODUCT, attention, nests_of, present_keys
from onchip.ops.entries import ENTRIES
from onchip.ops.fusable import HEADS_RANK, MATRIX_RANKS, OF_ROWS
from onchip.ops.sequences import RECURRENT, recurrence
from onchip.ops.slicing import REDUCTIONS
from onchip.ops.views import paces_of
from onchip.ops.windows import WINDOWS, NoLayerError, loop_nests

_MOVING: Final = frozenset(
    {
        "Appended",
        "Cast",
        "Concat",
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
    }
    | {"Pad", "Reshape", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile"}
    | {"Transpose", "Unsqueeze", "CONCATENATION", "GATHER", "EMBEDDING_LOOKUP"}
)
_OF_WHOLE_ROWS: Final = frozenset(
    {"Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization"}
    | {"MeanVarianceNormalization", "LpNormalization", "SimplifiedLayerNormalization"}
    | {"com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization"}
)
_CHOOSING: Final = frozenset(
    {"And", "ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "NonMaxSuppression"}
    | {"NonZero", "Not", "Or", "TopK", "Where", "Xor"}
)
_OF_COMPUTED_FACTORS: Final = frozenset({"DFT", "Resize", "STFT", "Upsample"})
_REASONS: Final = (
    (_MOVING, "it moves elements"),
    (_OF_WHOLE_ROWS, "row-wise reduction"),
    (_CHOOSING, "it compares or chooses elements"),
    (_OF_COMPUTED_FACTORS, "the factors of its products are no operand"),
)

WITHOUT_NEST: Final = frozenset().union(*(kinds for kinds, _ in _REASONS))
"""Kinds that are never a loop nest, and multiply no operands."""


def why_without_nest(kind: str) -> str:
    """Return the reason in one phrase."""
    what = "its kind is no loop nest of multiply-accumulates"
    return next((f"{what}: {reason}" for kinds, reason in _REASONS if kind in kinds), what)


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
            what = f"partial sums of {self.partial_bits} bits are narrower than elements"
            raise UsageError(what, place="partial_bits", expected=f"at least those of an element ({self.bits or 1})")

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
            layer, input_bits=bits[INPUT], weight_bits=bits[WEIGHT], output_bits=bits[OUTPUT], partial_bits=partial_bits
        )

    @property
    def _wide(self) -> int:
        return _WIDEST_SUM if self.bits is None else max(self.bits, min(self.bits + 16, _WIDEST_SUM))


def layers_of(graph: Graph, precision: Precision | None = None) -> NetworkLayers:
    """Return the layers of every operator that is a loop nest, at 8 bits per element without a precision.

    An operator of several layers gives each a name, like `up (0, 1)`. Operators that no loop nest describes exactly are
    left out. Fused activations cost nothing.
    """
    layers, left_out = layers_and_left_out(graph, precision)
    without = {one.operator for one in left_out}
    recurrent = [one for one in graph.operators if one.kind in RECURRENT and one.name not in without]
    times = {
        _name(operator, part): count
        for operator in recurrent
        for part, count in recurrence(operator, shapes_of(graph, operator)).times.items()
    }
    return NetworkLayers(graph.name, layers, left_out, times, graph)


def layers_and_left_out(
    graph: Graph, precision: Precision | None = None
) -> tuple[Mapping[str, Layer], tuple[LeftOut, ...]]:
    """Return the layers by name, and the operators that are not layers."""
    layers: dict[str, Layer] = {}
    left_out: list[LeftOut] = []
    for operator in graph.operators:
        try:
            parts = layers_of_operator(graph, operator)
            if precision is not None:
                parts = {part: precise_nest(graph, operator, one, precision) for part, one in parts.items()}
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


@dataclass(frozen=True, slots=True)
class NestOperands:
    """The names of the tensors that a loop nest reads; `weight` is None without a weight."""

    input: str
    weight: str | None


def nest_operands(graph: Graph, operator: Operator) -> NestOperands:
    """Return the operands of an operator's loop nests; raises NoLayerError if it has none."""
    shapes = shapes_of(graph, operator)
    names = (operator.outputs[0], *operator.inputs, *operator.parameters)
    if len(names) < 2:
        raise NoLayerError("it reads less than its kind does")
    if operator.kind in ENTRIES:
        places = ENTRIES[operator.kind](operator, shapes).factors
    else:
        outside = nests_of_plugin(operator, tuple(shapes))
        places = () if outside is None else tuple(filter(None, (outside.input, outside.weight)))
    if not places:
        raise NoLayerError("it has no loop nest")
    return NestOperands(names[places[0]], names[places[1]] if len(places) > 1 else None)


def precise(graph: Graph, operator: Operator, layer: Layer, precision: Precision) -> Layer:
    """Return a nest of the operator with the requested bits, or with the bits of its operands."""
    if precision.bits is not None:
        return precision.of(layer)
    tensor, operands = graph.tensor, nest_operands(graph, operator)
    weight = None if operands.weight is None else tensor[operands.weight]
    return precision.of_tensors(layer, tensor[operands.input], weight, tensor[operator.outputs[0]])


_OF_OTHER_TENSORS: Final = RECURRENT | ATTENTION | {PACKED_PRODUCT}
"""Kinds whose nests read more than the network's tensors: elements are as wide as those of the first tensor read."""


def precise_nest(graph: Graph, operator: Operator, layer: Layer, precision: Precision) -> Layer:
    """Return one of all nests of the operator, as `precise` does."""
    if operator.kind not in _OF_OTHER_TENSORS:
        return precise(graph, operator, layer, precision)
    source = graph.tensor[operator.reads[0]]
    return precision.of_tensors(layer, source, None, graph.tensor[operator.outputs[0]])


def largest_first(graph: Graph, names: Sequence[str]) -> tuple[str, ...]:
    """Return tensors in the operand order of an element-wise nest: by descending size; ties keep their order."""
    return tuple(sorted(names, key=lambda name: -prod(graph.tensor[name].shape or ())))


def multiplies_rows(graph: Graph, operator: Operator) -> bool:
    """Return True if each row of the output is a row of the only input times one matrix of weights.

    Square matrices may stand in the other order, unless the operator states that its weights are the right factor. The
    input may be read in another shape.
    """
    if operator.kind not in MATRIX_KINDS or len(operator.inputs) != 1:
        return False
    if not (VIEWS - {SEEN_SHAPES}).isdisjoint(operator.attributes):
        return False
    try:
        operands = nest_operands(graph, operator)
    except (NoLayerError, InputError):
        return False
    if operands.input not in operator.inputs or operands.weight not in operator.parameters:
        return False
    names = operands.input, operands.weight, operator.outputs[0]
    source, weight, written = (graph.tensor[name].shape or () for name in names)
    (source,) = shapes_as_read(operator, [source])[:1]
    others = [prod(graph.tensor[name].shape or ()) for name in operator.parameters if name != operands.weight]
    if len(weight) != 2 or min(weight) < 2 or any(size not in (1, written[-1]) for size in others):
        return False
    if len(source) != len(written) or len(written) < 2 or source[:-1] != written[:-1]:
        return False
    if operator.attributes.get("transA"):
        return False
    is_left = weight[0] == written[-2] and weight[1] == source[-2] and source[-1] == written[-1]
    return sorted(weight) == sorted((source[-1], written[-1])) and (
        not is_left or operator.kind == "FULLY_CONNECTED" or operator.attributes.get(WEIGHT_FACTOR) == RIGHT
    )


def multiplies_matrices(graph: Graph, operator: Operator) -> bool:
    """Return True if the operator multiplies its two inputs, matrices with equal batch and head dimensions."""
    if operator.kind != "MatMul" or operator.parameters or not VIEWS.isdisjoint(operator.attributes):
        return False
    if len(set(operator.inputs)) != 2 or stated_factors(operator):
        return False
    left, right, written = (graph.tensor[name].shape or () for name in (*operator.inputs, operator.outputs[0]))
    return len(left) > 1 and right[:-1] == (*left[:-2], left[-1]) and written == (*left[:-1], right[-1])


def works_on_rows(graph: Graph, operator: Operator) -> bool:
    """Return True if the operator normalises along the last dimension of its only input.

    The logarithms of sums of a softmax in slices of its keys count, too.
    """
    is_sum = operator.kind == "ReduceLogSumExp" and KEY_SLICE in operator.attributes
    if not (is_sum or operator.kind in OF_ROWS) or len(operator.inputs) != 1 or SEEN_SHAPES in operator.attributes:
        return False
    source, written = (graph.tensor[name].shape for name in (operator.inputs[0], operator.outputs[0]))
    if is_sum:
        is_last = operator.attributes.get("axes") in ([-1], [len(source or ()) - 1])
        return is_last and bool(source) and written == (*(source or ())[:-1], 1) and len(operator.outputs) == 1
    axis = operator.attributes.get("axis", -1)
    if source is None or source != written or len(operator.outputs) > 1:
        return False
    return isinstance(axis, int) and axis in (-1, len(source) - 1)


def moves_in_rows(graph: Graph, operator: Operator) -> bool:
    """Return True if a Slice leaves a part of each row of a matrix, a Concat joins rows, or a Cast copies a matrix."""
    names = (*operator.inputs, *operator.outputs)
    if operator.kind not in ("Cast", "Concat", "Slice") or len(set(names)) < len(names) or len(operator.outputs) > 1:
        return False
    *sources, written = (graph.tensor[name].shape or () for name in names)
    if not (VIEWS | {KEY_SLICE}).isdisjoint(operator.attributes) or len(written) not in (max(MATRIX_RANKS), HEADS_RANK):
        return False
    if any(source[:-1] != written[:-1] for source in sources):
        return False
    if operator.kind == "Slice":
        return len(sources) == 1 and paces_of(operator, sources[0], written) is not None
    if operator.kind == "Cast":
        return sources == [written]
    is_last = integer(operator, "axis", 0) in (-1, len(written) - 1)
    return is_last and not operator.parameters and sum(source[-1] for source in sources) == written[-1]


def times_repeated(graph: Graph, operator: Operator) -> int:
    """Return how many times in a row an Expand writes each head of a matrix; 0 for any other operator."""
    if operator.kind != "Expand" or len(operator.inputs) != 1 or len(operator.outputs) != 1:
        return 0
    if not (VIEWS - {SEEN_SHAPES, SEEN_PARAMETER_SHAPES}).isdisjoint(operator.attributes):
        return 0
    source, written = (graph.tensor[name].shape or () for name in (operator.inputs[0], operator.outputs[0]))
    if not len(source) == len(written) == HEADS_RANK or written[1] % source[1]:
        return 0
    batch, heads, *matrix = source
    is_in_a_row = shapes_as_read(operator, [source])[0] == (batch, heads, 1, *matrix) or heads == 1
    return written[1] // heads if is_in_a_row and written == (batch, written[1], *matrix) else 0


def reduces_rows(graph: Graph, operator: Operator) -> bool:
    """Return True if the operator reduces each row of its only input, of at most three dimensions, to one element."""
    if operator.kind not in REDUCTIONS or len(operator.inputs) != 1 or not VIEWS.isdisjoint(operator.attributes):
        return False
    source, written = (graph.tensor[name].shape or () for name in (operator.inputs[0], operator.outputs[0]))
    return 1 < len(source) <= max(MATRIX_RANKS) and source[-1] > 1 and written == (*source[:-1], 1)


_RANK_WITH_BATCH: Final = 4
_CONVOLUTIONS: Final = frozenset({"Conv", "ConvInteger", "QLinearConv"})
"""Kinds whose weights have a filter per output channel along their first dimension."""


@dataclass(frozen=True)
class Channels:
    """The channels of a graph's tensors: dimension 1 in four or more dimensions, else dimension 0.

    The channels of a convolution's filters are dimension 0 too: those of its output, not of its input.
    """

    graph: Graph

    def count(self, tensor: Tensor) -> int | None:
        """Return the number of channels of a tensor, or None without a shape."""
        return tensor.shape[self.axis(tensor)] if tensor.shape else None

    def axis(self, tensor: Tensor) -> int:
        """Return the index of the channel dimension of a tensor."""
        return 1 if _has_batch(tensor) and tensor.name not in self._filters else 0

    @cached_property
    def _filters(self) -> frozenset[str]:
        return frozenset(name for operator in self.graph.operators for name in self._filters_of(operator))

    def _filters_of(self, operator: Operator) -> tuple[str, ...]:
        if operator.kind not in _CONVOLUTIONS:
            return ()
        return tuple(name for name in operator.parameters if _has_batch(self.graph.tensor[name]))[:1]


def _has_batch(tensor: Tensor) -> bool:
    return len(tensor.shape or ()) >= _RANK_WITH_BATCH


def with_elements_of(graph: Graph, bits: int | None) -> Graph:
    """Return the network with `bits` per element (None: unchanged); tensors given in bytes stay unchanged."""
    if bits is None or all(tensor.bits in (bits, None) for tensor in graph.tensors):
        return graph
    return replace(graph, tensors=tuple(_with_bits(tensor, bits) for tensor in graph.tensors))


def _with_bits(tensor: Tensor, bits: int) -> Tensor:
    if tensor.shape is None:
        return tensor
    return replace(tensor, bits=bits, size_bytes=size_in_bytes(tensor.shape, bits))
