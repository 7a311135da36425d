"""Build a Graph from an ONNX graph of known types: constants disappear, views fold into their base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

import onnx
from onnx import numpy_helper

from onchip.errors import GraphError
from onchip.formats.onnx.constants import Constants, ModelTypes
from onchip.formats.onnx.nodes import BITS, attributes_of, kind_of, node_names, type_name
from onchip.formats.onnx.specification import TypedNode, unusual_pads
from onchip.ir.graph import Graph
from onchip.ir.operator import (
    OF_ONE_AXIS,
    PARAMETER_FIRST,
    RIGHT,
    SEEN_PARAMETER_SHAPES,
    SEEN_SHAPES,
    UPPER_BOUND,
    WEIGHT_FACTOR,
    AttributeValue,
    Operator,
)
from onchip.ir.tensor import Role, Tensor

_VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"}


def may_drop(node: onnx.NodeProto, constants: Constants) -> bool:
    """Return True if a node is a Dropout that may drop elements at random, as in training."""
    if kind_of(node) != "Dropout" or len(node.input) < 3 or not node.input[2]:
        return False
    value = constants.value(node.input[2])
    return value is None or bool(numpy_helper.to_array(value).any())


class Storage:
    """Bases of views, and the tensors that store each constant."""

    def __init__(self, graph: onnx.GraphProto, types: ModelTypes) -> None:
        self._types = types
        self._base: dict[str, str] = {}
        self._writer: dict[str, tuple[onnx.NodeProto, str]] = {}
        self._network_inputs = {value.name for value in graph.input if value.name not in types.constants}
        for node, name, outputs in zip(graph.node, node_names(graph.node), types.outputs, strict=True):
            for output in outputs:
                self._writer[output] = (node, name)
            if self._is_view(node, outputs):
                self._base[outputs[0]] = self.base(node.input[0])

    def base(self, name: str) -> str:
        """Return the tensor whose bytes `name` shows: itself unless it is a view."""
        return self._base.get(name, name)

    def is_network_input(self, name: str) -> bool:
        """Return True if `name` is an input that is not a parameter."""
        return name in self._network_inputs

    def is_written(self, name: str) -> bool:
        """Return True if a node of the file writes `name`, folded or not."""
        return name in self._writer

    def is_folded(self, node: onnx.NodeProto) -> bool:
        """Return True if nothing runs for `node`: it is a view, or its outputs are constants."""
        outputs = [output for output in node.output if output in self._writer]
        return all(output in self._base or output in self._types.constants for output in outputs)

    def stored_as(self, constant: str) -> Iterator[str]:
        """Yield the tensors that store a constant: itself, or the quantised tensor that it comes from.

        A dequantised (and transposed) weight is kept in its quantised type, with scale and zero point.
        """
        waiting = [constant]
        while waiting:
            name = waiting.pop()
            node, _ = self._writer.get(name, (None, ""))
            if node is not None and self._comes_from_quantised(name):
                waiting.extend(self.base(operand) for operand in reversed(node.input) if operand)
            else:
                yield name

    def place_of(self, name: str) -> str:
        """Return the place of a tensor for messages: the node that writes it, or the tensor."""
        return f"node {self._writer[name][1]!r}" if name in self._writer else f"tensor {name!r}"

    def _comes_from_quantised(self, name: str) -> bool:
        while name in self._writer:
            node, _ = self._writer[name]
            if node.op_type == "DequantizeLinear":
                return True
            if node.op_type != "Transpose":
                return False
            name = self.base(node.input[0])
        return False

    def _is_view(self, node: onnx.NodeProto, outputs: tuple[str, ...]) -> bool:
        if kind_of(node) not in _VIEWS or len(outputs) != 1 or outputs[0] != node.output[0]:
            return False
        if may_drop(node, self._types.constants):
            return False
        if not self._has_as_many_elements(node.input[0], outputs[0]):
            return False
        return all(operand in self._types.constants for operand in node.input[1:] if operand)

    def _has_as_many_elements(self, operand: str, output: str) -> bool:
        """Return True unless the sizes are known and differ: a bound may exceed the exact size of a reshaping."""
        names = operand, output
        if not all(name in self._types.static for name in names):
            return True
        return len({prod(self._types.shape_and_element_type(name)[0]) for name in names}) == 1


_REDUCTIONS: Final = (
    *("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
)
_NAMED: Final[Mapping[str, Mapping[int, str]]] = {
    "Slice": {1: "starts", 2: "ends", 3: "axes", 4: "steps"},
    "Pad": {1: "pads", 3: "axes"},
    "Resize": {2: "scales", 3: "sizes"},
    "Upsample": {1: "scales"},
    "Tile": {1: "repeats"},
    "TopK": {1: "k"},
    "Split": {1: "split"},
    "CumSum": {1: "axis"},
    "STFT": {1: "frame_step", 3: "frame_length"},
    **{kind: {1: "axes"} for kind in _REDUCTIONS},
}
"""Map from kind to the attributes that inputs replace, by input."""
_OF_ORDERED_OPERANDS: Final = ("Div", "Pow", "Sub")
_OF_LAST_AXIS: Final = ("Softmax", "LogSoftmax", "Hardmax")
_FIRST_OF_LAST_AXIS: Final = 13


def build_graph(graph: onnx.GraphProto, types: ModelTypes, name: str) -> Graph:
    """Build the raw graph; raises GraphError for tensors of unknown size and for names that collide."""
    return _Builder(graph, types).build(name)


class _Builder:
    def __init__(self, graph: onnx.GraphProto, types: ModelTypes) -> None:
        self.graph = graph
        self.types = types
        self.storage = Storage(graph, types)
        self.tensors: dict[str, Tensor] = {}
        self.operators: list[Operator] = []
        outputs = dict.fromkeys(value.name for value in graph.output)
        self.network_outputs = tuple(name for name in outputs if not types.is_empty(name))
        self.names = set(types.static) | set(types.unknown)
        self.copies: dict[str, str] = {}

    def build(self, name: str) -> Graph:
        inputs = [value.name for value in self.graph.input if value.name not in self.types.constants]
        if len(set(inputs)) < len(inputs):
            twice = next(one for one in inputs if inputs.count(one) > 1)
            raise GraphError("two network inputs have this name", f"tensor {twice!r}", "one")
        for network_input in inputs:
            self._add_tensor(network_input, Role.INPUT)
        for output in self.network_outputs:
            if not self.storage.is_written(output):
                self._add_copy(output, None)
        for node, node_name, outputs in zip(
            self.graph.node, node_names(self.graph.node), self.types.outputs, strict=True
        ):
            if self.storage.is_folded(node):
                for output in outputs:
                    if output in self.network_outputs and self._is_source(self.storage.base(output)):
                        self._add_copy(output, node_name)
            else:
                self._add_operator(node, node_name, outputs)
        self._mark_network_outputs()
        return Graph(name, tuple(self.tensors.values()), tuple(self.operators))

    def _is_source(self, base: str) -> bool:
        """Return True if no operator writes `base`; an output over it must be copied."""
        return base in self.types.constants or self.storage.is_network_input(base)

    def _add_operator(self, node: onnx.NodeProto, name: str, outputs: tuple[str, ...]) -> None:
        inputs: list[str] = []
        parameters: list[str] = []
        for operand in filter(None, node.input):
            base = self.storage.base(operand)
            if base in self.types.constants:
                parameters.extend(self._parameters(base))
            else:
                inputs.append(base)
        outputs = tuple(output for output in outputs if not self.types.is_empty(output))
        for output in outputs:
            self._add_tensor(output, Role.ACTIVATION)
        kind = kind_of(node)
        if node.input and self.types.is_empty(node.input[0]) and kind != "Concat":
            kind = f"Empty{kind}"  # a kind without rules, since the rules need the first operand
        attributes = self._attributes(node) | self._views_read(node)
        if kind in ("MatMul", "Gemm") and self._fits_both_orders(node):
            attributes[WEIGHT_FACTOR] = RIGHT
        if kind in _OF_ORDERED_OPERANDS and inputs and self.storage.base(node.input[0]) in self.types.constants:
            attributes[PARAMETER_FIRST] = True
        if bounded := [output for output in outputs if output in self.types.bounded]:
            attributes[UPPER_BOUND] = list(bounded)
        loop = self.types.kept_as(node)
        self.operators.append(
            Operator(
                name,
                kind,
                tuple(inputs),
                outputs,
                tuple(parameters),
                attributes,
                workspace_bytes=0 if loop is None else loop.workspace_bytes,
            )
        )

    def _fits_both_orders(self, node: onnx.NodeProto) -> bool:
        """Return True if a product of an input and a square parameter would also fit with its factors exchanged."""
        left, right = self.storage.base(node.input[0]), self.storage.base(node.input[1])
        is_by_weight = left not in self.types.constants and right in self.types.constants
        if not is_by_weight or {left, right} - self.types.static.keys():
            return False
        shapes = [self.types.shape_and_element_type(name)[0] for name in (left, right)]
        return shapes[0][-2:] == shapes[1] and len(shapes[1]) == 2 and shapes[1][0] == shapes[1][1]

    def _views_read(self, node: onnx.NodeProto) -> dict[str, AttributeValue]:
        """Return the shapes of inputs and of parameters as the node reads them, if one is a view of another shape."""
        pairs = [(operand, self.storage.base(operand)) for operand in filter(None, node.input)]
        inputs = [pair for pair in pairs if pair[1] not in self.types.constants]
        parameters: list[tuple[str, str]] = []
        for operand, base in pairs:
            if base in self.types.constants:
                stored = tuple(self._stored_parameters(base))
                parameters += [(operand, base)] if stored == (base,) else [(each, each) for each in stored]
        named = {SEEN_SHAPES: inputs, SEEN_PARAMETER_SHAPES: parameters}
        known = {
            name: read for name, read in named.items() if all(one in self.types.static for pair in read for one in pair)
        }
        return {name: self._seen(read) for name, read in known.items() if self._seen(read) != self._seen(read, 1)}

    def _seen(self, pairs: Sequence[tuple[str, str]], which: int = 0) -> AttributeValue:
        """Return the shapes of the first (or second) name of each pair."""
        return [list(self.types.shape_and_element_type(pair[which])[0]) for pair in pairs]

    def _attributes(self, node: onnx.NodeProto) -> dict[str, AttributeValue]:
        attributes = constant_attributes(node, self.types) | attributes_of(node)
        pads = unusual_pads(TypedNode(node, self.types.static, self.types.constants, self.types.constants.opset))
        if pads is not None:
            del attributes["auto_pad"]
            attributes["pads"] = list(pads)
        return attributes

    def _add_copy(self, output: str, node_name: str | None) -> None:
        """Add an Identity that writes a network output over an input or a parameter."""
        base = self.storage.base(output)
        name = self._fresh_name(output) if output == base else output
        if base in self.copies:
            copy = self.tensors[self.copies[base]]
            self.tensors[copy.name] = replace(copy, aliases=(*copy.aliases, name))
            return
        self.copies[base] = name
        is_parameter = base in self.types.constants
        parameters = tuple(self._parameters(base)) if is_parameter else ()
        self._add_tensor(name, Role.OUTPUT, like=output)
        inputs = () if is_parameter else (base,)
        self.operators.append(Operator(node_name or name, "Identity", inputs, (name,), parameters))

    def _parameters(self, base: str) -> Iterator[str]:
        for stored in self._stored_parameters(base):
            self._add_tensor(stored, Role.PARAMETER)
            yield stored

    def _stored_parameters(self, base: str) -> Iterator[str]:
        """Yield the stored tensors of a constant, except those without elements, which need no memory."""
        stored = self.storage.stored_as(base)
        return (each for each in stored if not self.types.is_empty(each))

    def _add_tensor(self, name: str, role: Role, *, like: str = "") -> None:
        if name in self.tensors:
            return
        shape, element_type = self.types.shape_and_element_type(like or name)
        if element_type not in BITS:
            what = f"its elements, {type_name(element_type)}, have no fixed size"
            raise GraphError(what, self.storage.place_of(like or name), "numbers")
        self.tensors[name] = Tensor.of_shape(name, shape, BITS[element_type], role)

    def _mark_network_outputs(self) -> None:
        for output in self.network_outputs:
            base = self.storage.base(output)
            if self._is_source(base):
                continue
            tensor = self.tensors[base]
            aliases = tensor.aliases if output == base else (*tensor.aliases, output)
            self.tensors[base] = replace(tensor, role=Role.OUTPUT, aliases=aliases)

    def _fresh_name(self, output: str) -> str:
        name = f"{output}.output"
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name


def constant_attributes(node: onnx.NodeProto, types: ModelTypes) -> dict[str, AttributeValue]:
    """Return the attributes that constant inputs replace, and those whose default depends on the opset.

    The geometry of a slice, a pad or a reduction follows from these. Values that are computed at run time are unknown.
    """
    found: dict[str, AttributeValue] = {}
    for place, name in _NAMED.get(kind_of(node), {}).items():
        operand = node.input[place] if place < len(node.input) else ""
        value = types.constants.value(operand) if operand in types.constants else None
        if value is not None:
            found[name] = numpy_helper.to_array(value).reshape(-1).tolist()
    if kind_of(node) == "Pad" and "axes" in found:
        _pad_every_axis(node, types, found)
    if kind_of(node) in _OF_LAST_AXIS:
        is_of_one_axis = types.constants.opset >= _FIRST_OF_LAST_AXIS
        found |= {"axis": -1, OF_ONE_AXIS: True} if is_of_one_axis else {"axis": 1}
    return found


def _pad_every_axis(node: onnx.NodeProto, types: ModelTypes, found: dict[str, AttributeValue]) -> None:
    """Extend the pads of some axes to all axes."""
    axes, pads = found.pop("axes"), found.get("pads")
    rank = len(types.shape_and_element_type(node.input[0])[0])
    if not isinstance(axes, list) or not isinstance(pads, list) or len(pads) != 2 * len(axes):
        return
    every: list[AttributeValue] = [0] * (2 * rank)
    for at, axis in enumerate(axes):
        if isinstance(axis, int):
            every[axis % rank], every[rank + axis % rank] = pads[at], pads[len(axes) + at]
    found["pads"] = every
