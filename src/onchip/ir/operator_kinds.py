"""Operator kinds of plug-ins, which supply the loop nests of kinds unknown to onchip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.plugins import PluginError, PluginGroup

OWN_KINDS: Final = frozenset(
    {"Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalMaxPool"}
    | {"GlobalAveragePool", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Gemm", "MatMul", "MatMulInteger"}
    | {"QLinearMatMul", "Attention", "HeadProducts", "Abs", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid"}
    | {"HardSwish", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Silu", "Softplus"}
    | {"Sqrt", "Swish", "Tanh", "Add", "Div", "Max", "Mean", "Min", "Mul", "Pow", "Sub", "Sum"}
    | {"QuantizeLinear", "DequantizeLinear"}
    | {"LSTM", "GRU", "RNN", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"}
    | {"UNIDIRECTIONAL_SEQUENCE_RNN", "com.microsoft::Attention", "com.microsoft::MultiHeadAttention"}
    | {"com.microsoft::GroupQueryAttention", "PRelu", "BatchNormalization", "Einsum", "LRN", "GlobalLpPool"}
    | {"com.microsoft::FusedConv", "com.microsoft::FusedGemm", "com.microsoft::FusedMatMul"}
    | {"com.microsoft::MatMulNBits", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"}
)
"""Kinds whose loop nests onchip derives, if they have any; plug-ins are not queried for these kinds."""


@dataclass(frozen=True, slots=True)
class OperatorNests:
    """Loop nests that run one after another on the same operands, for 8-bit elements.

    `input` and `weight` are indices into the operands: the output (0), then inputs and parameters. `weight` is None if
    there is no weight. Raises PluginError for no layers, or layers that contradict `weight`.
    """

    layers: tuple[Layer, ...]
    input: int = 1
    weight: int | None = None

    def __post_init__(self) -> None:
        if not self.layers:
            raise PluginError("it has no layers", place="OperatorNests", expected="at least one")
        if any(layer.has_weight != (self.weight is not None) for layer in self.layers):
            raise PluginError("layers and operands differ", place="OperatorNests", expected="a weight in both or none")


OPERATOR_KINDS: Final = PluginGroup[[Operator, tuple[tuple[int, ...], ...]], OperatorNests](
    "onchip.operators", OperatorNests
)
"""Map from kind to a function of an operator and the shapes of its output, inputs and parameters, in this order."""


def nests_of_plugin(operator: Operator, shapes: tuple[tuple[int, ...], ...]) -> OperatorNests | None:
    """Return the loop nests that a plug-in gives for the operator's kind; None without such a plug-in.

    Raises PluginError if the plug-in fails, or names an operand that the operator does not have.
    """
    describe = None if operator.kind in OWN_KINDS else OPERATOR_KINDS.find(operator.kind)
    if describe is None:
        return None
    nests = describe(operator, shapes)
    for place in (nests.input, nests.weight):
        if place is not None and not 0 < place < len(shapes):
            where = f"plug-in {operator.kind!r} of {OPERATOR_KINDS.name}"
            raise PluginError(f"operand {place} is not there", place=where, expected=f"1 to {len(shapes) - 1}")
    return nests


def kinds_of_plugins(graph: Graph) -> tuple[str, ...]:
    """Return the operator kinds of a network whose loop nests come from plug-ins, sorted."""
    names = frozenset(OPERATOR_KINDS.names) - OWN_KINDS
    return tuple(sorted(names & {operator.kind for operator in graph.operators}))
