"""The entry of each operator kind whose slices and loop nests follow from one description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from onchip.ir.operator import Operator
from onchip.ir.window import Shape
from onchip.ops.contractions.contractions import (
    ELEMENT_BY_ELEMENT,
    REDUCTIONS,
    batch_normalization,
    einsum,
    elementwise,
    reduction,
)
from onchip.ops.contractions.products import (
    GEMMS,
    PACKED_PRODUCT,
    PRODUCTS,
    gemm,
    product,
    product_of_packed_weights,
    products_of_heads,
    rows_of_units,
)
from onchip.ops.registry.entry import OperatorEntry
from onchip.ops.windows.sliding_windows import WINDOWS, window_of_channels

ELEMENTWISE: Final = frozenset(
    {"Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "HardSigmoid", "HardSwish", "Silu", "Swish", "Mish", "Tanh", "Gelu"}
    | {"Softplus", "Identity", "Neg", "Abs", "Exp", "Log", "Sqrt", "Erf", "Reciprocal", "Celu", "Softsign", "Cast"}
    | {"Ceil", "Cos", "Floor", "IsInf", "IsNaN", "Not", "Round", "Sign", "Sin", "ThresholdedRelu"}
    | {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Sum", "Max", "Min", "Mean", "Clip", "PRelu", "Where"}
    | {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor"}
    | {"QuantizeLinear", "DequantizeLinear"}
)
REDUCING: Final = REDUCTIONS | {"ReduceLogSumExp", "ArgMax", "ArgMin"}
ENTRIES: Final[Mapping[str, Callable[[Operator, Sequence[Shape]], OperatorEntry]]] = {
    **WINDOWS,
    **dict.fromkeys(PRODUCTS, product),
    **dict.fromkeys(GEMMS, gemm),
    "FULLY_CONNECTED": rows_of_units,
    PACKED_PRODUCT: product_of_packed_weights,
    "HeadProducts": products_of_heads,
    "Einsum": einsum,
    "LRN": window_of_channels,
    **dict.fromkeys(ELEMENTWISE | ELEMENT_BY_ELEMENT, elementwise),
    **dict.fromkeys(REDUCING, reduction),
    "BatchNormalization": batch_normalization,
}
"""Entry functions by kind, of an operator and the shapes of its output, inputs and parameters."""
