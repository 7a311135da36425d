"""`onchip check`: an answer of whichever kind held against the rules, and against what it claims."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count
from onchip.commands.arguments import AsJson, Bits, Dims, MemoryOptions, Network, dims_of
from onchip.commands.exit_code import ExitCode, code_of_check
from onchip.commands.show import show_tables
from onchip.errors import UsageError
from onchip.formats.own.answer_format import AnswerFormat, format_of_answer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.reports.program.outcome import Check
    from onchip.reports.schedule.check import ScheduleCheck
    from onchip.reports.shared.answer_check import AnswerCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What `onchip check` is asked."""

    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A plan, schedule, strategy or mapping file, from whichever tool."),
    ]
    network: Network
    memories: MemoryOptions
    count: Annotated[Count | None, typer.Option(help="Must be what the file says.")] = None
    bits: Bits = None
    granularity: Annotated[Granularity | None, typer.Option(help="Must be what the file says.")] = None
    dim: Dims = None
    as_json: AsJson = False

    @property
    def insisted(self) -> dict[str, object]:
        """What the file must say, by name; raises UsageError."""
        flags = {
            "bits": self.bits,
            "granularity": self.granularity,
            "count": self.count,
            "dims": dims_of(self.dim) or None,
        }
        return {name: value for name, value in flags.items() if value is not None}

    @property
    def accelerator(self) -> str | None:
        """The accelerator that no plan is for; raises UsageError for a scratchpad, which only a plan is for."""
        for option, value in (("--sram", self.memories.sram), ("--alignment", self.memories.alignment)):
            if value is not None:
                raise UsageError("only a plan is checked in a scratchpad", place=option, expected="--accelerator")
        return self.memories.accelerator


def check_command(options: CheckOptions) -> int:
    """Verify a plan, schedule, strategy or mapping FILE for NETWORK: name each violation, recompute every claim.

    Nothing is searched. NETWORK is read as the file says. --sram, --accelerator and --alignment stand in for a plan's
    own memories; a mapping or a strategy needs --accelerator unless it names a bundled one; a schedule holds its own.
    What a strategy costs is found by `onchip fuse --check`.
    """
    match format_of_answer(options.file):
        case AnswerFormat.SCHEDULE:
            return _check_schedule(options)
        case AnswerFormat.STRATEGY:
            return _show_answer(_checked_strategy(options), as_json=options.as_json)
        case AnswerFormat.MAPPING:
            return _show_answer(_checked_mappings(options), as_json=options.as_json)
        case AnswerFormat.PLAN:
            return _check_plan(options)


def _check_plan(options: CheckOptions) -> ExitCode:
    from onchip.app.plan import check_plan

    check = check_plan(options.file, options.network, options.memories.target, options.insisted)
    show_check(check, as_json=options.as_json)
    return code_of_check(check.is_legal)


def _check_schedule(options: CheckOptions) -> ExitCode:
    from onchip.app.check_schedule import ScheduleFile, check_schedule_file

    file = ScheduleFile(options.file, options.network, options.accelerator, options.insisted)
    check = check_schedule_file(file)
    show_schedule_check(check, as_json=options.as_json)
    return code_of_check(check.is_legal)


def _checked_strategy(options: CheckOptions) -> AnswerCheck:
    from onchip.app.check_strategy import StrategyFile, check_strategy_file

    insisted = {name: value for name, value in options.insisted.items() if name != "count"}
    return check_strategy_file(StrategyFile(options.file, options.network, options.accelerator, insisted))


def _checked_mappings(options: CheckOptions) -> AnswerCheck:
    """A mapping file does not say how the network was read: the options do."""
    from onchip.app.check_mapping import MappingFile, check_mapping_file

    reading = Reading(dims=dims_of(options.dim), granularity=options.granularity or Granularity.FUSED)
    return check_mapping_file(MappingFile(options.file, options.network, options.accelerator, reading))


def check_of_legal_plan(plan: Path, network: str, *, as_json: bool) -> Check | None:
    """Return a plan held against its network; None where it is not legal, and what is wrong is printed."""
    from onchip.app.plan import check_plan
    from onchip.app.target import Target

    check = check_plan(plan, network, Target(), {})
    if check.is_legal:
        return check
    show_check(check, as_json=as_json)
    return None


def show_check(check: Check, *, as_json: bool) -> None:
    """Print what the verifier found of a plan."""
    from onchip.reports.program.json_view import check_object

    show_tables(check, check_object, _tables, as_json=as_json)


def show_schedule_check(check: ScheduleCheck, *, as_json: bool) -> None:
    """Print what the verifier found of a schedule."""
    from onchip.reports.schedule.check import schedule_check_object, schedule_check_tables

    show_tables(check, schedule_check_object, schedule_check_tables, as_json=as_json)


def _show_answer(check: AnswerCheck, *, as_json: bool) -> ExitCode:
    from onchip.reports.shared.answer_check import answer_check_lines, answer_check_object

    show_tables(check, answer_check_object, answer_check_lines, as_json=as_json)
    return code_of_check(check.is_legal)


def _tables(check: Check) -> tuple[RenderableType, ...]:
    from onchip.reports.program.terminal import check_report

    return check_report(check)
