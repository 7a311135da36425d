"""Operator fusion: BatchNorm into the preceding convolution, a bias into a product, an activation into its producer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from math import prod

from onchip.ir.graph import Graph
from onchip.ir.operator import NOTHING_STATED, Operator
from onchip.ir.tensor import Role, Tensor

ACTIVATIONS = frozenset(
    {
        "Relu",
        "Clip",
        "LeakyRelu",
        "PRelu",
        "Elu",
        "Selu",
        "Sigmoid",
        "HardSigmoid",
        "HardSwish",
        "Silu",
        "Swish",
        "Mish",
        "Tanh",
        "Gelu",
        "Softplus",
    }
)
_BATCH_NORM = "BatchNormalization"
_PRODUCT, _BIAS = "MatMul", "Add"
CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})


def fuse(graph: Graph, apart: Collection[str] = ()) -> Graph:
    """Return the graph with every possible BatchNorm, bias and activation fused, but not into kinds listed in `apart`.

    A fused operator keeps the name, kind, attributes and position of its first node. `members` lists all its nodes, and
    its output is the last member's.
    """
    if not any(one.kind in (_BATCH_NORM, _BIAS) or _base_kind(one) in ACTIVATIONS for one in graph.operators):
        return graph
    return _Fusion(graph, apart).run()


@dataclass
class _Fusion:
    """A fusion pass in the given order, which reaches the fixed point at once.

    The fusion of an operator depends on its producer, which is final by then, and on the readers of its input, which no
    fusion changes.
    """

    graph: Graph
    apart: Collection[str]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    operators: dict[str, Operator] = field(default_factory=dict)
    producer: dict[str, str] = field(default_factory=dict)
    not_linear: set[str] = field(default_factory=set)
    read_times: dict[str, int] = field(default_factory=dict)

    def run(self) -> Graph:
        self.tensors = dict(self.graph.tensor)
        self.read_times = {name: len(readers) for name, readers in self.graph.readers.items()}
        for operator in self.graph.operators:
            first = self._producer_it_fuses_into(operator)
            if first is None:
                self._keep(operator)
            elif operator.kind == _BATCH_NORM:
                self._fuse_batch_norm(first, operator)
            else:
                self._fuse_activation(first, operator)
        tensors = tuple(self.tensors.values())
        states = self.graph.states_among(tensors)
        return Graph(self.graph.name, tensors, tuple(self.operators.values()), states)

    def _producer_it_fuses_into(self, operator: Operator) -> Operator | None:
        if len(operator.inputs) != 1 or len(operator.outputs) != 1:
            return None
        between = self.tensors[operator.inputs[0]]
        if between.role is not Role.ACTIVATION or self.read_times[between.name] != 1 or between.part_of is not None:
            return None
        first = self.operators[self.producer[between.name]]
        is_stated = first.stated != NOTHING_STATED or operator.stated != NOTHING_STATED
        if is_stated or first.kind in self.apart:
            return None
        if _base_kind(operator) in ACTIVATIONS or self._takes_bias(first, operator):
            return first
        return first if operator.kind == _BATCH_NORM and self._takes_batch_norm(first, operator) else None

    def _takes_bias(self, first: Operator, addition: Operator) -> bool:
        """Return True if only a constant vector is added to the rows of a product with constant weights."""
        if addition.kind != _BIAS or first.kind != _PRODUCT or first.name in self.not_linear:
            return False
        if len(first.inputs) != 1 or len(first.parameters) != 1 or len(addition.parameters) != 1:
            return False
        bias, written, product = (
            self.tensors[name].shape or () for name in (addition.parameters[0], addition.outputs[0], addition.inputs[0])
        )
        return written == product and len(written) > 1 and bias[-1:] == written[-1:] and prod(bias) == written[-1]

    def _takes_batch_norm(self, first: Operator, batch_norm: Operator) -> bool:
        """Return True if scale and shift fold into constant weight and bias, with no other operator in between."""
        return (
            first.kind in CONVOLUTIONS
            and first.name not in self.not_linear
            and len(first.inputs) == 1
            and len(first.parameters) <= 2
            and not batch_norm.attributes.get("training_mode")
        )

    def _keep(self, operator: Operator) -> None:
        self.operators[operator.name] = operator
        self.producer |= dict.fromkeys(operator.outputs, operator.name)
        if operator.members:  # fused in the file: a member may be an activation
            self.not_linear.add(operator.name)

    def _fuse_activation(self, first: Operator, activation: Operator) -> None:
        self.not_linear.add(first.name)
        parameters = tuple(dict.fromkeys((*first.parameters, *activation.parameters)))
        self._fuse(first, activation, parameters)

    def _fuse_batch_norm(self, first: Operator, batch_norm: Operator) -> None:
        """Fuse a BatchNorm, leaving the weight and one bias; a file that lists no parameters gets none."""
        absorbed = tuple(dict.fromkeys(batch_norm.parameters))
        for name in absorbed:
            self.read_times[name] -= 1
        parameters = first.parameters
        if len(parameters) < 2 and (bias := self._bias(first, batch_norm)) is not None:
            parameters = (*parameters, bias.name)
            self.tensors[bias.name] = bias
            self.read_times[bias.name] = 1
        for name in absorbed:
            if not self.read_times[name]:
                del self.tensors[name]
        self._fuse(first, batch_norm, parameters)

    def _bias(self, convolution: Operator, batch_norm: Operator) -> Tensor | None:
        """Return a bias of one element per output channel, as wide as the weight.

        It has BatchNorm's name if that is free.
        """
        shift = self.tensors[batch_norm.parameters[1]] if len(batch_norm.parameters) > 1 else None
        is_free = shift is not None and not self.read_times[shift.name]
        name = shift.name if shift is not None and is_free else self._fresh_name(f"{batch_norm.name}.bias")
        weight = self.tensors[convolution.parameters[0]] if convolution.parameters else shift
        shape = self.tensors[batch_norm.outputs[0]].shape
        if weight is not None and weight.bits is not None and shape is not None and len(shape) > 1:
            return Tensor.of_shape(name, (shape[1],), weight.bits, Role.PARAMETER)
        return None if shift is None else replace(shift, name=name, aliases=())

    def _fuse(self, first: Operator, last: Operator, parameters: tuple[str, ...]) -> None:
        between, result = last.inputs[0], last.outputs[0]
        outputs = tuple(result if name == between else name for name in first.outputs)
        members = (*(first.members or (first.name,)), *(last.members or (last.name,)))
        workspace_bytes = max(first.workspace_bytes, last.workspace_bytes)
        self.operators[first.name] = replace(
            first, outputs=outputs, parameters=parameters, members=members, workspace_bytes=workspace_bytes
        )
        self.producer[result] = first.name
        del self.tensors[between]

    def _fresh_name(self, name: str) -> str:
        taken = {known for tensor in self.graph.tensors for known in (tensor.name, *tensor.aliases)} | set(self.tensors)
        while name in taken:
            name += "_"
        return name


def _base_kind(operator: Operator) -> str:
    return operator.kind.rpartition("::")[2]


def cap_tensors(graph: Graph, capacity_bytes: int) -> Graph:
    """Return the graph with larger tensors clamped to the scratchpad's size and without shapes."""
    return replace(
        graph,
        tensors=tuple(
            Tensor(tensor.name, capacity_bytes, tensor.role, aliases=tensor.aliases)
            if tensor.size_bytes > capacity_bytes
            else tensor
            for tensor in graph.tensors
        ),
    )
