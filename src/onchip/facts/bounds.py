"""Cheap facts about a problem: M_R, compulsory traffic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onchip.answer.problem import Problem
from onchip.arch.memory import DRAM
from onchip.facts.overwriting import inside_others, overwritable_inputs
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor


@dataclass(frozen=True, slots=True)
class OperatorNeed:
    """The bytes that all operands of one operator take together, packed at the alignment."""

    operator: Operator
    need_bytes: int


def packed_bytes(sizes_bytes: Iterable[int], alignment_bytes: int) -> int:
    """Return the least arena that holds all sizes at once, each at a multiple of the alignment.

    All but the topmost are rounded up; the one with the most padding goes on top.
    """
    sizes = tuple(sizes_bytes)
    if alignment_bytes == 1:
        return sum(sizes)
    padding = [-size % alignment_bytes for size in sizes]
    return sum(sizes) + sum(padding) - max(padding, default=0)


def operator_need(problem: Problem, operator: Operator) -> OperatorNeed:
    """Return what one operator needs in the problem's first scratchpad, what may be overwritten being so."""
    alignment_bytes = problem.memories[0].alignment_bytes
    inside = inside_others(overwritable_inputs(operator, problem.graph, alignment_bytes))
    sizes = [tensor.size_bytes for tensor in problem.operands(operator) if tensor.name not in inside]
    return OperatorNeed(operator, packed_bytes(sizes, alignment_bytes))


def greatest_need(problem: Problem) -> OperatorNeed:
    """Return M_R: the greatest need of a single operator, the first such in the given order."""
    needs = (operator_need(problem, operator) for operator in problem.graph.operators)
    return max(needs, key=lambda need: need.need_bytes)


def compulsory_bytes(problem: Problem) -> int:
    """Return the bytes of the first load of each input read by anyone and the write of each output."""
    return sum(tensor.size_bytes for tensor in (*_loaded(problem), *_written(problem)))


def compulsory_cost(problem: Problem) -> int:
    """Return what these cost, in the objective's unit, each by the scratchpad that is cheapest for it."""
    names = [memory.name for memory in problem.memories]
    loads = (min(problem.transfer_cost(tensor, DRAM, name) for name in names) for tensor in _loaded(problem))
    writes = (min(problem.transfer_cost(tensor, name, DRAM) for name in names) for tensor in _written(problem))
    return sum(loads) + sum(writes)


def _loaded(problem: Problem) -> list[Tensor]:
    read = {name for operator in problem.graph.operators for name in operator.reads}
    roles = (Role.INPUT, Role.PARAMETER)
    return [tensor for tensor in problem.counted_tensors if tensor.role in roles and tensor.name in read]


def _written(problem: Problem) -> list[Tensor]:
    return [tensor for tensor in problem.counted_tensors if tensor.role is Role.OUTPUT]
