"""Exports of plans and schedules in C: projects with constants and kernels, and tables; and schedules as traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onchip.answer.document import PlanDocument, Source
from onchip.answer.problem import Count, Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan, residencies_of
from onchip.answer.schedule import WORKSPACE
from onchip.answer.words import picked, printable
from onchip.api.check import Check, Checked, check_plan, ensure_whole_model
from onchip.api.check_request import CheckRequest
from onchip.api.check_schedule import check_schedule_file, priced_schedule
from onchip.api.networks import model_of, network_to_plan, text_of
from onchip.api.phases import phase
from onchip.api.run import RunValues
from onchip.api.target import Target
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.backends.c.calls import fits_in_32_bits, identifier, number, string, template, unique_identifiers
from onchip.backends.c.project import CProject, StoredTensors, StoredValues, c_project
from onchip.errors import InputError, UsageError
from onchip.formats.files import ensure_folder, make_folder, write_files
from onchip.formats.networks import read_arrays
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.figures import homes_of_computes
from onchip.ops.nests import BandedOperand, operands_of
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.exports import Export, ExportFormat, timed_spans, traced_waits
from onchip.transform.groups.tile_graph import TileOperator

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from onchip.answer.document import Reading
    from onchip.backends.c.calls import KernelCall

    Arrays: TypeAlias = Mapping[str, npt.NDArray[np.generic]]
    ModelInC: TypeAlias = tuple[dict[str, tuple[KernelCall, ...]], dict[str, tuple[int, ...]], StoredValues]
    """What each operator calls, the orders of axes that differ from the file's, and the stored values."""


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


def project_export_object(project: CProject) -> dict[str, object]:
    """Return the sizes of a project as a JSON object."""
    sizes = picked(project, "dram_bytes", "constant_bytes")
    return {"arena_bytes": dict(project.arenas), **sizes}


def project_export_lines(project: CProject) -> list[str]:
    """Return the sizes of a project in words."""
    arenas = (f"{printable(name)} {size_bytes:,} bytes" for name, size_bytes in project.arenas.items())
    others = f"DRAM {project.dram_bytes:,}, constants {project.constant_bytes:,}"
    return [f"arenas: {', '.join(arenas) or 'none'}; {others}", "`make run` in it builds it and checks its outputs"]


_INFERENCES_WITH_STATE: Final = 3
"""Number of inferences that the `main` of a project with state runs before it checks the outputs."""


@phase("exporting")
def export_project(plan: Path, network: str, folder: Path, values: RunValues) -> tuple[Check, CProject | None]:
    """Verify a plan file and, if it is legal, write it as a C project with its model's constants, else return None.

    The project's `main` checks outputs that the model's own runtime makes. Raises InputError for a plan that kernels
    cannot obey, GraphError for an operator without a kernel, OutputError for a folder that cannot be written.
    """
    found = model_of(network)
    if found is None:
        expected = "an .onnx or a .tflite file, or a graph in tiles of one"
        raise UsageError("a C project needs a model's weights", file=network, expected=expected)
    ensure_folder(folder)
    check = check_plan(plan, network, Target(), {})
    if not check.is_legal:
        return check, None
    graph, model, reading = check.problem.graph, found[0], found[1] or check.document.reading
    ensure_whole_model(check, plan, "a C project", takes_tiles=True)
    if check.document.reading.runtime is not None:
        what = f"its operators are those of {check.document.reading.runtime}"
        raise InputError(what, file=str(plan), place="reading: runtime", expected="a plan for no runtime")
    if any(one.tile for one in graph.operators):
        graph = network_to_plan(model, reading)
        if graph.states:
            what = "the plan has state and tiles"
            raise InputError(what, file=str(plan), place="reading: tiles", expected="`tiles='never'`")
    of_model = _tflite_in_c if model.endswith(".tflite") else _onnx_in_c
    calls, orders, stored = of_model(Path(model), reading, graph, values, read_arrays(values.given, graph))
    try:
        project = c_project(check.problem, check.document.answer, StoredTensors(graph, orders), calls, stored)
    except InputError as error:
        raise error if error.file else error.in_file(str(plan)) from None
    _write(folder, project)
    return check, project


