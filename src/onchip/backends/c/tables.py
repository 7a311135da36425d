"""A plan or a schedule as C99 tables: one header and one source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Plan, Residency, residencies_of
from onchip.answer.schedule import ScheduledMapping
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.backends.c.text import fits_in_32_bits, identifier, number, string, unique_identifiers
from onchip.formats.files import write_files
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor


@dataclass(frozen=True, slots=True)
class CProgram:
    """A plan with C identifiers; `stem` begins each of them.

    Types and tables are in lower case, constants in upper case. `memory_ids`, `tensor_ids` and `operator_ids` map
    names to identifiers, DRAM's first.
    """

    stem: str
    network: str
    plan: Plan
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    residencies: tuple[Residency, ...]
    memory_ids: Mapping[str, str]
    tensor_ids: Mapping[str, str]
    operator_ids: Mapping[str, str]

    @property
    def prefix(self) -> str:
        """Return what the names of all constants begin with."""
        return self.stem.upper()

    def arena_bytes(self, memory: Memory) -> int:
        """Return the highest end address of a residency in the memory."""
        return max((one.end_bytes for one in self.residencies if one.memory == memory.name), default=0)

    @property
    def bytes_type(self) -> str:
        """Return the narrowest type for every size and offset."""
        sizes = [memory.capacity_bytes for memory in self.plan.memories]
        sizes += [tensor.size_bytes for tensor in self.tensors]
        return "uint32_t" if fits_in_32_bits(sizes) else "uint64_t"


def c_program(problem: Problem, plan: Plan, name: str) -> CProgram:
    """Return the program of a legal plan; `name` becomes the stem of its identifiers."""
    letters = identifier(name).lower()
    stem = letters if letters[:1].isalpha() else f"plan_{letters}"
    tensors, operators = problem.counted_tensors, problem.graph.operators

    def ids(what: str, names: Iterable[str]) -> dict[str, str]:
        found = list(names)
        return dict(zip(found, unique_identifiers(f"{stem.upper()}_{what}_", found), strict=True))

    return CProgram(
        stem,
        problem.graph.name,
        plan,
        tensors,
        operators,
        residencies_of(plan, problem.graph),
        ids("MEMORY", (DRAM, *(memory.name for memory in plan.memories))),
        ids("TENSOR", (tensor.name for tensor in tensors)),
        ids("OPERATOR", (operator.name for operator in operators)),
    )


_TYPES = """
/* Every size and offset. */
typedef {bytes_type} {stem}_bytes;

enum {stem}_kind {{ {prefix}_ALLOCATE, {prefix}_COPY, {prefix}_COMPUTE, {prefix}_FREE }};

struct {stem}_memory {{
    const char *name;
    {stem}_bytes capacity_bytes;
    {stem}_bytes arena_bytes;
    {stem}_bytes alignment_bytes;
}};

struct {stem}_tensor {{
    const char *name;
    {stem}_bytes size_bytes;
}};

/* A tensor lies in a scratchpad at one offset over the instructions [start, stop). */
struct {stem}_residency {{
    uint32_t tensor;
    uint32_t memory;
    {stem}_bytes offset_bytes;
    uint32_t start;
    uint32_t stop;
}};

/* What to do, one after the other:
   ALLOCATE  a residency begins in memory `target` (and `source`)
   COPY      the bytes of a tensor move from memory `source` to memory `target`
   COMPUTE   an operator runs
   FREE      a residency ends in memory `source` (and `target`) */
struct {stem}_instruction {{
    enum {stem}_kind kind;
    uint32_t subject;   /* of COMPUTE an operator, else a tensor */
    uint32_t residency; /* in the scratchpad, of two the target; of COMPUTE {prefix}_RESIDENCIES, which is none */
    uint32_t origin;    /* of a COPY from scratchpad to scratchpad the residency in the source, else none */
    uint32_t source;
    uint32_t target;
}};

