"""Plans for several scratchpads: real ones, random ones, and plans with faults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from onchip.answer.document import Reading
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.problem import Count, Objective, Placement, Problem, Transfers
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.reports.program.outcome import Outcome
from support.strategies import graphs

LINKED = str(Path(__file__).with_name("linked.yaml"))

REQUESTS = {
    "roles": Request("lenet5", target=Target(accelerator="nvdla-like")),
    "alike, in tiles": Request(
        "lenet5", target=Target(accelerator="hifi4-like"), method="onsram", tiles=TilesOption.AUTO
    ),
    "static, in tiles": Request(
        "minerva",
        Reading(bits=8, count=Count.ALL),
        Target(accelerator="nvdla-like"),
        method="onsram",
        placement=Placement.STATIC,
        tiles=TilesOption.AUTO,
    ),
    "linked": Request("lenet5", Reading(bits=8), Target(accelerator=LINKED)),
    "linked, least energy": Request(
        "lenet5", Reading(bits=8), Target(accelerator=LINKED), objective=Objective.DMA_ENERGY
    ),
    "linked, least cycles": Request(
        "lenet5", Reading(bits=8), Target(accelerator=LINKED), objective=Objective.DMA_CYCLES
    ),
}


@cache
def outcome_of(name: str) -> Outcome:
    """Return the outcome of one of REQUESTS; each has a plan."""
    return plan_network(REQUESTS[name])


def real_plan(name: str) -> tuple[Problem, Plan]:
    """Return the problem and the plan of one of REQUESTS."""
    outcome = outcome_of(name)
    assert outcome.result.answer is not None
    return outcome.problem, outcome.result.answer


CAPACITY_BYTES = 1000
"""More than all tensors together, so that any placement fits."""


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Draw two or three scratchpads that together hold every operand, with any links."""
    network: Graph = draw(graphs(max_operators=5))
    names = ("left", "right", "middle")[: draw(st.integers(2, 3))]
    held = {name: {operand for operand in Operand if draw(st.booleans())} for name in names}
    for operand in Operand:
        held[draw(st.sampled_from(names))].add(operand)
    memories = tuple(Memory(name, CAPACITY_BYTES, holds=tuple(held[name] or {Operand.WEIGHT})) for name in names)
    pairs = [(source, target) for source in names for target in names if source != target]
    links = tuple(pair for pair in pairs if draw(st.integers(0, 2)))
    return Problem(network, memories, count=draw(st.sampled_from(Count)), transfers=Transfers(links))


@st.composite
def scattered_plans(draw: st.DrawFn) -> tuple[Problem, Plan]:
    """Draw a legal plan in the given order with unnecessary loads, moves, evictions and reloads."""
    problem: Problem = draw(problems())
    player = _Player(problem, draw)
    for operator in problem.graph.operators:
        player.run(operator)
        player.move_some()
        player.drop_some()
    player.write_outputs()
    return problem, Plan(problem.memories, tuple(player.instructions))


@st.composite
def corrupted_plans(draw: st.DrawFn) -> tuple[Problem, Plan]:
    """Draw a plan with one to three instructions dropped, repeated, swapped or changed.

    Alternatively the plan is legal, but the problem loses a link, or its scratchpads hold fewer operands.
    """
    problem, plan = draw(scattered_plans())
    if draw(st.integers(0, 5)) == 0:
        return replace(problem, transfers=Transfers(problem.transfers.links[1:])), plan
    if draw(st.integers(0, 5)) == 0:
        return replace(problem, memories=tuple(_holding_less(memory) for memory in problem.memories)), plan
    program = list(plan.instructions)
    names = [tensor.name for tensor in problem.graph.tensors]
    places = [DRAM, *(memory.name for memory in problem.memories)]
    for _ in range(draw(st.integers(1, 3))):
        index, other = (draw(st.integers(0, len(program) - 1)) for _ in range(2))
        match draw(st.sampled_from(("drop", "repeat", "swap", "tensor", "memory", "offset"))):
            case "drop" if len(program) > 1:
                del program[index]
            case "repeat":
                program.insert(other, program[index])
            case "tensor":
                program[index] = _with_tensor(program[index], draw(st.sampled_from(names)))
            case "memory":
                program[index] = _with_memory(
                    program[index], draw(st.sampled_from(places)), at_source=draw(st.booleans())
                )
            case "offset":
                program[index] = _with_offset(program[index], draw(st.integers(0, 20)))
            case _:
                program[index], program[other] = program[other], program[index]
    return problem, replace(plan, instructions=tuple(program))


def _holding_less(memory: Memory) -> Memory:
    return replace(memory, holds=memory.holds[1:] or memory.holds)


