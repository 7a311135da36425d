"""Visit the nodes of a model, unfold control flow, and infer static shapes by ONNX's own inference.

Inference of one node at a time has no 2 GB limit on the model, computes constants only if a shape depends on them, and
names the node in errors.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import onnx
from onnx.defs import OpSchema, SchemaError, get_schema
from onnx.helper import make_attribute, make_tensor_type_proto
from onnx.shape_inference import infer_node_outputs, infer_shapes

from onchip.errors import GraphError
from onchip.formats.onnx.bounds import (
    Axes,
    Bound,
    ValueBounds,
    axes_that_differ,
    bounds_by_rule,
    largest_types,
    passes_bounds,
    types_that_agree,
    without_elements_along,
)
from onchip.formats.onnx.constants import Constants, KeptNode, ModelTypes, renamed
from onchip.formats.onnx.dimensions import network_inputs
from onchip.formats.onnx.nodes import (
    DEFAULT_DOMAINS,
    ScopedNode,
    Types,
    UniqueNames,
    kind_of,
    names_read,
    node_names,
    static_shape,
    subgraphs,
    with_declared,
)
from onchip.formats.onnx.runtime_kinds import infer_runtime_kind, is_runtime_kind, missing_fact, required_outputs
from onchip.formats.onnx.specification import ensure_operands_agree, specified_types

GREATEST_LISTED: Final = 100
"""Largest number of contradictions that are listed; the rest is counted."""


@dataclass(frozen=True, slots=True)
class _Visit:
    """A visited node, its name in errors, ONNX's schema of its kind, and its outputs that are tensors."""

    node: onnx.NodeProto
    name: str
    schema: OpSchema | None
    outputs: tuple[str, ...]


