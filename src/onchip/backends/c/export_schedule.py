"""A schedule as other tools see it: its program over the network in tiles, with workspaces as tensors, in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from onchip.answer.document import PlanDocument, Source
from onchip.answer.problem import Count, Problem
from onchip.answer.program import Allocate, Free, Instruction, Plan
from onchip.answer.schedule import WORKSPACE
from onchip.api.check_schedule import ScheduleFile, check_schedule_file
from onchip.api.phases import phase
from onchip.api.schedule_figures import priced_schedule
from onchip.arch.memory import DRAM, Operand
from onchip.backends.c.program import c_program
from onchip.backends.c.schedule import CSchedule, OperandKind, OperatorRun, TensorInUse
from onchip.errors import UsageError
from onchip.formats.files import write_files
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.homes import homes_of_computes
from onchip.ops.derive.banded_operands import BandedOperand, operands_of
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.exports import Export, ExportFormat
from onchip.reports.schedule.check import ScheduleCheck
from onchip.reports.trace.spans import spans_of_activities
from onchip.reports.trace.traced import traced_activities, traced_waits
from onchip.transform.groups.tile_graph import TileOperator


@phase("exporting")
def export_schedule(file: ScheduleFile, form: str, files: tuple[Path, ...]) -> ScheduleCheck:
    """Verify a schedule file and, if it is legal, write its program for other tools: a trace, C99 or other tables.

    A workspace is a tensor `OPERATOR@workspace@MEMORY` that its operator writes and nobody reads. Times are in
    microseconds of the accelerator's clock, or cycles where it has none. Raises InputError for what cannot be read,
    UsageError for a form that schedules do not have.
    """
    if form in (ExportFormat.ONNX, ExportFormat.TFLITE):
        raise UsageError(f"a schedule has no {form} yet", place="--to", expected="trace, c or csv")
    check = check_schedule_file(file)
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
        _write_c(
            files, problem, program, ScheduleHistory(document.answer, check.tiles, document.accelerator, priced.costs)
        )
        return check
    plan = PlanDocument(document.graph, Source(document.accelerator.name), document.reading, program)
    activities, clock_mhz = priced.figures.timeline.activities, document.accelerator.clock_mhz
    spans = spans_of_activities(problem, program, traced_activities(activities, clock_mhz))
    Export(form, files, plan, problem, file.network, spans, traced_waits(activities, clock_mhz)).write()
    return check


def _write_c(files: tuple[Path, ...], problem: Problem, program: Plan, history: ScheduleHistory) -> None:
    header = files[0]
    numbers = {(one.stack, one.layer, one.homes): number for number, one in enumerate(history.schedule.mappings)}
    runs = []
    for name, tensors in _tensors_in_use(history):
        mappings = tuple(numbers[nest.stack, nest.layer, nest.homes] for nest in history.nest_places[name])
        runs.append(OperatorRun(history.tiles.operators[name].stack, tensors, mappings))
    tables = CSchedule(c_program(problem, program, header.stem), tuple(runs), history.schedule.mappings)
    contents = tables.header().encode(), tables.source(header.name).encode()
    write_files(*zip(files, contents, strict=True))


def _tensors_in_use(history: ScheduleHistory) -> Iterator[tuple[str, tuple[TensorInUse, ...]]]:
    """Of each operator of the program all that it reads and writes, and its workspaces."""
    graph, levels = history.tiles.graph, history.accelerator.addressed
    operands = {operator.name: operands_of(graph, operator) for operator in graph.operators}
    for name, homes in homes_of_computes(levels, history.schedule.program, operands):
        found = [
            TensorInUse(_kind(history.tiles.operators[name], operand), band.name, home or DRAM)
            for operand, home in zip(operands[name], homes, strict=True)
            for band in operand.bands
        ]
        found += [
            TensorInUse(OperandKind.WORKSPACE, _name_of(name + WORKSPACE, memory), memory)
            for memory in history.compute_costs[name].workspace_bytes
        ]
        yield name, tuple(found)


def _kind(origin: TileOperator, operand: BandedOperand) -> OperandKind:
    """What an operand is to the loop nests; without any, what it is by its role."""
    if operand.operand is Operand.OUTPUT or origin.operands is None:
        return OperandKind(operand.operand)
    kinds = {origin.operands.weight: OperandKind.WEIGHT, origin.operands.input: OperandKind.INPUT}
    return kinds.get(operand.tensor, OperandKind.OTHER)


def _name_of(workspace: str, memory: str) -> str:
    return f"{workspace}@{memory}"


def _of_one_memory(instruction: Instruction) -> Instruction:
    """In each memory a workspace has a size of its own: there it is a tensor of its own."""
    match instruction:
        case Allocate(name, memory, _) | Free(name, memory) if name.endswith(WORKSPACE):
            return replace(instruction, tensor=_name_of(name, memory))
    return instruction


def _with_workspaces(graph: Graph, workspaces: Mapping[str, Mapping[str, int]]) -> Graph:
    tensors: list[Tensor] = []
    operators: list[Operator] = []
    for operator in graph.operators:
        own = workspaces[operator.name]
        found = [Tensor(_name_of(operator.name + WORKSPACE, memory), own[memory], Role.ACTIVATION) for memory in own]
        tensors += found
        outputs = (*operator.outputs, *(tensor.name for tensor in found))
        operators.append(replace(operator, outputs=outputs))
    return Graph(graph.name, (*graph.tensors, *tensors), tuple(operators))
