"""Operators that run outside of all fused stacks, as what they move from and to DRAM."""

from __future__ import annotations

from collections.abc import Iterable

from onchip.answer.fused_network import MovedOperator
from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.lower.schedule.precise import with_elements_of

_BITS_OF_A_BYTE = 8


def moved_operators(graph: Graph, names: Iterable[str], bits: int | None) -> tuple[MovedOperator, ...]:
    """Return the operators of these names with what they move, in whole bytes, where elements have `bits`.

    None stands for each tensor's own bits.
    """
    sized = with_elements_of(graph, bits)
    return tuple(_moved(sized, sized.operator[name]) for name in names)


def _moved(graph: Graph, operator: Operator) -> MovedOperator:
    read = [(_operand(graph.tensor[name]), graph.tensor[name]) for name in dict.fromkeys(operator.reads)]
    written = [(Operand.OUTPUT, graph.tensor[name]) for name in dict.fromkeys(operator.outputs)]
    operands = ((operand, tensor.size_bytes * _BITS_OF_A_BYTE) for operand, tensor in (*read, *written))
    return MovedOperator(operator.name, tuple(operands))


def _operand(tensor: Tensor) -> Operand:
    return Operand.WEIGHT if tensor.role is Role.PARAMETER else Operand.INPUT
