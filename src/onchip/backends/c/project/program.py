"""The plan as straight-line C: copies and calls of kernels on addresses in the arenas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import numpy.typing as npt

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.residencies import residencies_of
from onchip.arch.memory import DRAM, Memory
from onchip.backends.c.names import comment, identifier, unique_identifiers
from onchip.backends.c.project.call_text import CallText
from onchip.backends.c.project.calls import (
    BYTES,
    OVERWRITING,
    KernelCall,
    Record,
    Table,
    TensorOperand,
    table,
)
from onchip.backends.c.project.literals import rows
from onchip.errors import GraphError, PlanError
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role

OWN_FILE_ELEMENTS: Final = 4096
"""A table of more elements has a file of its own."""
LONGEST_NAME: Final = 200
"""Letters of a table's name, which also names a file: file systems take 255 bytes."""
_INCLUDES: Final = "#include <math.h>\n#include <stdint.h>\n"

DRAM_ALIGNMENT_BYTES: Final = 16


@dataclass(slots=True)
class OpenPlace:
    """A residency as it goes on; `is_written` once something was copied to it or computed there."""

    memory: str
    offset_bytes: int
    is_written: bool = False


@dataclass(slots=True)
class OpenPlaces:
    """The open residencies of each tensor while a legal plan's instructions are walked through."""

    open: dict[str, list[OpenPlace]] = field(default_factory=dict)

    def follow(self, instruction: Instruction, outputs: Iterable[str]) -> None:
        """Do what an instruction does to places; of a Compute these are the outputs."""
        match instruction:
            case Allocate(tensor, memory, offset_bytes, is_state):
                self.open.setdefault(tensor, []).append(OpenPlace(memory, offset_bytes, is_state))
            case Free(tensor, memory):
                self.open[tensor] = [one for one in self.open[tensor] if one.memory != memory]
            case Copy(tensor, _, target) if target != DRAM:
                self.in_memory(tensor, target).is_written = True
            case Compute():
                for name in outputs:
                    for place in self.open[name]:
                        place.is_written = True

    def in_memory(self, tensor: str, memory: str) -> OpenPlace:
        """Return where a tensor lies in that memory."""
        return next(one for one in self.open[tensor] if one.memory == memory)

    def of(self, tensor: str) -> OpenPlace:
        """Return where a tensor is read, or written if it has not been."""
        places = self.open[tensor]
        return next((one for one in places if one.is_written), places[0])


_ELEMENT_BYTES = {"float": 4, "double": 8, "int16_t": 2, "uint16_t": 2, "int32_t": 4, "uint32_t": 4}
_ELEMENT_BYTES |= {"int64_t": 8, "uint64_t": 8}


@dataclass(frozen=True, slots=True)
class ProjectProgram:
    """A legal plan, what each of its operators calls, and names: `stem` begins those of everything global."""

    problem: Problem
    plan: Plan
    calls: Mapping[str, tuple[KernelCall, ...]]
    stem: str
    tables: Tables
    memory_names: Mapping[str, str]
    dram: Mapping[str, int]
    dram_bytes: int
    first_states: Mapping[str, npt.NDArray[Any]]

    @property
    def staying(self) -> dict[str, Allocate]:
        """Return where the states that stay on the chip from one inference to the next lie."""
        lines = (line for line in self.plan.instructions if isinstance(line, Allocate) and line.is_state)
        return {line.tensor: line for line in lines}

    def arena_bytes(self, memory: Memory) -> int:
        """Return the highest end address of any residency in a scratchpad."""
        ends = (one.end_bytes for one in residencies_of(self.plan, self.problem.graph) if one.memory == memory.name)
        return max(ends, default=0)

    def arenas(self) -> dict[str, tuple[Memory, int]]:
        """Return by the name of its array each scratchpad that the plan uses, and the bytes it takes of it."""
        sizes = ((self.memory_names[one.name], one, self.arena_bytes(one)) for one in self.plan.memories)
        return {name: (memory, size) for name, memory, size in sizes if size}


def project_program(
    problem: Problem,
    plan: Plan,
    calls: Mapping[str, tuple[KernelCall, ...]],
    inputs: Mapping[str, npt.NDArray[Any]],
) -> ProjectProgram:
    """Return the program of a legal plan, called after its network; among `inputs` are those that states begin with."""
    letters = identifier(problem.graph.name).lower().strip("_")
    stem = letters if letters[:1].isalpha() else f"network_{letters}".rstrip("_")
    names = unique_identifiers("", (DRAM, *(memory.name for memory in plan.memories)))
    memories = (DRAM, *(memory.name for memory in plan.memories))
    named = {memory: f"arena_{name.lower()}" for memory, name in zip(memories, names, strict=True)}
    named[DRAM] = f"{stem}_dram"
    dram, dram_bytes = dram_offsets(problem, plan)
    first = {state.old: inputs[state.old] for state in problem.graph.states}
    functions = {call.function for each in calls.values() for call in each} | {f"{stem}_run", f"{stem}_begin"}
    tables = Tables(stem, frozenset({*functions, *named.values()}))
    return ProjectProgram(problem, plan, calls, stem, tables, named, dram, dram_bytes, first)


