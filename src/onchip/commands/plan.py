"""`onchip plan`: find operator order, addresses and spills."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.options.verb_options import PlanOptions
from onchip.answer.problem import Objective
from onchip.api.phases import phase
from onchip.commands.answer_files import AnswerFiles, command_line
from onchip.commands.arguments import (
    LimitOptions,
    MemoryOptions,
    Network,
    ReadingOptions,
    bands_of,
    output_option,
    states_of,
)
from onchip.commands.exit_code import code_of_result
from onchip.commands.progress import watched_run
from onchip.commands.show import ShownOptions, show_solved
from onchip.errors import UsageError
from onchip.search.budget.limits import MipSolver

if TYPE_CHECKING:
    from onchip.api.plan import Request
    from onchip.reports.program.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReadingOptions(ReadingOptions):
    """Options for the conversion of a network to a graph that is planned."""

    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT=OUTPUT", help="Network input that is an output of the previous inference; repeatable."
        ),
    ] = None
    bands: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATOR=N", help="Split operator into N channel tiles (graph files that list splits); repeatable."
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanArguments:
    """Arguments and options of `onchip plan`."""

    context: typer.Context
    network: Network
    memories: MemoryOptions
    objective: Annotated[
        Objective,
        typer.Option(help="Minimised cost: traffic, DMA cycles or energy, peak, latency, or recomputed cycles."),
    ] = Objective.TRAFFIC
    options: PlanOptions
    read_as: PlanReadingOptions
    search: LimitOptions
    solver: Annotated[MipSolver, typer.Option(help="Solver of the program of --method paper.")] = MipSolver.CP_SAT
    output: Annotated[Path | None, output_option("PLAN.json", "Write the plan.")] = None
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw the plan, as `report` does.")] = None
    figure: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw its memory map.")] = None
    shown: ShownOptions

    @property
    def request(self) -> Request:
        """Return the request; raises InputError for an invalid size, time or dimension."""
        from onchip.api.requests import plan_request

        read_as = self.read_as
        options = replace(self.options, bands=bands_of(read_as.bands))
        reading, limits = replace(read_as.reading, states=states_of(read_as.state)), self.search.limits(self.solver)
        return plan_request(self.network, reading, self.memories.target, self.objective, options, limits)

    @property
    def files(self) -> AnswerFiles:
        """Return the input and output files."""
        return AnswerFiles((self.network, self.memories.accelerator or self.network), self.output, self.report)


def plan_command(options: PlanArguments) -> int:
    """Plan the operator order, tensor addresses and spills.

    NETWORK is planned into one or several scratchpads. The budgets m_r, m_h and m_p are computed from the network: the
    largest working set of one operator, the mean, and the minimum peak without spills (see `onchip info`). With
    --objective peak and neither --sram nor --accelerator, the scratchpad holds all tensors together. With --recompute
    allowed operators may run again, in one scratchpad; --objective recomputation minimises the cycles of these runs,
    without spills. Ctrl-C ends the search with the best plan so far.
    """
    from onchip.api.plan import plan_network
    from onchip.api.time_plan import page_of_plan
    from onchip.formats.own.plan_json import write_plan
    from onchip.reports.program.outcome import outcome_object, outcome_tables

    request, files = options.request, options.files
    files.ensure_they_can_be_written()
    ensure_figure_can_be_written(options.figure, files.inputs)
    outcome = plan_network(request, watched_run)
    if outcome.document is not None:
        files.write_answer(partial(write_plan, outcome.document))
        draw_figure(options.figure, outcome)
        files.write_report(partial(page_of_plan, outcome, options.memories.accelerator, command_line(options.context)))
    show_solved(outcome, outcome_object, outcome_tables, options.shown)
    return code_of_result(outcome.result)


def ensure_figure_can_be_written(figure: Path | None, inputs: tuple[str, ...]) -> None:
    """Raise UsageError for a picture that is not SVG, InputError for a file that is unwritable or an input."""
    from onchip.formats.files import ensure_writable

    if figure is None:
        return
    if figure.suffix != ".svg":
        raise UsageError(f"{str(figure)!r} is no SVG file", place="--figure", expected="a name that ends in .svg")
    ensure_writable(figure, inputs=inputs)


def draw_figure(figure: Path | None, outcome: Outcome) -> None:
    """Draw the memory map of a plan if it is requested; raises OutputError if it cannot be written."""
    from onchip.formats.files import write_file
    from onchip.reports.pictures import plan_figures
    from onchip.reports.shared.svg import svg

    if figure is not None and outcome.document is not None:
        with phase("drawing"):
            write_file(figure, svg(plan_figures(outcome)).encode())
