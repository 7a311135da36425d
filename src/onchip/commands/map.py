"""`onchip map`: which loops of a layer run where, at which memory, in which order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.document import Granularity
from onchip.commands.arguments import AsJson, Dims, ElementBits, PartialBits, Seed, dims_of, seconds_of
from onchip.commands.exit_code import ExitCode, code_of_result
from onchip.commands.progress import watched_run
from onchip.cost.layer.accounting import AccountingName
from onchip.reports.shared.output import write, write_json
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.run.limits import Limits, MipSolver

if TYPE_CHECKING:
    from onchip.reports.mapping.outcome import MappingOutcome

GREATEST_PADDING = 100


Source = Annotated[
    str,
    typer.Argument(
        metavar="LAYER|NETWORK",
        help="conv:n1k64c64p56q56r3s3:stride2:pad1, gemm:m64n256k512, a network, NETWORK:LAYER, cosa:resnet50, "
        "or a layer file of Timeloop or ZigZag.",
    ),
]
Machine = Annotated[
    str,
    typer.Option(
        "--accelerator",
        metavar="NAME|FILE",
        help="A bundled name (NAME@64KiB resizes it) or a file, also of Timeloop or ZigZag.",
    ),
]
Mapspace = Annotated[
    str | None, typer.Option(metavar="FILE", help="Which memory of a Timeloop file keeps what: its mapspace file.")
]
Objective = Annotated[MappingObjective, typer.Option(help="Least energy, latency, or product of both.")]
Method = Annotated[str, typer.Option(metavar="NAME", help="exact, cosa, random, hybrid, loma or uneven.")]
Counting = Annotated[
    AccountingName, typer.Option("--accounting", help="Count as the interpreter does, as ZigZag or as DeFiNES.")
]
Padding = Annotated[
    int,
    typer.Option(
        min=0,
        max=GREATEST_PADDING,
        metavar="PERCENT",
        help="How much longer --method exact may make a loop whose bound has awkward factors.",
    ),
]
Detail = Annotated[Granularity, typer.Option("--granularity", help="Fuse operators, or leave the nodes.")]
TimeLimit = Annotated[float | None, typer.Option(metavar="S", help="Seconds for each layer; else until proven.")]
Solver = Annotated[MipSolver, typer.Option(help="Who solves the program of --method cosa.")]
Cache = Annotated[
    bool, typer.Option(" /--no-cache", help="Search anew what was proven in an earlier run.", show_default=False)
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="MAPPING.yaml", help="Write the mappings.")]
Report = Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw energy, roofline and utilisation.")]
Show = Annotated[bool, typer.Option("--show", help="Print the loop nests.")]


def map_command(
    context: typer.Context,
    source: Source,
    accelerator: Machine,
    mapspace: Mapspace = None,
    objective: Objective = MappingObjective.ENERGY,
    method: Method = "exact",
    bits: ElementBits = 8,
    partial_bits: PartialBits = None,
    accounting: Counting = AccountingName.INTERPRETER,
    padding: Padding = 0,
    granularity: Detail = Granularity.FUSED,
    dim: Dims = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    solver: Solver = MipSolver.CP_SAT,
    cache: Cache = True,
    output: Output = None,
    report: Report = None,
    show: Show = False,
    as_json: AsJson = False,
) -> int:
    """Map a layer, or each layer of a network, onto the array and the memories of an accelerator.

    Identical layers are searched once. Every mapping is verified before it is shown; its energy and cycles are those
    of onchip's cost model, whoever found it. Ctrl-C ends with what there is so far.
    """
    from onchip.app.map import MappingRequest, map_layers

    limits, dims = Limits(seconds_of(time_limit), seed=seed, solver=solver), dims_of(dim)
    request = MappingRequest(
        source,
        accelerator,
        objective,
        method,
        bits,
        dims,
        granularity,
        limits,
        cache,
        padding,
        mapspace,
        partial_bits,
        accounting,
    )
    _ensure_files_can_be_written(output, report, tuple(filter(None, (source, accelerator, mapspace))))
    outcome = map_layers(request, watched_run)
    _write_files(outcome, output, report, context)
    _show(outcome, with_nests=show, as_json=as_json)
    return _code_of(outcome)


def _ensure_files_can_be_written(output: Path | None, report: Path | None, inputs: tuple[str, ...]) -> None:
    from onchip.formats.writable import ensure_writable

    if report is not None:
        from onchip.reports.program.html import ensure_report_can_be_made

        ensure_report_can_be_made()
    for path in filter(None, (output, report)):
        ensure_writable(path, inputs=inputs)


def _write_files(outcome: MappingOutcome, output: Path | None, report: Path | None, context: typer.Context) -> None:
    """Of what there is: a file without any mapping is not written."""
    if not outcome.document.answer:
        return
    if output is not None:
        from onchip.formats.own.mapping_yaml_writer import write_mappings

        write_mappings(outcome.document, output)
    if report is not None:
        from onchip.commands.report import command_line
        from onchip.formats.files import write_file
        from onchip.reports.mapping.html import mapping_html

        write_file(report, mapping_html(outcome, command_line(context)).encode())


def _show(outcome: MappingOutcome, *, with_nests: bool, as_json: bool) -> None:
    from onchip.reports.mapping.text import loop_nests, mapping_object, mapping_table

    if as_json:
        write_json(mapping_object(outcome))
        return
    from onchip.reports.program.terminal import show

    write(show(*mapping_table(outcome)))
    if with_nests and outcome.document.answer:
        write(f"\n{loop_nests(outcome)}")


def _code_of(outcome: MappingOutcome) -> ExitCode:
    """An answer only if every layer has one; a schedule that breaks a true limit is wrong."""
    codes = {ExitCode.WRONG if one.refusal else code_of_result(one.result) for one in outcome.mapped}
    order = (ExitCode.INFEASIBLE, ExitCode.INTERRUPTED, ExitCode.NO_ANSWER, ExitCode.WRONG)
    return next((code for code in order if code in codes), ExitCode.ANSWER)
