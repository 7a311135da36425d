"""Visits a model's nodes, and in place of control flow the nodes that it runs, and infers types on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import onnx

from onchip.errors import GraphError
from onchip.formats.onnx.constants import tensor_of
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS, kind_of, node_names
from onchip.formats.onnx.scopes import ScopedNode, UniqueNames, subgraphs
from onchip.formats.onnx.shapes import ModelTypes, TypeInference


@dataclass(frozen=True, slots=True)
class UnfoldedModel:
    """A graph without control flow, the types of its tensors, and what a user should know of how it was read."""

    graph: onnx.GraphProto
    types: ModelTypes
    remarks: tuple[str, ...]


class Unfolding:
    """Visits nodes one after the other; by kind, `runners` visit those that control flow runs in their place.

    Shapes that the file declares of tensors in `dropped` count for nothing; loops may become so many nodes together.
    """

    def __init__(
        self, model: onnx.ModelProto, dropped: frozenset[str], runners: Mapping[str, Runner], greatest_unrolled: int
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
        """Take a node over, or what it runs; `name` is what errors call it. Raises GraphError for what cannot be."""
        runner = self._runners.get(kind_of(scoped.node))
        if runner is not None:
            self.ensure_known(scoped, name)
            runner(self, scoped, name)
        elif next(subgraphs(scoped.node), None) is not None:
            what = f"{kind_of(scoped.node)} runs a graph of its own"
            raise GraphError(what, place=f"node {name!r}", expected="a network whose control flow is If, Loop or Scan")
        else:
            self.ensure_known(scoped, name)
            self.add(scoped.renamed(scoped.node.name if not scoped.names else name), name)

    def add(self, node: onnx.NodeProto, name: str) -> None:
        """Take a node without control flow over; raises GraphError where loops make too many."""
        self.count_unrolled()
        self._outputs.append(self.inference.visit(node, name))
        self._nodes.append(node)

    def count_unrolled(self) -> None:
        """Count a node of a loop, or an iteration, which may be empty; raises GraphError where there are too many."""
        if self.loop is not None:
            self._unrolled += 1
            if self._unrolled > self._greatest_unrolled:
                what = f"unrolled, it takes the network's loops beyond {self._greatest_unrolled} nodes"
                raise GraphError(what, place=f"node {self.loop!r}", expected="fewer or shorter iterations")

    def ensure_known(self, scoped: ScopedNode, name: str) -> None:
        """Raise GraphError where an input of a node within a graph is written by nobody, or later."""
        for operand in filter(None, scoped.inputs):
            self.inference.ensure_known(operand, name)

    def constant(self, name: str, tensor: onnx.TensorProto) -> str:
        """Add a constant; its name in the network."""
        made = tensor_of(tensor, name)
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
        """Visit the nodes of a graph within a node; the network's names of the graph's outputs.

        `outer` are the names around it, `given` those of its inputs. What it states, its constants, is there once for
        all calls with the same `shared`. Raises GraphError for a graph that is wrong.
        """
        stated = {} if shared is None else shared
        is_first = not stated
        names = {**outer, **given, **stated}
        if is_first:
            self._state(graph.initializer, graph.sparse_initializer, names, stated, prefix)
        written = {*given}
        for node in graph.node:
            if not any(node.output):
                place = f"node {node.name or node.op_type!r} in node {prefix!r}"
                raise GraphError("it writes nothing", place=place, expected="at least one output")
            is_stated = node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS and len(node.output) == 1
            if is_stated and not is_first:
                continue
            for output in filter(None, node.output):
                if output in written:
                    what = f"node {node.name or output!r} writes it, and it is there already"
                    raise GraphError(what, place=f"tensor {output!r} in node {prefix!r}", expected="one producer")
                written.add(output)
                names[output] = self.names.tensor(output, prefix)
                self.inference.is_called(output, names[output])
                if is_stated:
                    stated[output] = names[output]
            called = self.names.node(node.name, prefix) or next((names[name] for name in node.output if name), prefix)
            self.visit(ScopedNode(node, names), called)
        for value in graph.output:
            self.inference.ensure_known(names.get(value.name, value.name), prefix)
        return tuple(names.get(value.name, value.name) for value in graph.output)

    def _state(
        self,
        tensors: Iterable[onnx.TensorProto],
        sparse: Iterable[onnx.SparseTensorProto],
        names: dict[str, str],
        stated: dict[str, str],
        prefix: str,
    ) -> None:
        for tensor in tensors:
            names[tensor.name] = stated[tensor.name] = self.names.tensor(tensor.name, prefix)
            self.constant(names[tensor.name], tensor)
        for each in sparse:
            what = f"sparse tensor {each.values.name!r} in a graph within it"
            raise GraphError(what, place=f"node {prefix!r}", expected="plain tensors there")


Runner: TypeAlias = Callable[[Unfolding, ScopedNode, str], None]
"""Visits what a node of control flow, called so in errors, runs."""
