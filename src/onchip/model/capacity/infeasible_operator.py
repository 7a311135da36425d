"""The reason that an operator does not fit: operands too large for every scratchpad, or no joint assignment."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.problem import Problem
from onchip.arch.memory import Memory, Operand
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.model.capacity.bounds import OperatorNeed, greatest_needs, operator_need
from onchip.model.capacity.fitting import operators_that_do_not_fit
from onchip.model.capacity.states import with_updates_in_place
from onchip.model.lifetimes.indexed import IndexedProblem


@dataclass(frozen=True, slots=True)
class Oversize:
    """A tensor larger than every scratchpad that may hold the operand; `largest` is the largest of these, or None."""

    tensor: Tensor
    operand: Operand
    largest: Memory | None

    @property
    def largest_bytes(self) -> int:
        """Return the largest scratchpad's bytes, or 0 if none may hold the operand."""
        return 0 if self.largest is None else self.largest.capacity_bytes

    @property
    def excess_bytes(self) -> int:
        """Return the bytes that the tensor exceeds the largest scratchpad by, at least 1."""
        return self.tensor.size_bytes - self.largest_bytes


@dataclass(frozen=True, slots=True)
class InfeasibleOperator:
    """An operator whose operands do not fit; they take `need_bytes` packed, of `capacity_bytes` in all scratchpads.

    `oversize` is the operand that exceeds its largest scratchpad by the most bytes; None if each fits alone.
    """

    operator: Operator
    operands: tuple[Tensor, ...]
    need_bytes: int
    capacity_bytes: int
    oversize: Oversize | None

    @property
    def excess_bytes(self) -> int:
        """Return the bytes beyond all scratchpads together, else of the oversize operand, else 0."""
        beyond_all = self.need_bytes - self.capacity_bytes
        return beyond_all if beyond_all > 0 else self.oversize.excess_bytes if self.oversize else 0


def infeasible_operator(problem: Problem) -> InfeasibleOperator | None:
    """Return the first of the operators that do not fit with the greatest need, or None if all fit."""
    need = max(_needs_of_unfit(problem), key=lambda need: need.need_bytes, default=None)
    if need is None:
        return None
    operator = problem.graph.operator[need.operator.name]
    capacity_bytes = sum(memory.capacity_bytes for memory in problem.memories)
    operands, oversize = problem.operands(operator), _oversize(problem, operator)
    return InfeasibleOperator(operator, operands, need.need_bytes, capacity_bytes, oversize)


def _needs_of_unfit(problem: Problem) -> tuple[OperatorNeed, ...]:
    """Return the needs of operators that do not fit, with states updated in place counted once."""
    if problem.graph.states and len(problem.memories) == 1:
        needs = greatest_needs(problem)
        if needs[0].is_proven and needs[0].need_bytes > problem.memories[0].capacity_bytes:
            return needs
    in_place = with_updates_in_place(problem) if problem.graph.states else problem
    unfit = operators_that_do_not_fit(IndexedProblem.of(in_place))
    return tuple(operator_need(in_place, in_place.graph.operators[index]) for index in unfit)


def _oversize(problem: Problem, operator: Operator) -> Oversize | None:
    each = (_beside_largest(problem, operator, tensor) for tensor in problem.operands(operator))
    return max(
        (one for one in each if one.excess_bytes > 0), key=lambda one: (one.excess_bytes, one.tensor.name), default=None
    )


def _beside_largest(problem: Problem, operator: Operator, tensor: Tensor) -> Oversize:
    operand = problem.operand(operator, tensor)
    takes_it = (memory for memory in problem.memories if operand in memory.holds)
    return Oversize(tensor, operand, max(takes_it, key=lambda memory: memory.capacity_bytes, default=None))
