"""Static shapes of every tensor, node by node in the order of their visits, by ONNX's own inference.

One node at a time: no limit of 2 GB on the model, constants' values only where a shape depends on
them, and an error that names its node.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import Final

import onnx
from onnx.defs import OpSchema, SchemaError, get_schema
from onnx.helper import make_attribute, make_tensor_type_proto
from onnx.shape_inference import infer_node_outputs, infer_shapes

from onchip.errors import GraphError
from onchip.formats.onnx.bounds import (
    Bound,
    ValueBounds,
    axes_that_differ,
    bounds_by_rule,
    largest_types,
    passes_bounds,
    types_that_agree,
    without_elements_along,
)
from onchip.formats.onnx.constants import Constants, KeptNode, ModelTypes
from onchip.formats.onnx.dimensions import network_inputs
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS, kind_of, names_read, static_shape, with_declared
from onchip.formats.onnx.runtime_kinds import infer_runtime_kind, is_runtime_kind, missing_fact, required_outputs
from onchip.formats.onnx.specification import ensure_operands_agree, may_have_shape, ranges_of, specified_types

GREATEST_LISTED: Final = 100
"""Contradictions that are named; of more only their number is said."""

_DEFAULTS = {"STFT": {"onesided": 1}}
"""Attributes whose default ONNX's shape inference gets wrong: it is told."""


