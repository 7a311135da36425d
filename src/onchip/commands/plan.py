"""`onchip plan`: order, addresses and spills."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.document import Granularity, Reading, Split
from onchip.answer.problem import Count, Objective, Order, Placement
from onchip.commands.arguments import (
    AcceleratorName,
    Alignment,
    AsJson,
    Bits,
    Dims,
    Network,
    Seed,
    Sram,
    TimeLimit,
    Workers,
    dims_of,
    seconds_of,
)
from onchip.commands.exit_code import ExitCode, code_of_result
from onchip.commands.progress import watched_run
from onchip.commands.report import Pictures
from onchip.errors import UsageError
from onchip.reports.shared.output import write, write_json
from onchip.solve.run.limits import Limits, MipSolver

if TYPE_CHECKING:
    from onchip.app.plan import Request
    from onchip.reports.program.outcome import Outcome


def plan_command(
    context: typer.Context,
    network: Network,
    sram: Sram = None,
    accelerator: AcceleratorName = None,
    alignment: Alignment = None,
    objective: Annotated[
        Objective, typer.Option(help="Least traffic, DMA cycles or DMA energy; or least arena.")
    ] = Objective.TRAFFIC,
    order: Annotated[
        Order | None, typer.Option(help="Any order, the network's own, or one of least peak.", show_default="as METHOD")
    ] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help="How to search.")] = "exact",
    count: Annotated[Count, typer.Option(help="Plan all tensors, or all but parameters.")] = Count.ACTIVATIONS,
    bits: Bits = None,
    granularity: Annotated[Granularity, typer.Option(help="Fuse operators, or leave the nodes.")] = Granularity.FUSED,
    split: Annotated[
        Split, typer.Option(help="Split operators into tiles: where they do not fit, or not into half the room.")
    ] = Split.NEVER,
    cap_tensors: Annotated[
        bool, typer.Option("--cap-tensors", help="Count larger tensors as large as the largest scratchpad.")
    ] = False,
    placement: Annotated[
        Placement, typer.Option(help="Tensors come and go, or have one place for life, or none.")
    ] = Placement.DYNAMIC,
    dim: Dims = None,
    time_limit: TimeLimit = None,
    workers: Workers = 1,
    seed: Seed = 0,
    solver: Annotated[MipSolver, typer.Option(help="Who solves the program of --method paper.")] = MipSolver.CP_SAT,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="PLAN.json", help="Write the plan.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw the plan, as `report` does.")] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw its memory map.")] = None,
    as_json: AsJson = False,
) -> int:
    """Plan order, addresses and spills of NETWORK in one or several scratchpads.

    The budgets m_r, m_h and m_p follow from the network: the greatest need of one operator, half way, the
    least peak without spills (see `onchip info`).
    With --objective peak and neither --sram nor --accelerator, the scratchpad is as large as all tensors together.
    Ctrl-C ends the search with the best plan so far.
    """
    from onchip.app.plan import Request
    from onchip.app.target import Target

    if cap_tensors and split is not Split.NEVER:
        raise UsageError("both are given", place="--cap-tensors, --split", expected="one of them")
    reading = Reading(bits, dims_of(dim), granularity, count, split, cap_tensors)
    limits = Limits(seconds_of(time_limit), workers=workers, seed=seed, solver=solver)
    target = Target.of_text(sram, accelerator, alignment)
    request = Request(network, reading, target, objective, order, method, placement, limits)
    return _planned(request, context, output, Pictures(report, figure, accelerator, network), as_json=as_json)


def _planned(
    request: Request, context: typer.Context, output: Path | None, pictures: Pictures, *, as_json: bool
) -> ExitCode:
    from onchip.app.plan import plan_network
    from onchip.formats.writable import ensure_writable

    if output is not None:
        ensure_writable(output, inputs=pictures.inputs)
    pictures.ensure_they_can_be_made()
    outcome = plan_network(request, watched_run)
    if output is not None and outcome.document is not None:
        from onchip.formats.own.plan_json_writer import write_plan

        write_plan(outcome.document, output)
    pictures.draw(context, outcome)
    _show(outcome, as_json=as_json)
    return code_of_result(outcome.result)


def _show(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        from onchip.reports.program.json_view import outcome_object

        write_json(outcome_object(outcome))
    else:
        from onchip.reports.program.terminal import outcome_table, show

        write(show(outcome_table(outcome)))
