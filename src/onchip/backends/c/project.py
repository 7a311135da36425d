"""A plan as the files of a C project: copies and kernel calls on addresses in the arenas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan, residencies_of
from onchip.arch.memory import DRAM, Memory
from onchip.backends.c.calls import (
    BYTES,
    OVERWRITING,
    Argument,
    BandGrid,
    KernelCall,
    Record,
    Symbol,
    Table,
    TensorOperand,
    comment,
    dense_steps,
    identifier,
    integer,
    real,
    rows,
    table,
    template,
    unique_identifiers,
    unused_name,
)
from onchip.backends.c.tiles import TensorParts, banded_call, calls_of_region, ensure_aligned
from onchip.errors import PlanError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
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

    def lines(self, call: KernelCall) -> list[str]:
        """Return the lines: the call alone, or a block of constants and the call."""
        arguments = [self._argument(one) for one in call.arguments]
        written = list(_wrapped(f"{call.function}(", arguments, ");"))
        if self._constants:
            within = [line for constant in self._constants.values() for line in constant] + written
            written = ["{", *(f"{_INDENT}{line}" for line in within), "}"]
        return [f"{_INDENT}{line}" for line in written]

    def _argument(self, argument: Argument) -> str:
        match argument:
            case TensorOperand():
                return self.address(argument)
            case BandGrid():
                return self._bands(argument)
            case Record(struct, _):
                name = self._fresh(struct)
                self._constants[name] = self._struct(f"static const struct {struct} {name} = ", argument)
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
        return unused_name(wanted, self._constants)

    def _struct(self, declared: str, record: Record) -> list[str]:
        """Return a struct on one line, or on one line for its own fields and one for each struct within."""
        together = f"{declared}{self._value(record)};"
        if len(together) <= _A_LINE:
            return [together]
        fields = [(_is_wide(one), self._named(name, one)) for name, one in _said(record)]
        own = ", ".join(text for is_wide, text in fields if not is_wide)
        within = [own, *(text for is_wide, text in fields if is_wide)]
        return [f"{declared}{{", *(f"{_INDENT}{line}," for line in within if line), "};"]

    def _named(self, name: str, value: object) -> str:
        return f".{name} = {self._value(value)}"

    def _value(self, value: object) -> str:
        match value:
            case Record():
                return f"{{{', '.join(self._named(name, one) for name, one in _said(value))}}}"
            case Table():
                return f"{self.name(value)} + {value.first}" if value.first else self.name(value)
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
    return isinstance(value, Record | Table) or (isinstance(value, tuple) and not isinstance(value[0], int))


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
_GREATEST_ALIGNMENT_BYTES: Final = 64


@dataclass(slots=True)
class OpenPlaces:
    """Walks through the instructions of a legal plan.

    `offsets` has the open residencies of each tensor by memory; `written` are those copied to or computed.
    """

    offsets: dict[str, dict[str, int]] = field(default_factory=dict)
    written: set[tuple[str, str]] = field(default_factory=set)

    def follow(self, instruction: Instruction, outputs: Iterable[str]) -> None:
        """Do what an instruction does to places; of a Compute these are the outputs."""
        match instruction:
            case Allocate(tensor, memory, offset_bytes, is_state):
                self.offsets.setdefault(tensor, {})[memory] = offset_bytes
                if is_state:
                    self.written.add((tensor, memory))
            case Free(tensor, memory):
                del self.offsets[tensor][memory]
                self.written.discard((tensor, memory))
            case Copy(tensor, _, target):
                self.written.add((tensor, target))
            case Compute():
                self.written |= {(name, memory) for name in outputs for memory in self.offsets[name]}

    def of(self, tensor: str) -> tuple[str, int]:
        """Return the memory and the offset where a tensor is read, or written if it has not been."""
        places = self.offsets[tensor]
        memory = next((one for one in places if (tensor, one) in self.written), next(iter(places)))
        return memory, places[memory]


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
            name = unused_name(wanted, {*self._tables, *self.reserved})
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
        lines = (f"extern const {one.element} {name}[{one.values.size}];" for name, one in sorted(self._tables.items()))
        declarations = "\n".join(lines)
        return (
            f"/* Constant arrays: weights, and what kernels are told. */\n#ifndef {guard}\n#define {guard}\n\n"
            f"#include <stdint.h>\n\n{declarations}\n\n#endif\n"
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
    """Return the project of a legal plan, called after its network; raises PlanError if kernels cannot obey the plan.

    `calls` has what each operator of the whole network calls; states begin with their values among the inputs.
    """
    for name, array in (*values.inputs.items(), *values.outputs.items()):
        if array.nbytes != stored.graph.tensor[name].size_bytes:
            what = f"its runtime makes it {list(array.shape)}, of {array.nbytes} bytes"
            expected = f"{stored.graph.tensor[name].size_bytes} bytes, as the plan has it"
            raise PlanError(what, place=f"tensor {name!r}", expected=expected)
    program = ProjectText(problem, plan, stored, calls, values)
    source = program.source()  # asks for tables, so that it comes before them
    texts = {
        "network.h": program.header(),
        "network.c": source,
        "constants.h": program.tables.header(),
        **dict(program.tables.sources()),
        **program.check(),
        **_shared_files(is_banded=program.is_tiled),
    }
    # listed, because the folder may have files of an earlier project
    sources = " \\\n    ".join(sorted(name for name in texts if name.endswith(".c")))
    texts["sources.mk"] = f"SOURCES = {sources}\n"
    arenas = {memory.name: size_bytes for memory, size_bytes in program.arenas.values()}
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


_BANDED: Final = '#define BANDED\n#include "kernels/operands.h"\n#include "kernels/prototypes.h"'


@dataclass(frozen=True)
class ProjectText:
    """Writes the network of a project; the names of everything global begin with `stem`."""

    problem: Problem
    plan: Plan
    stored: StoredTensors
    calls: Mapping[str, tuple[KernelCall, ...]]
    values: StoredValues
    places: OpenPlaces = field(default_factory=OpenPlaces)

    @cached_property
    def stem(self) -> str:
        """Return the start of all global names."""
        letters = identifier(self.problem.graph.name).lower().strip("_")
        return letters if letters[:1].isalpha() else f"network_{letters}".rstrip("_")

    @property
    def is_tiled(self) -> bool:
        """Return True if some operator is a tile."""
        return any(operator.tile is not None for operator in self.problem.graph.operators)

    @cached_property
    def _memory_names(self) -> Mapping[str, str]:
        memories = (DRAM, *(memory.name for memory in self.plan.memories))
        names = (f"arena_{name.lower()}" for name in unique_identifiers("", memories))
        return {**dict(zip(memories, names, strict=True)), DRAM: f"{self.stem}_dram"}

    @cached_property
    def arenas(self) -> dict[str, tuple[Memory, int]]:
        """Map from the name of an array to the scratchpad that it stands for, and the bytes that the plan uses."""
        found = {}
        residencies = residencies_of(self.plan, self.problem.graph)
        for memory in self.plan.memories:
            used = max((one.end_bytes for one in residencies if one.memory == memory.name), default=0)
            if used:
                found[self._memory_names[memory.name]] = (memory, used)
        return found

    @cached_property
    def tables(self) -> Tables:
        """The constant arrays, in the order in which they were asked for."""
        functions = {call.function for each in self.calls.values() for call in each}
        own = {f"{self.stem}_run", f"{self.stem}_begin", *self._memory_names.values()}
        return Tables(self.stem, frozenset(functions | own))

    @cached_property
    def _dram(self) -> Mapping[str, int]:
        """Map from each whole tensor that is ever in DRAM to its offset there; tensors lie side by side."""
        offsets: dict[str, int] = {}
        end = 0
        for name in dict.fromkeys(self._ever_in_dram()):
            offsets[name] = end
            end += -(-self.stored.graph.tensor[name].size_bytes // DRAM_ALIGNMENT_BYTES) * DRAM_ALIGNMENT_BYTES
        return offsets

    def _ever_in_dram(self) -> Iterator[str]:
        for role in (Role.INPUT, Role.OUTPUT):
            yield from (tensor.name for tensor in self.stored.graph.with_role(role))
        spilled = (line.tensor for line in self.plan.instructions if isinstance(line, Copy) and line.target == DRAM)
        yield from (place_of(self.problem.graph.tensor[name])[0] for name in spilled)

    @property
    def dram_bytes(self) -> int:
        """Number of bytes of the array that stands for DRAM."""
        sizes = (self.stored.graph.tensor[name].size_bytes for name in self._dram)
        return sum(-(-size // DRAM_ALIGNMENT_BYTES) * DRAM_ALIGNMENT_BYTES for size in sizes)

    def header(self) -> str:
        """Return the text of network.h."""
        prefix, graph = self.stem.upper(), self.stored.graph
        sizes = [
            f"#define {prefix}_{name.upper()}_BYTES {size_bytes} /* of {memory.capacity_bytes} */"
            for name, (memory, size_bytes) in self.arenas.items()
        ]
        sizes.append(f"#define {prefix}_DRAM_BYTES {max(self.dram_bytes, 1)}")
        tensors = (*graph.with_role(Role.INPUT), *graph.with_role(Role.OUTPUT))
        reserved = (DRAM, *self.arenas)
        names = unique_identifiers(f"{prefix}_", (*reserved, *(tensor.name for tensor in tensors)))
        places = [
            f"/* {one.role.value} */\n#define {name}_AT {self._dram[one.name]}\n#define {name}_BYTES {one.size_bytes}"
            for name, one in zip(names[len(reserved) :], tensors, strict=True)
        ]
        named = {"prefix": prefix, "stem": self.stem, "dram": self._memory_names[DRAM]}
        return template("network.h", sizes="\n".join(sizes), places="\n".join(places), **named)

    def source(self) -> str:
        """Return the text of network.c."""
        prefix = self.stem.upper()
        arrays = [_BANDED] if self.is_tiled else []
        for name, (memory, _) in self.arenas.items():
            alignment = max(memory.alignment_bytes, _GREATEST_ALIGNMENT_BYTES)
            arrays.append(self._array(name, f"{prefix}_{name.upper()}_BYTES", alignment, "static "))
        arrays.append(self._array(self._memory_names[DRAM], f"{prefix}_DRAM_BYTES", _GREATEST_ALIGNMENT_BYTES))
        first = "".join(f"{line}\n" for line in self._first_states())
        lines = "\n".join(self._lines())
        return template("network.c", stem=self.stem, arrays="\n\n".join(arrays), first=first, lines=lines)

    def _array(self, name: str, size: str, alignment_bytes: int, storage: str = "") -> str:
        place = f"PLACE_{name.removeprefix(f'{self.stem}_').removeprefix('arena_').upper()}"
        alignment = min(1 << (alignment_bytes - 1).bit_length(), 4096)
        array = f"{place} {storage}_Alignas({alignment}) uint8_t {name}[{size}];"
        return f"#ifndef {place}\n#define {place}\n#endif\n{array}"

    def check(self) -> dict[str, str]:
        """Return the files that run the network: the stored values, and the `main` that compares its outputs."""
        graph, dram, states = (
            self.stored.graph,
            self._memory_names[DRAM],
            {one.old for one in self.problem.graph.states},
        )
        given = {name: array for name, array in self.values.inputs.items() if name not in states}
        definitions, lines = [], {}
        for word, found in (("input", given), ("expected", self.values.outputs)):
            lines[word] = ""
            names = unique_identifiers(f"{word}_", found)
            for name, (tensor, array) in zip((one.lower() for one in names), found.items(), strict=True):
                at = f"{dram} + {self._dram[graph.tensor[tensor].name]}"
                compare = "compare_floats" if array.dtype == np.float32 else "compare_bytes"
                if word == "input":
                    lines[word] += f"        memcpy({at}, {name}, sizeof {name});\n"
                else:
                    lines[word] += f'    differing += {compare}("{name}", {at}, {name}, sizeof {name});\n'
                definitions.append(definition(name, table(name, array), "static const"))
        title = "/* The inputs that main begins with, and the outputs that the network's own runtime makes of them. */"
        values = "\n".join((f"{title}\n{_INCLUDES}", *definitions)) + "\n"
        named = {"stem": self.stem, "inferences": self.values.inferences}
        return {
            "values.h": values,
            "main.c": template("main.c", inputs=lines["input"], outputs=lines["expected"], **named),
        }

    def _lines(self) -> Iterator[str]:
        """Yield the lines of a run."""
        graph, step = self.problem.graph, 0
        for instruction in self.plan.instructions:
            outputs: tuple[str, ...] = ()
            if isinstance(instruction, Compute):
                operator = graph.operator[instruction.operator]
                outputs = operator.outputs
                names = ", ".join(operator.members) if len(operator.members) > 1 else operator.name
                yield f"    /* step {step}: {comment(f'{operator.kind} {names}')} */"
                yield from self._calls(operator)
                step += 1
            elif isinstance(instruction, Copy):
                yield from self._copy(instruction)
            self.places.follow(instruction, outputs)
        for state in graph.states:
            if state.old not in self._staying:
                size_bytes = graph.tensor[state.old].size_bytes
                yield f"    dma_copy({self._in_dram(state.old)}, {self._in_dram(state.new)}, {size_bytes});"

    @cached_property
    def _staying(self) -> dict[str, Allocate]:
        """Map from each state that stays on the chip between inferences to its place."""
        lines = (line for line in self.plan.instructions if isinstance(line, Allocate) and line.is_state)
        return {line.tensor: line for line in lines}

    def _first_states(self) -> Iterator[str]:
        for state in self.problem.graph.states:
            first = table(f"{state.old} at first", self.values.inputs[state.old])
            place = self._staying.get(state.old)
            target = self._in_dram(state.old) if place is None else self._at(place.memory, place.offset_bytes)
            size_bytes = self.problem.graph.tensor[state.old].size_bytes
            yield f"    dma_copy({target}, {self.tables.name(first)}, {size_bytes});"

    def _copy(self, copy: Copy) -> Iterator[str]:
        """Yield the copy of a tensor; a part that has gaps in DRAM is copied in loops over its runs."""
        tensor, stored = self.problem.graph.tensor[copy.tensor], self.stored
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
        return self._at(memory, self.places.offsets[tensor][memory])

    def _in_dram(self, tensor: str, offset_bytes: int = 0) -> str:
        return self._at(DRAM, self._dram[tensor] + offset_bytes)

    def _at(self, memory: str, offset_bytes: int) -> str:
        return f"{self._memory_names[memory]} + {offset_bytes}"

    def _calls(self, operator: Operator) -> Iterator[str]:
        if operator.tile is not None:
            yield from self._calls_of_tile(operator, operator.tile)
            return
        for call in self.calls[operator.name]:
            if not self._is_there_already(operator, call):
                yield from CallText(self._address, self.tables.name).lines(call)

    def _calls_of_tile(self, operator: Operator, tile: Tile) -> Iterator[str]:
        """Yield the whole operator's calls, restricted to the tile; raises for tiles that kernels cannot compute."""
        stored = self.stored
        if tile.part is not SumPart.WHOLE:
            what = "it is a part of a sum, which no kernel continues"
            raise PlanError(what, place=f"operator {operator.name!r}", expected="tiles along rows, columns or channels")
        regions = {name: stored.region(name, one) for name, one in zip(tile.outputs, tile.regions, strict=True)}
        for call in self.calls[tile.operator]:
            name = call.written.tensor
            output = stored.shape(name), stored.element_bytes(name)
            for restricted in calls_of_region(call, operator.name, output, regions[name]):
                self._ensure_apart(operator, tile, restricted)
                banded = banded_call(restricted, operator.name, lambda one: self._bands(operator, tile, one))
                yield from CallText(self._address, self.tables.name).lines(banded)

    def _bands(self, operator: Operator, tile: Tile, operand: TensorOperand | Table) -> BandGrid:
        if not isinstance(operand, TensorOperand):
            array = f"(uint8_t *){self.tables.name(operand)}"
            return TensorParts((), 1, (((), array, 0),)).bands(operand.first * operand.values.itemsize)
        name, stored = operand.tensor, self.stored
        parts = tuple(
            (region, self._memory_names[memory], offset_bytes)
            for region, (memory, offset_bytes) in self._parts(operator, tile, name)
        )
        found = TensorParts(stored.shape(name), stored.element_bytes(name), parts)
        ensure_aligned([offset for _, _, offset in parts], name, operand.element)
        return found.bands(operand.shift_bytes)

    def _parts(self, operator: Operator, tile: Tile, name: str) -> Iterator[tuple[Region, tuple[str, int]]]:
        """Yield the parts of a whole tensor that an operator reads or writes."""
        for one in dict.fromkeys((*operator.inputs, *operator.outputs)):
            base, region = place_of(tile.seen(self.problem.graph.tensor[one]))
            if base == name:
                yield self.stored.region(base, region), self.places.of(one)

    def _ensure_apart(self, operator: Operator, tile: Tile, call: KernelCall) -> None:
        """Raise PlanError if a part that is written lies on a part of another tensor that is read."""
        for one in operator.inputs:
            if place_of(tile.seen(self.problem.graph.tensor[one]))[0] == call.written.tensor:
                continue
            for other in operator.outputs:
                if _share(self._range(one), self._range(other)):
                    raise _in_place_error(operator, one)

    def _is_there_already(self, operator: Operator, call: KernelCall) -> bool:
        """Return True if a move changes no byte; raises PlanError if the output would overwrite an unread input."""
        written = self._range(call.written.tensor, call.written.shift_bytes)
        for operand in call.read:
            read = self._range(operand.tensor, operand.shift_bytes)
            if not _share(read, written) or (call.function in OVERWRITING and read == written):
                continue
            if call.function == "move" and read[1] == written[1]:
                over = cast("Record", call.arguments[0])
                if not over["rank"] or over["steps"][0] == over["steps"][1]:  # elements keep their distances
                    return True
            raise _in_place_error(operator, operand.tensor)
        return False

    def _range(self, tensor: str, shift_bytes: int = 0) -> tuple[str, int, int]:
        """Return the memory of a tensor, and its bytes from `shift_bytes` to its end."""
        memory, offset_bytes = self.places.of(tensor)
        return memory, offset_bytes + shift_bytes, offset_bytes + self.problem.graph.tensor[tensor].size_bytes

    def _address(self, operand: TensorOperand) -> str:
        memory, offset_bytes, _ = self._range(operand.tensor, operand.shift_bytes)
        here = self._at(memory, offset_bytes)
        if operand.element == BYTES:
            return here
        ensure_aligned([offset_bytes], operand.tensor, operand.element)
        return f"({operand.element} *)({here})"


def _share(one: tuple[str, int, int], other: tuple[str, int, int]) -> bool:
    """Return True if two ranges of a memory have bytes in common."""
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def _in_place_error(operator: Operator, tensor: str) -> PlanError:
    what = f"its output lies on {tensor!r}, and its kernel cannot compute in place"
    return PlanError(what, place=f"operator {operator.name!r}", expected="a plan of `share='none'`")
