"""Operator kinds that plug-ins describe: the loop nests of kinds that onchip does not know itself."""

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
"""Kinds whose loop nests onchip derives itself, if they have any: no plug-in is asked about them."""


@dataclass(frozen=True, slots=True)
class OperatorNests:
    """Loop nests that run one after another on the same operands, for elements of 8 bits.

    `input` and `weight` are places among the output (place 0), then inputs and parameters; a `weight` of None is none.
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
"""By kind a function of an operator and the shapes of its output, inputs and parameters, in this order."""


def nests_of_plugin(operator: Operator, shapes: tuple[tuple[int, ...], ...]) -> OperatorNests | None:
    """Return the loop nests of a plug-in for the operator's kind, None where there is no such plug-in.

    Raises PluginError for a plug-in that fails, or names operands that the operator does not have.
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
    """Return the kinds of a network's operators whose loop nests plug-ins say, sorted."""
    names = frozenset(OPERATOR_KINDS.names) - OWN_KINDS
    return tuple(sorted(names & {operator.kind for operator in graph.operators}))
