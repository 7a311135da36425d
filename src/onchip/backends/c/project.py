"""A plan as the files of a C project: copies and kernel calls on addresses in the arenas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan, residencies_of
from onchip.arch.memory import DRAM, Memory
from onchip.backends.c.calls import (
    BYTES,
    ELEMENT_OF,
    OVERWRITING,
    Argument,
    BandGrid,
    KernelCall,
    Record,
    Symbol,
    Table,
    TablePart,
    TensorOperand,
    dense_steps,
    table,
)
from onchip.backends.c.text import comment, identifier, integer, real, rows, unique_identifiers
from onchip.backends.c.tiles import TensorParts, banded_call, calls_of_region, ensure_aligned
from onchip.errors import GraphError, PlanError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Region, SumPart, Tile
from onchip.transform.slices.bands import place_of

_A_LINE: Final = 112
_INDENT: Final = "    "


@dataclass(slots=True)
class CallText:
    """Writes one call; `address` says where a tensor lies, `name` how a table is called."""

    address: Callable[[TensorOperand], str]
    name: Callable[[Table], str]
    _constants: dict[str, list[str]] = field(default_factory=dict)

    def lines(self, call: KernelCall) -> Iterator[str]:
        """Yield the lines: the call alone, or a block of constants and the call."""
        arguments = [self._argument(one) for one in call.arguments]
        indent = _INDENT * (2 if self._constants else 1)
        if self._constants:
            yield f"{_INDENT}{{"
            for constant in self._constants.values():
                yield from (f"{indent}{line}" for line in constant)
        yield from (f"{indent}{line}" for line in _wrapped(f"{call.function}(", arguments, ");"))
        if self._constants:
            yield f"{_INDENT}}}"

    def _argument(self, argument: Argument) -> str:
        match argument:
            case TensorOperand():
                return self.address(argument)
            case BandGrid():
                return self._bands(argument)
            case Record(struct, _):
                name = self._fresh(struct)
                self._constants[name] = list(self._struct(f"static const struct {struct} {name} = ", argument))
                return f"&{name}"
            case Symbol(symbol):
                return symbol
            case tuple():
                name = self._fresh("numbers")
                self._constants[name] = [f"static const int32_t {name}[] = {self._value(argument)};"]
                return name
            case None:
                return "NULL"
        return self._value(argument)

    def _bands(self, bands: BandGrid) -> str:
        """Write a tensor in parts as arrays of its edges and its parts; return the address of its struct."""
        name = self._fresh("bands")
        self._constants[name] = []
        axes = []
        for at, (step, edges) in enumerate(bands.axes):
            self._constants[name].append(f"static const int32_t {name}_edges_{at}[] = {self._value(edges)};")
            axes.append(f"{{{step}, {len(edges) - 1}, {name}_edges_{at}}}")
        parts = (f"{{{one.array}, {one.offset}, {self._value(one.steps or (0,))}}}" for one in bands.parts)
        lines = list(_wrapped(f"static const struct band {name}_parts[] = {{", list(parts), "};"))
        whole = f"{{{bands.first}, {len(axes)}, {{{', '.join(axes) or '{0, 0, 0}'}}}, {name}_parts}}"
        self._constants[name] += [*lines, f"static const struct bands {name} = {whole};"]
        return f"&{name}"

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._constants:
            number += 1
            name = f"{wanted}_{number}"
        return name

    def _struct(self, declared: str, record: Record) -> Iterator[str]:
        """Yield a struct on one line, or on one line for its own fields and one for each struct within."""
        together = f"{declared}{self._value(record)};"
        if len(together) <= _A_LINE:
            yield together
            return
        yield f"{declared}{{"
        own = ", ".join(self._named(name, one) for name, one in _said(record) if not _is_wide(one))
        wide = [self._named(name, one) for name, one in _said(record) if _is_wide(one)]
        yield from (f"{_INDENT}{line}," for line in ([own] if own else []) + wide)
        yield "};"

    def _named(self, name: str, value: object) -> str:
        return f".{name} = {self._value(value)}"

    def _value(self, value: object) -> str:
        match value:
            case Record():
                return f"{{{', '.join(self._named(name, one) for name, one in _said(value))}}}"
            case Table():
                return self.name(value)
            case TablePart():
                return f"{self.name(value.table)} + {value.first}"
            case tuple():
                return f"{{{', '.join(self._value(one) for one in value)}}}"
            case float():
                return real(value)
            case int():
                return integer(value)
        raise TypeError(f"no value of C: {value!r}")


def _said(record: Record) -> Iterator[tuple[str, object]]:
    """Yield the fields that are not 0, as those left out are; the first where all are."""
    said = [(name, value) for name, value in record.fields if not isinstance(value, int) or value]
    yield from said or record.fields[:1]


def _is_wide(value: object) -> bool:
    return isinstance(value, Record | Table | TablePart) or (isinstance(value, tuple) and not isinstance(value[0], int))


def _wrapped(start: str, arguments: list[str], end: str) -> Iterator[str]:
    line = start
    for at, argument in enumerate(arguments):
        piece = argument + (end if at == len(arguments) - 1 else ",")
        if len(line) + len(piece) > _A_LINE:
            yield line.rstrip()
            line = _INDENT
        line += f"{piece} "
    yield line.rstrip()


OWN_FILE_ELEMENTS: Final = 4096
"""A larger table gets its own file."""
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


_ELEMENT_BYTES: Final = {element: np.dtype(name).itemsize for name, element in ELEMENT_OF.items()}


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """The tensors of the whole network, dense in the order of axes of the model's file.

    Axis k of a tensor in `graph` is axis `orders[name][k]` in the file; tensors without an order have the file's axes.
    """

    graph: Graph
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor in the file."""
        return self._in_file(name, self.graph.tensor[name].shape or ())

    def region(self, name: str, region: Region) -> Region:
        """Return a region of a tensor with the file's axes."""
        return self._in_file(name, region)

    def element_bytes(self, name: str) -> int:
        """Return the bytes of an element."""
        return (self.graph.tensor[name].bits or 0) // 8

    def _in_file(self, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        order = self.orders.get(name)
        if order is None or order == tuple(range(len(order))):
            return values
        found = list(values)
        for at, axis in enumerate(order):
            found[axis] = values[at]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class ProjectProgram:
    """A legal plan, what each operator of the whole network calls, and names: `stem` begins those of everything global.

    `dram` has the offsets of whole tensors.
    """

    problem: Problem
    plan: Plan
    stored: StoredTensors
    calls: Mapping[str, tuple[KernelCall, ...]]
    stem: str
    tables: Tables
    memory_names: Mapping[str, str]
    dram: Mapping[str, int]
    dram_bytes: int
    first_states: Mapping[str, npt.NDArray[Any]]

    @property
    def is_tiled(self) -> bool:
        """Return True if some operator is a tile."""
        return any(operator.tile is not None for operator in self.problem.graph.operators)

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
    stored: StoredTensors,
    calls: Mapping[str, tuple[KernelCall, ...]],
    inputs: Mapping[str, npt.NDArray[Any]],
) -> ProjectProgram:
    """Return the program of a legal plan, called after its network; among `inputs` are those that states begin with."""
    letters = identifier(problem.graph.name).lower().strip("_")
    stem = letters if letters[:1].isalpha() else f"network_{letters}".rstrip("_")
    memories = (DRAM, *(memory.name for memory in plan.memories))
    named = {
        memory: f"arena_{name.lower()}" for memory, name in zip(memories, unique_identifiers("", memories), strict=True)
    }
    named[DRAM] = f"{stem}_dram"
    dram, dram_bytes = dram_offsets(problem, plan, stored.graph)
    first = {state.old: inputs[state.old] for state in problem.graph.states}
    functions = {call.function for each in calls.values() for call in each} | {f"{stem}_run", f"{stem}_begin"}
    tables = Tables(stem, frozenset({*functions, *named.values()}))
    return ProjectProgram(problem, plan, stored, calls, stem, tables, named, dram, dram_bytes, first)


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
                yield f"    /* step {step}: {comment(_described(operator))} */"
                yield from self._calls(operator)
                step += 1
            elif isinstance(instruction, Copy):
                yield from self._copy(instruction)
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

    def _copy(self, copy: Copy) -> Iterator[str]:
        """Yield the copy of a tensor; a part that has gaps in DRAM is copied in loops over its runs."""
        tensor, stored = self.program.problem.graph.tensor[copy.tensor], self.program.stored
        if tensor.part_of is None or DRAM not in (copy.source, copy.target):
            source, target = (self._end(copy.tensor, memory) for memory in (copy.source, copy.target))
            yield f"    dma_copy({target}, {source}, {tensor.size_bytes});"
            return
        base, region = place_of(tensor)
        region, unit = stored.region(base, region), stored.element_bytes(base)
        whole, own = (
            dense_steps(shape, unit) for shape in (stored.shape(base), [stop - start for start, stop in region])
        )
        first = sum(start * step for (start, _), step in zip(region, whole, strict=True))
        inner = next((at for at in range(len(region), 0, -1) if whole[at - 1] != own[at - 1]), 0)
        run = tensor.size_bytes if not inner else own[inner - 1]
        loops = [at for at in range(inner) if region[at][1] - region[at][0] > 1]
        for depth, at in enumerate(loops):
            count = region[at][1] - region[at][0]
            yield f"{_INDENT * (depth + 1)}for (int32_t i{depth} = 0; i{depth} < {count}; i{depth}++)"
        ends = []
        for memory in (copy.target, copy.source):
            steps, offset = (whole, first) if memory == DRAM else (own, 0)
            start = self._in_dram(base, offset) if memory == DRAM else self._end(copy.tensor, memory)
            ends.append(start + "".join(f" + i{depth} * {steps[at]}" for depth, at in enumerate(loops)))
        yield f"{_INDENT * (len(loops) + 1)}dma_copy({ends[0]}, {ends[1]}, {run});"

    def _end(self, tensor: str, memory: str) -> str:
        if memory == DRAM:
            return self._in_dram(tensor)
        return self._at(memory, self.places.in_memory(tensor, memory).offset_bytes)

    def _in_dram(self, tensor: str, offset_bytes: int = 0) -> str:
        return self._at(DRAM, self.program.dram[tensor] + offset_bytes)

    def _at(self, memory: str, offset_bytes: int) -> str:
        return f"{self.program.memory_names[memory]} + {offset_bytes}"

    def _calls(self, operator: Operator) -> Iterator[str]:
        if operator.tile is not None:
            yield from self._calls_of_tile(operator, operator.tile)
            return
        for call in self.program.calls[operator.name]:
            if not self._is_there_already(operator, call):
                yield from CallText(self._address, self.program.tables.name).lines(call)

    def _calls_of_tile(self, operator: Operator, tile: Tile) -> Iterator[str]:
        """Yield the whole operator's calls, restricted to the tile; raises for tiles that kernels cannot compute."""
        stored = self.program.stored
        if tile.part is not SumPart.WHOLE:
            what = "it is a part of a sum, which no kernel continues"
            raise PlanError(what, place=f"operator {operator.name!r}", expected="tiles along rows, columns or channels")
        regions = {name: stored.region(name, one) for name, one in zip(tile.outputs, tile.regions, strict=True)}
        for call in self.program.calls[tile.operator]:
            name = call.written.tensor
            output = stored.shape(name), stored.element_bytes(name)
            for restricted in calls_of_region(call, operator.name, output, regions[name]):
                self._ensure_apart(operator, tile, restricted)
                banded = banded_call(restricted, operator.name, lambda one: self._bands(operator, tile, one))
                yield from CallText(self._address, self.program.tables.name).lines(banded)

    def _bands(self, operator: Operator, tile: Tile, operand: TensorOperand | Table | TablePart) -> BandGrid:
        if not isinstance(operand, TensorOperand):
            table, first = (operand, 0) if isinstance(operand, Table) else (operand.table, operand.first)
            array = f"(uint8_t *){self.program.tables.name(table)}"
            return TensorParts((), 1, (((), array, 0),)).bands(first * table.values.itemsize)
        name, stored = operand.tensor, self.program.stored
        parts = tuple(
            (region, self.program.memory_names[place.memory], place.offset_bytes)
            for region, place in self._parts(operator, tile, name)
        )
        found = TensorParts(stored.shape(name), stored.element_bytes(name), parts)
        ensure_aligned(found, name, operand.element)
        return found.bands(operand.shift_bytes)

    def _parts(self, operator: Operator, tile: Tile, name: str) -> Iterator[tuple[Region, OpenPlace]]:
        """Yield the parts of a whole tensor that an operator reads or writes."""
        for one in dict.fromkeys((*operator.inputs, *operator.outputs)):
            base, region = place_of(tile.seen(self.program.problem.graph.tensor[one]))
            if base == name:
                yield self.program.stored.region(base, region), self.places.of(one)

    def _ensure_apart(self, operator: Operator, tile: Tile, call: KernelCall) -> None:
        """Raise PlanError if a part that is written lies on a part of another tensor that is read."""
        graph = self.program.problem.graph
        for one in operator.inputs:
            for other in operator.outputs:
                read, written = self.places.of(one), self.places.of(other)
                if read.memory != written.memory or place_of(tile.seen(graph.tensor[one]))[0] == call.written.tensor:
                    continue
                ends = (
                    read.offset_bytes + graph.tensor[one].size_bytes,
                    written.offset_bytes + graph.tensor[other].size_bytes,
                )
                if read.offset_bytes < ends[1] and written.offset_bytes < ends[0]:
                    what = f"its output lies on {one!r}, and its kernel cannot compute in place"
                    raise PlanError(what, place=f"operator {operator.name!r}", expected="a plan of `share='none'`")

    def _is_there_already(self, operator: Operator, call: KernelCall) -> bool:
        """Return True if a move changes no byte; raises PlanError if the output would overwrite an unread input."""
        written = self._range(call.written)
        for operand in call.read:
            read = self._range(operand)
            is_apart = read[0] != written[0] or read[2] <= written[1] or written[2] <= read[1]
            if is_apart or (call.function in OVERWRITING and read[1:] == written[1:]):
                continue
            if call.function == "move" and read[1] == written[1] and _goes_straight(call):
                return True
            what = f"its output lies on {operand.tensor!r}, and its kernel cannot compute in place"
            raise PlanError(what, place=f"operator {operator.name!r}", expected="a plan of `share='none'`")
        return False

    def _range(self, operand: TensorOperand) -> tuple[str, int, int]:
        """Return the memory, and the bytes from the operand's address to the end of its tensor."""
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
            raise PlanError(what, place=f"tensor {operand.tensor!r}", expected=f"a plan of `alignment_bytes={unit}`")
        return f"({operand.element} *)({here})"


