"""Small random problems with durations, some operators in bands, and all programs of small problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

from onchip.answer.problem import Count, Durations, Objective, Order, Problem, Rate, Transfers
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import ChannelSplits, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.model.capacity.bounds import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from support.programs import CHAIN, Case

SCRATCHPAD = "sram"

HELD = (
    *(tuple(Operand) for _ in range(4)),
    (Operand.INPUT, Operand.OUTPUT),
    (Operand.INPUT, Operand.WEIGHT),
    (Operand.OUTPUT,),
    (Operand.WEIGHT,),
)
"""Operand kinds that scratchpads of random machines hold, mostly all."""

UNTIMED = tuple(one for one in Objective if one not in (Objective.LATENCY, Objective.RECOMPUTATION))
"""Objectives of problems that need no durations."""


def timed_problem(graph: Graph, capacity_bytes: int, random: Random, order: Order = Order.FREE) -> Problem:
    """Return the graph in one scratchpad of a random machine."""
    units = random.choice([(8, 1), (8, 2), (16, 1), (8, 3)])
    setup_cycles = random.choice([0, 0, 1, 3])
    way = Rate(setup_cycles, (units,))
    rates = {(DRAM, SCRATCHPAD): way, (SCRATCHPAD, DRAM): way}
    durations = Durations({}, random.choice([1, 1, 2, 3]), setup_cycles, random.random() < 0.7)
    memories = (Memory(SCRATCHPAD, capacity_bytes, random.choice([1, 1, 1, 2])),)
    return Problem(graph, memories, Objective.LATENCY, order, Count.ALL, Transfers((), rates), durations=durations)


def problem_of_several(
    graph: Graph, capacities_bytes: Sequence[int], random: Random, order: Order = Order.FREE, links: float = 0.3
) -> Problem:
    """Return the graph in scratchpads of a random machine with various operands, alignments and rates.

    `links` is the probability of a link for each ordered pair of scratchpads.
    """
    names = [f"{SCRATCHPAD}{number}" for number in range(len(capacities_bytes))]
    setup_cycles = random.choice([0, 0, 1, 3])
    memories = tuple(
        Memory(name, capacity, random.choice([1, 1, 1, 2]), random.choice(HELD))
        for name, capacity in zip(names, capacities_bytes, strict=True)
    )
    if {one for memory in memories for one in memory.holds} != {*Operand}:
        memories = (replace(memories[0], holds=tuple(Operand)), *memories[1:])
    joined = tuple((one, other) for one in names for other in names if one != other and random.random() < links)
    ways = [*((DRAM, name) for name in names), *((name, DRAM) for name in names), *joined]
    rates = {way: Rate(setup_cycles, (random.choice([(8, 1), (8, 1), (8, 2), (16, 1), (24, 2)]),)) for way in ways}
    durations = Durations({}, random.choice([1, 1, 2, 3]), setup_cycles, random.random() < 0.7)
    transfers = Transfers(joined, rates)
    return Problem(graph, memories, Objective.LATENCY, order, Count.ALL, transfers, durations=durations)


def with_durations(problem: Problem) -> Problem:
    """Return the problem with operators of two cycles and transfers of one cycle per byte."""
    rates: dict[tuple[str, str], Rate] = {}
    for memory in problem.memories:
        rates |= {(DRAM, memory.name): Rate(), (memory.name, DRAM): Rate()}
    durations = Durations({operator.name: 2 for operator in problem.graph.operators})
    return replace(problem, transfers=Transfers((), rates), durations=durations)


TIMED = Case(replace(with_durations(CHAIN.problem), objective=Objective.LATENCY), CHAIN.program)
"""x(4) is loaded until cycle 4, then f and g run for two cycles each, then y(5) is stored: 13 cycles."""


def timed_graph(random: Random, operators: int, channels: int = 2, widths: tuple[int, ...] = (1, 2)) -> Graph:
    """Return a graph over tensors with `channels` channels of some of the `widths`, in bytes; some operators split.

    With one channel none does.
    """
    tensors = [Tensor.of_shape("x", (channels, random.choice(widths)), 8, Role.INPUT)]
    nodes: list[Operator] = []
    for number in range(operators):
        readable = [tensor.name for tensor in tensors if tensor.role is not Role.PARAMETER]
        inputs = tuple(dict.fromkeys(random.choice(readable[-3:]) for _ in range(random.choice([1, 1, 2]))))
        parameters: tuple[str, ...] = ()
        if random.random() < 0.6:
            tensors.append(Tensor.of_shape(f"w{number}", (channels, random.choice(widths)), 8, Role.PARAMETER))
            parameters = (tensors[-1].name,)
        tensors.append(Tensor.of_shape(f"t{number}", (channels, random.choice(widths)), 8, Role.ACTIVATION))
        cycles = random.randint(1, 9)
        splits = None
        if random.random() < 0.5 and channels > 1:
            part = random.randint(-(-cycles // channels), cycles)
            splits = ChannelSplits(random.random() < 0.5, ((channels, part),))
        stated = StatedCost(cycles, None, splits)
        nodes.append(Operator(f"o{number}", "Any", inputs, (tensors[-1].name,), parameters, stated=stated))
    read = {name for node in nodes for name in node.inputs}
    roles = {tensor.name: Role.OUTPUT for tensor in tensors if tensor.name.startswith("t") and tensor.name not in read}
    named = tuple(Tensor.of_shape(t.name, t.shape or (), 8, roles.get(t.name, t.role)) for t in tensors)
    return Graph("timed", named, tuple(nodes))


Place: TypeAlias = tuple[str, str]
"""A tensor and the scratchpad that it is in."""


@dataclass(frozen=True)
class ProgramSoFar:
    """The state of a partial program: residents (tensor, scratchpad, offset), tensors in DRAM, executed operators."""

    problem: Problem
    resident: tuple[tuple[str, str, int], ...] = ()
    in_dram: frozenset[str] = frozenset()
    has_run: frozenset[str] = frozenset()
    instructions: tuple[Instruction, ...] = ()

    @property
    def plan(self) -> Plan:
        """Return the program as a plan."""
        return Plan(self.problem.memories, self.instructions)

    @property
    def is_done(self) -> bool:
        """Return True if all operators have run and DRAM has all outputs."""
        outputs = {tensor.name for tensor in self.problem.graph.with_role(Role.OUTPUT)}
        return len(self.has_run) == len(self.problem.graph.operators) and outputs <= self.in_dram

    def is_needed(self, tensor: str) -> bool:
        """Return True if the tensor is read again, or still has to be written."""
        graph = self.problem.graph
        is_read = any(one.name not in self.has_run and tensor in one.reads for one in graph.operators)
        return is_read or (graph.tensor[tensor].role is Role.OUTPUT and tensor not in self.in_dram)

    def memories_of(self, tensor: str) -> list[str]:
        """Return the scratchpads that it is in, in the order of the problem."""
        held = {memory for name, memory, _ in self.resident if name == tensor}
        return [memory.name for memory in self.problem.memories if memory.name in held]

    def next_steps(self) -> Iterator[ProgramSoFar]:
        """Yield the programs with one more copy, operator or eviction; overwritten tensors leave."""
        for way in self.ways_on():
            yield from way

    def ways_on(self) -> Iterator[Iterator[ProgramSoFar]]:
        """Yield an iterator of placements for each copy and operator that may be next, and for each eviction."""
        for tensor in self.problem.counted_tensors:
            held = self.memories_of(tensor.name)
            if not self.is_needed(tensor.name):
                continue
            if tensor.name not in self.in_dram:
                yield from (self._stored(tensor.name, memory) for memory in held)
            for memory in self.problem.memories:
                if memory.name not in held and self._is_of_use(tensor, memory):
                    yield from (self._copied(tensor, source, memory) for source in self._sources(tensor, memory))
            if len(held) > 1:
                yield from (self._without(tensor.name, memory) for memory in held)
        for operator in self.problem.graph.operators:
            if operator.name in self.has_run:
                continue
            read = [
                self._read_in(operator, one) for one in self.problem.operands(operator) if one.name in operator.reads
            ]
            places = frozenset(place for place in read if place is not None)
            if len(places) == len(read):
                yield self._run(operator, places)

    def _is_of_use(self, tensor: Tensor, memory: Memory) -> bool:
        """Return True if the array may read it there, or a link leads on."""
        operand = Operand.WEIGHT if tensor.role is Role.PARAMETER else Operand.INPUT
        leads_on = any(source == memory.name for source, _ in self.problem.transfers.links)
        return operand in memory.holds or leads_on

    def _sources(self, tensor: Tensor, memory: Memory) -> list[str]:
        linked = [one for one in self.memories_of(tensor.name) if (one, memory.name) in self.problem.transfers.links]
        return [DRAM, *linked] if tensor.name in self.in_dram else linked

    def _read_in(self, operator: Operator, tensor: Tensor) -> Place | None:
        """Return the first scratchpad that may hold the operand and has it."""
        operand, held = self.problem.operand(operator, tensor), self.memories_of(tensor.name)
        names = (one.name for one in self.problem.memories if operand in one.holds and one.name in held)
        return next(((tensor.name, name) for name in names), None)

    def _stored(self, name: str, memory: str) -> Iterator[ProgramSoFar]:
        stored = (*self.instructions, Copy(name, memory, DRAM))
        yield replace(self, in_dram=self.in_dram | {name}, instructions=stored)

    def _without(self, name: str, memory: str) -> Iterator[ProgramSoFar]:
        kept = tuple(one for one in self.resident if one[:2] != (name, memory))
        yield replace(self, resident=kept, instructions=(*self.instructions, Free(name, memory)))

    def _copied(self, tensor: Tensor, source: str, target: Memory) -> Iterator[ProgramSoFar]:
        staying = frozenset() if source == DRAM else frozenset({(tensor.name, source)})
        for placed in self._placed((tensor,), (target,), staying):
            yield replace(placed, instructions=(*placed.instructions, Copy(tensor.name, source, target.name)))

    def _run(self, operator: Operator, read: frozenset[Place]) -> Iterator[ProgramSoFar]:
        outputs = tuple(self.problem.graph.tensor[name] for name in operator.outputs)
        memories = tuple(memory for memory in self.problem.memories if Operand.OUTPUT in memory.holds)
        for placed in self._placed(outputs, memories, read):
            done = (*placed.instructions, Compute(operator.name))
            yield replace(placed, has_run=self.has_run | {operator.name}, instructions=done)

    def _placed(
        self, tensors: tuple[Tensor, ...], memories: tuple[Memory, ...], staying: frozenset[Place]
    ) -> Iterator[ProgramSoFar]:
        """Yield each placement of the tensors one after another; `staying` ones are not overwritten."""
        if not tensors:
            yield self
            return
        tensor, *others = tensors
        for memory in memories:
            for start in range(0, memory.capacity_bytes - tensor.size_bytes + 1, memory.alignment_bytes):
                leaving = self._at(memory.name, range(start, start + tensor.size_bytes))
                if {(name, memory.name) for name in leaving} & staying or self._loses(leaving):
                    continue
                kept = tuple(one for one in self.resident if one[1] != memory.name or one[0] not in leaving)
                frees = (Free(name, memory.name) for name in sorted(leaving))
                begun = (*self.instructions, *frees, Allocate(tensor.name, memory.name, start))
                resident = tuple(sorted((*kept, (tensor.name, memory.name, start))))
                longer = replace(self, resident=resident, instructions=begun)
                yield from longer._placed(tuple(others), memories, staying | {(tensor.name, memory.name)})

    def _at(self, memory: str, place: range) -> set[str]:
        """Return the tensors that overlap these bytes."""
        sizes = self.problem.graph.tensor
        return {
            name
            for name, there, at in self.resident
            if there == memory and at < place.stop and place.start < at + sizes[name].size_bytes
        }

    def _loses(self, leaving: Set[str]) -> bool:
        """Return True if a needed tensor would be in no memory."""
        return any(
            name not in self.in_dram and self.is_needed(name) and len(self.memories_of(name)) == 1 for name in leaving
        )


def begun(problem: Problem) -> ProgramSoFar:
    """Return the empty program."""
    roles = (Role.INPUT, Role.PARAMETER)
    return ProgramSoFar(problem, in_dram=frozenset(t.name for t in problem.counted_tensors if t.role in roles))


def random_program(problem: Problem, random: Random, most_steps: int = 200) -> Plan | None:
    """Return a random legal program that runs everything, or None if none is found."""
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return None
    so_far = begun(problem)
    for _ in range(most_steps):
        if so_far.is_done:
            return so_far.plan
        ways = list(so_far.ways_on())
        random.shuffle(ways)
        steps = next(filter(None, map(list, ways)), None)
        if steps is None:
            return None
        so_far = random.choice(steps)
    return None
