"""Visits a model's nodes, and in place of control flow the nodes that it runs, and infers types on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import onnx

from onchip.errors import GraphError
from onchip.formats.onnx.constants import KeptNode, ModelTypes, tensor_of
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS, ScopedNode, UniqueNames, kind_of, node_names, subgraphs
from onchip.formats.onnx.shapes import TypeInference


@dataclass(frozen=True, slots=True)
class UnfoldedModel:
    """A graph without control flow, the types of its tensors, and what a user should know of how it was read."""

    graph: onnx.GraphProto
    types: ModelTypes
    remarks: tuple[str, ...]


_NODES_OF_A_BODY: Final = 20
"""What a model of its own takes, in nodes visited."""


class NotUnrolledError(GraphError):
    """A loop that runs too often to be unrolled, or nobody knows how often: it may stay one operator."""


@dataclass(slots=True)
class LoopWork:
    """How many nodes of loops may still be visited, those included that are visited in vain."""

    left: int

    def spend(self, nodes: int, loop: str | None) -> None:
        """Count so many; raises GraphError where there are too many."""
        self.left -= nodes
        if self.left < 0:
            place = None if loop is None else f"node {loop!r}"
            raise GraphError("its loops take too long to look into", place=place, expected="fewer or shorter loops")


class Unfolding:
    """Visits nodes one after the other; by kind, `runners` visit those that control flow runs in their place.

    Shapes that the file declares of tensors in `dropped` count for nothing; loops may become so many nodes together.
    Of the body of a loop that stays, `work` is what is left of the network's.
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
        if self.loop is not None or self._is_body:
            self._work.spend(1, self.loop)
        if self.loop is not None:
            self._unrolled += 1
            self.ensure_may_unroll(0, self.loop)

    def ensure_may_unroll(self, nodes: int, loop: str) -> None:
        """Raise NotUnrolledError where so many more nodes are too many."""
        if self._unrolled + nodes > self._greatest_unrolled:
            what = f"unrolled, it takes the network's loops beyond {self._greatest_unrolled} nodes"
            raise NotUnrolledError(what, place=f"node {loop!r}", expected="fewer or shorter iterations")

    def add_kept(self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], loop: KeptNode) -> None:
        """Take a loop over as one node, whose outputs have these types; what it captures are its last inputs."""
        self.count_unrolled()
        self._outputs.append(self.inference.take(types, loop))
        self._nodes.append(node)

    @contextmanager
    def undone_if_not_unrolled(self) -> Iterator[None]:
        """Forget all nodes that were added within where it ends in NotUnrolledError."""
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
        """Unfold a body as a model of its own; raises GraphError."""
        self._work.spend(_NODES_OF_A_BODY, self.loop)
        return Unfolding(model, frozenset(), self._runners, self._greatest_unrolled, self._work).run()

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
            self.state(graph, names, stated, prefix)
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

    def state(self, graph: onnx.GraphProto, names: dict[str, str], stated: dict[str, str], prefix: str) -> None:
        """Add the constants of a graph within a node, and note in both what they are called; raises GraphError."""
        for tensor in graph.initializer:
            names[tensor.name] = stated[tensor.name] = self.names.tensor(tensor.name, prefix)
            self.constant(names[tensor.name], tensor)
        for each in graph.sparse_initializer:
            what = f"sparse tensor {each.values.name!r} in a graph within it"
            raise GraphError(what, place=f"node {prefix!r}", expected="plain tensors there")


Runner: TypeAlias = Callable[[Unfolding, ScopedNode, str], None]
"""Visits what a node of control flow, called so in errors, runs."""
