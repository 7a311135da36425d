"""Softmaxes between two products in slices of the keys (online softmax; docs/schedule.md, section 2).

The second product adds up over the keys, so that slices of the keys give partial results. Each slice has its own
softmax. A partial result counts with the share of its slice in the sum of exponentials so far, which follows from the
logarithms of these sums:

    share = sigmoid(before - own),  result = own result + share * (result before - own result)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import KEY_SLICE, NOTHING_STATED, OF_ONE_AXIS, PARAMETER_FIRST, AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range
from onchip.ir.window import Shape
from onchip.ops.layers_of import multiplies_matrices, works_on_rows

MOST_SLICES: Final = 16
"""Greatest number of slices that is tried: the operators of an attention are as many times eight."""
_SCALES: Final = ("Mul", "Div")


@dataclass(frozen=True, slots=True)
class Attended:
    """A product of matrices, scales by single numbers, a softmax of rows, and a product that only reads its result."""

    scores: Operator
    scales: tuple[Operator, ...]
    softmax: Operator
    product: Operator


def attended(graph: Graph) -> Iterator[Attended]:
    """Yield the softmaxes that may run in slices of the keys.

    A mask between product and softmax might hide all keys of a slice, so that the slice would have no softmax.
    """
    for softmax in graph.operators:
        if softmax.kind != "Softmax" or not works_on_rows(graph, softmax):
            continue
        readers = graph.readers[softmax.outputs[0]]
        before = [*_before(graph, softmax)]
        inner = (softmax, *before)
        if len(readers) != 1 or not before or not all(_is_inner(graph, one) for one in inner):
            continue
        (product,) = readers
        if not all(_is_plain(one) for one in (*inner, product)) or not _has_one_width(graph, (*inner, product)):
            continue
        is_left = multiplies_matrices(graph, product) and product.inputs[0] == softmax.outputs[0]
        has_keys = (graph.tensor[softmax.outputs[0]].shape or (1,))[-1] > 1
        if has_keys and is_left and multiplies_matrices(graph, before[-1]):
            yield Attended(before[-1], tuple(before[-2::-1]), softmax, product)


def _before(graph: Graph, softmax: Operator) -> Iterator[Operator]:
    """Yield the operators between a softmax and a product, which stands last, or nothing."""
    found, name = list[Operator](), softmax.inputs[0]
    while (operator := graph.producer.get(name)) is not None:
        found.append(operator)
        is_scale = operator.kind in _SCALES and len(operator.inputs) == len(operator.parameters) == 1
        if operator.kind == "MatMul":
            yield from found
        if not is_scale or any(set(graph.tensor[one].shape or (2,)) - {1} for one in operator.parameters):
            return
        name = operator.inputs[0]


def _is_inner(graph: Graph, operator: Operator) -> bool:
    """Return True if an operator has one reader of its only output."""
    (written, *others) = operator.outputs
    return graph.tensor[written].role is Role.ACTIVATION and len(graph.readers[written]) == 1 and not others


def _is_plain(operator: Operator) -> bool:
    """Return True if an operator has no activation, no stated costs, and only attributes that its slices have."""
    is_bare = len(operator.members) < 2 and not operator.workspace_bytes and operator.stated == NOTHING_STATED
    return is_bare and operator.tile is None and operator.attributes.keys() <= {"axis", OF_ONE_AXIS, PARAMETER_FIRST}


def _has_one_width(graph: Graph, operators: Iterable[Operator]) -> bool:
    """Return True if all maps that the operators read and write have elements of the same width."""
    widths = {graph.tensor[name].bits for one in operators for name in (*one.inputs, *one.outputs)}
    return len(widths) == 1 and None not in widths


def slice_counts(graph: Graph) -> tuple[int, ...]:
    """Return the numbers of slices of the keys that may be tried: 1 and, if there are keys, 2, 4, ..."""
    keys = [(graph.tensor[one.softmax.outputs[0]].shape or (1,))[-1] for one in attended(graph)]
    counts, count = [1], 2
    while count <= min(max(keys, default=1), MOST_SLICES):
        counts.append(count)
        count *= 2
    return tuple(counts)


def sliced_together(graph: Graph, count: int) -> tuple[tuple[str, ...], ...]:
    """Return the names of the operators of each softmax in slices, as `with_key_slices` makes them."""
    return tuple(tuple(one.name for one in _Slices(graph, each, []).operators(count)) for each in attended(graph))


def with_key_slices(graph: Graph, count: int) -> Graph:
    """Return the network with each softmax that allows it in at most `count` slices of its keys."""
    found = {one.product.name: one for one in attended(graph)} if count > 1 else {}
    if not found:
        return graph
    apart = {one.name for each in found.values() for one in (each.scores, *each.scales, each.softmax)}
    operators, tensors = list[Operator](), list(graph.tensors)
    for operator in graph.operators:
        if operator.name in found:
            slices = _Slices(graph, found[operator.name], tensors)
            operators += slices.operators(count)
        elif operator.name not in apart:
            operators.append(operator)
    gone = {name for operator in graph.operators if operator.name in apart for name in operator.outputs}
    return Graph(graph.name, tuple(one for one in tensors if one.name not in gone), tuple(operators), graph.states)


@dataclass(slots=True)
class _Slices:
    """The operators of an attention in slices; they add their tensors to `tensors`."""

    graph: Graph
    parts: Attended
    tensors: list[Tensor]
    made: list[Operator] = field(default_factory=list)

    def operators(self, count: int) -> list[Operator]:
        """Return the operators of all slices; the last of them writes the product's output."""
        parts = self.parts
        keys, output = self._shape(parts.softmax.outputs[0])[-1], self._shape(parts.product.outputs[0])
        size = -(-keys // count)
        ranges = list(pairwise((0, *range(keys % size or size, keys + 1, size))))
        rows = (*output[:-1], 1)
        result = total = ""
        for at, own in enumerate(ranges):
            is_last = at == len(ranges) - 1
            scores, weights = self._scores(own, at), self._name(parts.softmax, at)
            of_rows: Mapping[str, AttributeValue] = {"axes": [-1], "keepdims": 1, KEY_SLICE: True}
            sums = self._add(f"{weights} sums", "ReduceLogSumExp", [scores], rows, of_rows)
            weights = self._add(weights, "Softmax", [scores], self._shape_of(scores), {"axis": -1})
            values = self._part(parts.product, at, own, -2)
            own_result = self._add(self._name(parts.product, at), "MatMul", [weights, values], output)
            if not result:
                result, total = own_result, sums
                continue
            name = self._name(parts.product, at)
            apart = self._add(f"{name} from sums", "Sub", [total, sums], rows)
            share = self._add(f"{name} share", "Sigmoid", [apart], rows)
            change = self._add(f"{name} apart", "Sub", [result, own_result], output)
            change = self._add(f"{name} change", "Mul", [change, share], output)
            if is_last:
                last = Operator(parts.product.name, "Add", (change, own_result), parts.product.outputs)
                return [*self.made, last]
            result = self._add(f"{name} result", "Add", [change, own_result], output)
            grown = self._add(f"{name} grown", "Softplus", [apart], rows)
            total = self._add(f"{name} sums", "Add", [grown, sums], rows)
        return self.made

    def _scores(self, own: Range, at: int) -> str:
        """Add the scores of a slice, with their scales."""
        keys = self._part(self.parts.scores, at, own, -1)
        shape = (*self._shape(self.parts.scores.outputs[0])[:-1], own[1] - own[0])
        found = self._add(self._name(self.parts.scores, at), "MatMul", [self.parts.scores.inputs[0], keys], shape)
        for one in self.parts.scales:
            found = self._add(self._name(one, at), one.kind, [found], shape, one.attributes, one.parameters)
        return found

    def _part(self, product: Operator, at: int, own: Range, axis: int) -> str:
        """Add the slice of the right factor of a product."""
        source = self._shape(product.inputs[1])
        place = len(source) + axis
        shape = (*source[:place], own[1] - own[0], *source[place + 1 :])
        name = f"{self._name(product, at)} factor"
        ends: Mapping[str, AttributeValue] = {"starts": [own[0]], "ends": [own[1]], "axes": [place], "steps": [1]}
        return self._add(name, "Slice", [product.inputs[1]], shape, {**ends, KEY_SLICE: True})

    def _name(self, operator: Operator, at: int) -> str:
        return f"{operator.name} ({at})"

    def _shape(self, name: str) -> Shape:
        return self.graph.tensor[name].shape or ()

    def _shape_of(self, made: str) -> Shape:
        return next(one.shape or () for one in reversed(self.tensors) if one.name == made)

    def _add(
        self,
        name: str,
        kind: str,
        inputs: list[str],
        shape: Shape,
        attributes: Mapping[str, AttributeValue] = MappingProxyType({}),
        parameters: tuple[str, ...] = (),
    ) -> str:
        """Add an operator and its output, both of that name; return the name."""
        bits = self.graph.tensor[self.parts.product.outputs[0]].bits or 0
        self.tensors.append(Tensor.of_shape(name, shape, bits, Role.ACTIVATION))
        self.made.append(Operator(name, kind, tuple(inputs), (name,), parameters, dict(attributes)))
        return name