def run_function(program: ProjectProgram) -> str:
    """Return the function that runs the network once; raises PlanError for a place that C cannot compute at."""
    lines = "\n".join(_Lines(program).all())
    return f"void {program.stem}_run(void)\n{{\n{lines}\n}}"


def begin_function(program: ProjectProgram) -> str:
    """Return the function that puts the first values of states where they are looked for."""
    lines = "".join(f"{line}\n" for line in _Lines(program).first_states())
    return f"void {program.stem}_begin(void)\n{{\n{lines}}}"


@dataclass(slots=True)
class _Lines:
    program: ProjectProgram
    places: OpenPlaces = field(default_factory=OpenPlaces)

    def all(self) -> Iterator[str]:
        graph, step = self.program.problem.graph, 0
        for instruction in self.program.plan.instructions:
            outputs: tuple[str, ...] = ()
            if isinstance(instruction, Compute):
                operator = graph.operator[instruction.operator]
                outputs = operator.outputs
                yield f"    /* step {step}: {comment(_said(operator))} */"
                yield from self._calls(operator)
                step += 1
            elif isinstance(instruction, Copy):
                yield self._copy(instruction)
            self.places.follow(instruction, outputs)
        staying = self.program.staying
        for state in graph.states:
            if state.old not in staying:
                size_bytes = graph.tensor[state.old].size_bytes
                yield f"    dma_copy({self._in_dram(state.old)}, {self._in_dram(state.new)}, {size_bytes});"

    def first_states(self) -> Iterator[str]:
        staying = self.program.staying
        for state in self.program.problem.graph.states:
            first = table(f"{state.old} at first", self.program.first_states[state.old])
            place = staying.get(state.old)
            target = self._in_dram(state.old) if place is None else self._at(place.memory, place.offset_bytes)
            size_bytes = self.program.problem.graph.tensor[state.old].size_bytes
            yield f"    dma_copy({target}, {self.program.tables.name(first)}, {size_bytes});"

    def _copy(self, copy: Copy) -> str:
        source, target = (self._end(copy.tensor, memory) for memory in (copy.source, copy.target))
        size_bytes = self.program.problem.graph.tensor[copy.tensor].size_bytes
        return f"    dma_copy({target}, {source}, {size_bytes});"

    def _end(self, tensor: str, memory: str) -> str:
        if memory == DRAM:
            return self._in_dram(tensor)
        return self._at(memory, self.places.in_memory(tensor, memory).offset_bytes)

    def _in_dram(self, tensor: str) -> str:
        return self._at(DRAM, self.program.dram[tensor])

    def _at(self, memory: str, offset_bytes: int) -> str:
        return f"{self.program.memory_names[memory]} + {offset_bytes}"

    def _calls(self, operator: Operator) -> Iterator[str]:
        for call in self.program.calls[operator.name]:
            if not self._is_there_already(operator, call):
                yield from CallText(self._address, self.program.tables.name).lines(call)

    def _is_there_already(self, operator: Operator, call: KernelCall) -> bool:
        """Whether bytes lie where a move would put them; raises PlanError where what is read would be overwritten."""
        written = self._range(call.written)
        for operand in call.read:
            read = self._range(operand)
            is_apart = read[0] != written[0] or read[2] <= written[1] or written[2] <= read[1]
            if is_apart or (call.function in OVERWRITING and read[1:] == written[1:]):
                continue
            if call.function == "move" and read[1] == written[1] and _goes_straight(call):
                return True
            what = f"its output lies on {operand.tensor!r}, and its kernel cannot compute in place"
            raise PlanError(what, place=f"operator {operator.name!r}", expected="a plan of --share none")
        return False

    def _range(self, operand: TensorOperand) -> tuple[str, int, int]:
        """The memory, and the bytes from the operand's address on to its tensor's end."""
        place = self.places.of(operand.tensor)
        end = place.offset_bytes + self.program.problem.graph.tensor[operand.tensor].size_bytes
        return place.memory, place.offset_bytes + operand.shift_bytes, end

    def _address(self, operand: TensorOperand) -> str:
        place = self.places.of(operand.tensor)
        offset_bytes = place.offset_bytes + operand.shift_bytes
        here = self._at(place.memory, offset_bytes)
        if operand.element == BYTES:
            return here
        unit = _ELEMENT_BYTES.get(operand.element, 1)
        if offset_bytes % unit:
            what = f"it lies at {offset_bytes}, where no {operand.element} can be read"
            raise PlanError(what, place=f"tensor {operand.tensor!r}", expected=f"a plan of --alignment {unit}")
        return f"({operand.element} *)({here})"


