"""`onchip diff`: the differences between two answers or two stores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.api.phases import phase
from onchip.commands.answer_files import AnswerFiles, command_line
from onchip.commands.arguments import AsJson, network_names
from onchip.commands.exit_code import ExitCode, code_of_check
from onchip.commands.show import show_tables
from onchip.reports.shared.output import write_line

if TYPE_CHECKING:
    from onchip.reports.explain.difference import AnswerDifference, GrowthLimit

FailIf = Annotated[
    list[str] | None,
    typer.Option(metavar="'FIGURE > N %'", help="Exit 1 only if a figure grows by more; repeatable."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """Arguments and options of `onchip diff`."""

    context: typer.Context
    before: Annotated[Path, typer.Argument(metavar="A", help="A plan, schedule, strategy, mapping file, or a store.")]
    after: Annotated[Path, typer.Argument(metavar="B", help="Another of the same kind.")]
    network: Annotated[
        str | None,
        typer.Argument(
            metavar="[NETWORK]",
            help="Network of both files; enables verification and spill explanations.",
            autocompletion=network_names,
        ),
    ] = None
    fail_if: FailIf = None
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw both on one page.")] = None
    as_json: AsJson = False

    @property
    def files(self) -> AnswerFiles:
        """Return the input and output files."""
        return AnswerFiles((str(self.before), str(self.after), self.network or str(self.before)), None, self.report)


def diff_command(options: DiffOptions) -> int:
    """Compare two answers of one kind.

    Figures, order, addresses, moves of tensors, and mappings are compared. Exit code 0 if they are equal, 1 if they
    differ; with --fail-if 1 only if a figure has grown by more than its limit.
    """
    from onchip.reports.explain.difference import difference_html, difference_lines, difference_object
    from onchip.sweeps.diff import DiffRequest, diff_files

    options.files.ensure_they_can_be_written()
    limits = growth_limits(options.fail_if)
    difference = diff_files(DiffRequest(options.before, options.after, options.network))
    code = code_of_difference(difference.found, limits)
    with phase("drawing"):
        typed = command_line(options.context)
        options.files.write_report(lambda: difference_html(difference.found, difference.histories, typed))
    show_tables(difference.found, difference_object, difference_lines, as_json=options.as_json)
    return code


def growth_limits(texts: list[str] | None) -> tuple[GrowthLimit, ...]:
    """Return the growth limits of figures; raises UsageError for invalid text."""
    from onchip.reports.explain.difference import GrowthLimit

    return tuple(GrowthLimit.of_text(text) for text in texts or ())


def code_of_difference(difference: AnswerDifference, limits: tuple[GrowthLimit, ...]) -> ExitCode:
    """Return the exit code of a comparison, and print exceeded limits; raises UsageError for unknown figures."""
    if not limits:
        return code_of_check(difference.is_equal)
    exceeded = [limit for limit in limits if limit.is_exceeded_in(difference)]
    for limit in exceeded:
        write_line(f"onchip: {limit.text}")
    return code_of_check(not exceeded)
