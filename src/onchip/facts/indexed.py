"""A planning problem in integers: operators and tensors as indices, sets of them as bit masks.

Bit `i` of a mask over operators is the operator `problem.graph.operators[i]`; bit `i` of a mask
over tensors is `problem.counted_tensors[i]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from onchip.answer.problem import Order, Problem
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.tensor import Role, Tensor


def bits(mask: int) -> Iterator[int]:
    """Yield the indices of the set bits, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def mask_of(indices: Iterable[int]) -> int:
    """Return the mask with these bits set."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


@dataclass(frozen=True)
class IndexedProblem:
    """The problem, and what its scratchpads are together.

    With several of them, sizes and costs are those of one as large as all (the cheapest transfers, a tensor
    readable wherever it lies): what is least there bounds what is least in `views`, one for each scratchpad.

    Per operator: `reads`, `writes`, `operands` (masks over tensors), `predecessors` (mask over
    operators; a given order is a chain of predecessors). Per tensor: `sizes_bytes`, `readers`
    (mask over operators), `producer` (-1 for none), `load_costs`, `store_costs`.
    `backed` are the tensors of which DRAM has a copy whenever they could leave: network inputs
    and parameters from the start, network outputs by their one compulsory write.
    """

    problem: Problem
    tensors: tuple[Tensor, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    operands: tuple[int, ...]
    predecessors: tuple[int, ...]
    readers: tuple[int, ...]
    producer: tuple[int, ...]
    sizes_bytes: tuple[int, ...]
    load_costs: tuple[int, ...]
    store_costs: tuple[int, ...]
    backed: int

    @classmethod
    def of(cls, problem: Problem) -> IndexedProblem:
        """Index a problem: its tensors and operators become their places in lists."""
        tensors = problem.counted_tensors
        index = {tensor.name: i for i, tensor in enumerate(tensors)}
        operators = problem.graph.operators
        reads = tuple(mask_of(index[name] for name in o.reads if name in index) for o in operators)
        writes = tuple(mask_of(index[name] for name in o.outputs) for o in operators)
        producer = [-1] * len(tensors)
        for i, written in enumerate(writes):
            for tensor in bits(written):
                producer[tensor] = i
        names = [memory.name for memory in problem.memories]
        return cls(
            problem=problem,
            tensors=tensors,
            reads=reads,
            writes=writes,
            operands=tuple(read | written for read, written in zip(reads, writes, strict=True)),
            predecessors=_predecessors(problem, reads, producer),
            readers=_readers(reads, len(tensors)),
            producer=tuple(producer),
            sizes_bytes=tuple(tensor.size_bytes for tensor in tensors),
            load_costs=tuple(min(problem.transfer_cost(t, DRAM, name) for name in names) for t in tensors),
            store_costs=tuple(min(problem.transfer_cost(t, name, DRAM) for name in names) for t in tensors),
            backed=mask_of(i for i, tensor in enumerate(tensors) if tensor.role is not Role.ACTIVATION),
        )

    @property
    def operator_count(self) -> int:
        """How many operators there are, which is how many steps a plan has."""
        return len(self.reads)

    @cached_property
    def memory(self) -> Memory:
        """The scratchpad, or one as large as all of them."""
        memories = self.problem.memories
        if len(memories) == 1:
            return memories[0]
        alignments = {memory.alignment_bytes for memory in memories}
        alignment = alignments.pop() if len(alignments) == 1 else 1
        units = sum(-(-memory.capacity_bytes // alignment) for memory in memories)
        return Memory("scratchpads", units * alignment, alignment)

    @cached_property
    def views(self) -> tuple[IndexedProblem, ...]:
        """The problem in each scratchpad alone; same indices of operators and tensors."""
        if len(self.problem.memories) == 1:
            return (self,)
        return tuple(self._view(memory) for memory in self.problem.memories)

    def _view(self, memory: Memory) -> IndexedProblem:
        problem = replace(self.problem, memories=(memory,))
        return replace(
            self,
            problem=problem,
            load_costs=tuple(problem.transfer_cost(tensor, DRAM, memory.name) for tensor in self.tensors),
            store_costs=tuple(problem.transfer_cost(tensor, memory.name, DRAM) for tensor in self.tensors),
        )

    @cached_property
    def written_in(self) -> tuple[int, ...]:
        """Per tensor the scratchpads (a mask) into which the array may write it."""
        return self._taken_in(Operand.OUTPUT)

    @cached_property
    def read_in(self) -> tuple[int, ...]:
        """Per tensor the scratchpads (a mask) from which the array may read it."""
        as_input, as_weight = self._taken_in(Operand.INPUT), self._taken_in(Operand.WEIGHT)
        return tuple(
            as_weight[i] if tensor.role is Role.PARAMETER else as_input[i] for i, tensor in enumerate(self.tensors)
        )

    def copy_cost(self, tensor: int, source: int, target: int) -> int:
        """Return what copying a tensor from one memory to another costs: numbers of scratchpads, -1 for DRAM."""
        memories = self.problem.memories
        ends = (DRAM if memory < 0 else memories[memory].name for memory in (source, target))
        return self.problem.transfer_cost(self.tensors[tensor], *ends)

    @cached_property
    def links(self) -> tuple[tuple[int, int], ...]:
        """The links, (source, target) as numbers of scratchpads."""
        number = {memory.name: index for index, memory in enumerate(self.problem.memories)}
        return tuple((number[source], number[target]) for source, target in self.problem.transfers.links)

    def _taken_in(self, operand: Operand) -> tuple[int, ...]:
        memories = self.problem.memories
        return tuple(
            mask_of(m for m, memory in enumerate(memories) if operand in memory.holds and size <= memory.capacity_bytes)
            for size in self.sizes_bytes
        )

    def uses(self, order: Sequence[int]) -> list[list[int]]:
        """Return for each tensor the steps that need it, ascending."""
        uses: list[list[int]] = [[] for _ in self.tensors]
        for step, operator in enumerate(order):
            for tensor in self.operand_lists[operator]:
                uses[tensor].append(step)
        return uses

    @cached_property
    def has_one_order(self) -> bool:
        """Whether the given order is the only one: each operator has the one before it as a predecessor."""
        return all(befores >> step & 1 for step, befores in enumerate(self.predecessors[1:]))

    @property
    def all_operators(self) -> int:
        """The mask of every operator."""
        return (1 << self.operator_count) - 1

    @cached_property
    def read_lists(self) -> tuple[tuple[int, ...], ...]:
        """Return for each operator the tensors that it reads."""
        return tuple(tuple(bits(mask)) for mask in self.reads)

    @cached_property
    def write_lists(self) -> tuple[tuple[int, ...], ...]:
        """Return for each operator the tensors that it writes."""
        return tuple(tuple(bits(mask)) for mask in self.writes)

    @cached_property
    def operand_lists(self) -> tuple[tuple[int, ...], ...]:
        """Return for each operator the tensors that it reads or writes."""
        return tuple(tuple(bits(mask)) for mask in self.operands)

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """Per operator the operators that have it as a predecessor."""
        successors: list[list[int]] = [[] for _ in self.predecessors]
        for operator, befores in enumerate(self.predecessors):
            for before in bits(befores):
                successors[before].append(operator)
        return tuple(map(tuple, successors))

    @cached_property
    def room(self) -> ScratchpadRoom:
        """What fits at one instant into the scratchpad, or into one as large as all of them."""
        return ScratchpadRoom.of(self.sizes_bytes, self.memory)


@dataclass(frozen=True, slots=True)
class ScratchpadRoom:
    """What fits into one scratchpad at one instant, exactly, for any alignment.

    Sizes are counted in units of the alignment, rounded up. All but the topmost tensor end at a
    multiple of the alignment; the topmost may end within the last, partial unit of the capacity
    if its own last unit is filled no further: those tensors are `may_end_short`.
    """

    units: tuple[int, ...]
    padding_bytes: tuple[int, ...]
    capacity_units: int
    may_end_short: int
    alignment_bytes: int

    @classmethod
    def of(cls, sizes_bytes: tuple[int, ...], memory: Memory) -> ScratchpadRoom:
        """Count the sizes in units of the memory's alignment."""
        alignment = memory.alignment_bytes
        whole, partial = divmod(memory.capacity_bytes, alignment)
        return cls(
            units=tuple(-(-size // alignment) for size in sizes_bytes),
            padding_bytes=tuple(-size % alignment for size in sizes_bytes),
            capacity_units=whole,
            may_end_short=mask_of(i for i, size in enumerate(sizes_bytes) if 0 < size % alignment <= partial),
            alignment_bytes=alignment,
        )

    def units_of(self, mask: int) -> int:
        """Return the units that a set of tensors takes."""
        units = self.units
        return sum(units[tensor] for tensor in bits(mask))

    def packed_bytes(self, mask: int, used_units: int) -> int:
        """Return the least arena of a set of tensors that takes `used_units`, all at once."""
        if self.alignment_bytes == 1:
            return used_units
        return used_units * self.alignment_bytes - max((self.padding_bytes[tensor] for tensor in bits(mask)), default=0)

    def holds(self, mask: int, used_units: int) -> bool:
        """Whether a set of tensors that takes `used_units` can be resident at once."""
        if used_units <= self.capacity_units:
            return True
        return used_units == self.capacity_units + 1 and bool(mask & self.may_end_short)


def _readers(reads: tuple[int, ...], tensors: int) -> tuple[int, ...]:
    readers = [0] * tensors
    for operator, read in enumerate(reads):
        for tensor in bits(read):
            readers[tensor] |= 1 << operator
    return tuple(readers)


def _predecessors(problem: Problem, reads: tuple[int, ...], producer: list[int]) -> tuple[int, ...]:
    if problem.order is Order.GIVEN:
        return tuple((1 << operator - 1) if operator else 0 for operator in range(len(reads)))
    return tuple(mask_of(producer[tensor] for tensor in bits(read) if producer[tensor] >= 0) for read in reads)
