"""A part of a model as a model of its own: the nodes on the way from some tensors to others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data
from onnx.helper import make_tensor_type_proto

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, InputError
from onchip.formats.onnx.bare import own_weight
from onchip.formats.onnx.dimensions import bind
from onchip.formats.onnx.file import load_model
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS
from onchip.formats.onnx.unfolded import unfold
from onchip.formats.onnx.views import Storage

_OLDEST_IR, _NEWEST_IR = 8, 13
"""Below 4 every initializer must be an input as well; above 13 onnxruntime refuses."""


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """The nodes, in the model's order, and what they start from: tensors handed in, and constants."""

    nodes: tuple[onnx.NodeProto, ...]
    given: tuple[str, ...]
    constants: tuple[str, ...]


class Network:
    """A model with its weights, of which parts can be cut out."""

    def __init__(self, path: Path, bindings: Bindings) -> None:
        self.path = path
        model = load_model(path, with_weights=True)  # refuses what cannot be planned, and so what cannot be run
        bind(model.graph, bindings)
        unfolded = unfold(model)
        graph, self.types = unfolded.graph, unfolded.types
        self.storage = Storage(graph, self.types)
        self.nodes: tuple[onnx.NodeProto, ...] = tuple(graph.node)
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        outputs = dict.fromkeys(value.name for value in graph.output)
        self.outputs = tuple(name for name in outputs if not self.types.is_empty(name))
        self.inputs = tuple(value.name for value in graph.input if self.storage.is_network_input(value.name))
        empty = (value.name for value in graph.input if self.types.is_empty(value.name))
        self.known_inputs = (*bindings.values, *(name for name in empty if name not in self.initializers))
        self._opsets = tuple(model.opset_import)
        self._ir_version = min(max(model.ir_version, _OLDEST_IR), _NEWEST_IR)
        self._writer = {output: index for index, node in enumerate(self.nodes) for output in node.output if output}

    @property
    def opset(self) -> int:
        """Return the version of ONNX's own operators; 1 where the file says none."""
        return max((one.version for one in self._opsets if one.domain in DEFAULT_DOMAINS), default=1)

    def initializer(self, name: str) -> onnx.TensorProto | None:
        """A tensor that the file states, its external data loaded; raises InputError where that is missing."""
        tensor = self.initializers.get(name)
        if tensor is not None and (content := own_weight(self.path, tensor)) is not None:
            return onnx.TensorProto(name=name, data_type=tensor.data_type, dims=tensor.dims, raw_data=content.tobytes())
        if tensor is not None and uses_external_data(tensor):
            try:
                load_external_data_for_tensor(tensor, str(self.path.parent))
            except Exception as error:  # onnx raises its own for damaged and for missing files
                what = f"its external data cannot be read: {error}"
                raise InputError(what, file=str(self.path), place=f"tensor {name!r}", expected="the data") from None
        return tensor

    def writer(self, name: str) -> onnx.NodeProto | None:
        """The node that writes a tensor."""
        return self.nodes[self._writer[name]] if name in self._writer else None

    def is_constant(self, name: str) -> bool:
        """Whether the tensor's value is known before anything runs."""
        return name in self.types.constants

    def part(self, wanted: Sequence[str], given: Collection[str]) -> NodeProgram:
        """What computes `wanted` from `given`, views and dequantised weights on the way; raises GraphError."""
        indices: set[int] = set()
        constants: dict[str, None] = {}
        met: dict[str, None] = {}
        seen: set[str] = set()
        waiting = list(wanted)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in given:
                met[name] = None
            elif self._is_stored(name):
                constants[name] = None
            elif name in self._writer:
                indices.add(self._writer[name])
                waiting.extend(filter(None, self.nodes[self._writer[name]].input))
            else:
                raise GraphError("nothing computes it", place=f"tensor {name!r}", expected="a network input handed in")
        return NodeProgram(tuple(self.nodes[index] for index in sorted(indices)), tuple(met), tuple(constants))

    def _is_stored(self, name: str) -> bool:
        """Whether a constant is kept as itself: it is no view, and not dequantised from another."""
        if not self.is_constant(name) or self.storage.base(name) != name:
            return False
        return tuple(self.storage.stored_as(name)) == (name,)

    def model(self, part: NodeProgram, wanted: Sequence[str], embedded: Sequence[onnx.TensorProto]) -> onnx.ModelProto:
        """The part as a model; constants that are not `embedded` are inputs of it."""
        return self.program(part.nodes, (*part.given, *part.constants), wanted, embedded)

    def program(
        self,
        nodes: Collection[onnx.NodeProto],
        operands: Sequence[str],
        wanted: Sequence[str],
        embedded: Sequence[onnx.TensorProto],
    ) -> onnx.ModelProto:
        """A model of these nodes; operands that are not `embedded` are its inputs."""
        model = onnx.ModelProto(ir_version=self._ir_version, opset_import=self._opsets)
        model.graph.name = "part"
        ranks = {id(node): index for index, node in enumerate(self.nodes)}
        model.graph.node.extend(self._as_in_file(node) for node in sorted(nodes, key=lambda node: ranks[id(node)]))
        model.graph.initializer.extend(embedded)
        inside = {tensor.name for tensor in embedded}
        for name in operands:
            if name not in inside:
                model.graph.input.add(name=name, type=self._type_as_run(name))
        for name in wanted:
            model.graph.output.add(name=name)
        return model

    def _as_in_file(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """The node without the inputs that its graph reads around it: a runtime finds these by itself."""
        loop = self.types.kept_as(node)
        if loop is None or not loop.captured:
            return node
        stated = onnx.NodeProto()
        stated.CopyFrom(node)
        del stated.input[-loop.captured :]
        return stated

    def _type_as_run(self, name: str) -> onnx.TypeProto:
        """The type of a tensor, without sizes where they are the largest that it can have."""
        planned = self.types.static[name]
        if name not in self.types.bounded:
            return planned
        rank = len(planned.tensor_type.shape.dim)
        return make_tensor_type_proto(planned.tensor_type.elem_type, [None] * rank)
