"""Places of tensors: home memories of a network, the first choice, and those of a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypeVar

from onchip.answer.problem import Count, Order, Problem
from onchip.answer.program import Allocate, Compute, Free, Plan
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.memory.spill.exact import solve_exactly
from onchip.model.capacity.bounds import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.ops.views import JoinedMaps, joined_maps, seeing_parts
from onchip.search.budget.limits import Run

_Place = TypeVar("_Place", str, str | None)
StackMap = tuple[int, str]
"""The number of a stack, and a tensor of the network that it reads or writes, by name."""
Place = tuple[int, str]
"""The number of a stack, and a memory by name."""


@dataclass(frozen=True, slots=True)
class StackPlaces:
    """The places of one group: pairs of a tensor and a memory, and the tensors that leave the chip behind the group."""

    read: frozenset[tuple[str, str]] = frozenset()
    written: frozenset[tuple[str, str]] = frozenset()
    waiting: frozenset[tuple[str, str | None]] = frozenset()
    leaving: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Places:
    """Places of tensors by stack, as memory names. None is DRAM, and unlisted tensors are in DRAM.

    `read`: the memory where a stack's operators read a tensor; unlisted tensors are streamed. `written`: the memory
    where a stack's operator writes the tensor. `waiting`: the memory for bands that the stack reads again in the next
    tile but one or later; unlisted bands stay in their memory. `leaving`: tensors that leave the chip after a stack
    although a later stack reads them; they are copied to DRAM if it has no copy.
    """

    read: Mapping[StackMap, str] = field(default_factory=dict)
    written: Mapping[StackMap, str] = field(default_factory=dict)
    waiting: Mapping[StackMap, str | None] = field(default_factory=dict)
    leaving: frozenset[StackMap] = frozenset()

    def by_stack(self) -> Mapping[int, StackPlaces]:
        """Return the places of each stack by its number; stacks without any entry are absent."""
        read, written, waiting = _by_stack(self.read), _by_stack(self.written), _by_stack(self.waiting)
        leaving: dict[int, list[str]] = {}
        for stack, name in self.leaving:
            leaving.setdefault(stack, []).append(name)
        return {
            stack: StackPlaces(
                frozenset(read.get(stack, ())),
                frozenset(written.get(stack, ())),
                frozenset(waiting.get(stack, ())),
                frozenset(leaving.get(stack, ())),
            )
            for stack in {*read, *written, *waiting, *leaving}
        }

    @classmethod
    def of_stacks(cls, stacks: Sequence[StackPlaces]) -> Places:
        """Return the places of these stacks, in their order."""
        numbered = list(enumerate(stacks))
        return cls(
            {(at, name): memory for at, one in numbered for name, memory in one.read},
            {(at, name): memory for at, one in numbered for name, memory in one.written},
            {(at, name): memory for at, one in numbered for name, memory in one.waiting},
            frozenset((at, name) for at, one in numbered for name in one.leaving),
        )

    def with_residency(
        self, tensor: str, writer: Place | None, readers: Mapping[int, str], leaving: Iterable[int]
    ) -> Places:
        """Return these places with other places for one tensor.

        `writer` is the stack that writes the tensor and the memory there (None: DRAM). `readers` maps the stacks that
        read it on chip to the memory. `leaving` are the stacks after which it leaves the chip.
        """
        read = {key: where for key, where in self.read.items() if key[1] != tensor}
        written = {key: where for key, where in self.written.items() if key[1] != tensor}
        read |= {(stack, tensor): memory for stack, memory in readers.items()}
        written |= {} if writer is None else {(writer[0], tensor): writer[1]}
        kept = (key for key in self.leaving if key[1] != tensor)
        return Places(read, written, self.waiting, frozenset((*kept, *((stack, tensor) for stack in leaving))))

    def with_written(self, tensor: str, writer: Place | None, leaving: Iterable[int]) -> Places:
        """Return these places with a tensor written elsewhere (None: DRAM).

        The places of its reads do not change.
        """
        written = {key: where for key, where in self.written.items() if key[1] != tensor}
        written |= {} if writer is None else {(writer[0], tensor): writer[1]}
        kept = (key for key in self.leaving if key[1] != tensor)
        return replace(self, written=written, leaving=frozenset((*kept, *((stack, tensor) for stack in leaving))))

    def with_map(self, tensor: str, writer: int | None, readers: Iterable[int], memory: str | None) -> Places:
        """Return these places with a tensor in one memory from its writer (None: DRAM has it) to these readers."""
        if memory is None:
            return self.with_residency(tensor, None, {}, ())
        return self.with_residency(
            tensor, None if writer is None else (writer, memory), dict.fromkeys(readers, memory), ()
        )

    def with_all(self, others: Places) -> Places:
        """These and others, of other stacks."""
        return Places(
            {**self.read, **others.read},
            {**self.written, **others.written},
            {**self.waiting, **others.waiting},
            self.leaving | others.leaving,
        )

    def renumbered(self, numbers: Mapping[int, int]) -> Places:
        """Return the places of the stacks whose old numbers are given, under their new numbers."""

        def moved(places: Mapping[StackMap, _Place]) -> dict[StackMap, _Place]:
            return {(numbers[stack], name): one for (stack, name), one in places.items() if stack in numbers}

        leaving = frozenset((numbers[stack], name) for stack, name in self.leaving if stack in numbers)
        return Places(moved(self.read), moved(self.written), moved(self.waiting), leaving)

    def farther(self, stack: int, operator: Operator, accelerator: Accelerator) -> Places | None:
        """Return the places with an operator's output, else its inputs, one memory farther from the MACs.

        None if they are in the last one.
        """

        def moved(held: Mapping[StackMap, str], names: Sequence[str], operand: Operand) -> dict[StackMap, str]:
            memories = [one.memory.name for one in accelerator.addressed if operand in one.memory.holds]
            keys = [(stack, name) for name in names if held.get((stack, name)) in memories[:-1]]
            return {key: memories[memories.index(held[key]) + 1] for key in keys}

        if written := moved(self.written, operator.outputs, Operand.OUTPUT):
            return self.with_all(Places(written=written))
        if read := moved(self.read, operator.inputs, Operand.INPUT):
            return self.with_all(Places(read=read))
        return None

    def renamed(self, names: Mapping[str, str]) -> Places:
        """Return the same places of tensors with other names; every tensor has one in `names`."""

        def moved(places: Mapping[StackMap, _Place]) -> dict[StackMap, _Place]:
            return {(stack, names[name]): one for (stack, name), one in places.items()}

        leaving = frozenset((stack, names[name]) for stack, name in self.leaving)
        return Places(moved(self.read), moved(self.written), moved(self.waiting), leaving)


def _by_stack(places: Mapping[StackMap, _Place]) -> Mapping[int, list[tuple[str, _Place]]]:
    found: dict[int, list[tuple[str, _Place]]] = {}
    for (stack, name), memory in places.items():
        found.setdefault(stack, []).append((name, memory))
    return found


def memory_for_maps(accelerator: Accelerator) -> str | None:
    """Return the largest addressed memory that holds feature maps; None if there is none."""
    memories = (level.memory for level in accelerator.addressed)
    holding = [one for one in memories if {Operand.INPUT, Operand.OUTPUT} <= set(one.holds)]
    return max(holding, key=lambda one: one.capacity_bytes).name if holding else None


def places_inside(network: Graph, operators: Sequence[str], memory: str, number: int = 0) -> Places:
    """Return places in one memory for the tensors between the operators of a group, which has this number."""
    inner = {(number, name): memory for operator in operators[:-1] for name in network.operator[operator].outputs}
    return Places(inner, inner)


Choice = tuple[str | None, ...]
"""A memory for each tensor that an operator reads or writes; None: it is streamed."""


@dataclass(slots=True)
class FirstPlaces:
    """Initial places: all operands are streamed, except those of operators that fit only with some operands on chip.

    Each operator of `network` is a separate stack. Operands on chip for one operator leave before the next one runs, so
    that each operator has all memories.
    """

    network: Graph
    levels: Sequence[MemoryLevel]
    _left: dict[str, Iterator[Choice]] = field(default_factory=dict)
    _chosen: dict[str, Choice] = field(default_factory=dict)

    def after(self, operator: str) -> Places | None:
        """Other places for an operator that had no room, beginning with the fewest tensors; None if none is left."""
        if operator not in self._left:
            self._left[operator] = iter(self._choices(self.network.operator[operator]))
        choice = next(self._left[operator], None)
        if choice is None:
            return None
        self._chosen[operator] = choice
        return self._places()

    def _choices(self, operator: Operator) -> list[Choice]:
        """Return the choices of memories for an operator's operands, those with the fewest operands on chip first.

        Among equals, the memories farthest from the MACs come first: they tend to be the largest.
        """
        read = [self.network.tensor[name].role for name in _read(operator)]
        kinds = (Operand.WEIGHT if role is Role.PARAMETER else Operand.INPUT for role in read)
        reads = [self._memories(kind) for kind in kinds]
        writes = [self._memories(Operand.OUTPUT)] * len(operator.outputs)
        choices = product(*((None, *memories) for memories in (*reads, *writes)))
        return sorted(choices, key=lambda one: sum(memory is not None for memory in one))[1:]

    def _places(self) -> Places:
        read: dict[StackMap, str] = {}
        written: dict[StackMap, str] = {}
        waiting: dict[StackMap, str | None] = {}
        for stack, operator in enumerate(self.network.operators):
            choice = self._chosen.get(operator.name, ())
            names = (*_read(operator), *operator.outputs)
            for at, (name, memory) in enumerate(zip(names, choice, strict=False)):
                if memory is not None:
                    (read if at < len(names) - len(operator.outputs) else written)[stack, name] = memory
                    waiting[stack, name] = None
        return Places(read, written, waiting)

    def _memories(self, operand: Operand) -> list[str]:
        return [level.memory.name for level in reversed(self.levels) if operand in level.memory.holds]


def _read(operator: Operator) -> tuple[str, ...]:
    return tuple(dict.fromkeys(operator.reads))


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """Operators in the order of a plan, and the places of their tensors if each operator is a separate stack."""

    order: tuple[str, ...]
    places: Places


def planned_start(
    network: Graph, accelerator: Accelerator, run: Run, views: Collection[str] = ()
) -> PlannedStart | None:
    """Plan the whole operators of a network for minimum traffic; None if an operator does not fit, or time is over.

    Parameters count as tensors. The scratchpads are the machine's addressed memories. Concatenations that are `views`
    are not materialised: an operator needs all parts of each input.
    """
    joined = joined_maps(network, views)
    seen = seeing_parts(network, joined)
    memories = tuple(level.memory for level in accelerator.addressed)
    problem = Problem(seen, memories, order=Order.FREE, count=Count.ALL)
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return None
    plan = solve_exactly(problem, replace(run, listener=lambda _: None)).answer
    return None if plan is None else _with_views(start_of_plan(plan, seen), network, joined)


def _with_views(start: PlannedStart, network: Graph, joined: JoinedMaps) -> PlannedStart:
    """Return the start with concatenations that are not materialised, before their first readers.

    A concatenation is read from the memory of its first part.
    """
    order = list(start.order)
    for whole in reversed(list(joined)):
        readers = {reader.name for reader in network.readers[whole]}
        order.insert(next(at for at, name in enumerate(order) if name in readers), network.producer[whole].name)
    at = {name: number for number, name in enumerate(order)}
    places = start.places.renumbered({number: at[name] for number, name in enumerate(start.order)})
    read = dict(places.read)
    for whole, parts in joined.items():
        for number in (at[reader.name] for reader in network.readers[whole]):
            memory = places.read.get((number, parts[0].part))
            if memory is not None:
                read[number, whole] = memory
    return PlannedStart(tuple(order), replace(places, read=read))


def start_of_plan(plan: Plan, network: Graph) -> PlannedStart:
    """Return the order of a plan and, stack by stack, the memories in which operands are resident."""
    computes = [one.operator for one in plan.instructions if isinstance(one, Compute)]
    stack_of: Mapping[str, int] = {name: at for at, name in enumerate(computes)}
    held: dict[str, list[str]] = {}
    read: dict[tuple[int, str], str] = {}
    written: dict[tuple[int, str], str] = {}
    leaving: set[tuple[int, str]] = set()
    last_use: dict[str, int] = {}
    for one in plan.instructions:
        match one:
            case Allocate(tensor, memory):
                held.setdefault(tensor, []).append(memory)
            case Free(tensor, memory):
                held[tensor].remove(memory)
                at = last_use.get(tensor)
                later = (
                    any(stack_of[reader.name] > at for reader in network.readers[tensor]) if at is not None else False
                )
                if at is not None and later and not held[tensor]:
                    leaving.add((at, tensor))
            case Compute(name):
                at, operator = stack_of[name], network.operator[name]
                for tensor in operator.reads:
                    if held.get(tensor):
                        read[at, tensor] = held[tensor][-1]
                for tensor in operator.outputs:
                    if held.get(tensor):
                        written[at, tensor] = held[tensor][-1]
                last_use |= dict.fromkeys((*operator.reads, *operator.outputs), at)
    return PlannedStart(tuple(computes), Places(read, written, {}, frozenset(leaving)))
