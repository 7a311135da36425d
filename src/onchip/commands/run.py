"""`onchip run` and `onchip time`: execute or time a plan or a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from onchip.commands.answer_files import format_accepted_by
from onchip.commands.arguments import GREATEST_SEED, AsJson, CostOfPlan, Network, PlanOrScheduleFile, accelerator_option
from onchip.commands.exit_code import code_of_check
from onchip.commands.show import show_tables
from onchip.errors import UsageError
from onchip.formats.files import AnswerFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Arguments and options of `onchip run`."""

    file: PlanOrScheduleFile
    network: Network
    random_weights: Annotated[
        int | None,
        typer.Option(min=0, max=GREATEST_SEED, metavar="SEED", help="Random parameters instead of the model's."),
    ] = None
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="[NAME=]x.npy", help="Value of a network input, by default random; repeatable."
        ),
    ] = None
    seed: Annotated[int, typer.Option(min=0, max=GREATEST_SEED, metavar="N", help="Seed of random inputs.")] = 0
    steps: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of inferences of a plan; each continues with the state of the previous one.",
        ),
    ] = 1
    as_json: AsJson = False


def run_command(options: RunOptions) -> int:
    """Run a plan or a schedule on real data, and check it.

    Every tensor and the number of bytes moved are checked. Scratchpads and DRAM are simulated. An .onnx file's
    operators run in onnxruntime, a .tflite file's in ai-edge-litert, a .pt2 file's in torch, and the outputs are
    compared with those of the whole model. A network without a model runs synthetic kernels. Every tensor is compared,
    bit for bit, with a run without a plan. A schedule runs tile by tile, and its outputs are compared with those of the
    whole network; a model runs in its runtime if the schedule keeps the bits of its elements.
    """
    from onchip.api.kernels import RunValues

    values = RunValues(options.seed, options.random_weights, tuple(options.given or ()))
    from onchip.reports.execution import Execution, ScheduleExecution, execution_object, execution_tables

    if format_accepted_by("run", options.file) is AnswerFormat.SCHEDULE:
        from onchip.api.check_schedule import ScheduleFile
        from onchip.api.run import run_schedule

        if options.steps > 1:
            raise UsageError("more than one inference works for plans only", place="--steps", expected="1, or a plan")
        found: Execution | ScheduleExecution = run_schedule(ScheduleFile(options.file, options.network), values)
    else:
        from onchip.api.run import run_plan

        found = run_plan(options.file, options.network, values, options.steps)
    show_tables(found, execution_object, execution_tables, as_json=options.as_json)
    return code_of_check(found.is_right)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOptions:
    """Arguments and options of `onchip time`."""

    file: PlanOrScheduleFile
    network: Network
    accelerator: Annotated[
        str | None,
        accelerator_option(
            "Accelerator of a plan, with array and DRAM: a bundled name or a file. Schedules contain theirs."
        ),
    ] = None
    cost: CostOfPlan = None
    as_json: AsJson = False


def time_command(options: TimeOptions) -> int:
    """Time a plan or a schedule: cycles, stalls and energy.

    A plan has no mappings: an operator takes its multiply-accumulates divided by the array size, or the cycles that a
    plan of minimum latency states. Transfers within the array and its own memories are not counted. For a schedule
    everything is counted.
    """
    from onchip.reports.execution import ScheduleTiming, Timing, timing_object, timing_tables

    if format_accepted_by("time", options.file) is AnswerFormat.SCHEDULE:
        from onchip.api.check_schedule import ScheduleFile
        from onchip.api.run import time_schedule_file

        file = ScheduleFile(options.file, options.network, options.accelerator)
        found: Timing | ScheduleTiming = time_schedule_file(file)
    else:
        from onchip.api.time_plan import time_network

        if options.accelerator is None:
            what = "time needs an accelerator for a plan"
            raise UsageError(what, place="--accelerator", expected="a name that `onchip accelerators` lists, or a file")
        found = time_network(options.file, options.network, options.accelerator, options.cost)
    show_tables(found, timing_object, timing_tables, as_json=options.as_json)
    return code_of_check(found.check.is_legal)