class TypeInference:
    """Types of a model's tensors, inferred as nodes are visited; declared shapes of `dropped` tensors are ignored."""

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
        self.read = names_read(graph)
        self._keep_empty_as_constants(self.types)
        for tensor in graph.initializer:
            self.add_initializer(tensor)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            self.types[name] = make_tensor_type_proto(sparse.values.data_type, list(sparse.dims))
            self.constants.names.add(name)

    @property
    def opset(self) -> int:
        """Version of ONNX's own operators; 0 if the file states none."""
        return self.opsets[""].version if "" in self.opsets else 0

    @property
    def assumed(self) -> frozenset[str]:
        """The tensors whose shape is only declared, not inferred."""
        return frozenset(self._declarations.assumed)

    def model_types(self, outputs: tuple[tuple[str, ...], ...]) -> ModelTypes:
        """Return the results; `outputs` are those of each visited node."""
        return ModelTypes(
            self.types, self.unknown, self.constants, outputs, frozenset(self.bounded), self.kept, self._variable_axes
        )

    def remarks(self) -> tuple[str, ...]:
        """Return remarks for the user: contradicted declarations, and shapes that are bounds."""
        return (*self._declarations.remarks(), *self.remarks_of_bounds)

    def add_initializer(self, tensor: onnx.TensorProto) -> None:
        """Add a constant that the file states; raises GraphError for a negative size."""
        _ensure_sizes(tuple(tensor.dims), f"tensor {tensor.name!r}", "its")
        self.types[tensor.name] = make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        self.constants.add_tensor(tensor.name, tensor)

    def ensure_known(self, operand: str, reader: str) -> None:
        """Raise GraphError for a tensor that no earlier node writes, or whose size is unknown."""
        if operand in self.unknown:
            raise self.unknown[operand]
        if operand not in self.types:
            expected = "an input, a parameter or an earlier node's output"
            raise GraphError(f"tensor {operand!r} is unknown", f"node {reader!r}", expected)

    def shape_and_element_type(self, name: str) -> tuple[tuple[int, ...], int]:
        """Return shape and element type of a tensor of known size."""
        return static_shape(self.types[name]) or (), self.types[name].tensor_type.elem_type

    def is_read(self, name: str) -> bool:
        """Return True if a node reads a tensor, or if it is an output of the network."""
        return name in self.read

    def take(self, types: Types, loop: KeptNode) -> tuple[str, ...]:
        """Note a loop that writes tensors of these types; return their names."""
        self.types.update(types)
        self._keep_empty_as_constants(types)
        self.bounded.update(name for name in loop.bounded if name not in self.constants)
        self.kept[next(iter(types))] = loop
        return tuple(types)

    def visit(self, node: onnx.NodeProto, name: str) -> tuple[str, ...]:
        """Infer the types of the node's outputs that are tensors; raises GraphError for unknown operands."""
        for operand in filter(None, node.input):
            if operand in self.unknown:
                raise self.unknown[operand]
        schema = self._schema(node)
        outputs = self._outputs_that_are_tensors(node, schema)
        visit = _Visit(node, name, schema, outputs)
        if from_bounded := self.bounded.intersection(node.input):
            axes = {operand: self.variable_axes(operand) for operand in from_bounded}
            if not passes_bounds(node, axes, self.types):
                what = f"the shape of its input {min(from_bounded)!r} follows from values, and of {kind_of(node)}"
                what = f"{what} no largest output is known"
                error = GraphError(what, f"node {name!r}", "static shapes")
                self.unknown |= dict.fromkeys(outputs, error)
                return outputs
            kinds = self._bounds_passed_on(visit, axes)
        else:
            is_constant = self.constants.are_computed_by(node)
            if is_constant:
                self.constants.add_node(node)
            inferred = self._inferred(visit, self.types, is_constant=is_constant)
            kinds = {
                output: self._resolve(output, inferred.get(output, onnx.TypeProto()), is_constant) for output in outputs
            }
            ensure_operands_agree(node, name, ChainMap(kinds, self.types))
        if not _are_static(kinds, tuple(kinds)):
            self._resolve_by_bounds(node, name, kinds)
        if self.bounded:
            self._value_bounds.follow(node, self.types, self._axes_of_first(node))
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

    def _axes_of_first(self, node: onnx.NodeProto) -> frozenset[int]:
        return self.variable_axes(node.input[0]) if node.input else frozenset()

    def _add_bound(self, name: str, axes: frozenset[int]) -> None:
        if axes:
            self.bounded.add(name)
            self._variable_axes[name] = axes

    def _bounds_passed_on(self, visit: _Visit, axes: Axes) -> dict[str, onnx.TypeProto]:
        """Return the largest types of the outputs of a node that reads bounds, and note which axes may be smaller."""
        node, outputs = visit.node, visit.outputs
        bounds = bounds_by_rule(node, self.types, axes, self.constants)
        if not bounds:
            largest = types_that_agree(node, self.types, axes)
            inferred = self._inferred(visit, largest, is_constant=False)
            kinds = {output: self._resolve(output, inferred.get(output, onnx.TypeProto()), False) for output in outputs}
            smallest = self._inferred_at_smallest(visit, axes)
            bounds = {
                output: Bound(kind, axes_that_differ(kind, smallest.get(output))) for output, kind in kinds.items()
            }
        for output in outputs:
            if static_shape(bounds[output].kind) is not None:
                self._add_bound(output, bounds[output].axes)
        return {output: bounds[output].kind for output in outputs}

    def _inferred_at_smallest(self, visit: _Visit, axes: Axes) -> Types:
        """Return the inferred types if every axis that may be smaller is empty; empty if inference refuses.

        Sizes never fall as operands grow, so a size that does not change is exact.
        """
        smallest = {operand: without_elements_along(self.types[operand], smaller) for operand, smaller in axes.items()}
        try:
            types = {**{operand: self.types[operand] for operand in filter(None, visit.node.input)}, **smallest}
            return self._inferred(visit, types, is_constant=False)
        except GraphError:
            return {}

    def _inferred(self, visit: _Visit, types: Types, *, is_constant: bool) -> Types:
        """Return the types that ONNX infers; raises GraphError if ONNX refuses a node whose value is not computable."""
        try:
            if visit.schema is None:
                return infer_runtime_kind(visit.node, types, self.constants)
            specified = specified_types(visit.node, types, self.constants, self.opset)
            _ensure_output_sizes(specified, visit.name)
            # ONNX refuses deprecated kinds, which runtimes run; a negative step through nothing would abort the process
            if specified and (visit.schema.deprecated or _slices_nothing(visit.node, types)):
                return specified
            return {**self._infer(visit, visit.schema, types), **specified}
        except GraphError:
            if not is_constant or any(self.constants.value(output) is None for output in visit.outputs):
                raise
            return {}

    def _keep_empty_as_constants(self, names: Iterable[str]) -> None:
        """Note that tensors without elements are constants, whichever node computes them."""
        for name in names:
            shape = static_shape(self.types[name]) if name in self.types else None
            if shape is not None and 0 in shape and name not in self.bounded:
                element_type = self.types[name].tensor_type.elem_type
                self.constants.add_tensor(name, onnx.TensorProto(data_type=element_type, dims=shape))

    def _resolve_by_bounds(self, node: onnx.NodeProto, name: str, kinds: dict[str, onnx.TypeProto]) -> None:
        """Replace types that follow from values by their bounds, if they are known."""
        largest = self._value_bounds.shape_stated(node, self.types, self._axes_of_first(node), kinds)
        largest = largest or largest_types(node, self.types, self.constants)
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
        kept = tuple(output for index, output in named if output in self.read or index not in optional)
        return kept or (named[0][1],)

    def _infer(self, visit: _Visit, schema: OpSchema, types: Types) -> Types:
        node, outputs = visit.node, visit.outputs
        operands = list(filter(None, node.input))
        known = {operand: value for operand in operands if (value := self.constants.known_value(operand)) is not None}
        inferred = self._infer_node(visit, schema, known, types)
        if _are_static(inferred, outputs):
            return inferred
        computed = {operand: value for operand in operands if (value := self.constants.value(operand)) is not None}
        if len(computed) > len(known):
            inferred = self._infer_node(visit, schema, computed, types)
        if not _are_static(inferred, outputs) and _are_static(expanded := self._infer_function(node, types), outputs):
            return expanded
        return inferred

    def _infer_node(self, visit: _Visit, schema: OpSchema, values: dict[str, onnx.TensorProto], known: Types) -> Types:
        types = {operand: known[operand] for operand in visit.node.input if operand}
        node, opsets = _with_onesided(visit.node), list(self.opsets.values())
        try:
            found = infer_node_outputs(
                schema, node, types, values, opset_imports=opsets, ir_version=self.model.ir_version
            )
        except Exception as error:  # onnx raises three unrelated types
            raise GraphError(f"onnx refuses it: {error}", f"node {visit.name!r}", "a valid node") from None
        _ensure_output_sizes(found, visit.name)
        return found

    def _infer_function(self, node: onnx.NodeProto, types: Types) -> dict[str, onnx.TypeProto]:
        """Infer the node as a separate model, so that ONNX expands function operators."""
        model = onnx.ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        model.graph.name = "node"
        model.graph.node.append(node)
        for operand in dict.fromkeys(filter(None, node.input)):
            model.graph.input.add(name=operand, type=types[operand])
        for output in filter(None, node.output):
            model.graph.output.add(name=output)
        return {value.name: value.type for value in infer_shapes(model, data_prop=True).graph.output}

    def _resolve(self, output: str, inferred: onnx.TypeProto, is_constant: bool) -> onnx.TypeProto:
        """Return the inferred type; if it is not static, the type of the computed value, or the declared type."""
        if static_shape(inferred) is not None:
            self._declarations.compare(output, inferred)
            return inferred
        if is_constant and (value := self.constants.value(output)) is not None:
            return make_tensor_type_proto(value.data_type, list(value.dims))
        return self._declarations.completed(output, inferred)


