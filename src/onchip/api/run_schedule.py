"""Execution and timing of a schedule: read -> verify -> price -> run and compare with the unscheduled network."""

from __future__ import annotations

from onchip.api.check_schedule import ScheduleFile, check_schedule_file
from onchip.api.kernels import RunValues, kernels_of_schedule, network_inputs
from onchip.api.networks import Network
from onchip.api.phases import phase
from onchip.api.schedule_figures import priced_schedule
from onchip.ops.layers_of import with_elements_of
from onchip.reports.execution import ScheduleExecution, ScheduleTiming
from onchip.reports.schedule.outcome import ScheduleCheck
from onchip.search.budget.clock import Stopwatch
from onchip.transform.groups.tile_graph import with_all_parameters


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
