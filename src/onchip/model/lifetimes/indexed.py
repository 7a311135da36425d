"""A planning problem in integers: operators, tensors, live ranges and room as bit masks.

Operator `i` is `problem.graph.operators[i]`, tensor `i` is `problem.counted_tensors[i]`; both are bit `i` of a mask.
Masks are built on demand: one mask per operator of a graph of 100,000 takes gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from onchip.answer.problem import Order, Problem
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor

LONG_MASK = 1 << 12
"""Length from which masks are read as text and built as bytes, in linear instead of quadratic time."""


def bits(mask: int) -> Iterator[int]:
    """Yield the indices of the set bits, lowest first."""
    if mask.bit_length() > LONG_MASK:
        yield from _bits_of_long(mask)
        return
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def mask_of(indices: Iterable[int]) -> int:
    """Return the mask with these bits set."""
    listed = tuple(indices)
    if max(listed, default=0) > LONG_MASK:
        return _long_mask_of(listed)
    mask = 0
    for index in listed:
        mask |= 1 << index
    return mask


def _bits_of_long(mask: int) -> Iterator[int]:
    text = bin(mask)[:1:-1]
    index = text.find("1")
    while index >= 0:
        yield index
        index = text.find("1", index + 1)


def _long_mask_of(indices: tuple[int, ...]) -> int:
    held = bytearray(max(indices) // 8 + 1)
    for index in indices:
        held[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(held, "little")


@dataclass(frozen=True, slots=True)
class OverwritableInput:
    """An input, its `ties` (outputs with their byte shift after the input's start), and the tensors `inside` others.

    Inputs of one `group` would take the same bytes of an output, so only one can be overwritten.
    """

    tensor: str
    ties: tuple[tuple[str, int], ...]
    inside: tuple[str, ...]
    group: tuple[str, int]


def overwritable_inputs(operator: Operator, graph: Graph, alignment_bytes: int) -> tuple[OverwritableInput, ...]:
    """Return the overwritable inputs in order of the operator's pairs, without those that violate the alignment."""
    ties: dict[str, list[tuple[str, int]]] = {}
    for pair in operator.in_place:
        if pair.shift_bytes % alignment_bytes == 0:
            ties.setdefault(pair.input, []).append((pair.output, pair.shift_bytes))
    found = []
    for tensor, tied in ties.items():
        first, shift_bytes = tied[0]
        lie_within = graph.tensor[first].size_bytes <= graph.tensor[tensor].size_bytes
        inside = tuple(output for output, _ in tied) if lie_within else (tensor,)
        found.append(OverwritableInput(tensor, tuple(tied), inside, (first, max(0, -shift_bytes))))
    return tuple(found)


def inside_others(inputs: Iterable[OverwritableInput]) -> frozenset[str]:
    """Return the tensors inside others if the first input of each group is overwritten."""
    groups: dict[tuple[str, int], tuple[str, ...]] = {}
    for one in inputs:
        groups.setdefault(one.group, one.inside)
    return frozenset(tensor for tensors in groups.values() for tensor in tensors)


@dataclass(frozen=True, slots=True)
class ScratchpadRoom:
    """The exact capacity check of a scratchpad at one instant, for any alignment.

    Sizes are counted in units of the alignment, rounded up. All but the topmost tensor end at a multiple of the
    alignment. The topmost may end within the last, partial unit of the capacity if its own last unit is filled no
    further: those tensors are `may_end_short`.
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
        return self.units_of_all(bits(mask))

    def units_of_all(self, tensors: Iterable[int]) -> int:
        """Return the units that distinct tensors take."""
        units = self.units
        return sum(units[tensor] for tensor in tensors)

    def packed_bytes(self, tensors: Iterable[int], used_units: int) -> int:
        """Return the minimum arena in bytes of tensors that take `used_units`, all at once."""
        if self.alignment_bytes == 1:
            return used_units
        return used_units * self.alignment_bytes - max((self.padding_bytes[tensor] for tensor in tensors), default=0)

    def ends_short(self, tensors: Iterable[int]) -> bool:
        """Return True if one of these tensors may end within the last, partial unit of the capacity."""
        may = self.may_end_short
        return bool(may) and any(may >> tensor & 1 for tensor in tensors)

    def takes(self, used_units: int, ends_short: bool) -> bool:
        """Return True if `used_units` fit; `ends_short` is True if one of the tensors may end short."""
        return used_units <= self.capacity_units or (ends_short and used_units == self.capacity_units + 1)

    def holds(self, mask: int, used_units: int) -> bool:
        """Return True if a set of tensors that takes `used_units` can be resident at once."""
        return self.takes(used_units, bool(mask & self.may_end_short))

    def holds_all(self, tensors: Iterable[int], used_units: int) -> bool:
        """Return True if tensors that take `used_units` can be resident at once."""
        return used_units <= self.capacity_units or self.takes(used_units, self.ends_short(tensors))


@dataclass(frozen=True, slots=True)
class Overwritable:
    """An input whose bytes an operator's outputs may take; `ties` are pairs of output and byte shift after the input.

    Then the tensors `inside` overlap others, which saves `units` while the operator runs. Only one input of each
    `group` (a number within the operator) can be overwritten.
    """

    tensor: int
    ties: tuple[tuple[int, int], ...]
    inside: tuple[int, ...]
    units: int
    group: int


@dataclass(frozen=True)
class IndexedProblem:
    """A planning problem in integers, with its scratchpads combined into one.

    With several scratchpads, sizes and costs are those of one with the total capacity (cheapest transfers, a tensor
    readable anywhere). A minimum there is a lower bound over `views`, one problem for each scratchpad. Per operator:
    `read_lists`, `write_lists` (tensors), `predecessor_lists` (operators; a given order is a chain of predecessors),
    each ascending and without repeats. Per tensor: `sizes_bytes`, `producer` (-1 for none), `load_costs`,
    `store_costs`. `backed` is the mask of tensors that DRAM has a copy of whenever they could be evicted: network
    inputs and parameters from the start, network outputs by their one compulsory write.
    """

    problem: Problem
    tensors: tuple[Tensor, ...]
    read_lists: tuple[tuple[int, ...], ...]
    write_lists: tuple[tuple[int, ...], ...]
    predecessor_lists: tuple[tuple[int, ...], ...]
    producer: tuple[int, ...]
    sizes_bytes: tuple[int, ...]
    load_costs: tuple[int, ...]
    store_costs: tuple[int, ...]
    backed: int

    @classmethod
    def of(cls, problem: Problem) -> IndexedProblem:
        """Return the problem with tensors and operators as indices."""
        tensors = problem.counted_tensors
        index = {tensor.name: i for i, tensor in enumerate(tensors)}
        operators = problem.graph.operators
        reads = tuple(_ascending(index[name] for name in o.reads if name in index) for o in operators)
        writes = tuple(_ascending(index[name] for name in o.outputs if name in index) for o in operators)
        producer = [-1] * len(tensors)
        for i, written in enumerate(writes):
            for tensor in written:
                producer[tensor] = i
        names = [memory.name for memory in problem.memories]
        return cls(
            problem=problem,
            tensors=tensors,
            read_lists=reads,
            write_lists=writes,
            predecessor_lists=_predecessors(problem, reads, producer),
            producer=tuple(producer),
            sizes_bytes=tuple(tensor.size_bytes for tensor in tensors),
            load_costs=tuple(min(problem.transfer_cost(t, DRAM, name) for name in names) for t in tensors),
            store_costs=tuple(min(problem.transfer_cost(t, name, DRAM) for name in names) for t in tensors),
            backed=mask_of(i for i, tensor in enumerate(tensors) if tensor.role is not Role.ACTIVATION),
        )

    @property
    def operator_count(self) -> int:
        """Return the number of operators, which is the number of steps of a plan."""
        return len(self.read_lists)

    @cached_property
    def memory(self) -> Memory:
        """Return the only scratchpad, or one with the capacity of all."""
        memories = self.problem.memories
        if len(memories) == 1:
            return memories[0]
        alignments = {memory.alignment_bytes for memory in memories}
        alignment = alignments.pop() if len(alignments) == 1 else 1
        units = sum(-(-memory.capacity_bytes // alignment) for memory in memories)
        return Memory("scratchpads", units * alignment, alignment)

    @cached_property
    def views(self) -> tuple[IndexedProblem, ...]:
        """Return the problem for each scratchpad alone, with the same indices of operators and tensors."""
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
    def first_alike(self) -> tuple[int, ...]:
        """Return for each scratchpad the first with equal capacity and operands."""
        kinds = [(view.room, memory.holds) for view, memory in zip(self.views, self.problem.memories, strict=True)]
        return tuple(kinds.index(kind) for kind in kinds)

    @cached_property
    def written_in(self) -> tuple[int, ...]:
        """Return for each tensor the mask of scratchpads into which the array may write it."""
        return self._taken_in(Operand.OUTPUT)

    @cached_property
    def read_in(self) -> tuple[int, ...]:
        """Return for each tensor the mask of scratchpads from which the array may read it."""
        as_input, as_weight = self._taken_in(Operand.INPUT), self._taken_in(Operand.WEIGHT)
        return tuple(
            as_weight[i] if tensor.role is Role.PARAMETER else as_input[i] for i, tensor in enumerate(self.tensors)
        )

    def copy_cost(self, tensor: int, source: int, target: int) -> int:
        """Return the cost of copying a tensor between memories, given as scratchpad numbers or -1 for DRAM."""
        memories = self.problem.memories
        ends = (DRAM if memory < 0 else memories[memory].name for memory in (source, target))
        return self.problem.transfer_cost(self.tensors[tensor], *ends)

    @cached_property
    def links(self) -> tuple[tuple[int, int], ...]:
        """Return the links as (source, target) pairs of scratchpad numbers."""
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
        """Return True if only the given order is possible: each operator has the one before as a predecessor."""
        return all(step in befores for step, befores in enumerate(self.predecessor_lists[1:]))

    @property
    def all_operators(self) -> int:
        """Return the mask of every operator."""
        return (1 << self.operator_count) - 1

    @cached_property
    def operand_lists(self) -> tuple[tuple[int, ...], ...]:
        """Return for each operator the tensors that it reads or writes, ascending."""
        pairs = zip(self.read_lists, self.write_lists, strict=True)
        return tuple(_ascending((*read, *written)) for read, written in pairs)

    @cached_property
    def overwritable_lists(self) -> tuple[tuple[Overwritable, ...], ...]:
        """Return for each operator the inputs that its outputs may overwrite, if no later reader or a DRAM copy exists.

        Overlaps that violate the alignment are omitted.
        """
        if not self.problem.graph.shares_bytes:
            return ((),) * self.operator_count
        index = {tensor.name: number for number, tensor in enumerate(self.tensors)}
        return tuple(self._overwritables(operator, index) for operator in self.problem.graph.operators)

    def _overwritables(self, operator: Operator, index: Mapping[str, int]) -> tuple[Overwritable, ...]:
        """Return an operator's overwritable inputs by group; groups are numbered by their first tensors."""
        inputs = overwritable_inputs(operator, self.problem.graph, self.memory.alignment_bytes)
        groups: dict[tuple[str, int], int] = {}
        found = []
        for one in sorted(inputs, key=lambda one: index[one.tensor]):
            ties = tuple((index[written], shift_bytes) for written, shift_bytes in one.ties)
            inside, group = tuple(map(index.__getitem__, one.inside)), groups.setdefault(one.group, len(groups))
            found.append(Overwritable(index[one.tensor], ties, inside, self.room.units_of_all(inside), group))
        return tuple(sorted(found, key=lambda one: (one.group, one.tensor)))

    def required_bytes(self, operator: int) -> int:
        """Return the packed bytes of an operator's operands, with overlaps where allowed."""
        inside = self.inside_others(operator)
        apart = [tensor for tensor in self.operand_lists[operator] if tensor not in inside]
        return self.room.packed_bytes(apart, self.room.units_of_all(apart))

    def inside_others(self, operator: int) -> frozenset[int]:
        """Return the operands that may overlap others at once: the first input of each group is overwritten."""
        if not self.overwritable_lists[operator]:
            return frozenset()
        groups = {one.group: one.inside for one in reversed(self.overwritable_lists[operator])}
        return frozenset(tensor for tensors in groups.values() for tensor in tensors)

    @cached_property
    def reader_lists(self) -> tuple[tuple[int, ...], ...]:
        """Return for each tensor the operators that read it, ascending."""
        return _turned_round(self.read_lists, len(self.tensors))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """Return for each operator those that have it as a predecessor, ascending."""
        return _turned_round(self.predecessor_lists, self.operator_count)

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Return for each operator the mask of the tensors that it reads."""
        return tuple(map(mask_of, self.read_lists))

    @cached_property
    def writes(self) -> tuple[int, ...]:
        """Return for each operator the mask of the tensors that it writes."""
        return tuple(map(mask_of, self.write_lists))

    @cached_property
    def operands(self) -> tuple[int, ...]:
        """Return for each operator the mask of the tensors that it reads or writes."""
        return tuple(map(mask_of, self.operand_lists))

    @cached_property
    def predecessors(self) -> tuple[int, ...]:
        """Return for each operator the mask of its predecessors."""
        return tuple(map(mask_of, self.predecessor_lists))

    @cached_property
    def readers(self) -> tuple[int, ...]:
        """Return for each tensor the mask of the operators that read it."""
        return tuple(map(mask_of, self.reader_lists))

    @cached_property
    def room(self) -> ScratchpadRoom:
        """Return the capacity check of the scratchpad, or of one with the capacity of all."""
        return ScratchpadRoom.of(self.sizes_bytes, self.memory)


def _ascending(indices: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(indices)))


def _turned_round(lists: Iterable[tuple[int, ...]], count: int) -> tuple[tuple[int, ...], ...]:
    """Return for each index below `count` the numbers of the lists that contain it."""
    places: list[list[int]] = [[] for _ in range(count)]
    for place, indices in enumerate(lists):
        for index in indices:
            places[index].append(place)
    return tuple(map(tuple, places))


def _predecessors(
    problem: Problem, reads: tuple[tuple[int, ...], ...], producer: list[int]
) -> tuple[tuple[int, ...], ...]:
    if problem.order is Order.GIVEN:
        return tuple((operator - 1,) if operator else () for operator in range(len(reads)))
    settled = _befores_of_states(problem)
    return tuple(
        _ascending((*(producer[tensor] for tensor in read if producer[tensor] >= 0), *settled.get(operator, ())))
        for operator, read in enumerate(reads)
    )


def _befores_of_states(problem: Problem) -> dict[int, list[int]]:
    """Return by operator the predecessors that on-chip states add: writers of its inputs, readers of the old value."""
    if not problem.settled_states:
        return {}
    graph = problem.graph
    number = {operator.name: index for index, operator in enumerate(graph.operators)}
    befores: dict[int, list[int]] = {}
    for state in problem.settled_states:
        writer = number[graph.producer[state.new].name]
        before = (number[reader.name] for reader in graph.readers[state.old])
        befores.setdefault(writer, []).extend(reader for reader in before if reader != writer)
        for reader in graph.readers[state.new]:
            befores.setdefault(number[reader.name], []).append(writer)
    return befores


MOST_OPERATORS: Final = 20_000
"""Operator limit: above it, the precedence table takes more than 100 MB."""


def sure_needs_bytes(indexed: IndexedProblem) -> tuple[int, ...]:
    """Return by operator a lower bound on the packed bytes resident during it, over all orders without spills.

    A tensor is surely resident if its writer or a reader precedes the operator in every order, and another reader
    follows it. Above `MOST_OPERATORS` operators, the bound covers their operands alone.
    """
    count = indexed.operator_count
    operands = np.array([indexed.required_bytes(operator) for operator in range(count)], dtype=np.int64)
    if count > MOST_OPERATORS:
        return tuple(operands.tolist())
    room = indexed.room
    units = np.zeros(count, dtype=np.int64)
    padding_bytes = np.zeros(count, dtype=np.int64)
    for tensor, mask in enumerate(_sure_while(indexed)):
        steps = flags_of(mask, count)
        units[steps] += room.units[tensor]
        padding_bytes[steps] = np.maximum(padding_bytes[steps], room.padding_bytes[tensor])
    for operator in range(count):
        units[operator] -= room.units_of_all(indexed.inside_others(operator))
    return tuple(np.maximum(operands, units * room.alignment_bytes - padding_bytes).tolist())


def _sure_while(indexed: IndexedProblem) -> list[int]:
    """Return by tensor the mask of operators during which it is resident in every order, including its users."""
    before, after = surely_before(indexed), surely_after(indexed)
    masks = []
    for tensor, readers in enumerate(indexed.reader_lists):
        writer = indexed.producer[tensor]
        own = begun = awaited = 0
        for reader in readers:
            own |= 1 << reader
            awaited |= before[reader]
            begun |= after[reader]
        if writer >= 0:
            own |= 1 << writer
            begun |= after[writer]
        masks.append(own | begun & awaited)
    return masks


def surely_before(indexed: IndexedProblem) -> list[int]:
    """Return by operator the mask of operators that run before it in every order."""
    masks: list[int] = []
    for befores in indexed.predecessor_lists:
        mask = 0
        for before in befores:
            mask |= masks[before] | 1 << before
        masks.append(mask)
    return masks


def surely_after(indexed: IndexedProblem) -> list[int]:
    """Return by operator the mask of operators that run after it in every order."""
    masks = [0] * indexed.operator_count
    for operator in reversed(range(indexed.operator_count)):
        for successor in indexed.successors[operator]:
            masks[operator] |= masks[successor] | 1 << successor
    return masks


def flags_of(mask: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return the mask as an array of `count` booleans."""
    flags = np.frombuffer(mask.to_bytes(-(-count // 8), "little"), dtype=np.uint8)
    return np.unpackbits(flags, bitorder="little")[:count].astype(np.bool_)


class Precedence:
    """The precedence relation over all orders: by operator, the masks of operators before and after."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self.before = surely_before(indexed)
        self.after = surely_after(indexed)

    def first_of(self, operators: int) -> Iterator[int]:
        """Yield the operators of a mask that have no certain predecessor in it."""
        return (one for one in bits(operators) if not self.before[one] & operators)

    def last_of(self, operators: int) -> Iterator[int]:
        """Yield the operators of a mask that have no certain successor in it."""
        return (one for one in bits(operators) if not self.after[one] & operators)


def uses_of(indexed: IndexedProblem, tensor: int) -> tuple[int, ...]:
    """Return the operators that write or read a tensor, the writer first."""
    writer, readers = indexed.producer[tensor], indexed.reader_lists[tensor]
    return readers if writer < 0 else (writer, *readers)


@dataclass(frozen=True)
class Windows:
    """The time windows of operators and tensors, from the mask of all ancestors of each operator."""

    indexed: IndexedProblem
    ancestors: tuple[int, ...]

    @classmethod
    def of(cls, indexed: IndexedProblem) -> Windows:
        """Return the windows from the transitive closure; operators are indexed in a topological order."""
        ancestors: list[int] = []
        for befores in indexed.predecessor_lists:
            closed = mask_of(befores)
            for before in befores:
                closed |= ancestors[before]
            ancestors.append(closed)
        return cls(indexed, tuple(ancestors))

    @cached_property
    def steps(self) -> tuple[range, ...]:
        """Return for each operator its steps from the earliest to the latest."""
        after = [0] * len(self.ancestors)
        for befores in self.ancestors:
            for before in bits(befores):
                after[before] += 1
        count = len(self.ancestors)
        return tuple(
            range(befores.bit_count(), count - behind) for befores, behind in zip(self.ancestors, after, strict=True)
        )

    @cached_property
    def users(self) -> tuple[int, ...]:
        """Return for each tensor the mask of its producer and its readers."""
        producers = (1 << producer if producer >= 0 else 0 for producer in self.indexed.producer)
        return tuple(made | read for made, read in zip(producers, self.indexed.readers, strict=True))

    @cached_property
    def lifetimes(self) -> tuple[range, ...]:
        """Return for each tensor the steps from its earliest to its latest use; empty without a use."""
        return tuple(self._lifetime(users) for users in self.users)

    def _lifetime(self, users: int) -> range:
        windows = [self.steps[operator] for operator in bits(users)]
        return range(min(w.start for w in windows), max(w.stop for w in windows)) if windows else range(0)

    @cached_property
    def _common_ancestors(self) -> tuple[int, ...]:
        """Return for each tensor the operators that must run before all of its users."""
        common = []
        for users in self.users:
            mask = -1
            for operator in bits(users):
                mask &= self.ancestors[operator]
            common.append(mask)
        return tuple(common)

    def shared_steps(self, first: int, second: int) -> range:
        """Return the steps in which both tensors may be used.

        Empty if every use of one must precede every use of the other in any order.
        """
        for before, after in ((first, second), (second, first)):
            if not self.users[before] & ~self._common_ancestors[after]:
                return range(0)
        ours, theirs = self.lifetimes[first], self.lifetimes[second]
        return range(max(ours.start, theirs.start), max(0, min(ours.stop, theirs.stop)))
