"""A plan written as a C project: arenas of its sizes, constants, kernels, and its instructions as calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onchip.answer.problem import Count
from onchip.answer.recomputation import Recompute
from onchip.api.check_plan import check_plan
from onchip.api.kernels import RunValues
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.backends.c.project.project import CProject, StoredValues, c_project
from onchip.errors import InputError, UsageError
from onchip.formats.files import ensure_folder, make_folder, write_files
from onchip.formats.networks import read_arrays
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.reports.program.outcome import Check

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from onchip.answer.document import Reading
    from onchip.backends.c.project.calls import KernelCall

_MODELS: Final = (".onnx", ".tflite")
_INFERENCES_WITH_STATE: Final = 3
"""What a project's main checks of a network that keeps state: the last of so many."""


@dataclass(frozen=True, slots=True)
class ProjectExport:
    """The plan as it was checked, and what was written; None where it is not legal."""

    check: Check
    project: CProject | None


@phase("exporting")
def export_project(plan: Path, network: str, folder: Path, values: RunValues) -> ProjectExport:
    """Verify a plan file and, if it is legal, write it as a C project with its model's constants.

    The project's `main` checks outputs that the model's own runtime makes. Raises InputError for a plan that kernels
    cannot obey, GraphError for an operator without a kernel, OutputError for a folder that cannot be written.
    """
    if not network.endswith(_MODELS):
        raise UsageError("a C project needs a model's weights", file=network, expected="an .onnx or a .tflite file")
    ensure_folder(folder)
    check = check_plan(plan, network, Target(), {})
    if not check.is_legal:
        return ProjectExport(check, None)
    graph, reading = check.problem.graph, check.document.reading
    _ensure_whole(check, plan)
    given = read_arrays(values.given, graph)
    calls, stored = _in_c(network, reading, graph, values, given)
    try:
        project = c_project(check.problem, check.document.answer, calls, stored)
    except InputError as error:
        raise error if error.file else error.in_file(str(plan)) from None
    _write(folder, project)
    return ProjectExport(check, project)


def _ensure_whole(check: Check, plan: Path) -> None:
    """Raise InputError for a plan of what the model's operators are not."""
    reading, graph = check.document.reading, check.problem.graph
    refusals = (
        ("bits", reading.bits is not None, "a plan of the model's own bits"),
        (
            "count",
            reading.count is not Count.ACTIVATIONS,
            "a plan of --count activations: constants stay where they are",
        ),
        ("recompute", reading.recompute is Recompute.ALLOWED, "a plan in which operators run once"),
        ("split", reading.cap_tensors or any(one.tile for one in graph.operators), "a plan of whole operators"),
    )
    for place, is_refused, expected in refusals:
        if is_refused:
            what = f"a C project cannot obey its {place}"
            raise InputError(what, file=str(plan), place=f"reading: {place}", expected=expected)


def _in_c(
    network: str, reading: Reading, graph: Graph, values: RunValues, given: Mapping[str, npt.NDArray[np.generic]]
) -> tuple[dict[str, tuple[KernelCall, ...]], StoredValues]:
    """Return what operators call, and the values that main checks."""
    if network.endswith(".tflite"):
        return _tflite_in_c(network, reading, graph, values, given)
    from onchip.backends.c.onnx.calls import onnx_calls
    from onchip.simulate.kernels.onnx_kernels import OnnxKernels

    path = Path(network)
    kernels = OnnxKernels(graph, path, reading.bindings, seed=values.seed, random_weights=values.random_weights)
    if graph.states:
        what = f"{graph.states[0].old!r} is state, which is checked for TFLite models alone"
        raise UsageError(what, file=network, expected="a plan of a network without state")
    calls = onnx_calls(graph, kernels, path)
    inputs = {
        tensor.name: kernels.given_input(tensor, given[tensor.name])
        if tensor.name in given
        else kernels.network_input(tensor)
        for tensor in graph.with_role(Role.INPUT)
    }
    outputs = kernels.whole_model_outputs(inputs)
    known = {name: tensor.name for tensor in graph.with_role(Role.OUTPUT) for name in (tensor.name, *tensor.aliases)}
    typed = {name: content.view(kernels.values.type_of(name)[0]) for name, content in inputs.items()}
    found: dict[str, npt.NDArray[Any]] = {known[name]: array for name, array in outputs.items() if name in known}
    return calls, StoredValues(typed, found)


def _tflite_in_c(
    network: str, reading: Reading, graph: Graph, values: RunValues, given: Mapping[str, npt.NDArray[np.generic]]
) -> tuple[dict[str, tuple[KernelCall, ...]], StoredValues]:
    from onchip.backends.c.tflite.calls import tflite_calls
    from onchip.backends.c.tflite.model import LiteModel

    if values.random_weights is not None:
        what = "a TFLite model runs on its own weights"
        raise UsageError(what, file=network, place="--random-weights", expected="--seed")
    model = LiteModel.of_file(Path(network), reading.bindings.shapes)
    calls = tflite_calls(graph, model, Path(network))
    inputs = model.inputs(graph, values.seed, given)
    inferences = _INFERENCES_WITH_STATE if graph.states else 1
    return calls, StoredValues(inputs, model.outputs(graph, inputs, inferences), inferences)


def _write(folder: Path, project: CProject) -> None:
    """Write all files; raises OutputError where the folder cannot be made."""
    for name in ("", "kernels", "constants"):
        make_folder(folder / name)
    write_files(*((folder / name, text.encode()) for name, text in project.files.items()))