class TypeInference:
    """Types of a model's tensors, found as nodes are visited; declared shapes of tensors in `dropped` do not count."""

    def __init__(self, model: onnx.ModelProto, dropped: frozenset[str] = frozenset()) -> None:
        graph = model.graph
        self.model = model
        self.opsets = {"" if opset.domain in DEFAULT_DOMAINS else opset.domain: opset for opset in model.opset_import}
        self.types: dict[str, onnx.TypeProto] = {value.name: value.type for value in network_inputs(graph)}
        self.unknown: dict[str, GraphError] = {}
        self.bounded: set[str] = set()
        self._variable_axes: dict[str, frozenset[int]] = {}
        self.kept: dict[str, KeptNode] = {}
        self.remarks_of_bounds: list[str] = []
        self.constants = Constants(model, self.types)
        self._value_bounds = ValueBounds(self.constants)
        self._declarations = Declarations(graph, dropped)
        self._read = names_read(graph)
        self._keep_empty_as_constants(self.types)
        for tensor in graph.initializer:
            self.add_initializer(tensor)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            self.types[name] = make_tensor_type_proto(sparse.values.data_type, list(sparse.dims))
            self.constants.add_without_value(name)

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return self.opsets[""].version if "" in self.opsets else 0

    @property
    def assumed(self) -> frozenset[str]:
        """The tensors of which the file alone says the shape."""
        return frozenset(self._declarations.assumed)

    def model_types(self, outputs: tuple[tuple[str, ...], ...]) -> ModelTypes:
        """What was found; `outputs` are those of each node visited."""
        return ModelTypes(
            self.types, self.unknown, self.constants, outputs, frozenset(self.bounded), self.kept, self._variable_axes
        )

    def remarks(self) -> tuple[str, ...]:
        """What a user should know: declared shapes that contradict what was found, and shapes that are bounds."""
        return (*self._declarations.remarks(), *self.remarks_of_bounds)

    def add_initializer(self, tensor: onnx.TensorProto) -> None:
        """A constant that the file states; raises GraphError for one of a negative size."""
        _ensure_sizes(tuple(tensor.dims), f"tensor {tensor.name!r}", "its")
        self.types[tensor.name] = make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        self.constants.add_tensor(tensor.name, tensor)

    def is_called(self, name: str, actual: str) -> None:
        """Note that a tensor of a graph within a node is called otherwise in the network."""
        if name in self._read:
            self._read.add(actual)

    def ensure_known(self, operand: str, reader: str) -> None:
        """Raise GraphError for a tensor that no node has written yet, or whose size is unknown."""
        if operand in self.unknown:
            raise self.unknown[operand]
        if operand not in self.types:
            expected = "an input, a parameter or an earlier node's output"
            raise GraphError(f"tensor {operand!r} is unknown", place=f"node {reader!r}", expected=expected)

    def shape_and_element_type(self, name: str) -> tuple[tuple[int, ...], int]:
        """Return those of a tensor whose size is known."""
        return static_shape(self.types[name]) or (), self.types[name].tensor_type.elem_type

    def is_read(self, name: str) -> bool:
        """Whether somebody reads a tensor, or it is an output of the network."""
        return name in self._read

    def take(self, types: Mapping[str, onnx.TypeProto], loop: KeptNode) -> tuple[str, ...]:
        """Note a loop that writes tensors of these types; their names."""
        self.types.update(types)
        self._keep_empty_as_constants(types)
        self.bounded.update(name for name in loop.bounded if name not in self.constants)
        self.kept[next(iter(types))] = loop
        return tuple(types)

    def visit(self, node: onnx.NodeProto, name: str) -> tuple[str, ...]:
        """Find the types of the node's outputs that are tensors; raises GraphError for unknown operands."""
        for operand in filter(None, node.input):
            if operand in self.unknown:
                raise self.unknown[operand]
        schema = self._schema(node)
        outputs = self._outputs_that_are_tensors(node, schema)
        if from_bounded := self.bounded.intersection(node.input):
            axes = {operand: self.variable_axes(operand) for operand in from_bounded}
            if not passes_bounds(node, axes, self.types):
                self.unknown |= dict.fromkeys(outputs, _refusal_of_bound(node, name, min(from_bounded)))
                return outputs
            kinds = self._bounds_passed_on(node, name, schema, outputs, axes)
        else:
            is_constant = self.constants.are_computed_by(node)
            if is_constant:
                self.constants.add_node(node)
            inferred = self._inferred(node, name, schema, outputs, is_constant=is_constant)
            ensure_operands_agree(node, name, ChainMap(dict(inferred), self.types))
            kinds = {
                output: self._resolve(output, inferred.get(output, onnx.TypeProto()), is_constant) for output in outputs
            }
            self._drop_impossible_declarations(node, inferred, kinds)
        if any(static_shape(kind) is None for kind in kinds.values()):
            self._resolve_by_bounds(node, name, kinds)
        if self.bounded:
            first = self.variable_axes(node.input[0]) if node.input else frozenset()
            self._value_bounds.follow(node, self.types, first)
        for output, kind in kinds.items():
            if static_shape(kind) is None:
                missing = missing_fact(node, self.types, self.constants) if schema is None else None
                self.unknown[output] = _refusal(node, name, output, kind, missing, has_schema=schema is not None)
            else:
                self.types[output] = kind
        self._keep_empty_as_constants(outputs)
        return outputs

    def variable_axes(self, name: str) -> frozenset[int]:
        """Return the axes of a tensor that may be smaller than in its type."""
        if name not in self.bounded:
            return frozenset()
        return self._variable_axes.get(name, frozenset(range(len(static_shape(self.types[name]) or ()))))

    def _add_bound(self, name: str, axes: frozenset[int]) -> None:
        if axes:
            self.bounded.add(name)
            self._variable_axes[name] = axes

    def _bounds_passed_on(
        self,
        node: onnx.NodeProto,
        name: str,
        schema: OpSchema | None,
        outputs: tuple[str, ...],
        axes: Mapping[str, frozenset[int]],
    ) -> dict[str, onnx.TypeProto]:
        """Return the largest types of the outputs of a node that reads bounds, and note which axes may be smaller."""
        bounds = bounds_by_rule(node, self.types, axes, self.constants)
        if not bounds:
            largest = types_that_agree(node, self.types, axes)
            inferred = self._inferred(node, name, schema, outputs, is_constant=False, types=largest)
            kinds = {output: self._resolve(output, inferred.get(output, onnx.TypeProto()), False) for output in outputs}
            smallest = self._inferred_at_smallest(node, name, schema, outputs, axes)
            bounds = {
                output: Bound(kind, axes_that_differ(kind, smallest.get(output))) for output, kind in kinds.items()
            }
        for output in outputs:
            if static_shape(bounds[output].kind) is not None:
                self._add_bound(output, bounds[output].axes)
        return {output: bounds[output].kind for output in outputs}

    def _inferred_at_smallest(
        self,
        node: onnx.NodeProto,
        name: str,
        schema: OpSchema | None,
        outputs: tuple[str, ...],
        axes: Mapping[str, frozenset[int]],
    ) -> Mapping[str, onnx.TypeProto]:
        """Return what inference finds if every axis that may be smaller is empty; empty if it refuses.

        Sizes never fall as operands grow: a size that is the same then is exact.
        """
        smallest = {operand: without_elements_along(self.types[operand], smaller) for operand, smaller in axes.items()}
        try:
            types = {**{operand: self.types[operand] for operand in filter(None, node.input)}, **smallest}
            return self._inferred(node, name, schema, outputs, is_constant=False, types=types)
        except GraphError:
            return {}

    def _inferred(
        self,
        node: onnx.NodeProto,
        name: str,
        schema: OpSchema | None,
        outputs: tuple[str, ...],
        *,
        is_constant: bool,
        types: Mapping[str, onnx.TypeProto] | None = None,
    ) -> Mapping[str, onnx.TypeProto]:
        """What ONNX finds; raises GraphError for what it refuses, unless constants make it computable all the same."""
        types = self.types if types is None else types
        try:
            if schema is None:
                return infer_runtime_kind(node, types, self.constants)
            specified = self._specified(node, name, types)
            if schema.deprecated and specified:  # ONNX refuses it, and runtimes run it
                return specified
            return {**self._infer(node, name, schema, outputs, types), **specified}
        except GraphError:
            if not is_constant or any(self.constants.value(output) is None for output in outputs):
                raise
            return {}

    def _keep_empty_as_constants(self, names: Iterable[str]) -> None:
        """Note that tensors without elements are constants: their value is known, whatever computes them."""
        for name in names:
            shape = static_shape(self.types[name]) if name in self.types else None
            if shape is not None and 0 in shape and name not in self.bounded:
                element_type = self.types[name].tensor_type.elem_type
                self.constants.add_tensor(name, onnx.TensorProto(data_type=element_type, dims=shape))

    def _specified(
        self, node: onnx.NodeProto, name: str, types: Mapping[str, onnx.TypeProto]
    ) -> Mapping[str, onnx.TypeProto]:
        """Return the types that win over ONNX's inference; raises GraphError for a negative size."""
        found = specified_types(node, types, self.constants, self.opset)
        for output, kind in found.items():
            _ensure_sizes(static_shape(kind) or (), f"node {name!r}", f"its output {output!r} has the")
        return found

    def _drop_impossible_declarations(
        self, node: onnx.NodeProto, inferred: Mapping[str, onnx.TypeProto], kinds: dict[str, onnx.TypeProto]
    ) -> None:
        """Put the inferred types back in place of declared shapes that the node can write for no values."""
        largest = None
        for output in self._declarations.assumed.intersection(kinds):
            largest = largest_types(node, self.types, self.constants) if largest is None else largest
            most = static_shape(largest[output].kind) if output in largest else None
            is_checked = output == node.output[0] or most is not None or kind_of(node) == "Split"
            if is_checked and not may_have_shape(node, self.types, static_shape(kinds[output]) or (), most):
                self._declarations.drop(output, kinds[output])
                kinds[output] = inferred.get(output, onnx.TypeProto())

    def _resolve_by_bounds(self, node: onnx.NodeProto, name: str, kinds: dict[str, onnx.TypeProto]) -> None:
        """Put the largest types in place of those that follow from values, if there are such."""
        axes = self.variable_axes(node.input[0]) if node.input else frozenset()
        largest = self._value_bounds.shape_stated(node, self.types, axes, kinds)
        if not largest:
            largest = largest_types(node, self.types, self.constants)
        if kinds.keys() <= largest.keys():
            kinds |= {output: largest[output].kind for output in kinds}
            for output in kinds:
                self._add_bound(output, largest[output].axes)
            shapes = ", ".join(f"{output!r} {list(static_shape(kind) or ())}" for output, kind in kinds.items())
            what = f"node {name!r}: the shape of its output follows from values: {shapes} is the largest that it can be"
            self.remarks_of_bounds.append(what)

    def _schema(self, node: onnx.NodeProto) -> OpSchema | None:
        domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
        if domain not in self.opsets:
            return None
        try:
            return get_schema(node.op_type, self.opsets[domain].version, domain)
        except SchemaError:
            return None

    def _outputs_that_are_tensors(self, node: onnx.NodeProto, schema: OpSchema | None) -> tuple[str, ...]:
        optional = {
            index
            for index, formal in enumerate(schema.outputs if schema else ())
            if formal.option == OpSchema.FormalParameterOption.Optional
        }
        if schema is None and is_runtime_kind(node):
            optional = set(range(required_outputs(node), len(node.output)))
        named = [(index, output) for index, output in enumerate(node.output) if output]
        kept = tuple(output for index, output in named if output in self._read or index not in optional)
        return kept or (named[0][1],)

    def _infer(
        self,
        node: onnx.NodeProto,
        name: str,
        schema: OpSchema,
        outputs: tuple[str, ...],
        types: Mapping[str, onnx.TypeProto],
    ) -> Mapping[str, onnx.TypeProto]:
        if (sliced := self._slice_of_nothing(node, types)) is not None:
            return {node.output[0]: sliced}
        operands = list(filter(None, node.input))
        known = {operand: value for operand in operands if (value := self.constants.known_value(operand)) is not None}
        inferred = self._infer_node(schema, node, name, known, types)
        if _are_static(inferred, outputs):
            return inferred
        computed = {operand: value for operand in operands if (value := self.constants.value(operand)) is not None}
        if len(computed) > len(known):
            inferred = self._infer_node(schema, node, name, computed, types)
        if not _are_static(inferred, outputs) and _are_static(expanded := self._infer_function(node, types), outputs):
            return expanded
        return inferred

    def _slice_of_nothing(self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> onnx.TypeProto | None:
        """Return the type of a slice of a tensor without elements: onnx aborts the program if it goes backwards."""
        shape = static_shape(types[node.input[0]]) if kind_of(node) == "Slice" and any(node.input[:1]) else None
        if shape is None or 0 not in shape or (ranges := ranges_of(node, len(shape), self.constants)) is None:
            return None
        sizes = list(shape)
        for each in ranges:
            sizes[each.axis] = each.length(sizes[each.axis])
        return make_tensor_type_proto(types[node.input[0]].tensor_type.elem_type, sizes)

    def _infer_node(
        self,
        schema: OpSchema,
        node: onnx.NodeProto,
        name: str,
        values: dict[str, onnx.TensorProto],
        known: Mapping[str, onnx.TypeProto],
    ) -> dict[str, onnx.TypeProto]:
        types = {operand: known[operand] for operand in node.input if operand}
        node = _with_defaults(node)
        opsets = list(self.opsets.values())
        try:
            found = infer_node_outputs(
                schema, node, types, values, opset_imports=opsets, ir_version=self.model.ir_version
            )
        except Exception as error:  # onnx raises three unrelated types
            raise GraphError(f"onnx refuses it: {error}", place=f"node {name!r}", expected="a valid node") from None
        for output, kind in found.items():
            _ensure_sizes(static_shape(kind) or (), f"node {name!r}", f"its output {output!r} has the")
        return found

    def _infer_function(self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> dict[str, onnx.TypeProto]:
        """The node as a model of its own: only so ONNX looks into the bodies of its function operators."""
        model = onnx.ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        model.graph.name = "node"
        model.graph.node.append(node)
        for operand in dict.fromkeys(filter(None, node.input)):
            model.graph.input.add(name=operand, type=types[operand])
        for output in filter(None, node.output):
            model.graph.output.add(name=output)
        return {value.name: value.type for value in infer_shapes(model, data_prop=True).graph.output}

    def _resolve(self, output: str, inferred: onnx.TypeProto, is_constant: bool) -> onnx.TypeProto:
        """The inferred type; where it is not static, the computed value's or the declared one."""
        if static_shape(inferred) is not None:
            self._declarations.compare(output, inferred)
            return inferred
        if is_constant and (value := self.constants.value(output)) is not None:
            return make_tensor_type_proto(value.data_type, list(value.dims))
        return self._declarations.completed(output, inferred)


def _with_defaults(node: onnx.NodeProto) -> onnx.NodeProto:
    stated = {attribute.name for attribute in node.attribute}
    missing = {name: value for name, value in _DEFAULTS.get(kind_of(node), {}).items() if name not in stated}
    if not missing:
        return node
    complete = onnx.NodeProto()
    complete.CopyFrom(node)
    complete.attribute.extend(make_attribute(name, value) for name, value in missing.items())
    return complete


def _ensure_sizes(shape: tuple[int, ...], place: str, whose: str) -> None:
    """Raise GraphError for a negative size, which inference finds where an input is too small."""
    if any(size < 0 for size in shape):
        raise GraphError(f"{whose} shape {list(shape)}", place=place, expected="larger inputs, or other attributes")


def _are_static(types: Mapping[str, onnx.TypeProto], names: tuple[str, ...]) -> bool:
    return all(name in types and static_shape(types[name]) is not None for name in names)


def _refusal(
    node: onnx.NodeProto, name: str, output: str, kind: onnx.TypeProto, missing: str | None, *, has_schema: bool
) -> GraphError:
    place = f"node {name!r}"
    which = kind.WhichOneof("value")
    if which not in (None, "tensor_type"):
        return GraphError(f"its output {output!r} is no tensor: {which}", place=place, expected="tensors")
    if missing is not None:
        what = f"the shape of its output {output!r} is unknown: {kind_of(node)} needs more: {missing}"
        return GraphError(what, place=place, expected="a complete operator or a declared shape")
    if not has_schema:
        what = f"onnx knows no operator {kind_of(node)!r} and the file does not declare the shape of {output!r}"
        return GraphError(what, place=place, expected="a known operator or a declared shape")
    what = f"the shape of its output {output!r} is unknown: it depends on the values of its inputs"
    return GraphError(what, place=place, expected="static shapes")


def _refusal_of_bound(node: onnx.NodeProto, name: str, operand: str) -> GraphError:
    what = f"the shape of its input {operand!r} follows from values, and of {kind_of(node)} no largest output is known"
    return GraphError(what, place=f"node {name!r}", expected="static shapes")


class Declarations:
    """Declared types by tensor; those of `dropped` tensors count for nothing."""

    def __init__(self, graph: onnx.GraphProto, dropped: frozenset[str]) -> None:
        self._types = {value.name: value.type for value in (*graph.value_info, *graph.output)}
        self._contradictions = [f"{name!r}, with which a later node is wrong" for name in sorted(dropped)]
        for name in dropped:
            self._types.pop(name, None)
        self.assumed: set[str] = set()

    def compare(self, name: str, inferred: onnx.TypeProto) -> None:
        """Note where the file declares another shape than what was found."""
        declared = self._types.get(name)
        if declared is None or not declared.tensor_type.HasField("shape"):
            return
        found = static_shape(inferred) or ()
        sizes = [one.dim_value if one.HasField("dim_value") else None for one in declared.tensor_type.shape.dim]
        agrees = len(sizes) == len(found) and all(said in (None, size) for said, size in zip(sizes, found, strict=True))
        if not agrees:
            said = ", ".join("?" if size is None else str(size) for size in sizes)
            self._contradictions.append(f"{name!r} is declared [{said}] and is {list(found)}")

    def completed(self, name: str, inferred: onnx.TypeProto) -> onnx.TypeProto:
        """What was found, and what the file declares where nothing was."""
        if name not in self._types:
            return inferred
        completed = with_declared(inferred, self._types[name])
        if static_shape(completed) is not None:
            self.assumed.add(name)
        return completed

    def drop(self, name: str, declared: onnx.TypeProto) -> None:
        """Note that an operator cannot write a tensor of the shape that the file declares."""
        self.assumed.discard(name)
        self._types.pop(name, None)
        self._contradictions.append(f"{name!r} is declared {list(static_shape(declared) or ())} and cannot be that")

    def remarks(self) -> tuple[str, ...]:
        """One line that names all contradictions, if there are any."""
        if not self._contradictions:
            return ()
        listed, rest = self._contradictions[:GREATEST_LISTED], len(self._contradictions) - GREATEST_LISTED
        more = f", and {rest} more" if rest > 0 else ""
        count = len(self._contradictions)
        what = "declared shape contradicts" if count == 1 else "declared shapes contradict"
        end = "and is dropped" if count == 1 else "and are dropped"
        return (f"{count} {what} what its operators give {end}: {'; '.join(listed)}{more}",)
