"""The entry of each operator kind that is a loop nest of one description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from onchip.ir.operator import Operator
from onchip.ir.window import Shape
from onchip.ops.contractions.products import (
    PACKED_PRODUCT,
    PRODUCTS,
    gemm,
    product,
    product_of_packed_weights,
    products_of_heads,
    rows_of_units,
)
from onchip.ops.registry.entry import OperatorEntry
from onchip.ops.windows.sliding_windows import WINDOWS

ENTRIES: Final[Mapping[str, Callable[[Operator, Sequence[Shape]], OperatorEntry]]] = {
    **WINDOWS,
    **dict.fromkeys(PRODUCTS, product),
    "Gemm": gemm,
    "FULLY_CONNECTED": rows_of_units,
    PACKED_PRODUCT: product_of_packed_weights,
    "HeadProducts": products_of_heads,
}
"""By kind the function from an operator and the shapes of its output and of what it reads to its entry."""