def _with_tensor(instruction: Instruction, tensor: str) -> Instruction:
    return instruction if isinstance(instruction, Compute) else replace(instruction, tensor=tensor)


def _with_memory(instruction: Instruction, memory: str, *, at_source: bool) -> Instruction:
    if isinstance(instruction, Copy):
        return replace(instruction, source=memory) if at_source else replace(instruction, target=memory)
    return instruction if isinstance(instruction, Compute) else replace(instruction, memory=memory)


def _with_offset(instruction: Instruction, offset_bytes: int) -> Instruction:
    return replace(instruction, offset_bytes=offset_bytes) if isinstance(instruction, Allocate) else instruction


@dataclass
class _Player:
    """A writer of a program that tracks the residencies."""

    problem: Problem
    draw: st.DrawFn
    instructions: list[Instruction] = field(default_factory=list)
    offsets: dict[tuple[str, str], int] = field(default_factory=dict)
    written: set[tuple[str, str]] = field(default_factory=set)
    in_dram: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.in_dram = {tensor.name for tensor in self.problem.graph.with_role(Role.INPUT)}
        self.in_dram |= {tensor.name for tensor in self.problem.graph.with_role(Role.PARAMETER)}

    def run(self, operator: Operator) -> None:
        for tensor in self.problem.operands(operator):
            held = self.memories_that_hold(self.problem.operand(operator, tensor))
            if tensor.name not in operator.outputs:
                if not any((tensor.name, memory) in self.written for memory in held):
                    self.bring(tensor, self.draw(st.sampled_from(held)))
            else:
                chosen = self.draw(st.sampled_from(held))
                self.allocate(tensor, chosen)
                self.written.add((tensor.name, chosen))
        self.instructions.append(Compute(operator.name))
        for name in operator.outputs:
            for memory in self.problem.memories:
                if (name, memory.name) not in self.offsets and self.draw(st.integers(0, 5)) == 0:
                    self.allocate(self.problem.graph.tensor[name], memory.name)

    def bring(self, tensor: Tensor, target: str) -> None:
        """Copy the tensor along a link, or through DRAM."""
        sources = [memory for name, memory in sorted(self.written) if name == tensor.name]
        linked = [memory for memory in sources if (memory, target) in self.problem.transfers.links]
        if tensor.name not in self.in_dram and not linked:
            self.copy(tensor, self.draw(st.sampled_from(sources)), DRAM)
        if (tensor.name, target) not in self.offsets:
            self.allocate(tensor, target)
        stored = [DRAM] if tensor.name in self.in_dram else []
        self.copy(tensor, self.draw(st.sampled_from([*linked, *stored])), target)

    def move_some(self) -> None:
        for name, source in sorted(self.written):
            for target in [target for here, target in self.problem.transfers.links if here == source]:
                if (name, target) not in self.offsets and self.draw(st.integers(0, 3)) == 0:
                    tensor = self.problem.graph.tensor[name]
                    self.allocate(tensor, target)
                    self.copy(tensor, source, target)

    def drop_some(self) -> None:
        for name, memory in sorted(self.offsets):
            if self.draw(st.integers(0, 3)) == 0:
                tensor = self.problem.graph.tensor[name]
                is_last = {(name, memory)} == {place for place in self.written if place[0] == name}
                if is_last and name not in self.in_dram:
                    self.copy(tensor, memory, DRAM)
                self.instructions.append(Free(name, memory))
                del self.offsets[name, memory]
                self.written.discard((name, memory))

    def write_outputs(self) -> None:
        for tensor in self.problem.graph.with_role(Role.OUTPUT):
            if tensor.name not in self.in_dram:
                source = next(memory for name, memory in sorted(self.written) if name == tensor.name)
                self.copy(tensor, source, DRAM)

    def memories_that_hold(self, operand: Operand) -> list[str]:
        return [memory.name for memory in self.problem.memories if operand in memory.holds]

    def allocate(self, tensor: Tensor, memory: str) -> None:
        """Allocate the tensor at the lowest free address."""
        ends = sorted(
            (offset, offset + self.problem.graph.tensor[name].size_bytes)
            for (name, where), offset in self.offsets.items()
            if where == memory
        )
        offset_bytes = 0
        for start, stop in ends:
            if offset_bytes + tensor.size_bytes <= start:
                break
            offset_bytes = stop
        self.offsets[tensor.name, memory] = offset_bytes
        self.instructions.append(Allocate(tensor.name, memory, offset_bytes))

    def copy(self, tensor: Tensor, source: str, target: str) -> None:
        self.instructions.append(Copy(tensor.name, source, target))
        if target == DRAM:
            self.in_dram.add(tensor.name)
        else:
            self.written.add((tensor.name, target))
