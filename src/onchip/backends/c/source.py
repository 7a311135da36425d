"""The C99 source of a plan: the tables that its header declares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Plan
from onchip.arch.memory import DRAM
from onchip.backends.c.header import header_of
from onchip.backends.c.names import number, string
from onchip.backends.c.program import CProgram, c_program
from onchip.formats.files import write_files


def source_of(program: CProgram, header_name: str, further: Sequence[str] = ()) -> str:
    """The source, with further tables at its end.

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
    """The definition of a table; one without rows has a single one of zeros, as C99 knows no empty arrays."""
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
    tensors = program.tensor_identifier
    for one in program.residencies:
        offset = number(one.offset_bytes, f"the offset of {one.tensor!r}")
        memory = program.memory_identifier[one.memory]
        yield row(tensors[one.tensor], memory, offset, f"{one.start_instruction}u", f"{one.stop_instruction}u")


def _instructions(program: CProgram) -> Iterator[str]:
    tensors, memories = program.tensor_identifier, program.memory_identifier
    names = (operator.name for operator in program.operators)
    operators = dict(zip(names, program.operator_identifiers, strict=True))
    none = f"{program.prefix}_RESIDENCIES"
    current: dict[tuple[str, str], int] = {}
    begun = 0
    for line in program.plan.instructions:
        if isinstance(line, Compute):
            nowhere = (none, none, memories[DRAM], memories[DRAM])
            yield row(f"{program.prefix}_COMPUTE", operators[line.operator], *nowhere)
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
    """One entry of a table."""
    return f"{{{', '.join(fields)}}}"
