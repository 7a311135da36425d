"""`onchip check`: verify an answer of any kind, and its claims."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.document import Granularity
from onchip.answer.problem import Count
from onchip.commands.arguments import AsJson, BindingOptions, MemoryOptions, Network
from onchip.commands.diff import FailIf, code_of_difference, growth_limits
from onchip.commands.exit_code import ExitCode, code_of_check
from onchip.commands.show import show_tables
from onchip.errors import UsageError
from onchip.reports.shared.output import write_line

if TYPE_CHECKING:
    from onchip.api.check import Checked
    from onchip.reports.explain.difference import GrowthLimit
    from onchip.reports.program.outcome import Check
    from onchip.reports.schedule.outcome import ScheduleOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Arguments and options of `onchip check`."""

    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A plan, schedule, strategy or mapping file, from any tool; or a .tflite file with its arena.",
        ),
    ]
    network: Network
    memories: MemoryOptions
    count: Annotated[Count | None, typer.Option(help="Value that the file must state.")] = None
    bits: Annotated[int | None, typer.Option(min=1, metavar="N", help="Value that the file must state.")] = None
    granularity: Annotated[Granularity | None, typer.Option(help="Value that the file must state.")] = None
    open_sizes: BindingOptions
    against: Annotated[
        Path | None, typer.Option(metavar="BASELINE", help="Exit 1 if FILE differs from this answer.")
    ] = None
    fail_if: FailIf = None
    partial: Annotated[
        bool, typer.Option("--partial", help="Accept a mapping file that lacks layers of the network, and list them.")
    ] = False
    as_json: AsJson = False

    @property
    def insisted(self) -> dict[str, object]:
        """Return the fields that the file must state, by name; raises UsageError for malformed sizes."""
        bound = self.open_sizes.bindings
        flags = {
            "bits": self.bits,
            "granularity": self.granularity,
            "count": self.count,
            "dims": bound.dims or None,
            "shapes": bound.shapes or None,
            "values": bound.values or None,
        }
        return {name: value for name, value in flags.items() if value is not None}


def check_command(options: CheckOptions) -> int:
    """Verify an answer file, and recompute all its figures.

    FILE is an answer for NETWORK, which is read as the file says. Each violation is named. Nothing is searched. --sram,
    --accelerator and --alignment replace a plan's own memories; a mapping or a strategy needs --accelerator unless it
    names a bundled one; a schedule contains its own. A mapping file must have a mapping for every layer of NETWORK
    unless --partial is given. With a .tflite file as FILE and as NETWORK, check its offsets for TFLite Micro's arena.
    With a .txt file, check what Vela prints with --verbose-allocation for the .tflite file NETWORK, or XLA's
    *-buffer-assignment.txt with its *-live-range.txt as NETWORK.
    """
    from onchip.api.check import CheckRequest, check_file

    limits = growth_limits(options.fail_if)
    if limits and options.against is None:
        raise UsageError("--fail-if needs a baseline", place="--fail-if", expected="--against BASELINE")
    request = CheckRequest(
        options.file, options.network, options.memories.target, options.insisted, may_be_partial=options.partial
    )
    checked = check_file(request)
    show_checked(checked, as_json=options.as_json)
    if options.against is None or not checked.is_legal:
        return code_of_check(checked.is_legal)
    return _compared(options.against, options.file, limits)


def _compared(baseline: Path, file: Path, limits: tuple[GrowthLimit, ...]) -> ExitCode:
    """Return the exit code of a comparison with a baseline; print differing figures to standard error."""
    from onchip.reports.explain.difference import change_words
    from onchip.sweeps.diff import DiffRequest, diff_files

    difference = diff_files(DiffRequest(baseline, file)).found
    for figure in difference.figures:
        if figure.before != figure.after:
            change = " ".join(change_words(figure)).strip()
            write_line(f"{figure.name}: {figure.before} in the baseline, {figure.after} now ({change or 'changed'})")
    return code_of_difference(difference, limits)


def check_of_legal_plan(plan: Path, network: str, *, as_json: bool) -> Check | None:
    """Return the check of a legal plan; None if it is illegal, after printing its violations."""
    from onchip.api.check_plan import check_plan
    from onchip.api.target import Target

    check = check_plan(plan, network, Target(), {})
    if check.is_legal:
        return check
    show_checked(check, as_json=as_json)
    return None


def outcome_of_legal_schedule(
    schedule: Path, network: str, accelerator: str | None, *, as_json: bool
) -> ScheduleOutcome | None:
    """Return a schedule file as `schedule` shows it; None if it is illegal, after printing its violations."""
    from onchip.api.check_schedule import ScheduleFile
    from onchip.api.show_schedule import schedule_to_show

    shown = schedule_to_show(ScheduleFile(schedule, network, accelerator))
    if shown.outcome is None:
        show_checked(shown.check, as_json=as_json)
    return shown.outcome


def show_checked(checked: Checked, *, as_json: bool) -> None:
    """Print the verifier's result for an answer of any kind."""
    from onchip.api.answers import check_view

    view = check_view(checked)
    show_tables(checked, view.as_object, view.as_tables, as_json=as_json)
