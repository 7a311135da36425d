"""A plan or a schedule as C99 tables: one header and one source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Plan, residencies_of
from onchip.answer.schedule import WORKSPACE
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.backends.c.text import fits_in_32_bits, identifier, number, string, template, unique_identifiers
from onchip.formats.files import write_files
from onchip.model.program.figures import homes_of_computes
from onchip.ops.nests import BandedOperand, operands_of
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.transform.groups.tile_graph import TileOperator


def workspace_name(operator: str, memory: str) -> str:
    """Return the tensor that a workspace of an operator in one memory is written as."""
    return f"{operator}{WORKSPACE}@{memory}"


@dataclass(frozen=True)
class CProgram:
    """A legal plan with C identifiers that begin with `stem`, or in constants with `prefix`, its upper case."""

    problem: Problem
    plan: Plan
    stem: str

    @property
    def prefix(self) -> str:
        """Return the start of all constants' names."""
        return self.stem.upper()

    @cached_property
    def memory_ids(self) -> Mapping[str, str]:
        """Map from memory to its constant, DRAM first."""
        return self._ids("MEMORY", (DRAM, *(memory.name for memory in self.plan.memories)))

    @cached_property
    def tensor_ids(self) -> Mapping[str, str]:
        """Map from tensor to its constant."""
        return self._ids("TENSOR", [tensor.name for tensor in self.problem.counted_tensors])

    @cached_property
    def operator_ids(self) -> Mapping[str, str]:
        """Map from operator to its constant."""
        return self._ids("OPERATOR", [operator.name for operator in self.problem.graph.operators])

    def _ids(self, what: str, names: Sequence[str]) -> dict[str, str]:
        return dict(zip(names, unique_identifiers(f"{self.prefix}_{what}_", names), strict=True))


def c_program(problem: Problem, plan: Plan, name: str) -> CProgram:
    """Return the program of a legal plan; `name` becomes the stem of its identifiers."""
    letters = identifier(name).lower()
    return CProgram(problem, plan, letters if letters[:1].isalpha() else f"plan_{letters}")


PLAN_TITLE: Final = "A memory plan, written by onchip: how a network uses scratchpads."


def header_of(program: CProgram, title: str = PLAN_TITLE, further: Sequence[str] = ()) -> str:
    """Return the header, with further declarations at its end; raises PlanError for numbers beyond 64 bits."""
    stem, prefix, plan, problem = program.stem, program.prefix, program.plan, program.problem
    ids = {"memory": program.memory_ids, "tensor": program.tensor_ids, "operator": program.operator_ids}
    counts = dict(zip(("MEMORIES", "TENSORS", "OPERATORS"), map(len, ids.values()), strict=True))
    counts |= {"RESIDENCIES": len(residencies_of(plan, problem.graph)), "INSTRUCTIONS": len(plan.instructions)}
    sizes = []
    for memory in plan.memories:
        name = program.memory_ids[memory.name].removeprefix(f"{prefix}_MEMORY_")
        for what, value in zip(("CAPACITY", "ARENA", "ALIGNMENT"), _memory_sizes(program, memory), strict=True):
            sizes.append(f"#define {prefix}_{what}_BYTES_{name} {number(value, f'{what.lower()}_bytes')}")
    capacities = [memory.capacity_bytes for memory in plan.memories]
    is_short = fits_in_32_bits([*capacities, *(tensor.size_bytes for tensor in problem.counted_tensors)])
    bytes_type = "uint32_t" if is_short else "uint64_t"
    guard = f"ONCHIP_{prefix}_H"
    parts = [
        f"/* {title} */",
        f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>",
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        "\n".join(f"#define {prefix}_{what} {count}u" for what, count in counts.items()),
        "\n".join(sizes),
        *(_enumeration(f"{stem}_{what}_id", found.values()) for what, found in ids.items()),
        template("plan.h", stem=stem, prefix=prefix, bytes_type=bytes_type).rstrip("\n"),
        *further,
        "#ifdef __cplusplus\n}\n#endif",
        f"#endif /* {guard} */",
    ]
    return "\n\n".join(parts) + "\n"


def _enumeration(name: str, constants: Iterable[str]) -> str:
    lines = ",".join(f"\n    {constant} = {value}" for value, constant in enumerate(constants))
    return f"enum {name} {{{lines}\n}};"


