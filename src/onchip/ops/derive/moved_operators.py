"""Operators outside of all fused stacks, as data movement from and to DRAM."""

from __future__ import annotations

from collections.abc import Iterable

from onchip.answer.fused_network import StreamedOperator
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ops.derive.banded_operands import operands_of
from onchip.ops.derive.layers_of import layers_of_operator
from onchip.ops.derive.precise import with_elements_of
from onchip.ops.windows.sliding_windows import NoLayerError


def moved_operators(graph: Graph, names: Iterable[str], bits: int | None) -> tuple[StreamedOperator, ...]:
    """Return the operators of these names with the data that they move, in whole bytes, at `bits` per element.

    None stands for each tensor's own bits.
    """
    sized = with_elements_of(graph, bits)
    return tuple(_moved(sized, sized.operator[name]) for name in names)


def macs_of_nests(graph: Graph, operator: Operator) -> int:
    """Return the multiply-accumulates of an operator's loop nests, or 0 without loop nests."""
    try:
        return sum(layer.macs for layer in layers_of_operator(graph, operator).values())
    except (NoLayerError, InputError):
        return 0


def _moved(graph: Graph, operator: Operator) -> StreamedOperator:
    operands = ((one.operand, one.bits) for one in operands_of(graph, operator))
    return StreamedOperator(operator.name, tuple(operands))
