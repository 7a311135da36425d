"""Execution of plans and schedules on real data, and the times of a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onchip.answer.document import Reading
from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.api.check import check_plan
from onchip.api.check_request import CheckRequest
from onchip.api.check_schedule import check_schedule_file, priced_schedule
from onchip.api.networks import (
    PROGRAM_SUFFIX,
    Network,
    is_model,
    model_of,
    network_in_runtime,
    network_to_plan,
    read_network,
    text_of,
)
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.errors import AcceleratorError, DifferentShapeError, InputError, UsageError
from onchip.formats.foreign_files import load_any_accelerator
from onchip.formats.networks import read_arrays
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.model.capacity.bounds import greatest_need
from onchip.ops.layers_of import with_elements_of
from onchip.reports.execution import Execution, ScheduleExecution, ScheduleTiming, Timing
from onchip.reports.program.outcome import BaselinePlan, Check, Findings, Outcome, outcome_rows
from onchip.reports.schedule.outcome import ScheduleCheck
from onchip.search.budget.clock import Stopwatch
from onchip.simulate.kernel_protocol import Bytes, NetworkKernels
from onchip.simulate.machine import (
    MachineRun,
    ScheduledProgram,
    run_in_given_order,
    run_plan_on_machine,
    run_schedule_on_machine,
)
from onchip.transform.groups.tile_graph import with_all_parameters
from onchip.transform.rewrite.key_slices import with_key_slices
from onchip.transform.slices.bands import untiled

if TYPE_CHECKING:
    import numpy.typing as npt

    from onchip.model.timeline.plan_timeline import Timeline


@phase("executing")
def run_plan(plan_file: Path, network: Network, values: RunValues, inferences: int = 1) -> Execution:
    """Verify a plan and, if it is legal, execute it on real data and compare with a run without a plan.

    Every inference has the same inputs except for the state left by the preceding one. The run ends at the first
    inference that differs. Raises InputError for unreadable files, UsageError for values that the network rejects, and
    for several inferences of a plan whose tiles lose a state.
    """
    check = check_plan(plan_file, network, Target(), {})
    if not check.is_legal:
        return Execution(check)
    if inferences > 1:
        _every_state_is_kept(check, str(plan_file), network)
    watch = Stopwatch()
    kernels = kernels_of(network, check.document.reading, check.problem.graph, values)
    inputs = network_inputs(check.problem.graph, kernels, read_arrays(values.given, check.problem.graph))
    problem, runs, apart = check.problem, list[MachineRun](), list[float]()
    for _ in range(inferences):
        reference = run_in_given_order(problem, kernels, inputs)
        left = runs[-1].left if runs else None
        runs.append(run_plan_on_machine(problem, check.document.answer, kernels, inputs, reference, left))
        if runs[-1].difference is not None:
            break
        relative = kernels.difference_from_whole_model(inputs, runs[-1].outputs)
        apart += [] if relative is None else [relative]
        inputs |= {state.old: reference.outputs[state.new] for state in problem.graph.states}
    return Execution(check, kernels.name, tuple(runs), max(apart, default=None), watch.seconds)


def _every_state_is_kept(check: Check, plan_file: str, network: Network) -> None:
    """Raise UsageError if the two tensors of a state are split differently."""
    graph = check.problem.graph
    kept = {graph.tensor[state.old].part_of or state.old for state in graph.states}
    for state in network_to_plan(network, check.document.reading).states:
        if state.old not in kept:
            what = f"state {state.old!r} is in other bands than {state.new!r}, which is its next value"
            raise UsageError(what, file=plan_file, place="steps", expected="1, or a plan in whose tiles both fit alike")


def run_schedule(request: CheckRequest, values: RunValues) -> ScheduleExecution:
    """Verify a schedule and, if it is legal, execute its tile operators on real data.

    Every tensor is compared with a run of the tile graph without a schedule, and the outputs with the network's. Raises
    InputError for unreadable files, or values that do not fit.
    """
    return execution_of(check_schedule_file(request), request.graph_source, values)


@phase("executing")
def execution_of(check: ScheduleCheck, source: Network, values: RunValues) -> ScheduleExecution:
    """Execute a schedule that has been checked for the network `source`; an illegal schedule is not run."""
    if check.tiles is None or not check.is_legal:
        return ScheduleExecution(check)
    watch = Stopwatch()
    priced = priced_schedule(check.document, check.tiles)
    whole = with_elements_of(check.network, check.document.reading.bits)
    executed = with_all_parameters(check.tiles, whole)
    workspaces = {name: cost.workspace_bytes for name, cost in priced.costs.items()}
    scheduled = ScheduledProgram(check.document.answer.program, check.tiles.graph, executed, workspaces)
    kernels = kernels_of_schedule(source, check.document.reading, executed, whole, values)
    inputs = network_inputs(executed, kernels, read_arrays(values.given, executed))
    reference = run_in_given_order(scheduled.problem, kernels, inputs)
    run = run_schedule_on_machine(scheduled, kernels, inputs, reference)
    relative = kernels.difference_from_whole_model(inputs, run.outputs) if run.difference is None else None
    return ScheduleExecution(check, kernels.name, run, priced.figures.traffic, relative, watch.seconds)


@phase("timing")
def time_schedule_file(request: CheckRequest) -> ScheduleTiming:
    """Verify a schedule and, if it is legal, return the times of each operator and Copy on its own accelerator."""
    check = check_schedule_file(request)
    if check.tiles is None or not check.is_legal:
        return ScheduleTiming(check)
    return ScheduleTiming(check, priced_schedule(check.document, check.tiles).figures)


@dataclass(frozen=True, slots=True)
class RunValues:
    """The data of a run: random inputs of `seed`, `given` inputs ([NAME=]FILE.npy), and own or random weights."""

    seed: int = 0
    random_weights: int | None = None
    given: tuple[str, ...] = ()


def kernels_of(network: Network, reading: Reading, graph: Graph, values: RunValues) -> NetworkKernels:
    """Return the kernels for `graph`, the network as read, tiled or not; raises UsageError for unsuitable options."""
    whole = network_to_plan(network, reading)
    if reading.cap_tensors:
        whole = graph
    model, model_reading = model_of(network) or ("", None)
    if model_reading is not None and _has_its_own_bits(network, reading, whole):
        return _runtime_kernels(model, model_reading, graph, network_to_plan(model, model_reading), values)
    if model and model_reading is None:
        return _model_kernels(network, reading, graph, whole, values)
    if text_of(network).endswith(PROGRAM_SUFFIX) and graph == whole and _has_its_own_bits(network, reading, whole):
        return _program_kernels(network, reading, graph, values)
    if values.random_weights is not None:
        raise UsageError(
            "the network has no weights to replace", file=text_of(network), place="random_weights", expected="`seed`"
        )
    untiled_network = untiled(whole) or (None if graph == whole else whole)
    if untiled_network is None:
        from onchip.simulate.kernel_protocol import SeededKernels

        return SeededKernels(graph, values.seed)
    from onchip.simulate.arithmetic_kernels import ArithmeticKernels

    return ArithmeticKernels(graph, values.seed, untiled_network)


def _model_kernels(network: Network, reading: Reading, graph: Graph, whole: Graph, values: RunValues) -> NetworkKernels:
    if reading.cap_tensors:
        raise UsageError(
            "the plan caps tensors", file=text_of(network), place="reading.cap_tensors", expected="`tiles='auto'`"
        )
    if not _has_its_own_bits(network, reading, whole):
        raise UsageError(
            f"the plan counts elements at {reading.bits} bits",
            file=text_of(network),
            place="reading.bits",
            expected="the model's own: plan without `bits` to run it",
        )
    return _runtime_kernels(network, reading, graph, whole, values)


def _has_its_own_bits(network: Network, reading: Reading, whole: Graph) -> bool:
    return reading.bits is None or whole == network_to_plan(network, replace(reading, bits=None))


def _program_kernels(network: Network, reading: Reading, graph: Graph, values: RunValues) -> NetworkKernels:
    """Return kernels that run an exported program's whole operators in torch."""
    from onchip.simulate.kernels.torch_kernels import TorchKernels

    if values.random_weights is not None:
        what = "an exported program runs on its own weights"
        raise UsageError(what, file=text_of(network), place="random_weights", expected="`seed`")
    return TorchKernels(graph, Path(text_of(network)), reading.bindings, seed=values.seed)