extern const struct {stem}_memory {stem}_memories[{prefix}_MEMORIES]; /* DRAM, the first, has no size */
extern const struct {stem}_tensor {stem}_tensors[{prefix}_TENSORS];
extern const char *const {stem}_operators[{prefix}_OPERATORS];
extern const struct {stem}_residency {stem}_residencies[{prefix}_RESIDENCIES + !{prefix}_RESIDENCIES];
extern const struct {stem}_instruction {stem}_program[{prefix}_INSTRUCTIONS];
"""


PLAN_TITLE: Final = "A memory plan, written by onchip: how a network uses scratchpads."


def header_of(program: CProgram, title: str = PLAN_TITLE, further: Sequence[str] = ()) -> str:
    """Return the header, with further declarations at its end; raises PlanError for numbers beyond 64 bits."""
    guard = f"ONCHIP_{program.prefix}_H"
    parts = [
        f"/* {title} */",
        f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>",
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        "\n".join(_counts(program)),
        "\n".join(_sizes(program)),
        _enumeration(program, "memory_id", program.memory_ids),
        _enumeration(program, "tensor_id", program.tensor_ids),
        _enumeration(program, "operator_id", program.operator_ids),
        _TYPES.strip("\n").format(stem=program.stem, prefix=program.prefix, bytes_type=program.bytes_type),
        *further,
        "#ifdef __cplusplus\n}\n#endif",
        f"#endif /* {guard} */",
    ]
    return "\n\n".join(parts) + "\n"


def _counts(program: CProgram) -> Iterator[str]:
    for what, names in (
        ("MEMORIES", program.memory_ids),
        ("TENSORS", program.tensors),
        ("OPERATORS", program.operators),
        ("RESIDENCIES", program.residencies),
        ("INSTRUCTIONS", program.plan.instructions),
    ):
        yield f"#define {program.prefix}_{what} {len(names)}u"


def _sizes(program: CProgram) -> Iterator[str]:
    for memory in program.plan.memories:
        name = program.memory_ids[memory.name].removeprefix(f"{program.prefix}_MEMORY_")
        for what, value in (
            ("CAPACITY_BYTES", memory.capacity_bytes),
            ("ARENA_BYTES", program.arena_bytes(memory)),
            ("ALIGNMENT_BYTES", memory.alignment_bytes),
        ):
            yield f"#define {program.prefix}_{what}_{name} {number(value, what.lower())}"


def _enumeration(program: CProgram, what: str, ids: Mapping[str, str]) -> str:
    lines = "".join(f"\n    {name} = {value}," for value, name in enumerate(ids.values())).removesuffix(",")
    return f"enum {program.stem}_{what} {{{lines}\n}};"


def source_of(program: CProgram, header_name: str, further: Sequence[str] = ()) -> str:
    """Return the source, with further tables at its end.

    Raises PlanError for numbers beyond 64 bits and names beyond a C string.
    """
    stem, prefix = program.stem, program.prefix
    tables = [
        table(f"struct {stem}_memory {stem}_memories[{prefix}_MEMORIES]", _memories(program)),
        table(f"struct {stem}_tensor {stem}_tensors[{prefix}_TENSORS]", _tensors(program)),
        table(f"char *const {stem}_operators[{prefix}_OPERATORS]", (string(one.name) for one in program.operators)),
        table(
            f"struct {stem}_residency {stem}_residencies[{prefix}_RESIDENCIES + !{prefix}_RESIDENCIES]",
            _residencies(program),
        ),
        table(f"struct {stem}_instruction {stem}_program[{prefix}_INSTRUCTIONS]", _instructions(program)),
    ]
    return "\n\n".join((f'#include "{header_name}"', *tables, *further)) + "\n"


def write_plan_in_c(files: Sequence[Path], problem: Problem, plan: Plan) -> None:
    """Write the header and the source of a plan; raises OutputError if a file cannot be written."""
    header, source = files
    program = c_program(problem, plan, header.stem)
    write_files((header, header_of(program).encode()), (source, source_of(program, header.name).encode()))


def table(declaration: str, rows: Iterable[str]) -> str:
    """Return the definition of a table; an empty table gets one row of zeros, as C99 has no empty arrays."""
    lines = ",\n".join(f"    {each}" for each in rows)
    return f"const {declaration} = {{\n{lines or '    {0}'}\n}};"


def _memories(program: CProgram) -> Iterator[str]:
    yield f"{{{string(DRAM)}, 0u, 0u, 1u}}"
    for memory in program.plan.memories:
        sizes = (memory.capacity_bytes, program.arena_bytes(memory), memory.alignment_bytes)
        yield row(string(memory.name), *(number(size, f"a size of {memory.name!r}") for size in sizes))


def _tensors(program: CProgram) -> Iterator[str]:
    for tensor in program.tensors:
        yield row(string(tensor.name), number(tensor.size_bytes, f"the size of {tensor.name!r}"))


def _residencies(program: CProgram) -> Iterator[str]:
    tensors = program.tensor_ids
    for one in program.residencies:
        offset = number(one.offset_bytes, f"the offset of {one.tensor!r}")
        memory = program.memory_ids[one.memory]
        yield row(tensors[one.tensor], memory, offset, f"{one.start_instruction}u", f"{one.stop_instruction}u")


def _instructions(program: CProgram) -> Iterator[str]:
    tensors, memories = program.tensor_ids, program.memory_ids
    none = f"{program.prefix}_RESIDENCIES"
    current: dict[tuple[str, str], int] = {}
    begun = 0
    for line in program.plan.instructions:
        if isinstance(line, Compute):
            nowhere = (none, none, memories[DRAM], memories[DRAM])
            yield row(f"{program.prefix}_COMPUTE", program.operator_ids[line.operator], *nowhere)
            continue
        if isinstance(line, Copy):
            kind, source, target = "COPY", line.source, line.target
        else:
            kind, source, target = ("ALLOCATE" if isinstance(line, Allocate) else "FREE"), line.memory, line.memory
        if isinstance(line, Allocate):
            current[line.tensor, line.memory] = begun
            begun += 1
        residency = current[line.tensor, source if target == DRAM else target]
        is_move = isinstance(line, Copy) and DRAM not in (source, target)
        origin = f"{current[line.tensor, source]}u" if is_move else none
        ends = (origin, memories[source], memories[target])
        yield row(f"{program.prefix}_{kind}", tensors[line.tensor], f"{residency}u", *ends)


def row(*fields: str) -> str:
    """Return one entry of a table."""
    return f"{{{', '.join(fields)}}}"


_SCHEDULE_TITLE: Final = (
    "A schedule, written by onchip: how a network uses the memories of an accelerator, and runs on its array."
)
_SCHEDULE_TYPES: Final = """
/* What a tensor is to the operator that reads or writes it; OTHER is read beside what its loop nests read. */
enum {stem}_operand_kind {{
    {prefix}_OPERAND_INPUT, {prefix}_OPERAND_WEIGHT, {prefix}_OPERAND_OUTPUT, {prefix}_OPERAND_OTHER,
    {prefix}_OPERAND_WORKSPACE
}};

