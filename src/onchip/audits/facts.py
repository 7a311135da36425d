"""The second prover's facts about a planning problem: precedences, uses, and transfer costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from onchip.answer.problem import Order, Problem
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor


@dataclass(frozen=True)
class ProblemFacts:
    """Facts about a problem; operators are numbered in the given order, counted tensors in the graph's order."""

    problem: Problem

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """Return the operators, in the given order."""
        return self.problem.graph.operators

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors that appear in a plan."""
        return self.problem.counted_tensors

    @cached_property
    def before(self) -> tuple[int, ...]:
        """Return for each operator the bit set of the operators that run before it in every allowed order."""
        if self.problem.order is Order.GIVEN:
            return tuple((1 << at) - 1 for at in range(len(self.operators)))
        number = {operator.name: at for at, operator in enumerate(self.operators)}
        found: list[int] = []
        for operator in self.operators:
            own = 0
            for name in operator.reads:
                if name in self.problem.graph.producer:
                    producer = number[self.problem.graph.producer[name].name]
                    own |= found[producer] | 1 << producer
            found.append(own)
        return tuple(found)

    @cached_property
    def after(self) -> tuple[int, ...]:
        """Return for each operator the bit set of the operators that run after it in every allowed order."""
        found = [0] * len(self.operators)
        for later, earlier in enumerate(self.before):
            for at in bits_of(earlier):
                found[at] |= 1 << later
        return tuple(found)

    @cached_property
    def positions(self) -> tuple[range, ...]:
        """Return the positions at which each operator may run, given its predecessors and successors."""
        last = len(self.operators) - 1
        return tuple(
            range(before.bit_count(), last - after.bit_count() + 1)
            for before, after in zip(self.before, self.after, strict=True)
        )

    @cached_property
    def uses(self) -> tuple[tuple[int, ...], ...]:
        """Return for each tensor the operators that write or read it, in the given order, the writer first."""
        number = {tensor.name: at for at, tensor in enumerate(self.tensors)}
        found: list[list[int]] = [[] for _ in self.tensors]
        for at, operator in enumerate(self.operators):
            for tensor in self.problem.operands(operator):
                found[number[tensor.name]].append(at)
        return tuple(map(tuple, found))

    @cached_property
    def use_sets(self) -> tuple[int, ...]:
        """Return the uses of each tensor as bit sets."""
        return tuple(sum(1 << use for use in uses) for uses in self.uses)

    @cached_property
    def chains(self) -> tuple[tuple[int, ...], ...]:
        """Return for each tensor a longest chain of uses that follow each other in every order."""
        return tuple(map(self._longest_chain, self.uses))

    def _longest_chain(self, uses: tuple[int, ...]) -> tuple[int, ...]:
        best: dict[int, tuple[int, ...]] = {}
        for use in uses:
            earlier = (chain for other, chain in best.items() if self.before[use] >> other & 1)
            best[use] = (*max(earlier, key=len, default=()), use)
        return max(best.values(), key=len, default=())

    @cached_property
    def producer(self) -> tuple[int | None, ...]:
        """Return for each tensor the operator that writes it; None for network inputs and parameters."""
        return tuple(
            None if self.is_source(tensor) else uses[0] for tensor, uses in zip(self.tensors, self.uses, strict=True)
        )

    @staticmethod
    def is_source(tensor: Tensor) -> bool:
        """Return True if DRAM has a copy of the tensor from the start."""
        return tensor.role in (Role.INPUT, Role.PARAMETER)

    def holders(self, operator: Operator, tensor: Tensor) -> tuple[int, ...]:
        """Return the indices of the scratchpads in which the operator may read or write the tensor."""
        operand: Operand = self.problem.operand(operator, tensor)
        return tuple(at for at, memory in enumerate(self.problem.memories) if operand in memory.holds)

    def load_cost(self, tensor: Tensor) -> int:
        """Return the minimum cost of a load of the tensor, into any scratchpad."""
        return min(self.problem.transfer_cost(tensor, DRAM, memory.name) for memory in self.problem.memories)

    def store_cost(self, tensor: Tensor) -> int:
        """Return the minimum cost of a write of the tensor to DRAM, from any scratchpad."""
        return min(self.problem.transfer_cost(tensor, memory.name, DRAM) for memory in self.problem.memories)

    @cached_property
    def compulsory_cost(self) -> int:
        """Return the minimum cost of loading each used network input and parameter, and writing each output, once."""
        loads = sum(
            self.load_cost(tensor)
            for tensor, uses in zip(self.tensors, self.uses, strict=True)
            if uses and self.is_source(tensor)
        )
        return loads + sum(self.store_cost(tensor) for tensor in self.tensors if tensor.role is Role.OUTPUT)


def bits_of(numbers: int) -> list[int]:
    """Return the members of a bit set, ascending."""
    found = []
    while numbers:
        lowest = numbers & -numbers
        found.append(lowest.bit_length() - 1)
        numbers ^= lowest
    return found


def units_of(size_bytes: int, memory: Memory) -> int:
    """Return the alignment units that a tensor occupies in a scratchpad; no two residencies share a unit."""
    return -(-size_bytes // memory.alignment_bytes)
