"""Small networks and plans written as text, for test cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onchip.answer.document import Claim
from onchip.answer.problem import Count, Objective, Placement, Problem, Rate, Transfers
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import Memory, Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor


@dataclass(frozen=True)
class Case:
    """A problem, a plan's instructions one per line, and the claim for the plan."""

    problem: Problem
    program: str
    claim: Claim | None = None

    @property
    def plan(self) -> Plan:
        return Plan(self.problem.memories, instructions(self.program))

    def edited(self, index: int, *lines: str) -> Case:
        """Return the case with instruction `index` replaced by `lines`; without lines it is dropped."""
        program = self.program.strip().splitlines()
        program[index : index + 1] = lines
        return replace(self, program="\n".join(program))

    def without(self, *indices: int) -> Case:
        """Return the case without these instructions."""
        program = self.program.strip().splitlines()
        kept = (line for index, line in enumerate(program) if index not in indices)
        return replace(self, program="\n".join(kept))

    def of(self, **changes: object) -> Case:
        """Return the same plan for a problem with other fields."""
        return replace(self, problem=replace(self.problem, **changes))  # type: ignore[arg-type]


def least_peak(case: Case) -> Case:
    return case.of(objective=Objective.PEAK)


def static(case: Case) -> Case:
    return case.of(placement=Placement.STATIC)


def linked(case: Case, *links: tuple[str, str]) -> Case:
    return case.of(transfers=Transfers(links))


def instructions(program: str) -> tuple[Instruction, ...]:
    """Parse `allocate x sram 0` (and `state` for a state), `copy x dram sram`, `compute f`, `free x sram`."""
    return tuple(_instruction(line.split()) for line in program.strip().splitlines())


def _instruction(words: list[str]) -> Instruction:
    match words:
        case ["allocate", tensor, memory, offset]:
            return Allocate(tensor, memory, int(offset))
        case ["allocate", tensor, memory, offset, "state"]:
            return Allocate(tensor, memory, int(offset), is_state=True)
        case ["copy", tensor, source, target]:
            return Copy(tensor, source, target)
        case ["compute", operator]:
            return Compute(operator)
        case ["free", tensor, memory]:
            return Free(tensor, memory)
    raise ValueError(f"no instruction: {words}")


def graph(tensors: str, **operators: str) -> Graph:
    """Parse `graph("x:input:4 y:output:5", f="x -> y")`; parameters are recognised by their role."""
    parts = (tensor.split(":") for tensor in tensors.split())
    known = {name: Tensor(name, int(size), Role(role)) for name, role, size in parts}
    return Graph(
        "small", tuple(known.values()), tuple(_operator(name, text, known) for name, text in operators.items())
    )


def _operator(name: str, text: str, known: Mapping[str, Tensor]) -> Operator:
    reads, writes = (side.split() for side in text.split("->"))
    parameters = tuple(tensor for tensor in reads if known[tensor].role is Role.PARAMETER)
    inputs = tuple(tensor for tensor in reads if tensor not in parameters)
    return Operator(name, "Any", inputs, tuple(writes), parameters)


def sram(capacity_bytes: int, alignment_bytes: int = 1) -> tuple[Memory, ...]:
    return (Memory("sram", capacity_bytes, alignment_bytes),)


LEFT_AND_RIGHT = (Memory("left", 12), Memory("right", 12))

CHAIN = Case(
    Problem(graph("x:input:4 w:parameter:2 a:activation:3 y:output:5", f="x w -> a", g="a -> y"), sram(12)),
    """
    allocate x sram 0
    copy x dram sram
    allocate a sram 4
    compute f
    free x sram
    allocate y sram 7
    compute g
    free a sram
    copy y sram dram
    free y sram
    """,
)
"""Two operators in a row; the parameter is not counted, and the scratchpad is just large enough."""

CHAIN_WITH_PARAMETER = Case(
    replace(CHAIN.problem, memories=sram(14), count=Count.ALL),
    """
    allocate x sram 0
    copy x dram sram
    allocate w sram 12
    copy w dram sram
    allocate a sram 4
    compute f
    free w sram
    free x sram
    allocate y sram 7
    compute g
    copy y sram dram
    """,
)
"""The same with all tensors counted, including the parameter."""