/* A tensor while an operator runs; in memory 0, DRAM, it is streamed from there, or to there. */
struct {stem}_operand {{
    enum {stem}_operand_kind kind;
    uint32_t tensor;
    uint32_t memory;
}};

/* How an operator runs: on `operands` entries of the operands, by `nests` mappings one after the other. */
struct {stem}_run {{
    uint32_t stack;
    uint32_t first_operand;
    uint32_t operands;
    uint32_t first_nest;
    uint32_t nests;
}};

/* The mapping by which a loop nest of an operator runs. */
struct {stem}_nest {{
    uint32_t mapping;
}};

/* A loop over one of N, K, C, P, Q, R, S, G; those along a dimension of the array, which is named, run side by side. */
struct {stem}_loop {{
    char loop;
    uint32_t size;
    const char *along;
}};

/* A memory keeps, of an operand, the tile that the innermost `loops` loops touch. */
struct {stem}_tile {{
    enum {stem}_operand_kind kind;
    const char *memory;
    uint32_t loops;
}};

/* A loop nest, innermost loop first. `bounds` are those of N, K, C, P, Q, R, S, G; the loops named `ragged` may run
   beyond theirs: what lies there is not executed. Stride and dilation have height, width; padding has top, left,
   bottom, right. */
struct {stem}_mapping {{
    uint32_t first_loop;
    uint32_t loops;
    uint32_t first_tile;
    uint32_t tiles;
    uint32_t bounds[8];
    uint32_t stride[2];
    uint32_t dilation[2];
    uint32_t padding[4];
    const char *ragged;
}};

{declarations}
"""


class OperandKind(StrEnum):
    """The kind of an operator's tensor: an operand of its loop nests, another input, or a workspace."""

    INPUT = "input"
    WEIGHT = "weight"
    OUTPUT = "output"
    OTHER = "other"
    WORKSPACE = "workspace"


