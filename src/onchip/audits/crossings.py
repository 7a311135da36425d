"""A relaxation without steps and addresses: tensors that cross an operator are resident, or are reloaded later.

A tensor crosses an operator o, which does not use it, if one of its uses runs before o and another one after. While o
runs, its operands and all resident crossing tensors are on the chip, with all scratchpads merged into one. A crossing
tensor that is not resident needs a load before its next use, and an activation must have been stored. Every plan
satisfies these constraints, whatever its addresses, scratchpads, links and moments.

`CrossingsModel` with `orders=False` considers only tensors that cross in every order, and counts loads between
neighbours of a chain of uses that follow each other in every order. With `orders=True` the solver decides the order of
each pair of operators, and loads are counted before uses. In a given order both are exact in bytes for one scratchpad.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

from ortools.sat.python import cp_model

from onchip.answer.problem import Objective, Order, Problem
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.audits.finding import in_time
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.search.budget.clock import Deadline


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


Literal: TypeAlias = Any
"""A boolean of a model, or its negation; ortools has no type with an index for them."""
GREATEST_TRIANGLES = 300_000
"""Limit of the transitivity clauses; beyond it some solutions are no orders, and only infeasibility is conclusive."""


class CrossingsModel:
    """A model with literals for the resident and the evicted tensors at each operator, and for the loads.

    Raises OutOfTimeError if the deadline passes during construction.
    """

    def __init__(self, facts: ProblemFacts, bound: int, deadline: Deadline, *, orders: bool) -> None:
        self.model = cp_model.CpModel()
        self._facts = facts
        self._bound = bound
        self._orders = orders
        self._sequence = Sequence(self.model, facts)
        self._costs: list[cp_model.LinearExprT] = []
        self._loads: dict[int, list[cp_model.IntVar]] = {}
        self._stored: dict[int, cp_model.IntVar] = {}
        self._pairs: dict[tuple[int, int], cp_model.IntVar] = {}
        for operator in range(len(facts.operators)):
            in_time(deadline)
            self._operands_and_what_crosses_have_room(operator)
        if orders:
            self._sequence.make_it_an_order(deadline)
        if not self._is_peak:
            self.model.add(sum(self._costs) <= bound - 1)

    @property
    def _is_peak(self) -> bool:
        return self._facts.problem.objective is Objective.PEAK

    @cached_property
    def _memory(self) -> Memory | None:
        """Return the scratchpad whose alignment is the unit of capacity.

        The result is None, for capacities in bytes, if there are several alignments or arenas.
        """
        memories = self._facts.problem.memories
        same = len({memory.alignment_bytes for memory in memories}) == 1
        return memories[0] if same and (len(memories) == 1 or not self._is_peak) else None

    @cached_property
    def _room(self) -> int:
        """Return the total capacity of all scratchpads in units.

        For the peak objective it is the capacity of an arena below the bound.
        """
        memories = self._facts.problem.memories
        if self._is_peak:
            return self._bound - 1 if self._memory is None else units_of(self._bound - 1, self._memory)
        if self._memory is None:
            return sum(memory.capacity_bytes for memory in memories)
        return sum(units_of(memory.capacity_bytes, self._memory) for memory in memories)

    def _size(self, tensor: int) -> int:
        one = self._facts.tensors[tensor]
        return one.size_bytes if self._memory is None else units_of(one.size_bytes, self._memory)

    @cached_property
    def _operands(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self._facts.operators]
        for tensor, uses in enumerate(self._facts.uses):
            for use in uses:
                found[use].append(tensor)
        return tuple(map(tuple, found))

    def _operands_and_what_crosses_have_room(self, operator: int) -> None:
        """Constrain operands and resident crossing tensors to the capacity, unless all of them fit anyway."""
        crossing = [tensor for tensor in range(len(self._facts.tensors)) if self._may_cross(tensor, operator)]
        left = self._room - sum(map(self._size, self._operands[operator]))
        if sum(map(self._size, crossing)) <= left:
            return
        is_here = {tensor: self.model.new_bool_var("") for tensor in crossing}
        self.model.add(sum(self._size(tensor) * here for tensor, here in is_here.items()) <= left)
        for tensor, here in is_here.items():
            is_out = None if self._is_peak else self.model.new_bool_var("")
            self._what_crosses_is_here_or_out(tensor, operator, here if is_out is None else (here, is_out))
            if is_out is not None:
                self._what_is_out_comes_back(tensor, operator, is_out)

    def _may_cross(self, tensor: int, operator: int) -> bool:
        uses = self._facts.use_sets[tensor]
        if uses >> operator & 1:
            return False
        if not self._orders:
            return bool(uses & self._facts.before[operator] and uses & self._facts.after[operator])
        earlier, later = uses & ~self._facts.after[operator], uses & ~self._facts.before[operator]
        producer = self._facts.producer[tensor]
        has_earlier = earlier if producer is None else earlier >> producer & 1
        return bool(has_earlier and later and (earlier | later).bit_count() > 1)

    def _what_crosses_is_here_or_out(
        self, tensor: int, operator: int, places: cp_model.IntVar | tuple[cp_model.IntVar, cp_model.IntVar]
    ) -> None:
        """Require residency or eviction for each pair of a use that may run before the operator and one after it."""
        uses, producer = self._facts.uses[tensor], self._facts.producer[tensor]
        ways = list(places) if isinstance(places, tuple) else [places]
        for first in uses if producer is None else (producer,):
            for last in uses:
                if first != last and self._knows(first, operator) and self._knows(operator, last):
                    pair = self._sequence.precedes(first, operator), self._sequence.precedes(operator, last)
                    self.model.add_bool_or([~pair[0], ~pair[1], *ways])

    def _knows(self, first: int, second: int) -> bool:
        """Return True if the model can express that the first operator runs before the second."""
        return self._sequence.may_precede(first, second) if self._orders else self._sequence.is_sure(first, second)

    def _what_is_out_comes_back(self, tensor: int, operator: int, is_out: cp_model.IntVar) -> None:
        loads = self._loads_of(tensor)
        if self._orders:
            self._a_load_precedes_the_next_use(tensor, operator, is_out, loads)
        else:
            self._a_load_falls_between_neighbours_of_the_chain(tensor, operator, is_out, loads)
        if tensor in self._stored:
            self.model.add_implication(is_out, self._stored[tensor])

    def _a_load_falls_between_neighbours_of_the_chain(
        self, tensor: int, operator: int, is_out: cp_model.IntVar, loads: list[cp_model.IntVar]
    ) -> None:
        """Require a load between the last use certainly before the operator and the first certainly after it."""
        chain, sure = self._facts.chains[tensor], self._sequence.is_sure
        first = max((k + 1 for k, use in enumerate(chain) if sure(use, operator)), default=0)
        last = min((k for k, use in enumerate(chain) if sure(operator, use)), default=len(chain))
        self.model.add_bool_or([is_out.negated(), *loads[first : last + 1]])

    def _a_load_precedes_the_next_use(
        self, tensor: int, operator: int, is_out: cp_model.IntVar, loads: list[cp_model.IntVar]
    ) -> None:
        """Require a load before each use after the operator without another use between them."""
        uses, sequence = self._facts.uses[tensor], self._sequence
        for number, use in enumerate(uses):
            if not sequence.may_precede(operator, use):
                continue
            others = [one for one in uses if sequence.may_precede(operator, one) and sequence.may_precede(one, use)]
            between = [self._both(sequence.precedes(operator, one), sequence.precedes(one, use)) for one in others]
            self.model.add_bool_or([is_out.negated(), ~sequence.precedes(operator, use), *between, loads[number]])

    def _both(self, first: Literal, second: Literal) -> Literal:
        """Return a literal that is true only if both are."""
        pair = first.index, second.index
        if pair not in self._pairs:
            self._pairs[pair] = self.model.new_bool_var("")
            self.model.add_implication(self._pairs[pair], first)
            self.model.add_implication(self._pairs[pair], second)
        return self._pairs[pair]

    def _loads_of(self, tensor: int) -> list[cp_model.IntVar]:
        """Return one literal per use; without orders one before each use of the chain, and one after all uses."""
        if tensor not in self._loads:
            one = self._facts.tensors[tensor]
            loads = len(self._facts.uses[tensor]) if self._orders else len(self._facts.chains[tensor]) + 1
            self._loads[tensor] = [self.model.new_bool_var("") for _ in range(loads)]
            self._costs += [self._facts.load_cost(one) * load for load in self._loads[tensor]]
            if one.role is Role.ACTIVATION:
                self._stored[tensor] = self.model.new_bool_var("")
                self._costs.append(self._facts.store_cost(one) * self._stored[tensor])
        return self._loads[tensor]


class Sequence:
    """A literal for each pair of operators, and clauses that make these literals an order."""

    def __init__(self, model: cp_model.CpModel, facts: ProblemFacts) -> None:
        self._model = model
        self._facts = facts
        self._true = model.new_constant(1)
        self._decided: dict[tuple[int, int], cp_model.IntVar] = {}

    def is_sure(self, first: int, second: int) -> bool:
        """Return True if the first operator runs before the second in every allowed order."""
        return bool(self._facts.before[second] >> first & 1)

    def may_precede(self, first: int, second: int) -> bool:
        """Return True if the first operator runs before the second in some allowed order."""
        return first != second and not self.is_sure(second, first)

    def precedes(self, first: int, second: int) -> Literal:
        """Return the literal of the first operator running before the second."""
        if self.is_sure(first, second):
            return self._true
        if self.is_sure(second, first):
            return self._true.negated()
        pair = (min(first, second), max(first, second))
        if pair not in self._decided:
            self._decided[pair] = self._model.new_bool_var("")
        return self._decided[pair] if first < second else self._decided[pair].negated()

    def undecided_of(self, operator: int) -> list[int]:
        """Return the operators that run before this one in some orders and after it in others."""
        sure = self._facts.before[operator] | self._facts.after[operator] | 1 << operator
        return bits_of(~sure & (1 << len(self._facts.operators)) - 1)

    def make_it_an_order(self, deadline: Deadline) -> None:
        """Add transitivity for triples of operators, up to GREATEST_TRIANGLES.

        Raises OutOfTimeError past the deadline.
        """
        triangles = 0
        for middle in range(len(self._facts.operators)):
            in_time(deadline)
            for first, last in combinations(self.undecided_of(middle), 2):
                triangles += 1
                if triangles > GREATEST_TRIANGLES:
                    return
                self._none_comes_round(first, middle, last)
                self._none_comes_round(last, middle, first)

    def _none_comes_round(self, first: int, middle: int, last: int) -> None:
        """Require the third pair to follow from two undecided pairs with a common middle operator."""
        if not self.is_sure(first, last):
            pairs = (self.precedes(first, middle), self.precedes(middle, last))
            self._model.add_bool_or([*(~pair for pair in pairs), self.precedes(first, last)])