def source_of(program: CProgram, header_name: str, further: Sequence[str] = ()) -> str:
    """Return the source, with further tables at its end.

    Raises PlanError for numbers beyond 64 bits and names beyond a C string.
    """
    stem, prefix, graph = program.stem, program.prefix, program.problem.graph
    no_residency = f"{stem}_residencies[{prefix}_RESIDENCIES + !{prefix}_RESIDENCIES]"
    tables = (
        (f"struct {stem}_memory {stem}_memories[{prefix}_MEMORIES]", _memories(program)),
        (f"struct {stem}_tensor {stem}_tensors[{prefix}_TENSORS]", _tensors(program)),
        (f"char *const {stem}_operators[{prefix}_OPERATORS]", (string(one.name) for one in graph.operators)),
        (f"struct {stem}_residency {no_residency}", _residencies(program)),
        (f"struct {stem}_instruction {stem}_program[{prefix}_INSTRUCTIONS]", _instructions(program)),
    )
    return "\n\n".join((f'#include "{header_name}"', *(_table(*one) for one in tables), *further)) + "\n"


def write_plan_in_c(files: Sequence[Path], problem: Problem, plan: Plan) -> None:
    """Write the header and the source of a plan; raises OutputError if a file cannot be written."""
    header, source = files
    program = c_program(problem, plan, header.stem)
    write_files((header, header_of(program).encode()), (source, source_of(program, header.name).encode()))


def _table(declaration: str, rows: Iterable[str]) -> str:
    """Return the definition of a table; an empty table gets one row of zeros, as C99 has no empty arrays."""
    lines = ",\n".join(f"    {each}" for each in rows)
    return f"const {declaration} = {{\n{lines or '    {0}'}\n}};"


def _row(*fields: object) -> str:
    """Return one entry of a table; integers are indices."""
    return f"{{{', '.join(f'{one}u' if isinstance(one, int) else str(one) for one in fields)}}}"


def _memory_sizes(program: CProgram, memory: Memory) -> tuple[int, int, int]:
    """Return the capacity, the highest end address of a residency, and the alignment in bytes."""
    residencies = residencies_of(program.plan, program.problem.graph)
    arena = max((one.end_bytes for one in residencies if one.memory == memory.name), default=0)
    return memory.capacity_bytes, arena, memory.alignment_bytes


def _memories(program: CProgram) -> Iterator[str]:
    yield _row(string(DRAM), "0u", "0u", "1u")
    for memory in program.plan.memories:
        sizes = (number(size, f"a size of {memory.name!r}") for size in _memory_sizes(program, memory))
        yield _row(string(memory.name), *sizes)


def _tensors(program: CProgram) -> Iterator[str]:
    for tensor in program.problem.counted_tensors:
        yield _row(string(tensor.name), number(tensor.size_bytes, f"the size of {tensor.name!r}"))


def _residencies(program: CProgram) -> Iterator[str]:
    for one in residencies_of(program.plan, program.problem.graph):
        offset = number(one.offset_bytes, f"the offset of {one.tensor!r}")
        place = program.tensor_ids[one.tensor], program.memory_ids[one.memory], offset
        yield _row(*place, one.start_instruction, one.stop_instruction)


def _instructions(program: CProgram) -> Iterator[str]:
    tensors, memories = program.tensor_ids, program.memory_ids
    none = f"{program.prefix}_RESIDENCIES"
    current: dict[tuple[str, str], int] = {}
    begun = 0
    for line in program.plan.instructions:
        if isinstance(line, Compute):
            nowhere = (none, none, memories[DRAM], memories[DRAM])
            yield _row(f"{program.prefix}_COMPUTE", program.operator_ids[line.operator], *nowhere)
            continue
        is_copy = isinstance(line, Copy)
        source, target = (line.source, line.target) if isinstance(line, Copy) else (line.memory, line.memory)
        if isinstance(line, Allocate):
            current[line.tensor, line.memory] = begun
            begun += 1
        residency = current[line.tensor, source if target == DRAM else target]
        origin = current[line.tensor, source] if is_copy and DRAM not in (source, target) else none
        kind = f"{program.prefix}_{type(line).__name__.upper()}"
        yield _row(kind, tensors[line.tensor], residency, origin, memories[source], memories[target])


