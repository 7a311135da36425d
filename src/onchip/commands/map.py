"""`onchip map`: map the loops of layers to array, memories and time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.verb_options import MapOptions
from onchip.commands.answer_files import AnswerFiles, command_line
from onchip.commands.arguments import LimitOptions, ReadingOptions, accelerator_option, output_option
from onchip.commands.exit_code import ExitCode, code_of_result
from onchip.commands.progress import watched_run
from onchip.commands.show import ShownOptions, show_solved
from onchip.reports.shared.output import write
from onchip.search.budget.limits import MipSolver

if TYPE_CHECKING:
    from onchip.api.map import MappingRequest
    from onchip.reports.mapping.outcome import MappingOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class MapArguments:
    """Arguments and options of `onchip map`."""

    context: typer.Context
    source: Annotated[
        str,
        typer.Argument(
            metavar="LAYER|NETWORK",
            help="conv:n1k64c64p56q56r3s3:stride2:pad1, gemm:m64n256k512, a network, NETWORK:LAYER, cosa:resnet50, "
            "or a layer file of Timeloop or ZigZag.",
        ),
    ]
    accelerator: Annotated[
        str, accelerator_option("A bundled name (NAME@64KiB resizes it) or a file, also of Timeloop or ZigZag.")
    ]
    objective: Annotated[
        MappingObjective, typer.Option(help="Minimised cost: energy, latency, or the product of both.")
    ] = MappingObjective.ENERGY
    options: MapOptions
    read_as: ReadingOptions
    search: LimitOptions
    solver: Annotated[MipSolver, typer.Option(help="Solver of the program of --method cosa.")] = MipSolver.CP_SAT
    output: Annotated[Path | None, output_option("MAPPING.yaml", "Write the mappings.")] = None
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw energy, roofline and utilisation.")] = (
        None
    )
    show: Annotated[bool, typer.Option("--show", help="Print the loop nests.")] = False
    shown: ShownOptions

    @property
    def request(self) -> MappingRequest:
        """Return the request; raises InputError for an invalid time or dimension."""
        from onchip.api.requests import map_request

        asked = self.source, self.read_as.reading, self.accelerator, self.objective, self.options
        return map_request(*asked, self.search.limits(self.solver))

    @property
    def files(self) -> AnswerFiles:
        """Return the input and output files."""
        return AnswerFiles(
            tuple(filter(None, (self.source, self.accelerator, self.options.mapspace))), self.output, self.report
        )


def map_command(options: MapArguments) -> int:
    """Map the loops of a layer, or of each layer of a network.

    A mapping distributes loops over the array and the memories of an accelerator. Identical layers are searched once.
    Every mapping is verified before it is shown; its energy and cycles are those of onchip's cost model for every
    method. An operator without a loop nest is costed as data movement. Ctrl-C ends with the mappings found so far.
    """
    from onchip.api.map import map_layers
    from onchip.formats.own.mapping_yaml import write_mappings
    from onchip.reports.mapping.outcome import loop_nests, mapping_html, mapping_object, mapping_table

    request, files = options.request, options.files
    files.ensure_they_can_be_written()
    outcome = map_layers(request, watched_run)
    if outcome.document.answer or not outcome.layers.layers:
        files.write_answer(partial(write_mappings, outcome.document))
    if outcome.document.answer:
        files.write_report(partial(mapping_html, outcome, command_line(options.context)))
    show_solved(outcome, mapping_object, mapping_table, options.shown)
    if options.show and outcome.document.answer and not options.shown.as_json:
        write(f"\n{loop_nests(outcome)}")
    return _code_of(outcome)


def _code_of(outcome: MappingOutcome) -> ExitCode:
    """Return the exit code: an answer only if every layer has one; an illegal CoSA schedule is wrong."""
    codes = {ExitCode.WRONG if one.why_not else code_of_result(one.result) for one in outcome.mapped}
    order = (ExitCode.INFEASIBLE, ExitCode.INTERRUPTED, ExitCode.NO_ANSWER, ExitCode.WRONG)
    return next((code for code in order if code in codes), ExitCode.ANSWER)
