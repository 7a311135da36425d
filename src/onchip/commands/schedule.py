"""`onchip schedule`: find a complete schedule, from fusion to addresses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.document import ScheduleDocument
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.answer.result import Stop
from onchip.commands.answer_files import AnswerFiles, command_line
from onchip.commands.arguments import (
    AsJson,
    Dask,
    LimitOptions,
    Network,
    RequiredAccelerator,
    ScheduledElementOptions,
    StackOptions,
    UsesCache,
)
from onchip.commands.exit_code import ExitCode, code_of_result
from onchip.commands.progress import watched_run
from onchip.commands.show import show_tables
from onchip.errors import UsageError

if TYPE_CHECKING:
    from onchip.api.schedule import ScheduleRequest
    from onchip.reports.schedule.outcome import FrontOutcome, ScheduleOutcome


class HomesOption(StrEnum):
    """The allowed homes of maps and parameters while their operators run."""

    SEARCH = "search"
    DRAM = "dram"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleVerbOptions:
    """Arguments and options of `onchip schedule`."""

    context: typer.Context
    network: Network
    accelerator: RequiredAccelerator
    objective: Annotated[
        ScheduleObjective, typer.Option(help="Least energy, latency, product of both, or DRAM traffic.")
    ] = ScheduleObjective.ENERGY
    stacks: StackOptions
    homes: Annotated[
        HomesOption, typer.Option(help="Maps stay on the chip where that is best, or all is streamed from DRAM.")
    ] = HomesOption.SEARCH
    read_as: ScheduledElementOptions
    search: LimitOptions
    start: Annotated[
        Path | None,
        typer.Option(
            metavar="SCHEDULE.json[.gz]",
            help="Hand an earlier schedule of the network, also of another machine, to the search as its start.",
        ),
    ] = None
    dask: Dask = None
    cache: UsesCache = True
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="SCHEDULE.json[.gz]", help="Write the schedule.")
    ] = None
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Draw stacks, energy, timeline, memory maps and mappings.")
    ] = None
    pareto: Annotated[
        str | None,
        typer.Option(
            metavar="AXES",
            help="Instead of the best by the objective schedules that no other beats in all of these: energy, latency,"
            " traffic, peak, as in energy,latency. `-o` is a folder then.",
        ),
    ] = None
    points: Annotated[int, typer.Option(min=2, metavar="N", help="With --pareto, at most so many schedules.")] = 12
    as_json: AsJson = False

    def was_said(self, option: str) -> bool:
        """Return True if the user gave an option, even with its default value."""
        source = self.context.get_parameter_source(option)
        return source is not None and source.name == "COMMANDLINE"

    @property
    def request(self) -> ScheduleRequest:
        """Return the request; raises InputError for an invalid tile, time, number of bits or dimension."""
        from onchip.api.requests import schedule_request

        stacks, read_as = self.stacks, self.read_as
        options = ScheduleOptions(
            stacks.stacks,
            stacks.tile_size,
            stacks.mode,
            self.homes is HomesOption.SEARCH,
            partial_bits=read_as.partial_bits,
            uses_cache=self.cache,
        )
        asked = self.network, read_as.reading, self.accelerator, self.objective, options
        return replace(schedule_request(*asked, self.search.limits(), self.dask), start_file=self.start)

    @property
    def files(self) -> AnswerFiles:
        """Return the input and output files."""
        read = (self.network, self.accelerator, *([] if self.start is None else [str(self.start)]))
        return AnswerFiles(read, self.output, self.report)


def schedule_command(options: ScheduleVerbOptions) -> int:
    """Schedule a network on an accelerator: stacks, tiles, mappings, addresses and transfers in one program.

    The schedule is verified before it is shown, and is executable as a whole. Its bound holds for the whole space that
    it names. Ctrl-C ends with the best schedule so far.
    """
    from onchip.api.schedule import schedule_network
    from onchip.reports.schedule.outcome import schedule_object, schedule_tables

    if options.pareto is not None:
        return _front_command(options, options.pareto)
    if options.was_said("points"):
        raise UsageError("there is one schedule", place="--points", expected="--pareto AXES")
    request, files = options.request, options.files
    files.ensure_they_can_be_written()
    outcome = schedule_network(request, watched_run)
    if outcome.document is not None:
        files.write_answer(partial(_write, outcome.document))
        files.write_report(partial(_page, outcome, command_line(options.context)))
    show_tables(outcome, schedule_object, schedule_tables, as_json=options.as_json)
    return code_of_result(outcome.result)


def _front_command(options: ScheduleVerbOptions, axes: str) -> int:
    from onchip.api.schedule_front import FrontRequest, axes_of, front_of_schedules
    from onchip.reports.schedule.outcome import front_html, front_object, front_tables

    if options.was_said("objective"):
        raise UsageError("it contradicts --pareto", place="--objective", expected="one of the two")
    request = FrontRequest(options.request, axes_of(axes), options.points)
    files = options.files
    files.ensure_they_can_be_written(is_folder=True)
    front = front_of_schedules(request, watched_run)
    if front.points:
        files.write_answer(partial(_write_front, front))
        files.write_report(partial(front_html, front, command_line(options.context)))
    show_tables(front, front_object, front_tables, as_json=options.as_json)
    if front.points:
        return ExitCode.ANSWER
    return ExitCode.INTERRUPTED if front.stopped_by is Stop.INTERRUPTED else ExitCode.NO_ANSWER


def _write_front(front: FrontOutcome, folder: Path) -> None:
    """Write each point as a schedule file; existing files of the same names are overwritten."""
    from onchip.formats.files import make_folder
    from onchip.reports.schedule.outcome import name_of_point

    make_folder(folder)
    for number, point in enumerate(front.points, 1):
        if point.outcome.document is not None:
            _write(point.outcome.document, folder / name_of_point(number))


def _write(document: ScheduleDocument, path: Path) -> None:
    from onchip.formats.own.schedule_json import write_schedule

    write_schedule(document, path)


def _page(outcome: ScheduleOutcome, typed: str) -> str:
    from onchip.reports.schedule.html import schedule_html

    return schedule_html(outcome, typed)