_SCHEDULE_TITLE: Final = (
    "A schedule, written by onchip: how a network uses the memories of an accelerator, and runs on its array."
)


def write_schedule_in_c(files: Sequence[Path], problem: Problem, program: Plan, history: ScheduleHistory) -> None:
    """Write the header and the source of a schedule, whose program is a plan with workspaces as tensors.

    Raises PlanError for numbers beyond 64 bits and names beyond a C string, OutputError if a file cannot be written.
    """
    named = c_program(problem, program, files[0].stem)
    stem, prefix = named.stem, named.prefix
    rows = _schedule_rows(named, history)
    declared = {
        kind: f"struct {stem}_{kind} {stem}_{kind}s[{prefix}_{count} + !{prefix}_{count}]"
        for kind, count in ((kind, "OPERATORS" if kind == "run" else f"{kind.upper()}S") for kind in rows)
    }
    counts = "\n".join(f"#define {prefix}_{kind.upper()}S {len(rows[kind])}u" for kind in rows if kind != "run")
    declarations = "\n".join(f"extern const {one};" for one in declared.values())
    types = template("schedule.h", stem=stem, prefix=prefix, declarations=declarations).rstrip("\n")
    header = header_of(named, _SCHEDULE_TITLE, (counts, types))
    source = source_of(named, files[0].name, [_table(declared[kind], rows[kind]) for kind in rows])
    write_files(*zip(files, (header.encode(), source.encode()), strict=True))


def _schedule_rows(program: CProgram, history: ScheduleHistory) -> dict[str, list[str]]:
    """Return the rows of each table of a schedule by the name of its struct."""
    rows: dict[str, list[str]] = {kind: [] for kind in ("run", "operand", "nest", "loop", "tile", "mapping")}
    tiles, schedule, kinds = history.tiles, history.schedule, f"{program.prefix}_OPERAND"
    numbers = {(one.stack, one.layer, one.homes): at for at, one in enumerate(schedule.mappings)}
    operands = {operator.name: operands_of(tiles.graph, operator) for operator in tiles.graph.operators}
    for name, homes in homes_of_computes(history.accelerator.addressed, schedule.program, operands):
        used = [
            (_operand_kind(tiles.operators[name], operand), band.name, home or DRAM)
            for operand, home in zip(operands[name], homes, strict=True)
            for band in operand.bands
        ]
        workspaces = history.compute_costs[name].workspace_bytes
        used += [("WORKSPACE", workspace_name(name, memory), memory) for memory in workspaces]
        nests = [numbers[one.stack, one.layer, one.homes] for one in history.nest_places[name]]
        first_operand, first_nest = len(rows["operand"]), len(rows["nest"])
        rows["run"].append(_row(tiles.operators[name].stack, first_operand, len(used), first_nest, len(nests)))
        rows["nest"] += map(_row, nests)
        for kind, tensor, memory in used:
            rows["operand"].append(_row(f"{kinds}_{kind}", program.tensor_ids[tensor], program.memory_ids[memory]))
    for one in schedule.mappings:
        kept = [(f"{kinds}_{operand.value.upper()}", tile) for operand in Operand for tile in one.mapping.kept(operand)]
        extents = (one.layer.bounds.values(), one.layer.stride, one.layer.dilation, one.layer.padding)
        spans = len(rows["loop"]), len(one.mapping.nest), len(rows["tile"]), len(kept)
        ragged = string("".join(one.mapping.ragged))
        rows["mapping"].append(_row(*spans, *(_row(*values) for values in extents), ragged))
        rows["loop"] += [_row(f"'{loop.dimension}'", loop.size, string(loop.along or "")) for loop in one.mapping.nest]
        rows["tile"] += [_row(kind, string(tile.memory), tile.loops) for kind, tile in kept]
    return rows


def _operand_kind(origin: TileOperator, operand: BandedOperand) -> str:
    """Return the operand's kind in the loop nests; without loop nests, its kind by role."""
    if operand.operand is Operand.OUTPUT or origin.operands is None:
        return operand.operand.upper()
    kinds = {origin.operands.weight: "WEIGHT", origin.operands.input: "INPUT"}
    return kinds.get(operand.tensor, "OTHER")
