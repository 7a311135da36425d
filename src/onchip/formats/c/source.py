"""The C99 source of a plan: the tables that its header declares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onchip.answer.program import Allocate, Compute, Copy
from onchip.arch.memory import DRAM
from onchip.formats.c.names import number, string
from onchip.formats.c.program import CProgram


def source_of(program: CProgram, header_name: str) -> str:
    """The source; raises PlanError for numbers beyond 64 bits and names beyond a C string."""
    stem, prefix = program.stem, program.prefix
    tables = [
        _table(f"struct {stem}_memory {stem}_memories[{prefix}_MEMORIES]", _memories(program)),
        _table(f"struct {stem}_tensor {stem}_tensors[{prefix}_TENSORS]", _tensors(program)),
        _table(f"char *const {stem}_operators[{prefix}_OPERATORS]", (string(one.name) for one in program.operators)),
        _table(f"struct {stem}_residency {stem}_residencies[{prefix}_RESIDENCIES]", _residencies(program)),
        _table(f"struct {stem}_instruction {stem}_program[{prefix}_INSTRUCTIONS]", _instructions(program)),
    ]
    return "\n\n".join((f'#include "{header_name}"', *tables)) + "\n"


def _table(declaration: str, rows: Iterable[str]) -> str:
    lines = ",\n".join(f"    {row}" for row in rows)
    return f"const {declaration} = {{\n{lines}\n}};"


def _memories(program: CProgram) -> Iterator[str]:
    yield f"{{{string(DRAM)}, 0u, 0u, 1u}}"
    for memory in program.plan.memories:
        sizes = (memory.capacity_bytes, program.arena_bytes(memory), memory.alignment_bytes)
        yield _row(string(memory.name), *(number(size, f"a size of {memory.name!r}") for size in sizes))


def _tensors(program: CProgram) -> Iterator[str]:
    for tensor in program.tensors:
        yield _row(string(tensor.name), number(tensor.size_bytes, f"the size of {tensor.name!r}"))


def _residencies(program: CProgram) -> Iterator[str]:
    tensors = _identifiers_of_tensors(program)
    for one in program.residencies:
        offset = number(one.offset_bytes, f"the offset of {one.tensor!r}")
        memory = program.memory_identifier[one.memory]
        yield _row(tensors[one.tensor], memory, offset, f"{one.start_instruction}u", f"{one.stop_instruction}u")


def _instructions(program: CProgram) -> Iterator[str]:
    tensors, memories = _identifiers_of_tensors(program), program.memory_identifier
    names = (operator.name for operator in program.operators)
    operators = dict(zip(names, program.operator_identifiers, strict=True))
    none = f"{program.prefix}_RESIDENCIES"
    current: dict[tuple[str, str], int] = {}
    begun = 0
    for line in program.plan.instructions:
        if isinstance(line, Compute):
            nowhere = (none, none, memories[DRAM], memories[DRAM])
            yield _row(f"{program.prefix}_COMPUTE", operators[line.operator], *nowhere)
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
        yield _row(f"{program.prefix}_{kind}", tensors[line.tensor], f"{residency}u", *ends)


def _identifiers_of_tensors(program: CProgram) -> dict[str, str]:
    return dict(zip((tensor.name for tensor in program.tensors), program.tensor_identifiers, strict=True))


def _row(*fields: str) -> str:
    return f"{{{', '.join(fields)}}}"
