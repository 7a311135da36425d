"""`onchip schedule`: find a complete schedule, from fusion to addresses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.result import Stop
from onchip.commands.answer_files import AnswerFiles, command_line
from onchip.commands.arguments import LimitOptions, Network, ReadingOptions, RequiredAccelerator, output_option
from onchip.commands.exit_code import ExitCode, code_of_result
from onchip.commands.progress import watched_run
from onchip.commands.show import ShownOptions, show_solved
from onchip.errors import UsageError

if TYPE_CHECKING:
    from onchip.api.schedule import ScheduleRequest
    from onchip.reports.schedule.outcome import FrontOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleVerbOptions:
    """Arguments and options of `onchip schedule`."""

    context: typer.Context
    network: Network
    accelerator: RequiredAccelerator
    objective: Annotated[
        ScheduleObjective, typer.Option(help="Minimised cost: energy, latency, the product of both, or DRAM traffic.")
    ] = ScheduleObjective.ENERGY
    options: ScheduleOptions
    read_as: ReadingOptions
    search: LimitOptions
    start: Annotated[
        Path | None,
        typer.Option(
            metavar="SCHEDULE.json[.gz]",
            help="Earlier schedule of the network, also for another accelerator, to start the search from.",
        ),
    ] = None
    output: Annotated[Path | None, output_option("SCHEDULE.json[.gz]", "Write the schedule.")] = None
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Draw fused groups, energy, timeline, memory maps and mappings."),
    ] = None
    pareto: Annotated[
        str | None,
        typer.Option(
            metavar="AXES",
            help="Compute the Pareto front over two or more of energy, latency, traffic and peak; -o names a"
            " directory.",
        ),
    ] = None
    points: Annotated[int, typer.Option(min=2, metavar="N", help="Maximum number of schedules of --pareto.")] = 12
    shown: ShownOptions

    def was_said(self, option: str) -> bool:
        """Return True if the user gave an option, even with its default value."""
        source = self.context.get_parameter_source(option)
        return source is not None and source.name == "COMMANDLINE"

    @property
    def request(self) -> ScheduleRequest:
        """Return the request; raises InputError for an invalid tile, time, number of bits or dimension."""
        from onchip.api.requests import schedule_request

        asked = self.network, self.read_as.reading, self.accelerator, self.objective, self.options
        return replace(schedule_request(*asked, self.search.limits()), start_file=self.start)

    @property
    def files(self) -> AnswerFiles:
        """Return the input and output files."""
        read = (self.network, self.accelerator, *([] if self.start is None else [str(self.start)]))
        return AnswerFiles(read, self.output, self.report)


def schedule_command(options: ScheduleVerbOptions) -> int:
    """Schedule a network completely on an accelerator.

    A schedule is one program: fused groups, tiles, loop mappings, addresses and transfers. It is verified before it is
    shown, and `onchip run` executes it. Its bound holds for the whole space that it names. Ctrl-C ends with the best
    schedule so far.
    """
    from onchip.api.schedule import schedule_network
    from onchip.formats.own.schedule_json import write_schedule
    from onchip.reports.schedule.html import schedule_html
    from onchip.reports.schedule.outcome import schedule_object, schedule_tables

    if options.pareto is not None:
        return _front_command(options, options.pareto)
    if options.was_said("points"):
        raise UsageError("--points is used with --pareto only", place="--points", expected="--pareto AXES")
    request, files = options.request, options.files
    files.ensure_they_can_be_written()
    outcome = schedule_network(request, watched_run)
    if outcome.document is not None:
        files.write_answer(partial(write_schedule, outcome.document))
        files.write_report(partial(schedule_html, outcome, command_line(options.context)))
    show_solved(outcome, schedule_object, schedule_tables, options.shown)
    return code_of_result(outcome.result)


def _front_command(options: ScheduleVerbOptions, axes: str) -> int:
    from onchip.api.schedule import FrontRequest, axes_of, front_of_schedules
    from onchip.reports.schedule.outcome import front_html, front_object, front_tables

    if options.was_said("objective"):
        raise UsageError(
            "--objective cannot be combined with --pareto", place="--objective", expected="only one of the two"
        )
    request = FrontRequest(options.request, axes_of(axes), options.points)
    files = options.files
    files.ensure_they_can_be_written(is_folder=True)
    front = front_of_schedules(request, watched_run)
    if front.points:
        files.write_answer(partial(_write_front, front))
        files.write_report(partial(front_html, front, command_line(options.context)))
    show_solved(front, front_object, front_tables, options.shown)
    if front.points:
        return ExitCode.ANSWER
    return ExitCode.INTERRUPTED if front.stopped_by is Stop.INTERRUPTED else ExitCode.NO_ANSWER


def _write_front(front: FrontOutcome, folder: Path) -> None:
    """Write each point as a schedule file; existing files of the same names are overwritten."""
    from onchip.formats.files import make_folder
    from onchip.formats.own.schedule_json import write_schedule
    from onchip.reports.schedule.outcome import name_of_point

    make_folder(folder)
    for number, point in enumerate(front.points, 1):
        if point.outcome.document is not None:
            write_schedule(point.outcome.document, folder / name_of_point(number))
