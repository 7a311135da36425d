"""Exports of plans and schedules in C: projects with constants and kernels, and tables; and schedules as traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onchip.answer.document import PlanDocument, Source
from onchip.answer.problem import Count, Problem
from onchip.answer.program import Allocate, Free, Instruction, Plan
from onchip.answer.schedule import WORKSPACE
from onchip.answer.words import picked, printable
from onchip.api.check_plan import check_plan, ensure_whole_model
from onchip.api.check_schedule import ScheduleFile, check_schedule_file, priced_schedule
from onchip.api.kernels import RunValues
from onchip.api.networks import network_to_plan, text_of
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.backends.c.project import CProject, StoredTensors, StoredValues, c_project
from onchip.backends.c.tables import workspace_name, write_schedule_in_c
from onchip.errors import InputError, UsageError
from onchip.formats.files import ensure_folder, make_folder, write_files
from onchip.formats.networks import read_arrays
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.exports import Export, ExportFormat, spans_of_activities, traced_activities, traced_waits
from onchip.reports.program.outcome import Check
from onchip.reports.schedule.outcome import ScheduleCheck

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from onchip.answer.document import Reading
    from onchip.backends.c.calls import KernelCall

    Arrays: TypeAlias = Mapping[str, npt.NDArray[np.generic]]
    ModelInC: TypeAlias = tuple[dict[str, tuple[KernelCall, ...]], dict[str, tuple[int, ...]], StoredValues]
    """What each operator calls, the orders of axes that differ from the file's, and the stored values."""


def project_export_object(project: CProject) -> dict[str, object]:
    """Return the sizes of a project as a JSON object."""
    sizes = picked(project, "dram_bytes", "constant_bytes")
    return {"arena_bytes": dict(project.arenas), **sizes}


def project_export_lines(project: CProject) -> list[str]:
    """Return the sizes of a project in words."""
    arenas = (f"{printable(name)} {size_bytes:,} bytes" for name, size_bytes in project.arenas.items())
    others = f"DRAM {project.dram_bytes:,}, constants {project.constant_bytes:,}"
    return [f"arenas: {', '.join(arenas) or 'none'}; {others}", "`make run` in it builds it and checks its outputs"]


_MODELS: Final = (".onnx", ".tflite")
_INFERENCES_WITH_STATE: Final = 3
"""Number of inferences that the `main` of a project with state runs before it checks the outputs."""


@phase("exporting")
def export_project(plan: Path, network: str, folder: Path, values: RunValues) -> tuple[Check, CProject | None]:
    """Verify a plan file and, if it is legal, write it as a C project with its model's constants, else return None.

    The project's `main` checks outputs that the model's own runtime makes. Raises InputError for a plan that kernels
    cannot obey, GraphError for an operator without a kernel, OutputError for a folder that cannot be written.
    """
    if not network.endswith(_MODELS):
        raise UsageError("a C project needs a model's weights", file=network, expected="an .onnx or a .tflite file")
    ensure_folder(folder)
    check = check_plan(plan, network, Target(), {})
    if not check.is_legal:
        return check, None
    reading, graph = check.document.reading, check.problem.graph
    ensure_whole_model(check, plan, "a C project", takes_tiles=True)
    if any(one.tile for one in graph.operators):
        graph = network_to_plan(network, reading)
        if graph.states:
            what = "the plan has state and tiles"
            raise InputError(what, file=str(plan), place="reading: tiles", expected="`tiles='never'`")
    of_model = _tflite_in_c if network.endswith(".tflite") else _onnx_in_c
    calls, orders, stored = of_model(Path(network), reading, graph, values, read_arrays(values.given, graph))
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
def export_schedule(file: ScheduleFile, form: str, files: tuple[Path, ...]) -> ScheduleCheck:
    """Verify a schedule file and, if it is legal, write its program for other tools: a trace, C99 or other tables.

    A workspace is a tensor `OPERATOR@workspace@MEMORY` that its operator writes and no operator reads. Times are in
    microseconds of the accelerator's clock, or in cycles without a clock. Raises InputError for a file that cannot be
    read, UsageError for a form that schedules lack.
    """
    if form == ExportFormat.TFLITE:
        raise UsageError(f"a schedule has no {form} yet", place="to", expected="trace, c or csv")
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
        history = ScheduleHistory(document.answer, check.tiles, document.accelerator, priced.costs)
        write_schedule_in_c(files, problem, program, history)
        return check
    plan = PlanDocument(document.graph, Source(document.accelerator.name), document.reading, program)
    activities, clock_mhz = priced.figures.timeline.activities, document.accelerator.clock_mhz
    spans = spans_of_activities(problem, program, traced_activities(activities, clock_mhz))
    Export(form, files, plan, problem, text_of(file.network), spans, traced_waits(activities, clock_mhz)).write()
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