def _goes_straight(call: KernelCall) -> bool:
    """Return True if a move keeps the distances between elements."""
    over = call.arguments[0]
    if not isinstance(over, Record):
        raise GraphError("a move without a walk", place=call.function, expected="a walk")
    steps = dict(over.fields).get("steps", ())
    return not steps or steps[0] == steps[1]  # type: ignore[index]  # a walk's steps are tuples of tuples


def _described(operator: Operator) -> str:
    names = ", ".join(operator.members) if len(operator.members) > 1 else operator.name
    return f"{operator.kind} {names}"


def dram_offsets(problem: Problem, plan: Plan, whole: Graph) -> tuple[dict[str, int], int]:
    """Return where in DRAM each whole tensor that is ever there lies, side by side, and how many bytes that takes."""
    offsets: dict[str, int] = {}
    end = 0
    for name in dict.fromkeys(_ever_in_dram(problem, plan, whole)):
        offsets[name] = end
        size_bytes = whole.tensor[name].size_bytes
        end = -(-(end + size_bytes) // DRAM_ALIGNMENT_BYTES) * DRAM_ALIGNMENT_BYTES
    return offsets, end


def _ever_in_dram(problem: Problem, plan: Plan, whole: Graph) -> Iterator[str]:
    for role in (Role.INPUT, Role.OUTPUT):
        yield from (tensor.name for tensor in whole.with_role(role))
    spilled = (line.tensor for line in plan.instructions if isinstance(line, Copy) and line.target == DRAM)
    yield from (place_of(problem.graph.tensor[name])[0] for name in spilled)


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


_GREATEST_ALIGNMENT_BYTES: Final = 64
_STORED: Final = "constants.h"


@dataclass(frozen=True, slots=True)
class CProject:
    """The files, as text by their paths in the folder, and what the network takes."""

    files: Mapping[str, str]
    arenas: Mapping[str, int]
    dram_bytes: int
    constant_bytes: int


@dataclass(frozen=True, slots=True)
class StoredValues:
    """Map from tensor to its values before the first inference (inputs) and after the last (outputs)."""

    inputs: Mapping[str, npt.NDArray[Any]]
    outputs: Mapping[str, npt.NDArray[Any]]
    inferences: int = 1


def c_project(
    problem: Problem,
    plan: Plan,
    stored: StoredTensors,
    calls: Mapping[str, tuple[KernelCall, ...]],
    values: StoredValues,
) -> CProject:
    """Return the project of a legal plan; raises PlanError for a plan that kernels cannot obey."""
    for name, array in (*values.inputs.items(), *values.outputs.items()):
        if array.nbytes != stored.graph.tensor[name].size_bytes:
            what = f"its runtime makes it {list(array.shape)}, of {array.nbytes} bytes"
            expected = f"{stored.graph.tensor[name].size_bytes} bytes, as the plan has it"
            raise PlanError(what, place=f"tensor {name!r}", expected=expected)
    program = project_program(problem, plan, stored, calls, values.inputs)
    source = _network_source(program)  # asks for tables, so that it comes before them
    texts = {
        "network.h": _network_header(program),
        "network.c": source,
        _STORED: program.tables.header(),
        **dict(program.tables.sources()),
        "values.h": _values(program, values),
        "main.c": _main(program, values),
        **_shared_files(is_banded=program.is_tiled),
    }
    # listed, because the folder may have files of an earlier project
    sources = " \\\n    ".join(sorted(name for name in texts if name.endswith(".c")))
    texts["sources.mk"] = f"SOURCES = {sources}\n"
    arenas = {memory.name: size_bytes for memory, size_bytes in program.arenas().values()}
    return CProject(texts, arenas, program.dram_bytes, program.tables.size_bytes)


def _shared_files(*, is_banded: bool) -> dict[str, str]:
    """Return the text of kernels and harness by path in the project; `is_banded` adds the kernels of tensors in parts.

    These are the same files, compiled with BANDED.
    """
    package = files("onchip.backends.c")
    folders = ((package.joinpath("kernels"), "kernels/"), (package.joinpath("harness"), ""))
    found = ((f"{target}{one.name}", one) for folder, target in folders for one in folder.iterdir() if one.is_file())
    texts = {name: entry.read_text(encoding="utf-8") for name, entry in sorted(found, key=lambda one: one[0])}
    if not is_banded:
        texts.pop("kernels/bands.c")
        return texts
    kernels = [
        name.removeprefix("kernels/") for name, text in texts.items() if name.endswith(".c") and "KERNEL(" in text
    ]
    return {**texts, **{f"kernels/banded_{name}": f'#define BANDED\n#include "{name}"\n' for name in kernels}}


def _network_header(program: ProjectProgram) -> str:
    prefix, guard = program.stem.upper(), f"{program.stem.upper()}_NETWORK_H"
    lines = [
        "/* A network without a runtime, written by onchip. Inputs and outputs lie in DRAM. */",
        f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n",
    ]
    for name, (memory, size_bytes) in program.arenas().items():
        lines.append(f"#define {prefix}_{name.upper()}_BYTES {size_bytes} /* of {memory.capacity_bytes} */")
    lines.append(f"#define {prefix}_DRAM_BYTES {max(program.dram_bytes, 1)}\n")
    graph = program.stored.graph
    tensors = (*graph.with_role(Role.INPUT), *graph.with_role(Role.OUTPUT))
    memories = (DRAM, *program.arenas())
    names = unique_identifiers(f"{prefix}_", (*memories, *(tensor.name for tensor in tensors)))
    for name, tensor in zip(names[len(memories) :], tensors, strict=True):
        lines.append(f"/* {tensor.role.value} */")
        lines.append(f"#define {name}_AT {program.dram[tensor.name]}\n#define {name}_BYTES {tensor.size_bytes}")
    lines.append(f"\nextern uint8_t {program.memory_names[DRAM]}[{prefix}_DRAM_BYTES];\n")
    lines.append(
        "/* Puts the first values of states in their places: once, before the first run. */\n"
        f"void {program.stem}_begin(void);\n"
    )
    lines.append(f"/* Reads the inputs, and writes the outputs. */\nvoid {program.stem}_run(void);\n\n#endif\n")
    return "\n".join(lines)


def _network_source(program: ProjectProgram) -> str:
    parts = [
        "/* The plan, instruction by instruction. PLACE_... may say where the linker puts an arena, such as\n"
        "   -D'PLACE_SRAM=__attribute__((section(\".sram\")))'. */",
        '#include "network.h"\n\n#include <math.h>\n#include <stddef.h>\n\n'
        '#include "constants.h"\n#include "dma.h"\n#include "kernels/kernels.h"',
    ]
    if program.is_tiled:
        parts.append('#define BANDED\n#include "kernels/operands.h"\n#include "kernels/prototypes.h"')
    for name, (memory, _) in program.arenas().items():
        alignment = max(memory.alignment_bytes, _GREATEST_ALIGNMENT_BYTES)
        parts.append(_array(program, name, f"{program.stem.upper()}_{name.upper()}_BYTES", alignment, "static "))
    parts.append(
        _array(program, program.memory_names[DRAM], f"{program.stem.upper()}_DRAM_BYTES", _GREATEST_ALIGNMENT_BYTES)
    )
    first = "".join(f"{line}\n" for line in _Lines(program).first_states())
    parts.append(f"void {program.stem}_begin(void)\n{{\n{first}}}")
    lines = "\n".join(_Lines(program).all())
    parts.append(f"void {program.stem}_run(void)\n{{\n{lines}\n}}")
    return "\n\n".join(parts) + "\n"


def _array(program: ProjectProgram, name: str, size: str, alignment_bytes: int, storage: str = "") -> str:
    place = f"PLACE_{name.removeprefix(f'{program.stem}_').removeprefix('arena_').upper()}"
    alignment = min(1 << (alignment_bytes - 1).bit_length(), 4096)
    return f"#ifndef {place}\n#define {place}\n#endif\n{place} {storage}_Alignas({alignment}) uint8_t {name}[{size}];"


def _stored(program: ProjectProgram, values: StoredValues) -> Iterator[tuple[str, Tensor, npt.NDArray[Any]]]:
    """Yield of each input, then of each output, the name of its stored values, the tensor and the values."""
    graph = program.stored.graph
    inputs = {name: array for name, array in values.inputs.items() if name not in program.first_states}
    for word, found in (("input", inputs), ("expected", values.outputs)):
        names = unique_identifiers("", found)
        for name, (tensor, array) in zip(names, found.items(), strict=True):
            yield f"{word}_{name.lower()}", graph.tensor[tensor], array


def _values(program: ProjectProgram, values: StoredValues) -> str:
    lines = ["/* The inputs that main begins with, and the outputs that the network's own runtime makes of them. */"]
    lines.append("#include <math.h>\n#include <stdint.h>\n")
    for name, _, array in _stored(program, values):
        lines.append(definition(name, table(name, array), "static const"))
    return "\n".join(lines) + "\n"


def _main(program: ProjectProgram, values: StoredValues) -> str:
    dram = program.memory_names[DRAM]
    lines = [
        "/* Runs the network, and compares its outputs with those stored. */",
        '#include <string.h>\n\n#include "compare.h"\n#include "network.h"\n#include "values.h"\n',
        "int main(void)\n{\n    int differing = 0;",
    ]
    stored = list(_stored(program, values))
    inputs = [
        f"        memcpy({dram} + {program.dram[tensor.name]}, {name}, sizeof {name});" for name, tensor, _ in stored
    ]
    lines.append(f"    {program.stem}_begin();")
    lines.append(f"    for (int inference = 0; inference < {values.inferences}; inference++) {{")
    lines += inputs[: len(stored) - len(values.outputs)]
    lines.append(f"        {program.stem}_run();\n    }}")
    for name, tensor, array in stored[len(stored) - len(values.outputs) :]:
        function = "compare_floats" if array.dtype == np.float32 else "compare_bytes"
        at = f"{dram} + {program.dram[tensor.name]}"
        lines.append(f'    differing += {function}("{name}", {at}, {name}, sizeof {name});')
    lines.append("    return differing ? 1 : 0;\n}\n")
    return "\n".join(lines)
