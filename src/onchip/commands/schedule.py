"""`onchip schedule`: the whole answer, at every level."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.document import ScheduleDocument
from onchip.commands.answer_files import AnswerFiles, command_line
from onchip.commands.arguments import (
    AsJson,
    LimitOptions,
    Network,
    RequiredAccelerator,
    ScheduledElementOptions,
    StackOptions,
    UsesCache,
)
from onchip.commands.exit_code import code_of_result
from onchip.commands.progress import watched_run
from onchip.commands.show import show_tables
from onchip.solve.schedule.objective import ScheduleObjective
from onchip.solve.schedule.options import ScheduleOptions

if TYPE_CHECKING:
    from onchip.app.schedule import ScheduleRequest
    from onchip.reports.schedule.outcome import ScheduleOutcome


class HomesOption(StrEnum):
    """Where maps and parameters may lie while their operators run."""

    SEARCH = "search"
    DRAM = "dram"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleVerbOptions:
    """What `onchip schedule` is asked."""

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
    cache: UsesCache = True
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="SCHEDULE.json[.gz]", help="Write the schedule.")
    ] = None
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Draw stacks, energy, timeline, memory maps and mappings.")
    ] = None
    as_json: AsJson = False

    @property
    def request(self) -> ScheduleRequest:
        """The question; raises InputError for a tile, a time, bits or a dimension that is none."""
        from onchip.app.schedule import ScheduleRequest

        stacks, read_as = self.stacks, self.read_as
        may_stay = self.homes is HomesOption.SEARCH
        return ScheduleRequest(
            self.network,
            self.accelerator,
            self.objective,
            ScheduleOptions(stacks.stacks, stacks.tile_size, stacks.mode, may_stay),
            read_as.element_bits,
            read_as.partial_bits,
            read_as.open_sizes.bindings,
            read_as.granularity,
            self.search.limits(),
            self.cache,
        )

    @property
    def files(self) -> AnswerFiles:
        """Return the files that are read and written."""
        return AnswerFiles((self.network, self.accelerator), self.output, self.report)


def schedule_command(options: ScheduleVerbOptions) -> int:
    """Schedule a network on an accelerator: stacks, tiles, mappings, addresses and movements in one program.

    The schedule is verified before it is shown, and can be executed as a whole. Its bound holds for
    the whole space that it names. Ctrl-C ends with the best so far.
    """
    from onchip.app.schedule import schedule_network
    from onchip.reports.schedule.text import schedule_object, schedule_tables

    request, files = options.request, options.files
    files.ensure_they_can_be_written()
    outcome = schedule_network(request, watched_run)
    if outcome.document is not None:
        files.write_answer(partial(_write, outcome.document))
        files.write_report(partial(_page, outcome, command_line(options.context)))
    show_tables(outcome, schedule_object, schedule_tables, as_json=options.as_json)
    return code_of_result(outcome.result)


def _write(document: ScheduleDocument, path: Path) -> None:
    from onchip.formats.own.schedule_json_writer import write_schedule

    write_schedule(document, path)


def _page(outcome: ScheduleOutcome, typed: str) -> str:
    from onchip.reports.schedule.html import schedule_html

    return schedule_html(outcome, typed)