def _goes_straight(call: KernelCall) -> bool:
    """Whether a move puts elements as far apart as they lay."""
    over = call.arguments[0]
    if not isinstance(over, Record):
        raise GraphError("a move without a walk", place=call.function, expected="a walk")
    steps = dict(over.fields).get("steps", ())
    return not steps or steps[0] == steps[1]  # type: ignore[index]  # a walk's steps are tuples of tuples


def _said(operator: Operator) -> str:
    """Return the operator's kind and the names of its nodes."""
    names = ", ".join(operator.members) if len(operator.members) > 1 else operator.name
    return f"{operator.kind} {names}"


def dram_offsets(problem: Problem, plan: Plan) -> tuple[dict[str, int], int]:
    """Return where in DRAM each tensor that is ever there lies, side by side, and how many bytes that takes."""
    offsets: dict[str, int] = {}
    end = 0
    for name in dict.fromkeys(_ever_in_dram(problem, plan)):
        offsets[name] = end
        size_bytes = problem.graph.tensor[name].size_bytes
        end = -(-(end + size_bytes) // DRAM_ALIGNMENT_BYTES) * DRAM_ALIGNMENT_BYTES
    return offsets, end


def _ever_in_dram(problem: Problem, plan: Plan) -> Iterator[str]:
    """Network inputs and outputs first, then what is spilled."""
    for role in (Role.INPUT, Role.OUTPUT):
        yield from (tensor.name for tensor in problem.graph.with_role(role))
    yield from (line.tensor for line in plan.instructions if isinstance(line, Copy) and line.target == DRAM)


@dataclass(slots=True)
class Tables:
    """Names for tables: the same elements under the same name are one array.

    No table gets one of the `reserved` names, which other things in the project have.
    """

    prefix: str
    reserved: frozenset[str] = frozenset()
    _names: dict[tuple[str, str, bytes], str] = field(default_factory=dict)
    _tables: dict[str, Table] = field(default_factory=dict)

    def name(self, table: Table) -> str:
        """Return the identifier of a table, which is new or has been asked for before."""
        key = (table.name, table.element, sha256(table.values.tobytes()).digest())
        if key not in self._names:
            wanted = f"{self.prefix}_{identifier(table.name).lower()}"[:LONGEST_NAME].rstrip("_")
            name, number = wanted, 1
            while name in self._tables or name in self.reserved:
                number += 1
                name = f"{wanted}_{number}"
            self._names[key] = name
            self._tables[name] = table
        return self._names[key]

    @property
    def size_bytes(self) -> int:
        """Return what all arrays take together."""
        return sum(table.values.nbytes for table in self._tables.values())

    def header(self) -> str:
        """Return the file that declares every array."""
        guard = f"{self.prefix.upper()}_CONSTANTS_H"
        lines = [
            f"extern const {table.element} {name}[{table.values.size}];" for name, table in sorted(self._tables.items())
        ]
        text = "\n".join(lines)
        return (
            f"/* Constant arrays: weights, and what kernels are told. */\n#ifndef {guard}\n#define {guard}\n\n"
            f"#include <stdint.h>\n\n{text}\n\n#endif\n"
        )

    def sources(self) -> Iterator[tuple[str, str]]:
        """Yield the names and the text of the files that define them; the first has all small ones."""
        small = {name: one for name, one in self._tables.items() if one.values.size <= OWN_FILE_ELEMENTS}
        definitions = "\n\n".join(definition(name, one) for name, one in small.items())
        yield "constants.c", f'{_INCLUDES}\n#include "constants.h"\n\n{definitions}\n'
        for name, one in self._tables.items():
            if name not in small:
                yield f"constants/{name}.c", f'{_INCLUDES}\n#include "../constants.h"\n\n{definition(name, one)}\n'


def definition(name: str, table: Table, storage: str = "const") -> str:
    """Return the definition of an array."""
    lines = "\n".join(rows(table.values))
    return f"{storage} {table.element} {name}[{table.values.size}] = {{\n{lines}\n}};"
