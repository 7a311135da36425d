"""Execution of plans and schedules on real data, and the times of a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onchip.api.check_plan import check_plan
from onchip.api.check_schedule import ScheduleFile, check_schedule_file, priced_schedule
from onchip.api.kernels import RunValues, kernels_of, kernels_of_schedule, network_inputs
from onchip.api.networks import Network, network_to_plan
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.errors import UsageError
from onchip.formats.networks import read_arrays
from onchip.ops.layers_of import with_elements_of
from onchip.reports.execution import Execution, ScheduleExecution, ScheduleTiming
from onchip.reports.program.outcome import Check
from onchip.reports.schedule.outcome import ScheduleCheck
from onchip.search.budget.clock import Stopwatch
from onchip.simulate.kernel_protocol import Bytes, NetworkKernels
from onchip.simulate.machine import MachineRun, run_in_given_order, run_plan_on_machine
from onchip.transform.groups.tile_graph import with_all_parameters


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
    inference = _Inferences(check, kernels, inputs)
    runs, apart = list[MachineRun](), list[float]()
    for _ in range(inferences):
        run, relative = inference.run(runs[-1] if runs else None)
        runs.append(run)
        apart += [] if relative is None else [relative]
        if run.difference is not None:
            break
    return Execution(check, kernels.name, tuple(runs), max(apart, default=None), watch.seconds)


def _every_state_is_kept(check: Check, plan_file: str, network: Network) -> None:
    """Raise UsageError if the two tensors of a state are split differently."""
    graph = check.problem.graph
    kept = {graph.tensor[state.old].part_of or state.old for state in graph.states}
    for state in network_to_plan(network, check.document.reading).states:
        if state.old not in kept:
            what = f"state {state.old!r} is in other bands than {state.new!r}, which is its next value"
            raise UsageError(what, file=plan_file, place="steps", expected="1, or a plan in whose tiles both fit alike")


@dataclass(slots=True)
class _Inferences:
    """The context of all inferences; `inputs` hold the state for the next one."""

    check: Check
    kernels: NetworkKernels
    inputs: dict[str, Bytes]

    def run(self, before: MachineRun | None) -> tuple[MachineRun, float | None]:
        """Run one more inference; return the run, and its relative difference from the whole model if there is one."""
        problem, plan = self.check.problem, self.check.document.answer
        reference = run_in_given_order(problem, self.kernels, self.inputs)
        left = None if before is None else before.left
        run = run_plan_on_machine(problem, plan, self.kernels, self.inputs, reference, left)
        relative = None
        if run.difference is None:
            relative = self.kernels.difference_from_whole_model(self.inputs, run.outputs)
        self.inputs |= {state.old: reference.outputs[state.new] for state in problem.graph.states}
        return run, relative


def run_schedule(file: ScheduleFile, values: RunValues) -> ScheduleExecution:
    """Verify a schedule and, if it is legal, execute its tile operators on real data.

    Every tensor is compared with a run of the tile graph without a schedule, and the outputs with the network's. Raises
    InputError for unreadable files, or values that do not fit.
    """
    return execution_of(check_schedule_file(file), file.network, values)


@phase("executing")
def execution_of(check: ScheduleCheck, source: Network, values: RunValues) -> ScheduleExecution:
    """Execute a schedule that has been checked for the network `source`; an illegal schedule is not run."""
    if check.tiles is None or not check.is_legal:
        return ScheduleExecution(check)
    from onchip.formats.networks import read_arrays
    from onchip.simulate.machine import ScheduledProgram, run_in_given_order, run_schedule_on_machine

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
def time_schedule_file(file: ScheduleFile) -> ScheduleTiming:
    """Verify a schedule and, if it is legal, return the times of each operator and Copy on its own accelerator."""
    check = check_schedule_file(file)
    if check.tiles is None or not check.is_legal:
        return ScheduleTiming(check)
    return ScheduleTiming(check, priced_schedule(check.document, check.tiles).figures)
