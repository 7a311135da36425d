"""`onchip run` and `onchip time`: what a plan computes, and how long it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from onchip.commands.arguments import GREATEST_SEED, AsJson, Network, PlanFile
from onchip.commands.exit_code import code_of_check
from onchip.commands.show import show_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `onchip run` is asked."""

    plan: PlanFile
    network: Network
    random_weights: Annotated[
        int | None,
        typer.Option(min=0, max=GREATEST_SEED, metavar="SEED", help="Random parameters instead of the model's."),
    ] = None
    given: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="[NAME=]x.npy", help="A network input's value, else random; repeatable."),
    ] = None
    seed: Annotated[int, typer.Option(min=0, max=GREATEST_SEED, metavar="N", help="Seed of random inputs.")] = 0
    as_json: AsJson = False


def run_command(options: RunOptions) -> int:
    """Run PLAN.json on real bytes: every tensor, and the bytes moved, must be as they should.

    Scratchpads and DRAM are simulated. An .onnx file's operators run in onnxruntime and its outputs are compared
    with those of the whole model; a network without a model runs made-up kernels. Every tensor is compared, bit for
    bit, with a run without a plan.
    """
    from onchip.app.kernels import RunValues
    from onchip.app.plan import run_plan
    from onchip.reports.program.execution import execution_object, execution_report

    values = RunValues(options.seed, options.random_weights, tuple(options.given or ()))
    execution = run_plan(options.plan, options.network, values)
    show_tables(execution, execution_object, execution_report, as_json=options.as_json)
    return code_of_check(execution.is_right)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOptions:
    """What `onchip time` is asked."""

    plan: PlanFile
    network: Network
    accelerator: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="A bundled name or a file, with array and DRAM.")
    ]
    as_json: AsJson = False


def time_command(options: TimeOptions) -> int:
    """Time PLAN.json on an accelerator: cycles, waiting for DRAM, utilisation, energy."""
    from onchip.app.plan import time_network
    from onchip.reports.program.timing import timing_object, timing_report

    timing = time_network(options.plan, options.network, options.accelerator)
    show_tables(timing, timing_object, timing_report, as_json=options.as_json)
    return code_of_check(timing.check.is_legal)