def _slices_nothing(node: onnx.NodeProto, types: Types) -> bool:
    return kind_of(node) == "Slice" and any(node.input[:1]) and 0 in (static_shape(types[node.input[0]]) or ())


def _with_onesided(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return an STFT with its attribute `onesided`, whose default ONNX's shape inference gets wrong."""
    if kind_of(node) != "STFT" or any(attribute.name == "onesided" for attribute in node.attribute):
        return node
    complete = onnx.NodeProto()
    complete.CopyFrom(node)
    complete.attribute.append(make_attribute("onesided", 1))
    return complete


def _ensure_sizes(shape: tuple[int, ...], place: str, whose: str) -> None:
    """Raise GraphError for a negative size, which inference gives if an input is too small."""
    if any(size < 0 for size in shape):
        raise GraphError(f"{whose} shape {list(shape)}", place, "larger inputs, or other attributes")


def _ensure_output_sizes(types: Types, name: str) -> None:
    for output, kind in types.items():
        _ensure_sizes(static_shape(kind) or (), f"node {name!r}", f"its output {output!r} has the")


def _are_static(types: Types, names: tuple[str, ...]) -> bool:
    return all(name in types and static_shape(types[name]) is not None for name in names)


def _refusal(
    node: onnx.NodeProto, name: str, output: str, kind: onnx.TypeProto, missing: str | None, *, has_schema: bool
) -> GraphError:
    which, expected = kind.WhichOneof("value"), "static shapes"
    what = f"the shape of its output {output!r} is unknown: it depends on the values of its inputs"
    if which not in (None, "tensor_type"):
        what, expected = f"its output {output!r} is no tensor: {which}", "tensors"
    elif missing is not None:
        what = f"the shape of its output {output!r} is unknown: {kind_of(node)} needs more: {missing}"
        expected = "a complete operator or a declared shape"
    elif not has_schema:
        what = f"onnx knows no operator {kind_of(node)!r} and the file does not declare the shape of {output!r}"
        expected = "a known operator or a declared shape"
    return GraphError(what, f"node {name!r}", expected)


class Declarations:
    """Declared types by tensor, without those of `dropped` tensors."""

    def __init__(self, graph: onnx.GraphProto, dropped: frozenset[str]) -> None:
        self._types = {value.name: value.type for value in (*graph.value_info, *graph.output)}
        self._contradictions = [f"{name!r}, with which a later node is wrong" for name in sorted(dropped)]
        for name in dropped:
            self._types.pop(name, None)
        self.assumed: set[str] = set()

    def compare(self, name: str, inferred: onnx.TypeProto) -> None:
        """Note a declared shape that contradicts the inferred one."""
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
        """Return the inferred type, completed by the declared type."""
        if name not in self._types:
            return inferred
        completed = with_declared(inferred, self._types[name])
        if static_shape(completed) is not None:
            self.assumed.add(name)
        return completed

    def remarks(self) -> tuple[str, ...]:
        """Return one line that lists all contradictions; empty without any."""
        if not self._contradictions:
            return ()
        count = len(self._contradictions)
        listed = "; ".join(self._contradictions[:GREATEST_LISTED])
        more = f", and {count - GREATEST_LISTED} more" if count > GREATEST_LISTED else ""
        many, end = ("", "is") if count == 1 else ("s", "are")
        verb = "contradicts" if count == 1 else "contradict"
        return (f"{count} declared shape{many} {verb} what its operators give and {end} dropped: {listed}{more}",)


@dataclass(frozen=True, slots=True)
class UnfoldedModel:
    """A graph without control flow, the types of its tensors, and remarks for the user."""

    graph: onnx.GraphProto
    types: ModelTypes
    remarks: tuple[str, ...]


class NotUnrolledError(GraphError):
    """A loop with too many or an unknown number of iterations; it may stay one operator."""


@dataclass(slots=True)
class LoopWork:
    """Number of nodes in loops that may still be visited, including visits that are undone."""

    left: int

    def spend(self, nodes: int, loop: str | None) -> None:
        """Count nodes; raises GraphError above the limit."""
        self.left -= nodes
        if self.left < 0:
            place = None if loop is None else f"node {loop!r}"
            raise GraphError("its loops take too long to look into", place, "fewer or shorter loops")


class Unfolding:
    """Visits nodes in order; `runners` visit those that control flow runs, by kind.

    Declared shapes of tensors in `dropped` are ignored; all loops may become at most `greatest_unrolled` nodes. For the
    body of a loop that stays, `work` is the remaining work of the network.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        dropped: frozenset[str],
        runners: Mapping[str, Runner],
        greatest_unrolled: int,
        work: LoopWork | None = None,
    ) -> None:
        self.model = model
        self._runners = runners
        self.inference = TypeInference(model, dropped)
        self.names = UniqueNames(model.graph)
        self.remarks: list[str] = []
        self.loop: str | None = None
        self._nodes: list[onnx.NodeProto] = []
        self._outputs: list[tuple[str, ...]] = []
        self._initializers: list[onnx.TensorProto] = []
        self._unrolled = 0
        self._greatest_unrolled = greatest_unrolled
        self._is_body = work is not None
        self._work = work or LoopWork(2 * greatest_unrolled)

    def run(self) -> UnfoldedModel:
        """Visit all nodes of the model; raises GraphError."""
        top = self.model.graph
        for node, name in zip(top.node, node_names(top.node), strict=True):
            self.visit(ScopedNode(node, {}), name)
        graph = onnx.GraphProto(name=top.name)
        graph.node.extend(self._nodes)
        graph.initializer.extend((*top.initializer, *self._initializers))
        graph.sparse_initializer.extend(top.sparse_initializer)
        graph.input.extend(top.input)
        graph.output.extend(top.output)
        remarks = (*self.remarks, *self.inference.remarks())
        return UnfoldedModel(graph, self.inference.model_types(tuple(self._outputs)), remarks)

    def visit(self, scoped: ScopedNode, name: str) -> None:
        """Take over a node, or the nodes that it runs; `name` is its name in errors. Raises GraphError."""
        runner = self._runners.get(kind_of(scoped.node))
        if runner is not None:
            self.ensure_known(scoped, name)
            runner(self, scoped, name)
        elif next(subgraphs(scoped.node), None) is not None:
            what = f"{kind_of(scoped.node)} runs a graph of its own"
            raise GraphError(what, f"node {name!r}", "a network whose control flow is If, Loop or Scan")
        else:
            self.ensure_known(scoped, name)
            self.add(scoped.renamed(scoped.node.name if not scoped.names else name), name)

    def add(self, node: onnx.NodeProto, name: str) -> None:
        """Take over a node without control flow; raises GraphError if loops have too many nodes."""
        self.count_unrolled()
        self._outputs.append(self.inference.visit(node, name))
        self._nodes.append(node)

    def count_unrolled(self) -> None:
        """Count a node of a loop, or an iteration, which may be empty; raises GraphError above the limit."""
        if self.loop is not None or self._is_body:
            self._work.spend(1, self.loop)
        if self.loop is not None:
            self._unrolled += 1
            self.ensure_may_unroll(0, self.loop)

    def ensure_may_unroll(self, nodes: int, loop: str) -> None:
        """Raise NotUnrolledError if this many more nodes exceed the limit."""
        if self._unrolled + nodes > self._greatest_unrolled:
            what = f"unrolled, it takes the network's loops beyond {self._greatest_unrolled} nodes"
            raise NotUnrolledError(what, f"node {loop!r}", "fewer or shorter iterations")

    def add_kept(self, node: onnx.NodeProto, types: Types, loop: KeptNode) -> None:
        """Take a loop over as one node with outputs of these types; its last inputs are the captured tensors."""
        self.count_unrolled()
        self._outputs.append(self.inference.take(types, loop))
        self._nodes.append(node)

    @contextmanager
    def undone_if_not_unrolled(self) -> Iterator[None]:
        """Drop all nodes that the block added if it ends in NotUnrolledError."""
        counts = len(self._nodes), len(self._outputs), len(self._initializers), len(self.remarks), self._unrolled
        bounds = self.inference.remarks_of_bounds.copy()
        try:
            yield
        except NotUnrolledError:
            nodes, outputs, initializers, remarks, self._unrolled = counts
            del self._nodes[nodes:], self._outputs[outputs:], self._initializers[initializers:], self.remarks[remarks:]
            self.inference.remarks_of_bounds[:] = bounds
            raise

    def of_body(self, model: onnx.ModelProto) -> UnfoldedModel:
        """Unfold a loop body as a separate model, which costs as much as 20 nodes; raises GraphError."""
        self._work.spend(20, self.loop)
        return Unfolding(model, frozenset(), self._runners, self._greatest_unrolled, self._work).run()

    def ensure_known(self, scoped: ScopedNode, name: str) -> None:
        """Raise GraphError if an input of an inner node is not written before."""
        for operand in filter(None, scoped.inputs):
            self.inference.ensure_known(operand, name)

    def constant(self, name: str, tensor: onnx.TensorProto) -> str:
        """Add a constant; return its name in the network."""
        made = renamed(tensor, name)
        self._initializers.append(made)
        self.inference.add_initializer(made)
        return name

    def inline(
        self,
        graph: onnx.GraphProto,
        outer: Mapping[str, str],
        given: Mapping[str, str],
        prefix: str,
        shared: dict[str, str] | None = None,
    ) -> tuple[str, ...]:
        """Visit the nodes of an inner graph; return the network's names of its outputs.

        `outer` maps the names around it, `given` those of its inputs. Its constants are added once for all calls with
        the same `shared`. Raises GraphError for a malformed graph.
        """
        stated = {} if shared is None else shared
        is_first = not stated
        names = {**outer, **given, **stated}
        if is_first:
            self.state(graph, names, stated, prefix)
        written = {*given}
        for node in graph.node:
            if not any(node.output):
                place = f"node {node.name or node.op_type!r} in node {prefix!r}"
                raise GraphError("it writes nothing", place, "at least one output")
            is_stated = node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS and len(node.output) == 1
            if is_stated and not is_first:
                continue
            for output in filter(None, node.output):
                if output in written:
                    what = f"node {node.name or output!r} writes it, and it is there already"
                    raise GraphError(what, f"tensor {output!r} in node {prefix!r}", "one producer")
                written.add(output)
                names[output] = self.names.tensor(output, prefix)
                if self.inference.is_read(output):
                    self.inference.read.add(names[output])
                if is_stated:
                    stated[output] = names[output]
            called = self.names.node(node.name, prefix) or next((names[name] for name in node.output if name), prefix)
            self.visit(ScopedNode(node, names), called)
        for value in graph.output:
            self.inference.ensure_known(names.get(value.name, value.name), prefix)
        return tuple(names.get(value.name, value.name) for value in graph.output)

    def state(self, graph: onnx.GraphProto, names: dict[str, str], stated: dict[str, str], prefix: str) -> None:
        """Add the constants of an inner graph, and note their names in both maps; raises GraphError."""
        for tensor in graph.initializer:
            names[tensor.name] = stated[tensor.name] = self.names.tensor(tensor.name, prefix)
            self.constant(names[tensor.name], tensor)
        for each in graph.sparse_initializer:
            what = f"sparse tensor {each.values.name!r} in a graph within it"
            raise GraphError(what, f"node {prefix!r}", "plain tensors there")


Runner: TypeAlias = Callable[[Unfolding, ScopedNode, str], None]
"""Visits the nodes that a node of control flow runs; the text is its name in errors."""