def _runtime_kernels(
    network: Network, reading: Reading, graph: Graph, whole: Graph, values: RunValues
) -> NetworkKernels:
    """Return kernels that run a model's operators in its runtime, in tiles if `graph` is not `whole`."""
    path, seed = Path(text_of(network)), values.seed
    if text_of(network).endswith(".tflite"):
        from onchip.simulate.kernels.tflite_kernels import TfliteKernels, TfliteTileKernels

        if values.random_weights is not None:
            what = "a TFLite model runs on its own weights"
            raise UsageError(what, file=text_of(network), place="random_weights", expected="`seed`")
        if reading.runtime is not None:
            if len(whole.with_role(Role.INPUT)) > 1 or len(whole.with_role(Role.OUTPUT)) > 1:
                what = f"{reading.runtime} has all inputs and outputs at once"
                raise UsageError(what, file=str(path), expected="a plan of one input and one output, or for no runtime")
            return TfliteKernels(graph, path, seed=seed, read=network_in_runtime(network, reading).read)
        own = TfliteKernels(whole, path, reading.bindings.shapes, seed=seed)
        return own if graph == whole else TfliteTileKernels(graph, whole, own)
    from onchip.simulate.kernels.onnx_kernels import OnnxKernels, OnnxTileKernels

    kernels = OnnxKernels(whole, path, reading.bindings, seed=seed, random_weights=values.random_weights)
    return kernels if graph == whole else OnnxTileKernels(graph, whole, kernels)