@dataclass(frozen=True, slots=True)
class TensorInUse:
    """A tensor while an operator runs, and the memory in which it is: DRAM, if it is streamed."""

    kind: OperandKind
    tensor: str
    memory: str


@dataclass(frozen=True, slots=True)
class OperatorRun:
    """A run of an operator: its stack, its tensors, and the numbers of its mappings in order."""

    stack: int
    tensors: tuple[TensorInUse, ...]
    mappings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CSchedule:
    """A program, with a run for each of its operators, in their order, and the mappings that they run by."""

    program: CProgram
    runs: tuple[OperatorRun, ...]
    mappings: tuple[ScheduledMapping, ...]

    def header(self) -> str:
        """Return the header; raises PlanError for numbers beyond 64 bits."""
        stem, prefix = self.program.stem, self.program.prefix
        counts = "\n".join(
            f"#define {prefix}_{count} {len(rows)}u" for _, count, rows in self._tables if count != "OPERATORS"
        )
        declarations = "\n".join(f"extern const {declared};" for declared, _, _ in self._tables)
        types = _SCHEDULE_TYPES.strip("\n").format(stem=stem, prefix=prefix, declarations=declarations)
        return header_of(self.program, _SCHEDULE_TITLE, (counts, types))

    def source(self, header_name: str) -> str:
        """Return the source; raises PlanError for numbers beyond 64 bits and names beyond a C string."""
        return source_of(self.program, header_name, [table(declared, rows) for declared, _, rows in self._tables])

    @property
    def _tables(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield each table's declaration, the name of the constant for its number of rows, and its rows."""
        stem, prefix = self.program.stem, self.program.prefix
        mappings = [one.mapping for one in self.mappings]
        for kind, count, rows in (
            ("run", "OPERATORS", _runs(self.runs)),
            ("operand", "OPERANDS", self._operands()),
            ("nest", "NESTS", (row(f"{at}u") for run in self.runs for at in run.mappings)),
            ("loop", "LOOPS", _loops(mappings)),
            ("tile", "TILES", _tiles(prefix, mappings)),
            ("mapping", "MAPPINGS", _mappings(self.mappings)),
        ):
            size = f"{prefix}_{count}"
            yield f"struct {stem}_{kind} {stem}_{kind}s[{size} + !{size}]", count, tuple(rows)

    def _operands(self) -> Iterator[str]:
        tensors, memories = self.program.tensor_ids, self.program.memory_ids
        for run in self.runs:
            for one in run.tensors:
                kind = f"{self.program.prefix}_OPERAND_{one.kind.upper()}"
                yield row(kind, tensors[one.tensor], memories[one.memory])


def _runs(runs: Iterable[OperatorRun]) -> Iterator[str]:
    operand, nest = 0, 0
    for run in runs:
        yield row(*(f"{each}u" for each in (run.stack, operand, len(run.tensors), nest, len(run.mappings))))
        operand, nest = operand + len(run.tensors), nest + len(run.mappings)


def _loops(mappings: Iterable[LayerMapping]) -> Iterator[str]:
    for mapping in mappings:
        for loop in mapping.nest:
            yield row(f"'{loop.dimension}'", f"{loop.size}u", string(loop.along or ""))


def _tiles(prefix: str, mappings: Iterable[LayerMapping]) -> Iterator[str]:
    for mapping in mappings:
        for operand in Operand:
            for kept in mapping.kept(operand):
                yield row(f"{prefix}_OPERAND_{operand.value.upper()}", string(kept.memory), f"{kept.loops}u")


def _mappings(mappings: Iterable[ScheduledMapping]) -> Iterator[str]:
    loop, tile = 0, 0
    for one in mappings:
        loops, tiles = len(one.mapping.nest), sum(len(one.mapping.kept(operand)) for operand in Operand)
        numbers = (f"{each}u" for each in (loop, loops, tile, tiles))
        layer = one.layer
        extents = (tuple(layer.bounds.values()), layer.stride, layer.dilation, layer.padding)
        rows = (row(*(f"{value}u" for value in values)) for values in extents)
        yield row(*numbers, *rows, string("".join(one.mapping.ragged)))
        loop, tile = loop + loops, tile + tiles
