"""Operators whose operands do not fit, and whether operands fit together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from onchip.answer.problem import Problem
from onchip.arch.memory import Memory, Operand
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.model.capacity.bounds import OperatorNeed, greatest_needs, operator_need, with_updates_in_place
from onchip.model.lifetimes.indexed import IndexedProblem, bits


def places_of_operands(
    indexed: IndexedProblem, operator: int, pinned_in: Sequence[Collection[int]] | None = None
) -> Mapping[int, int] | None:
    """Return a scratchpad number for each operand so that all fit at once, or None if there is no assignment.

    `pinned_in` lists the tensors already resident in each scratchpad; operands among them are not in the result.
    """
    return _Fitting(indexed, operator, pinned_in or ((),) * len(indexed.views)).places()


def operators_that_do_not_fit(indexed: IndexedProblem) -> tuple[int, ...]:
    """Return the operators whose operands do not fit together, in the given order."""
    if len(indexed.views) == 1:
        return tuple(o for o in range(indexed.operator_count) if not _fit_into_the_only_one(indexed, o))
    return tuple(o for o in range(indexed.operator_count) if places_of_operands(indexed, o) is None)


def _fit_into_the_only_one(indexed: IndexedProblem, operator: int) -> bool:
    """Return True if the only scratchpad may hold each operand, and all of them together."""
    inside, written = indexed.inside_others(operator), indexed.write_lists[operator]
    apart = [tensor for tensor in indexed.operand_lists[operator] if tensor not in inside]
    takes_each = all((indexed.written_in if one in written else indexed.read_in)[one] for one in apart)
    return takes_each and indexed.room.holds_all(apart, indexed.room.units_of_all(apart))


class _Fitting:
    """A bin packing search, most constrained and largest operands first; equal scratchpads are tried once.

    An operand that may lie inside another takes no space. A scratchpad's fill is its used units, and True if a tensor
    in it may end short.
    """

    def __init__(self, indexed: IndexedProblem, operator: int, pinned_in: Sequence[Collection[int]]) -> None:
        self._rooms = [view.room for view in indexed.views]
        self._alike = indexed.first_alike
        self._pinned_in = pinned_in
        written = indexed.write_lists[operator]
        inside = indexed.inside_others(operator)
        self._taken_in = {
            tensor: (indexed.written_in if tensor in written else indexed.read_in)[tensor]
            for tensor in indexed.operand_lists[operator]
            if tensor not in inside and not any(tensor in pinned for pinned in pinned_in)
        }
        self._tensors = sorted(self._taken_in, key=lambda t: (self._taken_in[t].bit_count(), -indexed.sizes_bytes[t]))
        self._hopeless: set[tuple[object, ...]] = set()

    def places(self) -> Mapping[int, int] | None:
        held = zip(self._rooms, self._pinned_in, strict=True)
        filled = tuple((room.units_of_all(pinned), room.ends_short(pinned)) for room, pinned in held)
        if not all(room.takes(*full) for room, full in zip(self._rooms, filled, strict=True)):
            return None
        found = self._place(0, filled)
        return None if found is None else dict(zip(self._tensors, found, strict=True))

    def _place(self, index: int, filled: tuple[tuple[int, bool], ...]) -> tuple[int, ...] | None:
        if index == len(self._tensors):
            return ()
        tensor = self._tensors[index]
        if (index, *filled) in self._hopeless:
            return None
        tried = []
        for memory in bits(self._taken_in[tensor]):
            room, alike = self._rooms[memory], (self._alike[memory], *filled[memory])
            units, ends_short = filled[memory]
            full = units + room.units[tensor], ends_short or room.ends_short((tensor,))
            if alike in tried or not room.takes(*full):
                continue
            tried.append(alike)
            rest = self._place(index + 1, (*filled[:memory], full, *filled[memory + 1 :]))
            if rest is not None:
                return (memory, *rest)
        self._hopeless.add((index, *filled))
        return None


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