def kernels_of_schedule(
    network: Network, reading: Reading, graph: Graph, whole: Graph, values: RunValues
) -> NetworkKernels:
    """Return the kernels for `graph`, the tile graph of `whole`, which is `network` as read.

    A model's own nodes run if elements have the model's bits, otherwise integer kernels of that width. Raises
    UsageError for random weights if there are none to replace, and DifferentShapeError if the model's runtime gives
    tensors other shapes.
    """
    own = with_key_slices(read_network(network, replace(reading, bits=None)), reading.key_slices)
    has_kernels = is_model(network) and (reading.key_slices == 1 or text_of(network).endswith(".onnx"))
    if has_kernels and whole == own:
        return _runtime_kernels(network, reading, graph, whole, values)
    if values.random_weights is not None:
        what = f"the network runs at {reading.bits} bits an element, without the model's weights"
        raise UsageError(what, file=text_of(network), place="random_weights", expected="`seed`")
    if is_model(network):
        _ensure_shapes_of_runtime(network, replace(reading, bits=None), values.seed)
    from onchip.simulate.arithmetic_kernels import ArithmeticKernels

    return ArithmeticKernels(graph, values.seed, whole)


def _ensure_shapes_of_runtime(network: Network, reading: Reading, seed: int) -> None:
    """Raise DifferentShapeError if the model's runtime gives a tensor another shape.

    Synthetic kernels accept any shape.

    Returns silently if the runtime is not installed, or rejects the model.
    """
    from onchip.simulate.machine import run_in_given_order

    graph = read_network(network, reading)
    problem = Problem(graph, (Memory("unused", 1),))
    try:
        kernels = _runtime_kernels(network, reading, graph, graph, RunValues(seed))
        run_in_given_order(problem, kernels, network_inputs(graph, kernels, {}))
    except DifferentShapeError:
        raise
    except InputError:
        return


def network_inputs(
    graph: Graph, kernels: NetworkKernels, given: Mapping[str, npt.NDArray[np.generic]]
) -> dict[str, Bytes]:
    """Return the bytes of each network input or tile of one: given by the input's name, or synthetic."""
    inputs = {}
    for tensor in graph.with_role(Role.INPUT):
        name = tensor.part_of or tensor.name
        inputs[tensor.name] = (
            kernels.given_input(tensor, given[name]) if name in given else kernels.network_input(tensor)
        )
    return inputs


@phase("timing")
def time_network(plan_file: Path, network: Network, accelerator: str | Accelerator, cost: str | None = None) -> Timing:
    """Verify a plan and, if it is legal, time each operator and transfer; `cost` is as for `timeline_of`."""
    chip = load_any_accelerator(accelerator)
    check = check_plan(plan_file, network, Target(), {})
    if not check.is_legal:
        return Timing(check, chip)
    with Target(accelerator=accelerator).named_in_errors():
        return Timing(check, chip, timeline_of(check.problem, check.document.answer, chip, cost))


@phase("timing")
def timeline_of(problem: Problem, plan: Plan, chip: Accelerator, cost: str | None = None) -> Timeline:
    """Time a legal plan by the named cost model; without a name, by the plan's own cycles, or by its MACs.

    Raises AcceleratorError if the accelerator, and UsageError if `cost`, lacks information.
    """
    from onchip.model.timeline.mac_count import MacCount, cycles_of_plan
    from onchip.model.timeline.plan_timeline import time_plan

    cycles = cycles_of_plan(problem, chip, cost)
    macs = MacCount(problem.graph).macs if chip.array else lambda _: 0  # the operators state their cycles
    return time_plan(problem, plan, chip, cycles, macs)


@phase("timing")
def own_timeline(problem: Problem, plan: Plan) -> Timeline | None:
    """Time a legal plan by its own durations; None if it has none."""
    from onchip.model.timeline.plan_timeline import stated_timeline

    return None if problem.durations is None else stated_timeline(problem, plan)


def findings_of(
    check: Check, typed: str, chip: Accelerator | None = None, baselines: tuple[BaselinePlan, ...] = ()
) -> Findings:
    """Return the report content of a legal plan, timed on `chip`, otherwise by its own cycles if it states them.

    `typed` is the command that requested the report.
    """
    problem, document = check.problem, check.document
    plan = document.answer
    timed = own_timeline(problem, plan) if chip is None else timeline_of(problem, plan, chip)
    need = greatest_need(problem)
    return Findings(problem, document, check.verdict.figures, need, typed, baselines=baselines, timeline=timed)


def page_of_plan(outcome: Outcome, accelerator: str | Accelerator | None, typed: str) -> str:
    """Return the HTML page of a plan just found; raises ValueError if there is none."""
    from onchip.reports.program.html import report_html

    if outcome.document is None or outcome.figures is None:
        raise ValueError("there is no plan to report on")
    plan = outcome.document.answer
    timed = own_timeline(outcome.problem, plan)
    why = "the scratchpad was given alone, with neither array nor DRAM (`onchip report --accelerator`)"
    if timed is None and accelerator is not None:
        try:
            timed = timeline_of(outcome.problem, plan, load_any_accelerator(accelerator))
        except AcceleratorError as error:
            why = str(error)
    asked = outcome.problem, outcome.document, outcome.figures, outcome.required, typed, outcome_rows(outcome)
    return report_html(Findings(*asked, timeline=timed, no_timeline=why))
