"""Static shapes of every tensor, node by node in the file's order, by ONNX's own inference.

One node at a time: no limit of 2 GB on the model, constants' values only where a shape depends on
them, and an error that names its node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx
from onnx.defs import OpSchema, SchemaError, get_schema
from onnx.helper import make_tensor_type_proto
from onnx.shape_inference import infer_node_outputs, infer_shapes

from onchip.errors import GraphError
from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS, kind_of, node_names
from onchip.formats.onnx.types import static_shape, with_declared

_LIKE_FIRST_INPUT = {"GroupNormalization", "MeanVarianceNormalization"}
"""Operators for which ONNX has no shape inference in some versions."""


@dataclass(frozen=True, slots=True)
class ModelTypes:
    """What inference found: constants, each node's outputs that are tensors, and their types.

    An optional output that nobody reads is not a tensor. For a tensor in `unknown` nothing could be
    found, and the error says why; it is raised only if somebody needs the tensor.
    """

    static: Mapping[str, onnx.TypeProto]
    unknown: Mapping[str, GraphError]
    constants: Constants
    outputs: tuple[tuple[str, ...], ...]

    def shape_and_element_type(self, name: str) -> tuple[tuple[int, ...], int]:
        """Raises GraphError, naming the node that writes it, for a tensor of unknown size."""
        if name in self.unknown:
            raise self.unknown[name]
        kind = self.static[name]
        return static_shape(kind) or (), kind.tensor_type.elem_type


def infer_types(model: onnx.ModelProto) -> ModelTypes:
    """The types of all tensors; raises GraphError where ONNX says that a node is wrong."""
    inference = _Inference(model)
    outputs = tuple(
        inference.visit(node, name) for node, name in zip(model.graph.node, node_names(model.graph.node), strict=True)
    )
    return ModelTypes(inference.types, inference.unknown, inference.constants, outputs)


class _Inference:
    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self.model = model
        self.opsets = {"" if opset.domain in DEFAULT_DOMAINS else opset.domain: opset for opset in model.opset_import}
        self.types: dict[str, onnx.TypeProto] = {value.name: value.type for value in graph.input}
        self.unknown: dict[str, GraphError] = {}
        self.constants = Constants(model, self.types)
        self.declared = {value.name: value.type for value in (*graph.value_info, *graph.output)}
        self.read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
        for tensor in graph.initializer:
            self.types[tensor.name] = make_tensor_type_proto(tensor.data_type, list(tensor.dims))
            self.constants.add_tensor(tensor.name, tensor)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            self.types[name] = make_tensor_type_proto(sparse.values.data_type, list(sparse.dims))
            self.constants.add_without_value(name)

    def visit(self, node: onnx.NodeProto, name: str) -> tuple[str, ...]:
        """Find the types of the node's outputs that are tensors; raises GraphError for unknown operands."""
        for operand in filter(None, node.input):
            if operand in self.unknown:
                raise self.unknown[operand]
        is_constant = self.constants.are_computed_by(node)
        if is_constant:
            self.constants.add_node(node)
        schema = self._schema(node)
        outputs = self._outputs_that_are_tensors(node, schema)
        inferred = {} if schema is None else self._infer(node, name, schema, outputs)
        for output in outputs:
            kind = self._resolve(output, inferred.get(output, onnx.TypeProto()), is_constant)
            if static_shape(kind) is None:
                self.unknown[output] = _refusal(node, name, output, kind, has_schema=schema is not None)
            else:
                self.types[output] = kind
        return outputs

    def _schema(self, node: onnx.NodeProto) -> OpSchema | None:
        domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
        if domain not in self.opsets:
            return None
        try:
            return get_schema(node.op_type, self.opsets[domain].version, domain)
        except SchemaError:
            return None

    def _outputs_that_are_tensors(self, node: onnx.NodeProto, schema: OpSchema | None) -> tuple[str, ...]:
        declared = schema.outputs if schema else ()
        optional = {
            index for index, formal in enumerate(declared) if formal.option == OpSchema.FormalParameterOption.Optional
        }
        named = [(index, output) for index, output in enumerate(node.output) if output]
        kept = tuple(output for index, output in named if output in self.read or index not in optional)
        return kept or (named[0][1],)

    def _infer(
        self, node: onnx.NodeProto, name: str, schema: OpSchema, outputs: tuple[str, ...]
    ) -> Mapping[str, onnx.TypeProto]:
        operands = list(filter(None, node.input))
        known = {operand: value for operand in operands if (value := self.constants.known_value(operand)) is not None}
        inferred = self._infer_node(schema, node, name, known)
        if _are_static(inferred, outputs):
            return inferred
        computed = {operand: value for operand in operands if (value := self.constants.value(operand)) is not None}
        if len(computed) > len(known):
            inferred = self._infer_node(schema, node, name, computed)
        if not _are_static(inferred, outputs) and _are_static(expanded := self._infer_function(node), outputs):
            return expanded
        if not _are_static(inferred, outputs) and kind_of(node) in _LIKE_FIRST_INPUT:
            return {node.output[0]: self.types[node.input[0]]}
        return inferred

    def _infer_node(
        self, schema: OpSchema, node: onnx.NodeProto, name: str, values: dict[str, onnx.TensorProto]
    ) -> dict[str, onnx.TypeProto]:
        types = {operand: self.types[operand] for operand in node.input if operand}
        opsets = list(self.opsets.values())
        try:
            return infer_node_outputs(
                schema, node, types, values, opset_imports=opsets, ir_version=self.model.ir_version
            )
        except Exception as error:  # onnx raises three unrelated types
            raise GraphError(f"onnx refuses it: {error}", place=f"node {name!r}", expected="a valid node") from None

    def _infer_function(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """The node as a model of its own: only so ONNX looks into the bodies of its function operators."""
        model = onnx.ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        model.graph.name = "node"
        model.graph.node.append(node)
        for operand in dict.fromkeys(filter(None, node.input)):
            model.graph.input.add(name=operand, type=self.types[operand])
        for output in filter(None, node.output):
            model.graph.output.add(name=output)
        return {value.name: value.type for value in infer_shapes(model, data_prop=True).graph.output}

    def _resolve(self, output: str, inferred: onnx.TypeProto, is_constant: bool) -> onnx.TypeProto:
        """The inferred type; where it is not static, the computed value's or the declared one."""
        if static_shape(inferred) is not None:
            return inferred
        if is_constant and (value := self.constants.value(output)) is not None:
            return make_tensor_type_proto(value.data_type, list(value.dims))
        return with_declared(inferred, self.declared[output]) if output in self.declared else inferred


def _are_static(types: Mapping[str, onnx.TypeProto], names: tuple[str, ...]) -> bool:
    return all(name in types and static_shape(types[name]) is not None for name in names)


def _refusal(node: onnx.NodeProto, name: str, output: str, kind: onnx.TypeProto, *, has_schema: bool) -> GraphError:
    place = f"node {name!r}"
    which = kind.WhichOneof("value")
    if which not in (None, "tensor_type"):
        return GraphError(f"its output {output!r} is no tensor: {which}", place=place, expected="tensors")
    if not has_schema:
        what = f"onnx knows no operator {kind_of(node)!r} and the file does not declare the shape of {output!r}"
        return GraphError(what, place=place, expected="a known operator or a declared shape")
    what = f"the shape of its output {output!r} is unknown: it depends on the values of its inputs"
    return GraphError(what, place=place, expected="static shapes")
