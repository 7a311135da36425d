"""Programs of small problems, instruction by instruction: every one that there is, or a random one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import DRAM
from onchip.facts.bounds import greatest_need
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor


@dataclass(frozen=True)
class ProgramSoFar:
    """What a program has done: what lies where, what DRAM has, what has run."""

    problem: Problem
    resident: tuple[tuple[str, int], ...] = ()
    in_dram: frozenset[str] = frozenset()
    has_run: frozenset[str] = frozenset()
    instructions: tuple[Instruction, ...] = ()

    @property
    def memory(self) -> str:
        """The name of the one scratchpad."""
        return self.problem.memories[0].name

    @property
    def plan(self) -> Plan:
        """The program as a plan."""
        return Plan(self.problem.memories, self.instructions)

    @property
    def is_done(self) -> bool:
        """Whether everything has run and is where it belongs."""
        outputs = {tensor.name for tensor in self.problem.graph.with_role(Role.OUTPUT)}
        return len(self.has_run) == len(self.problem.graph.operators) and outputs <= self.in_dram

    def is_needed(self, tensor: str) -> bool:
        """Whether it is read again, or has to be written."""
        graph = self.problem.graph
        is_read = any(one.name not in self.has_run and tensor in one.reads for one in graph.operators)
        return is_read or (graph.tensor[tensor].role is Role.OUTPUT and tensor not in self.in_dram)

    def next_steps(self) -> Iterator[ProgramSoFar]:
        """Yield the programs one load, store or operator longer; what is overwritten leaves."""
        for way in self.ways_on():
            yield from way

    def ways_on(self) -> Iterator[Iterator[ProgramSoFar]]:
        """Yield each store, load and operator that may be next: what it yields are its places."""
        graph = self.problem.graph
        held = dict(self.resident)
        for tensor in self.problem.counted_tensors:
            name = tensor.name
            if name in held:
                written = any(name in one.outputs and one.name in self.has_run for one in graph.operators)
                if written and name not in self.in_dram and self.is_needed(name):
                    yield self._stored(name)
            elif name in self.in_dram and self.is_needed(name):
                yield self._loaded(tensor)
        for operator in graph.operators:
            if operator.name not in self.has_run and all(name in held for name in operator.reads):
                yield self._run(operator)

    def _stored(self, name: str) -> Iterator[ProgramSoFar]:
        stored = (*self.instructions, Copy(name, self.memory, DRAM))
        yield replace(self, in_dram=self.in_dram | {name}, instructions=stored)

    def _loaded(self, tensor: Tensor) -> Iterator[ProgramSoFar]:
        for placed in self._placed((tensor,), frozenset()):
            yield replace(placed, instructions=(*placed.instructions, Copy(tensor.name, DRAM, self.memory)))

    def _run(self, operator: Operator) -> Iterator[ProgramSoFar]:
        outputs = tuple(self.problem.graph.tensor[name] for name in operator.outputs)
        for placed in self._placed(outputs, frozenset(operator.reads)):
            done = (*placed.instructions, Compute(operator.name))
            yield replace(placed, has_run=self.has_run | {operator.name}, instructions=done)

    def _placed(self, tensors: tuple[Tensor, ...], staying: frozenset[str]) -> Iterator[ProgramSoFar]:
        """Yield each way to place them one after another; what has to stay is not overwritten."""
        if not tensors:
            yield self
            return
        tensor, *others = tensors
        memory = self.problem.memories[0]
        for start in range(0, memory.capacity_bytes - tensor.size_bytes + 1, memory.alignment_bytes):
            stop = start + tensor.size_bytes
            leaving = {
                name
                for name, at in self.resident
                if at < stop and start < at + self.problem.graph.tensor[name].size_bytes
            }
            is_lost = any(name not in self.in_dram and self.is_needed(name) for name in leaving)
            if leaving & staying or is_lost:
                continue
            kept = tuple(one for one in self.resident if one[0] not in leaving)
            frees = (Free(name, self.memory) for name in sorted(leaving))
            begun = (*self.instructions, *frees, Allocate(tensor.name, self.memory, start))
            longer = replace(self, resident=tuple(sorted((*kept, (tensor.name, start)))), instructions=begun)
            yield from longer._placed(tuple(others), staying | {tensor.name})


def begun(problem: Problem) -> ProgramSoFar:
    """The empty program."""
    roles = (Role.INPUT, Role.PARAMETER)
    return ProgramSoFar(problem, in_dram=frozenset(t.name for t in problem.counted_tensors if t.role in roles))


def random_program(problem: Problem, random: Random, most_steps: int = 200) -> Plan | None:
    """A random legal program that runs everything; None where chance finds none."""
    if greatest_need(problem).need_bytes > problem.memories[0].capacity_bytes:
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
