"""Fold quantisation into the operators around it.

Files write an integer operator as DequantizeLinear, a floating-point operator, QuantizeLinear (QDQ), so that any
runtime can compute it. Runtimes made for QDQ run the three as one, and no map is ever in floating point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from math import prod
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_SHAPES, AttributeValue, Operator
from onchip.ir.tensor import Role

QUANTISE: Final = frozenset({"QuantizeLinear", "com.microsoft::QuantizeLinear"})
DEQUANTISE: Final = frozenset({"DequantizeLinear", "com.microsoft::DequantizeLinear"})
_SCALE: Final = "scale"
_GREATEST_BITS: Final = 16
"""Most bits of integers that survive a round trip through float32 at any scale."""


@dataclass(frozen=True, slots=True)
class SameScaleFold:
    """The transform that removes such quantisations, which files write around views of a map.

    Their readers then read the integers themselves, and list the viewed shapes if these differ.
    """

    def __call__(self, graph: Graph) -> Graph:
        """Return the same network, with the same inputs, outputs and parameters."""
        dropped = {one.outputs[0]: source for one in graph.operators if (source := _source(graph, one)) is not None}
        if not dropped:
            return graph
        same = {name: _origin(name, dropped) for name in dropped}
        kept = [one for one in graph.operators if dropped.keys().isdisjoint(one.outputs)]
        tensors = tuple(tensor for tensor in graph.tensors if tensor.name not in dropped)
        operators = tuple(_reading(graph, one, same) for one in kept)
        return Graph(graph.name, tensors, operators, graph.states_among(tensors))


def _source(graph: Graph, operator: Operator) -> str | None:
    """Return the integers that a quantisation reproduces, or None if it makes other ones."""
    if operator.kind not in QUANTISE or len(operator.inputs) != 1 or len(operator.members) > 1:
        return None
    before = graph.producer.get(operator.inputs[0])
    if before is None or before.kind not in DEQUANTISE or len(before.inputs) != 1 or len(before.members) > 1:
        return None
    made, source = graph.tensor[operator.outputs[0]], graph.tensor[before.inputs[0]]
    alike = made.bits == source.bits and made.size_bytes == source.size_bytes and (made.bits or 64) <= _GREATEST_BITS
    is_free = made.role is Role.ACTIVATION and made.part_of is None
    return source.name if alike and is_free and _have_one_scale(graph, before, operator) else None


def _have_one_scale(graph: Graph, before: Operator, after: Operator) -> bool:
    """Return True if both state the same scales, along the same axes if there are several."""
    stated = [{**one.attributes, SEEN_SHAPES: None} for one in (before, after)]
    if before.parameters != after.parameters or stated[0] != stated[1]:
        return False
    if not before.parameters:
        return _SCALE in before.attributes
    is_single = all(_elements(graph, name) == 1 for name in before.parameters)
    shapes = [graph.tensor[name].shape for name in (before.inputs[0], after.outputs[0])]
    return is_single or (shapes[0] == shapes[1] and SEEN_SHAPES not in before.attributes)


def _elements(graph: Graph, name: str) -> int | None:
    shape = graph.tensor[name].shape
    return None if shape is None else prod(shape)


def _origin(name: str, dropped: Mapping[str, str]) -> str:
    while name in dropped:
        name = dropped[name]
    return name


def _reading(graph: Graph, operator: Operator, same: Mapping[str, str]) -> Operator:
    """Return the operator with the integers in place of the removed tensors."""
    if same.keys().isdisjoint(operator.inputs):
        return operator
    inputs = tuple(same.get(name, name) for name in operator.inputs)
    attributes: dict[str, AttributeValue] = dict(operator.attributes)
    shapes = [graph.tensor[name].shape for name in operator.inputs]
    stored = [graph.tensor[name].shape for name in inputs]
    if SEEN_SHAPES not in attributes and shapes != stored and None not in shapes:
        attributes[SEEN_SHAPES] = [list(shape or ()) for shape in shapes]
    return replace(operator, inputs=inputs, attributes=attributes)


PLAIN_KINDS: Final[Mapping[str, str]] = {
    "QLinearConv": "Conv",
    "ConvInteger": "Conv",
    "QLinearMatMul": "MatMul",
    "MatMulInteger": "MatMul",
    "com.microsoft::QGemm": "Gemm",
    "com.microsoft::QLinearAdd": "Add",
    "com.microsoft::QLinearMul": "Mul",
    "com.microsoft::QLinearSigmoid": "Sigmoid",
    "com.microsoft::QLinearLeakyRelu": "LeakyRelu",
    "com.microsoft::QLinearSoftmax": "Softmax",
    "com.microsoft::QLinearConcat": "Concat",
    "com.microsoft::QLinearWhere": "Where",
    "com.microsoft::QLinearReduceMean": "ReduceMean",
    "com.microsoft::QLinearAveragePool": "AveragePool",
    "com.microsoft::QLinearGlobalAveragePool": "GlobalAveragePool",
}
"""Map from integer kinds to the kinds that they compute; scales and zero points are further parameters."""
_OF_INTEGERS: Final = QUANTISE | DEQUANTISE | PLAIN_KINDS.keys()
"""Kinds that indicate a quantised network; without any of them there is nothing to fold."""
_CHANNELS_LAST: Final = "channels_last"
_WITH_INDICES: Final = frozenset(
    {"Gather", "GatherElements", "GatherND", "Slice", "Pad", "Resize", "Expand", "Tile", "Upsample"}
)
"""Kinds whose first input alone holds values of the network; the others are indices or counts."""


@dataclass(frozen=True, slots=True)
class QuantisationFold:
    """The transform that merges an operator with its dequantisations and its quantisations.

    Activations must be fused before, because they stand between an operator and its quantisation. An operator is folded
    if all maps that it reads are dequantised, and each map that it writes is quantised once and has no other reader. A
    quantisation of a map just dequantised with another scale is folded too. Remaining floating-point operators stay:
    the quantisation of a network input, the dequantisation of an output or of a map without an integer reader. Folded
    operators read and write only integers, with scales and zero points as further parameters; they keep their names and
    list all their nodes as members. Integer kinds (`PLAIN_KINDS`) get the name of the kind that they compute.
    """

    def __call__(self, graph: Graph) -> Graph:
        """Return the same network, with the same inputs, outputs and parameters."""
        if not any(operator.kind in _OF_INTEGERS for operator in graph.operators):
            return graph
        graph = SameScaleFold()(graph)
        folding = _Folding(graph)
        operators = tuple(_plain(operator) for operator in folding.operators())
        used = {name for operator in operators for name in (*operator.reads, *operator.outputs)}
        is_there = (one.name in used or one.role in (Role.INPUT, Role.PARAMETER) for one in graph.tensors)
        tensors = tuple(compress(graph.tensors, is_there))
        return Graph(graph.name, tensors, operators, graph.states_among(tensors))


@dataclass(frozen=True, slots=True)
class _Folding:
    graph: Graph

    def operators(self) -> Iterator[Operator]:
        """Yield the remaining operators in the given order."""
        over = {one.name: one for operator in self.graph.operators if (one := self._over_integers(operator))}
        written = {name for one in over.values() for name in one.outputs}
        read = {name for operator in self.graph.operators for name in over.get(operator.name, operator).reads}
        for operator in self.graph.operators:
            if operator.name in over:
                yield over[operator.name]
            elif operator.kind in DEQUANTISE and not self._is_needed(operator, read):
                continue
            elif written.isdisjoint(operator.outputs):
                yield operator

    def _over_integers(self, operator: Operator) -> Operator | None:
        """Return the operator merged with its dequantisations and quantisations; None if it is not between them."""
        before = self._dequantisations(operator)
        if before is None:
            return None
        if operator.kind in QUANTISE:
            after: tuple[Operator, ...] = ()
        elif (found := self._quantisations(operator)) is not None:
            after = found
        else:
            return None
        scales = [name for one in (*before.values(), *after) for name in one.parameters]
        nodes = (operator, *before.values(), *after)
        return replace(
            operator,
            inputs=tuple(before[name].inputs[0] if name in before else name for name in operator.inputs),
            outputs=tuple(one.outputs[0] for one in after) or operator.outputs,
            parameters=tuple(dict.fromkeys((*operator.parameters, *scales))),
            attributes=self._attributes(operator, before),
            members=tuple(dict.fromkeys(member for one in nodes for member in one.members or (one.name,))),
        )

    def _attributes(self, operator: Operator, before: Mapping[str, Operator]) -> Mapping[str, AttributeValue]:
        """Return the operator's attributes, with the viewed shapes if a dequantisation reads a view of a map."""
        read = [before[name].inputs[0] if name in before else name for name in operator.inputs]
        seen, stored = ([self.graph.tensor[name].shape for name in names] for names in (operator.inputs, read))
        if SEEN_SHAPES in operator.attributes or seen == stored or None in seen:
            return operator.attributes
        return {**operator.attributes, SEEN_SHAPES: [list(shape or ()) for shape in seen]}

    def _dequantisations(self, operator: Operator) -> dict[str, Operator] | None:
        """Return the dequantisations of all maps that it reads, by input name; None if one is missing."""
        found = {name: one for name in operator.inputs if (one := self._dequantisation(name)) is not None}
        values = operator.inputs[:1] if operator.kind in _WITH_INDICES else operator.inputs
        is_whole = bool(values) and all(name in found for name in values)
        return found if is_whole and operator.kind not in DEQUANTISE else None

    def _dequantisation(self, tensor: str) -> Operator | None:
        producer = self.graph.producer.get(tensor)
        is_one = producer is not None and producer.kind in DEQUANTISE and len(producer.inputs) == 1
        return producer if is_one else None

    def _quantisations(self, operator: Operator) -> tuple[Operator, ...] | None:
        """Return the quantisations of all its outputs in order; None if one is missing or is not the only reader."""
        found = []
        for name in operator.outputs:
            readers, tensor = self.graph.readers[name], self.graph.tensor[name]
            is_quantised = len(readers) == 1 and readers[0].kind in QUANTISE and readers[0].inputs == (name,)
            if not is_quantised or tensor.role is not Role.ACTIVATION or tensor.part_of is not None:
                return None
            found.append(readers[0])
        return tuple(found)

    def _is_needed(self, operator: Operator, read: set[str]) -> bool:
        return any(name in read or self.graph.tensor[name].role is Role.OUTPUT for name in operator.outputs)


def _plain(operator: Operator) -> Operator:
    """Return the operator under the kind that it computes; unchanged with channels last, whose axes differ."""
    kind = PLAIN_KINDS.get(operator.kind)
    return operator if kind is None or operator.attributes.get(_CHANNELS_LAST) else replace(operator, kind=kind)