def _onnx_in_c(network: Path, reading: Reading, graph: Graph, values: RunValues, given: Arrays) -> ModelInC:
    from onchip.backends.c.onnx_calls import onnx_calls
    from onchip.simulate.kernels.onnx_kernels import OnnxKernels

    kernels = OnnxKernels(graph, network, reading.bindings, seed=values.seed, random_weights=values.random_weights)
    if graph.states:
        what = f"{graph.states[0].old!r} is state, which is checked for TFLite models alone"
        raise UsageError(what, file=str(network), expected="a plan of a network without state")
    calls = onnx_calls(graph, kernels, network)
    inputs = {
        one.name: kernels.given_input(one, given[one.name]) if one.name in given else kernels.network_input(one)
        for one in graph.with_role(Role.INPUT)
    }
    known = {name: tensor.name for tensor in graph.with_role(Role.OUTPUT) for name in (tensor.name, *tensor.aliases)}
    outputs = kernels.whole_model_outputs(inputs).items()
    found: dict[str, npt.NDArray[Any]] = {known[name]: array for name, array in outputs if name in known}
    typed = {name: content.view(kernels.values.type_of(name)[0]) for name, content in inputs.items()}
    return calls, {}, StoredValues(typed, found)


def _tflite_in_c(network: Path, reading: Reading, graph: Graph, values: RunValues, given: Arrays) -> ModelInC:
    from onchip.backends.c.tflite_calls import tflite_calls
    from onchip.backends.c.tflite_model import LiteModel
    from onchip.simulate.kernels.tflite_kernels import TfliteKernels

    if values.random_weights is not None:
        what = "a TFLite model runs on its own weights"
        raise UsageError(what, file=str(network), place="random_weights", expected="`seed`")
    model = LiteModel(TfliteKernels(graph, network, reading.bindings.shapes, seed=values.seed))
    calls = tflite_calls(graph, model, network)
    inputs = model.inputs(graph, given)
    inferences = _INFERENCES_WITH_STATE if graph.states else 1
    orders = {name: tuple(model.read.presented[name].order) for name in graph.tensor if name in model.read.presented}
    return calls, orders, StoredValues(inputs, model.outputs(graph, inputs, inferences), inferences)


def _write(folder: Path, project: CProject) -> None:
    for name in ("", "kernels", "constants"):
        make_folder(folder / name)
    write_files(*((folder / name, text.encode()) for name, text in project.files.items()))


@phase("exporting")
def export_schedule(request: CheckRequest, form: str, files: tuple[Path, ...]) -> Checked:
    """Verify a schedule file and, if it is legal, write its program for other tools: a trace, C99 or other tables.

    A workspace is a tensor `OPERATOR@workspace@MEMORY` that its operator writes and no operator reads. Times are in
    microseconds of the accelerator's clock, or in cycles without a clock. Raises InputError for a file that cannot be
    read, UsageError for a form that schedules lack.
    """
    if form == ExportFormat.TFLITE:
        raise UsageError(f"a schedule has no {form} yet", place="to", expected="trace, c or csv")
    check = check_schedule_file(request)
    if check.tiles is None or not check.is_legal:
        return check
    document = check.document
    priced = priced_schedule(document, check.tiles)
    workspaces = {name: cost.workspace_bytes for name, cost in priced.costs.items()}
    graph = _with_workspaces(check.tiles.graph, workspaces)
    own = document.answer.program
    program = Plan(own.memories, tuple(map(_of_one_memory, own.instructions)))
    problem = Problem(graph, program.memories, count=Count.ALL)
    if form == ExportFormat.C:
        history = ScheduleHistory(document.answer, check.tiles, document.accelerator, priced.costs)
        write_schedule_in_c(files, problem, program, history)
        return check
    plan = PlanDocument(document.graph, Source(document.accelerator.name), document.reading, program)
    timeline, clock_mhz = priced.figures.timeline, document.accelerator.clock_mhz
    spans = timed_spans(program, timeline.activities, timeline.places, clock_mhz)
    waits = traced_waits(timeline.activities, clock_mhz)
    Export(form, files, plan, problem, text_of(request.graph_source), spans, waits).write()
    return check


def _of_one_memory(instruction: Instruction) -> Instruction:
    """Rename a workspace to a tensor of its own in each memory, as its size differs between memories."""
    match instruction:
        case Allocate(name, memory, _) | Free(name, memory) if name.endswith(WORKSPACE):
            return replace(instruction, tensor=workspace_name(name.removesuffix(WORKSPACE), memory))
    return instruction


def _with_workspaces(graph: Graph, workspaces: Mapping[str, Mapping[str, int]]) -> Graph:
    tensors: list[Tensor] = []
    operators: list[Operator] = []
    for operator in graph.operators:
        own = workspaces[operator.name]
        found = [Tensor(workspace_name(operator.name, memory), own[memory], Role.ACTIVATION) for memory in own]
        tensors += found
        outputs = (*operator.outputs, *(tensor.name for tensor in found))
        operators.append(replace(operator, outputs=outputs))
    return Graph(graph.name, (*graph.tensors, *tensors), tuple(operators))