SPILLED = Case(
    Problem(
        graph("x:input:4 a:activation:4 b:activation:4 y:output:4", f="x -> a", g="x -> b", h="a b -> y"), sram(12)
    ),
    """
    allocate x sram 0
    copy x dram sram
    allocate a sram 4
    compute f
    copy a sram dram
    free a sram
    allocate b sram 4
    compute g
    free x sram
    allocate a sram 8
    copy a dram sram
    allocate y sram 0
    compute h
    copy y sram dram
    """,
)
"""The first operator's output is spilled and reloaded at another offset."""

TWO_OUTPUTS = Case(
    Problem(graph("x:input:4 y:output:4 z:output:4", f="x -> y", g="x -> z"), sram(12)),
    """
    allocate x sram 0
    copy x dram sram
    allocate y sram 4
    compute f
    copy y sram dram
    allocate z sram 8
    compute g
    copy z sram dram
    """,
)
"""Two operators that may run in either order; nothing is freed."""

UNREAD = Case(
    Problem(graph("x:input:4 u:input:3 y:output:4 z:activation:2", f="x -> y", g="x -> z"), sram(12)),
    """
    allocate x sram 0
    copy x dram sram
    allocate y sram 4
    compute f
    copy y sram dram
    allocate z sram 8
    compute g
    """,
)
"""A network input and an activation without readers."""

TWO_SCRATCHPADS = Case(
    replace(CHAIN.problem, memories=LEFT_AND_RIGHT),
    """
    allocate x left 0
    copy x dram left
    allocate a right 0
    compute f
    allocate y left 4
    allocate y right 3
    free y left
    compute g
    copy y right dram
    """,
)
"""Operands in different scratchpads; the output is allocated in both, and freed in one before it is written."""

MOVED = linked(TWO_SCRATCHPADS.edited(3, "allocate x right 8", "copy x left right", "compute f"), ("left", "right"))
"""The same; the network input is copied from one scratchpad to the other without DRAM."""

RATED = MOVED.of(
    objective=Objective.DMA_CYCLES,
    transfers=Transfers(
        (("left", "right"),),
        {
            ("dram", "left"): Rate(3, ((16, 1),)),
            ("dram", "right"): Rate(1, ((8, 2),)),
            ("left", "dram"): Rate(0, ((32, 7),)),
            ("right", "dram"): Rate(2, ((8, 1), (16, 3))),
            ("left", "right"): Rate(10, ()),
        },
    ),
)
"""The same; the load of x costs 3 + 2, its move 10, and the write of y 2 + 5 + 9, although 14 is possible."""

HELD = Case(
    Problem(
        CHAIN.problem.graph,
        (
            Memory("weights", 8, holds=(Operand.WEIGHT,)),
            Memory("inputs", 12, holds=(Operand.INPUT,)),
            Memory("outputs", 12, holds=(Operand.OUTPUT,)),
        ),
        count=Count.ALL,
        transfers=Transfers((("outputs", "inputs"),)),
    ),
    """
    allocate x inputs 0
    copy x dram inputs
    allocate w weights 0
    copy w dram weights
    allocate a outputs 5
    compute f
    allocate a inputs 4
    copy a outputs inputs
    free a outputs
    allocate y outputs 0
    compute g
    copy y outputs dram
    """,
)
"""A scratchpad per operand kind: an operator's output is moved to where the next can read it."""

READ_TWICE = Case(
    Problem(
        TWO_OUTPUTS.problem.graph,
        (Memory("inputs", 12, holds=(Operand.INPUT,)), Memory("outputs", 12, holds=(Operand.OUTPUT,))),
    ),
    """
    allocate x inputs 0
    copy x dram inputs
    allocate y outputs 4
    compute f
    copy y outputs dram
    allocate z outputs 8
    compute g
    copy z outputs dram
    """,
)
"""Two operators that read one tensor in a scratchpad for inputs and write to one for outputs."""
